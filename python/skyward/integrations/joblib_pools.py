"""Pools whose block is also a joblib backend, and that backend for a pool that is open already."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import metadata
from types import TracebackType
from typing import Any, Self

from skyward.exceptions import ConfigurationError
from skyward.pool.compute_pool import ComputePool
from skyward.spec.image import Image


@contextmanager
def joblib_backend(pool: ComputePool) -> Iterator[ComputePool]:
    """Inside the block, ``joblib.Parallel(n_jobs=-1)`` and whatever is built on it (scikit-learn)
    runs its tasks on `pool`, an open pool. The tasks' packages must be there.

    `n_jobs` 1 stays in this process; any other number, and none at all, means all slots of the
    pool. Parallel calls inside a task run one after another, on its worker. Arrays and other large
    arguments that many tasks share travel once to each node."""
    try:
        import joblib
    except ImportError as error:
        raise ConfigurationError(
            "joblib is not installed on this machine: pip install joblib"
        ) from error
    from skyward.integrations.joblib_parallel import SkywardBackend, use

    if not isinstance(pool, ComputePool):
        raise TypeError(f"joblib_backend() takes an open pool, not {type(pool).__name__}")
    backend = SkywardBackend(pool=pool)
    try:
        with use(pool), joblib.parallel_config(backend=backend):
            yield pool
    finally:
        backend.close()


sklearn_backend = joblib_backend


class JoblibPool(ComputePool):
    """A ComputePool whose block is also a ``joblib_backend``. It takes the same parameters, and
    `joblib_version`, the version of joblib on the nodes (None: that of this machine). joblib is
    added to the image, unless the image names it.

    with JoblibPool(nodes=4, concurrency=4):
        results = Parallel(n_jobs=-1)(delayed(f)(x) for x in data)
    """

    def __init__(self, *args: Any, joblib_version: str | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.image = _with_package(self.image, "joblib", joblib_version)
        self._block: ExitStack | None = None

    def __enter__(self) -> Self:
        if not self.is_active:  # its timeout may have passed inside the former block
            self.__exit__(None, None, None)
        with ExitStack() as block:
            super().__enter__()
            block.push(super().__exit__)
            block.enter_context(joblib_backend(self))
            self._block = block.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(kind, error, traceback)


class ScikitLearnPool(JoblibPool):
    """The same for scikit-learn: estimators and searches with ``n_jobs=-1`` run on the pool.
    `sklearn_version` is the version of scikit-learn on the nodes (None: that of this machine);
    scikit-learn, which brings joblib, is added to the image, unless the image names it."""

    def __init__(self, *args: Any, sklearn_version: str | None = None, **options: Any) -> None:
        ComputePool.__init__(self, *args, **options)
        given = self.image
        self.image = _with_package(given, "scikit-learn", sklearn_version)
        if sklearn_version is None and self.image is not given:
            self.image = _with_numpy_for_it(self.image)
        self._block = None


def _with_package(image: Image, package: str, version: str | None) -> Image:
    """The image and the package, which has the version of this machine unless one is asked for; one
    that the image names already stays as it is then."""
    named = [item for item in image.pip if _name(item) == package]
    if version is None:
        return image if named else image.with_pip([f"{package}{_version_here(package)}"])
    wanted = f"{package}=={version}"
    clash = [item for item in named if item not in (package, wanted)]
    if clash:
        raise ConfigurationError(
            f"the image asks for {clash[0]!r}, but {wanted!r} is needed as well; name it once"
        )
    kept = [item for item in image.pip if _name(item) != package]
    from dataclasses import replace

    return replace(image, pip=kept).with_pip([wanted])


def _with_numpy_for_it(image: Image) -> Image:
    """Old releases of scikit-learn were built for numpy's previous major version but do not declare
    it: numpy stays at this machine's major version."""
    if any(_name(item) == "numpy" for item in image.pip):
        return image
    major = _version_here("numpy").removeprefix("==").partition(".")[0]
    return image.with_pip([f"numpy<{int(major) + 1}"]) if major.isdigit() else image


def _version_here(package: str) -> str:
    """Empty if it is not installed here, or was not installed from an index."""
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
    return "" if "+" in version or "dev" in version else f"=={version}"


def _name(package: str) -> str:
    name = re.split(r"[\s\[<>=!~;@(]", package.strip().lower(), maxsplit=1)[0].replace("_", "-")
    return "scikit-learn" if name == "sklearn" else name

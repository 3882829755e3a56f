"""The declared environment of a node."""

import re
import sys
from dataclasses import dataclass, field, fields, replace
from typing import Any

from skyward.base.extension import OLDEST_PYTHON
from skyward.base.suggest import suggesting_class
from skyward.exceptions import (
    ConfigurationError,
    ConfigurationTypeError,
    PythonVersionMismatchError,
)
from skyward.spec.options import text_or_none, texts, variables

CLIENT_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@suggesting_class
@dataclass(frozen=True)
class PipIndex:
    """A package index that serves the packages listed here and no others:
    ``Image(pip=["torch==2.6"], pip_indexes=[PipIndex(url, ["torch"])])``.

    `packages` are names without versions, each of which `Image.pip` installs. Their dependencies
    come from the usual indexes, unless they are listed too. `url` may hold a name and a password;
    only the node that installs the packages gets it, and its text form does not show it."""

    url: str = field(repr=False)
    packages: list[str]

    def __post_init__(self) -> None:
        text_or_none("PipIndex: url", self.url or "")
        object.__setattr__(self, "packages", texts("PipIndex: packages", self.packages))

    def __hash__(self) -> int:
        return hash((self.url, *self.packages))


@suggesting_class
@dataclass(frozen=True)
class Image:
    """What is installed on a node before the first task runs. Immutable.

    `python` None means the minor version of the caller's own interpreter: functions travel as byte
    code, which only the same minor version loads. A local pool with an empty image uses the
    caller's interpreter as it is.

    Nodes elsewhere also get the program's own modules: what it has imported by the time the pool
    opens, and what its sources import. `includes` names more modules, files or folders to send;
    `excludes` patterns of names that stay here ("tests", "*.csv")."""

    python: str | None = None
    pip: list[str] = field(default_factory=list)
    pip_extra_index_url: str | None = field(default=None, repr=False)
    pip_indexes: list[PipIndex] = field(default_factory=list)
    apt: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    includes: list[str] = field(default_factory=list)
    excludes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        """What differs from an empty image, without the values of variables and what may be a
        password in an address."""
        shown = []
        for each in fields(self):
            value = getattr(self, each.name)
            if not value or not each.repr:
                continue
            text = repr(value)
            if each.name == "pip":
                text = re.sub(r"(?<=://)[^/'\"\s]*@", "…@", text)
            elif each.name == "env":
                text = repr(dict.fromkeys(value, "…"))
            shown.append(f"{each.name}={text}")
        return f"Image({', '.join(shown)})"

    def __post_init__(self) -> None:
        """Copies what it is given. Names of packages are looked at when a pool opens."""
        if isinstance(self.python, float):
            raise ConfigurationTypeError(
                f'Image(python={self.python!r}): write it as a string, python="{self.python}"'
            )
        for name in ("python", "pip_extra_index_url"):
            text_or_none(f"Image: {name}", getattr(self, name))
        if not re.fullmatch(r"auto|\d+\.\d+(\.\d+)?", self.python or "auto"):
            raise ConfigurationError(
                f"Image(python={self.python!r}): a version such as {CLIENT_PYTHON!r} is expected"
            )
        if self.python not in (None, "auto") and _minor(self.python) < OLDEST_PYTHON:
            raise PythonVersionMismatchError(
                f"Image(python={self.python!r}): no node can run it: Skyward needs Python"
                f" {'.'.join(map(str, OLDEST_PYTHON))} or newer; leave python out for that of this"
                f" program, {CLIENT_PYTHON}"
            )
        for name in ("pip", "apt", "includes", "excludes"):
            object.__setattr__(self, name, texts(f"Image: {name}", getattr(self, name)))
        object.__setattr__(self, "pip_indexes", _indexes(self.pip_indexes))
        object.__setattr__(self, "env", variables("Image: env", self.env))

    def __hash__(self) -> int:
        return hash((self.python, *self.pip, *self.apt, self.pip_extra_index_url))

    def content_hash(self) -> str:
        """12 hex digits that name this environment; the order of packages does not matter."""
        return str(self.to_core(hashing=True).content_hash())

    def bootstrap(self, ttl: int = 0) -> str:
        """A bash script that makes a bare Debian or Ubuntu machine into this image, in
        /opt/skyward. Run again, it only checks that everything is there.

        `ttl`: seconds after which the machine shuts down; 0: never. Raises ConfigurationError for
        an image that cannot be made."""
        if isinstance(ttl, bool) or not isinstance(ttl, int) or not 0 <= ttl < 1 << 31:
            raise ConfigurationError(f"ttl={ttl!r}: a whole number of seconds is expected")
        python = CLIENT_PYTHON if self.python in (None, "auto") else str(self.python)
        return str(self._filled(python).bootstrap(ttl))

    def with_pip(self, packages: list[str]) -> "Image":
        """The same image with more packages; those that it has already are not repeated."""
        more = [one for one in texts("pip", packages) if one not in self.pip]
        return replace(self, pip=[*self.pip, *more])

    def resolved_python(self) -> str:
        """The Python version of the nodes. Raises PythonVersionMismatchError when functions could
        not be loaded there."""
        if self.python in (None, "auto"):
            return CLIENT_PYTHON
        assert self.python is not None
        if ".".join(self.python.split(".")[:2]) != CLIENT_PYTHON:
            raise PythonVersionMismatchError(
                f"Image(python={self.python!r}), but this program runs Python {CLIENT_PYTHON}:"
                " functions travel as byte code, which only the same minor version loads."
                f" Leave python out, or run the program with {self.python}"
            )
        return self.python

    def needs_environment(self) -> bool:
        """False when the caller's own interpreter is this image as it stands."""
        return bool(self.pip) or self.resolved_python() != CLIENT_PYTHON

    def to_core(self, hashing: bool = False) -> Any:
        # The documented default is "3.13", so an image that names no version hashes as that one,
        # although it runs the caller's version: the hash names what was declared.
        return self._filled((self.python or "3.13") if hashing else self.resolved_python())

    def _filled(self, python: str) -> Any:
        from skyward import _core

        image = _core.Image()
        image.python = python
        image.pip = list(self.pip)
        image.pip_extra_index_url = self.pip_extra_index_url
        image.pip_indexes = [_core.PipIndex(i.url, i.packages) for i in self.pip_indexes]
        image.apt = list(self.apt)
        image.env = dict(self.env)
        return image


def _indexes(value: Any) -> list[PipIndex]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(i, PipIndex) for i in value):
        example = 'pip_indexes=[sky.PipIndex("https://host/simple", ["torch"])]'
        raise ConfigurationTypeError(f"Image: pip_indexes={value!r}: write {example}")
    return list(value)


def _minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


DEFAULT_IMAGE = Image()
"""The image of a pool without `image`: the caller's own Python."""

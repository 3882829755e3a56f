"""Modules for remote nodes: tar files, each named by its content.

The first archive holds this package and cloudpickle as they are here. The second holds the
program's own modules: those that it has imported, and those that its sources import anywhere, also
inside functions. What is installed (site-packages) is not sent: it is named in ``Image(pip=…)``."""

import ast
import contextlib
import filecmp
import hashlib
import importlib.util
import inspect
import io
import os
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal, NamedTuple

from skyward.base.programs import PACKAGE, cache_folder
from skyward.call.by_value import PROGRAMS
from skyward.exceptions import ConfigurationError
from skyward.transport.editable import READ_BY_PROGRAMS, metadata_folders
from skyward.transport.installed import is_installed

MAX_ARCHIVE_BYTES = 256 << 20
"""More than this is data, and belongs in arguments or a volume."""
_DAY_SECONDS = 24 * 3600
_KEPT_SECONDS = 30 * _DAY_SECONDS
_KEPT_ARCHIVES = 20
"""However old, up to a month."""
_NEVER = ("__pycache__", "*.pyc", ".git", ".hg", ".venv", "node_modules", ".mypy_cache")


class Origin(NamedTuple):
    """A module or path that nodes get."""

    name: str
    """On the nodes."""
    place: Path
    """A file, or a folder with all that is below."""
    sends: Literal["all", "public", "sources"]
    """Which files: all that the user named; of a package of the program, none that is hidden or may
    be a secret; of a folder that only may be one, Python's."""


def package_archive() -> str:
    """Path of a tar file with this package (its part for nodes) and cloudpickle."""
    import cloudpickle

    files = {}
    for folder in (PACKAGE, Path(cloudpickle.__file__).parent):
        for path in sorted(
            Path(place, name)
            for place, _, names in os.walk(folder, followlinks=True)
            for name in names
            if name.endswith(".py")
        ):
            files[f"{folder.name}/{path.relative_to(folder).as_posix()}"] = path
    return _store(files)


def modules_archive(includes: Sequence[str], excludes: Sequence[str]) -> str | None:
    """Path of a tar file with the program's own modules; None when it has none.

    `includes`: more modules or paths. `excludes`: patterns of paths in the archive, or of any part
    of them, that stay here ("tests", "*.csv", "mypkg/secret.py")."""
    files = _chosen(local_modules(), excludes)
    for include in includes:
        more = _chosen(_included(include), excludes)
        for name in sorted(more.keys() & files.keys()):
            if not filecmp.cmp(more[name], files[name], shallow=False):
                raise ConfigurationError(
                    f"Image(includes=[{include!r}]): nodes would find both {files[name]} and"
                    f" {more[name]} as {name!r}. Rename one, or include the folder above it:"
                    " a folder keeps its name on the nodes"
                )
        files |= more
    for folder in metadata_folders({path.parent for path in files.values()}):
        for name in READ_BY_PROGRAMS:
            if (folder / name).is_file():
                files[f"{folder.name}/{name}"] = folder / name
    return _store(files) if files else None


def _chosen(origins: Iterable[Origin], excludes: Sequence[str]) -> dict[str, Path]:
    """The files of these, each by its name in the archive; of two with one name, the last."""
    return {
        name: path
        for origin in origins
        for name, path in _files_of(origin)
        if not _is_left_out(name, excludes)
    }


def local_modules() -> list[Origin]:
    """The files and package folders of the top-level modules that are the program's own. A package
    without an ``__init__.py`` may have several folders; the first, which Python asks first, is last
    here."""
    found: dict[str, list[Origin]] = {}
    queue: list[Path] = []

    def take(name: str, places: Iterable[Path]) -> None:
        own = [place for place in places if not _is_installed(place)]
        if own and name not in found:
            # Any folder has the look of a package: one of data may have an uninstalled one's name.
            is_sure = name in sys.modules or any((place / "__init__.py").exists() for place in own)
            sends: Literal["public", "sources"] = "public" if is_sure else "sources"
            found[name] = [Origin(_name_of(name, place), place, sends) for place in own[::-1]]
            for place in own:
                queue.extend(sorted(place.rglob("*.py")) if place.is_dir() else [place])

    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main and os.path.isfile(main):
        queue.append(Path(main).absolute())
    for name, module in list(sys.modules.items()):
        if "." in name:
            continue
        spec = getattr(module, "__spec__", None)
        if getattr(spec, "name", None) == name or name in PROGRAMS:  # not of another name's
            take(name, _places(spec))
    while queue:
        for name in _imports_of(queue.pop()):
            if name not in found:
                take(name, _places(_spec_of(name)))
    return [origin for name in sorted(found) for origin in found[name]]


def _name_of(module: str, place: Path) -> str:
    return module if place.is_dir() else place.name


def hooked_modules(folders: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """The program's own modules that are found by a hook and not in one of the folders, such as
    those of editable installs: names, and files or package folders."""
    names = {name for name in list(sys.modules) if "." not in name}
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable__"):  # setuptools' hook, which lists what it finds
            names.update(found.partition(".")[0] for found in getattr(module, "MAPPING", ()))
    for name in sorted(names):
        for place in _places(_spec_of(name)):
            if not _is_installed(place) and str(place.parent) not in folders:
                yield name, place


def is_own(name: str) -> bool:
    """Whether this program finds a top-level module that is not installed."""
    return any(not _is_installed(place) for place in _places(_spec_of(name)))


def lacks(name: str) -> bool:
    """Whether this program has no such module in a package that it has imported."""
    return name.rpartition(".")[0] in sys.modules and _spec_of(name) is None


def archive_of(name: str) -> Path | None:
    """The archive in which this program finds a top-level module that is not installed: a zipapp
    has its modules in itself, and these are not sent."""
    for place in _places(_spec_of(name)):
        for archive in place.parents:
            if archive.is_file() and not is_installed(str(archive.parent)):
                return archive
    return None


def _spec_of(name: str) -> Any:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None


def _places(spec: Any) -> list[Path]:
    """Where a top-level module is: its file, or the folders of a package."""
    if spec is None or spec.name in ("__main__", "skyward", "cloudpickle"):
        return []
    # The program may have a module of that name. Else the interpreter's own are all installed.
    if spec.name in sys.stdlib_module_names and not str(spec.origin).endswith(".py"):
        return []
    if spec.submodule_search_locations is not None:
        return [Path(place).absolute() for place in spec.submodule_search_locations]
    if not spec.has_location or not spec.origin or spec.origin.endswith(".pyc"):
        return []
    # A file that was loaded under a name of its own would be found under another.
    if inspect.getmodulename(spec.origin) == spec.name:
        return [Path(spec.origin).absolute()]
    return []


def _is_installed(place: Path) -> bool:
    return is_installed(str(place.parent)) or not place.exists()


def _imports_of(path: Path) -> set[str]:
    """The top-level names that a source file imports, anywhere in it."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def included_folders(names: Sequence[str]) -> list[str]:
    """Where nodes that share this machine's files find what the user named."""
    return [str(origin.place.parent) for name in names for origin in _included(name)]


def _included(name: str) -> list[Origin]:
    """A module or a path that the user named, as local_modules() has them."""
    path = Path(name).expanduser()
    if path.exists():
        return [Origin(path.absolute().name, path.absolute(), "all")]
    places = _places(_spec_of(name)) if name.isidentifier() else []
    places = [place for place in places if place.exists()]  # not in an archive
    if not places:
        raise ConfigurationError(
            f"Image(includes=[{name!r}]): no file, folder or module has this name;"
            f" paths are relative to {os.getcwd()}"
        )
    return [Origin(_name_of(name, place), place, "public") for place in places[::-1]]


def _files_of(origin: Origin) -> Iterator[tuple[str, Path]]:
    """Name in the archive and path, of a module's file or of the files of a folder."""
    from skyward._core import may_be_secret

    top, place, sends = origin
    if not place.is_dir():
        yield top, place
        return

    def is_sent(name: str) -> bool:
        return not _matches(name, _NEVER) and (sends == "all" or not name.startswith("."))

    above = {str(place): {os.path.realpath(place)}}  # of each folder: itself, and those it is in
    for folder, folders, names in os.walk(place, followlinks=True):
        inside = above.pop(folder)
        folders[:] = sorted(name for name in folders if is_sent(name))
        for name in list(folders):
            below = os.path.join(folder, name)
            real = os.path.realpath(below)
            if real in inside:  # a link to a folder above: what is there is sent already
                folders.remove(name)
            else:
                above[below] = {*inside, real}
        for name in sorted(names):
            path = Path(folder, name)
            if sends == "sources" and not name.endswith(".py"):
                continue
            if sends == "public" and may_be_secret(name):
                continue
            if is_sent(name) and path.is_file():
                yield f"{top}/{path.relative_to(place).as_posix()}", path


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _is_left_out(name: str, patterns: Sequence[str]) -> bool:
    parts = name.split("/")
    paths = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    return any(_matches(text, patterns) for text in [*parts, *paths])


def _store(files: dict[str, Path]) -> str:
    """A tar file with these names and contents, in the user's cache. The same content is the same
    file."""
    total = sum(path.stat().st_size for path in files.values())
    if total > MAX_ARCHIVE_BYTES:
        largest = max(files, key=lambda name: files[name].stat().st_size)
        raise ConfigurationError(
            f"the program's own modules hold {total >> 20} MiB, more than"
            f" {MAX_ARCHIVE_BYTES >> 20}; the largest file is {largest}."
            " Leave data out with Image(excludes=[…])"
        )
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(files):
            data = files[name].read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            entry.mode = 0o755 if os.access(files[name], os.X_OK) else 0o644
            archive.addfile(entry, io.BytesIO(data))
    data = buffer.getvalue()
    name = f"{hashlib.sha256(data).hexdigest()}.tar"

    def is_in(folder: Path) -> bool:
        return (folder / name).exists() and (folder / name).read_bytes() == data

    folder = cache_folder("archives", holds=is_in)
    target = folder / name
    if is_in(folder):
        with contextlib.suppress(OSError):  # it may be read-only
            os.utime(target)
        return str(target)
    try:
        _write(target, data)
    except OSError as error:
        raise ConfigurationError(
            f"cannot store the modules for the nodes in {folder}: {error}; free some space there,"
            " or set XDG_CACHE_HOME to a directory on another disk"
        ) from error
    _forget_old(folder)
    return str(target)


def _write(target: Path, data: bytes) -> None:
    """The whole file, or nothing."""
    number, unfinished = tempfile.mkstemp(dir=target.parent)
    try:
        with open(number, "wb") as file:
            file.write(data)
        os.replace(unfinished, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)


def _forget_old(folder: Path) -> None:
    """Keeps the newest archives and those of today, none longer than a month: each edit of a module
    makes another one."""
    found = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another program was faster
            found.append((path.stat().st_mtime, path))
    now = time.time()
    for number, (used, path) in enumerate(sorted(found, reverse=True)):
        kept = _DAY_SECONDS if number >= _KEPT_ARCHIVES else _KEPT_SECONDS
        if used < now - kept:
            with contextlib.suppress(OSError):
                path.unlink()

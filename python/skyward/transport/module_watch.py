"""Edits of the program's modules: nodes import the files as they are, and functions that travel by
value are those that the program has in memory."""

import importlib.util
import os
import sys
from collections.abc import Collection, Iterator
from importlib.machinery import PathFinder, SourceFileLoader
from types import CodeType
from typing import Any

from skyward.call.function import ComputeFunction
from skyward.transport.installed import is_installed
from skyward.transport.references import imports_of

_NOT_WATCHED = ("__main__", "skyward", "cloudpickle")


class ModuleWatch:
    """Notices edits of the program's own modules, from when each was imported. Functions of the
    program itself are sent with every call and do not count."""

    def __init__(self) -> None:
        self._modules = 0
        self._seen: dict[str, float] = {}  # when each file was written that nodes may have
        self._imports: set[str] = set()
        self._find_new()

    def watch(self, fn: Any) -> None:
        """Of a function that is sent: the modules that it imports itself, which this program may
        never import."""
        for name in imports_of(fn) - self._imports:
            self._imports.add(name)
            for path in _files_of(name):
                self._seen.setdefault(path, _written_at(path))

    def changed(self) -> list[str]:
        """The paths written to since the last call. Takes a few microseconds, unless something was
        imported meanwhile."""
        if len(sys.modules) != self._modules:
            self._find_new()  # what is imported only now, nodes have not imported before
        found = []
        for path in list(self._seen):  # another thread that sends may add to it meanwhile
            written = _written_at(path)
            if written not in (self._seen[path], 0.0):
                self._seen[path] = written
                found.append(path)
        return found

    def _find_new(self) -> None:
        self._modules = len(sys.modules)
        for path, written in _imported_files():
            self._seen.setdefault(path, written)


def outdated(paths: Collection[str]) -> set[str]:
    """Those of these files of which the program has imported an earlier version, and not reloaded
    it."""
    return {
        path
        for path, written in _imported_files()
        if path in paths and written != _written_at(path)
    }


def newer_version(fn: Any) -> Any:
    """The compute function that its module has had under the name of `fn` since a reload; None if
    `fn` is not of an earlier version."""
    name, qualname = getattr(fn, "__module__", None) or "", getattr(fn, "__qualname__", "")
    if name in _NOT_WATCHED or name not in sys.modules or "<" in qualname:
        return None
    first, *parts = qualname.split(".")
    found = vars(sys.modules[name]).get(first)  # a module's own __getattr__ may raise anything
    for part in parts:
        found = vars(found).get(part) if isinstance(found, type) else None
    if type(found) is not ComputeFunction or found.local is fn:
        return None
    old, new = _code_of(fn), _code_of(found)
    if old is None or new is None or old == new:
        return None
    if (old.co_filename, old.co_qualname) != (new.co_filename, new.co_qualname):
        return None
    # A module may well have two functions of one name, in different lines.
    return found if name in _reloaded or old.co_firstlineno == new.co_firstlineno else None


def _code_of(fn: Any) -> CodeType | None:
    """Of the function inside of all decorators."""
    while (inner := getattr(fn, "__wrapped__", None)) is not None:
        fn = inner
    code = getattr(fn, "__code__", None)
    return code if isinstance(code, CodeType) else None


_versions: dict[str, tuple[Any, float]] = {}
"""By a module's name: its spec, which a reload replaces, and when the file was written that it was
loaded from. Pools come and go; what the program has in memory stays."""
_reloaded: set[str] = set()
"""Names of modules whose spec has been replaced."""


def _imported_files() -> Iterator[tuple[str, float]]:
    """Those of the program's own modules, with when each was written as it was imported."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _NOT_WATCHED:
            continue
        variables = getattr(module, "__dict__", {})
        path, spec = variables.get("__file__"), variables.get("__spec__")
        if not isinstance(path, str) or is_installed(os.path.dirname(path)):
            continue
        known = _versions.get(name)
        if known is None or known[0] is not spec:
            if known is not None:
                _reloaded.add(name)
            known = _versions[name] = spec, _loaded_version(spec, path)
        yield path, known[1]


def _loaded_version(spec: Any, path: str) -> float:
    """When the file was written from which this module was just loaded, or some time ago: the byte
    code that Python keeps then says so."""
    written = _written_at(path)
    if type(getattr(spec, "loader", None)) is not SourceFileLoader or sys.dont_write_bytecode:
        return written
    try:
        if not os.access(os.path.dirname(spec.cached), os.W_OK):
            return written  # it may be an older one's
        with open(spec.cached, "rb") as file:
            header = file.read(12)
    except (OSError, TypeError):
        return written
    if header[:8] != importlib.util.MAGIC_NUMBER + bytes(4):  # not the kind that names a time
        return written
    recorded = int.from_bytes(header[8:], "little")
    return written if recorded == int(written) & 0xFFFFFFFF else float(recorded)


def _written_at(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _files_of(name: str) -> Iterator[str]:
    """Those that importing a module of the program's would run, without importing anything."""
    top, *parts = name.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError, AttributeError):
        return
    for part in [*parts, ""]:
        if spec is None or spec.name in _NOT_WATCHED:
            return
        if spec.has_location and spec.origin and not is_installed(os.path.dirname(spec.origin)):
            yield spec.origin
        places = spec.submodule_search_locations
        spec = PathFinder.find_spec(f"{spec.name}.{part}", places) if part and places else None

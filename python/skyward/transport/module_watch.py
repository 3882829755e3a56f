"""Edits of the program's modules while a pool is open."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from typing import Any

from skyward.transport.installed import is_installed
from skyward.transport.references import imports_of

_NOT_WATCHED = ("__main__", "skyward", "cloudpickle")


class ModuleWatch:
    """Notices edits of the program's own modules from now on. Functions of the program itself are
    sent with every call and do not count."""

    def __init__(self) -> None:
        self._modules = 0
        self._seen: dict[str, float] = {}  # when each file was written, as far as is known
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
        for path in _own_modules():
            if path not in self._seen:
                self._seen[path] = _written_at(path)


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


def _own_modules() -> Iterator[str]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _NOT_WATCHED:
            continue
        path = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(path, str) and not is_installed(os.path.dirname(path)):
            yield path

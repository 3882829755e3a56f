"""Edits of the program's modules while a pool is open."""

import os
import sys
from collections.abc import Iterator

from skyward.transport.installed import is_installed


class ModuleWatch:
    """Notices edits of the program's own modules from now on. Functions of the program itself are
    sent with every call and do not count."""

    def __init__(self) -> None:
        self._modules = 0
        self._seen: dict[str, float] = {}  # when each file was written, as far as is known
        self._find_new()

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


def _own_modules() -> Iterator[str]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("__main__", "skyward", "cloudpickle"):
            continue
        path = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(path, str) and not is_installed(os.path.dirname(path)):
            yield path

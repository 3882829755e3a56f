"""Finds the part of a value that cannot be pickled, and the path to it: ``['x'][3].lock``. Driver
and worker use it."""

import time
from collections.abc import Callable, Iterator
from typing import Any

MAX_TRIES = 10000
MAX_SECONDS = 2.0
MAX_DEPTH = 24


class Search:
    """Descends from a failing value to its first part that fails by itself, until none does."""

    def __init__(self, dumps: Callable[[Any], object]) -> None:
        self._dumps = dumps
        self._tries = 0
        self._end = time.monotonic() + MAX_SECONDS

    def failure(self, value: Any) -> Exception | None:
        """Why a value cannot be pickled; None if it can, or if the search takes too long."""
        if self._tries >= MAX_TRIES or time.monotonic() > self._end:
            return None
        self._tries += 1
        try:
            self._dumps(value)
        except Exception as error:
            return error.with_traceback(None)  # which has the frames that keep it
        return None

    def find(self, path: str, value: Any, error: Exception) -> tuple[str, Exception]:
        on_the_way = {id(value)}
        for _ in range(MAX_DEPTH):
            for step, part in _while_readable(self.parts(value)):
                if id(part) in on_the_way or isinstance(part, (str, bytes, int, float, type(None))):
                    continue
                failure = self.failure(part)
                if failure is not None:
                    path, value, error = path + step, part, failure
                    on_the_way.add(id(part))
                    break
            else:
                break
        return path, error

    def parts(self, value: Any) -> Iterator[tuple[str, Any]]:
        """The parts that pickling a value would pickle, each with its path from the value."""
        if isinstance(value, dict):
            for key, part in list(value.items()):
                yield f" key {_shown(key)}", key
                yield f"[{_shown(key)}]", part
        elif isinstance(value, (list, tuple)):
            for position, part in enumerate(value):
                yield f"[{position}]", part
        elif isinstance(value, (set, frozenset)):
            for part in value:
                yield " item", part
        if isinstance(value, type):
            return
        for name, part in list(getattr(value, "__dict__", {}).items()):
            yield f".{name}", part
        for cls in type(value).__mro__:
            slots = cls.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if hasattr(value, name) and not name.startswith("__"):
                    yield f".{name}", getattr(value, name)


def reason_of(error: Exception) -> str:
    text = str(error).strip().removesuffix(".")
    return (
        text
        if text.lower().startswith(("cannot pickle", "can't pickle"))
        else f"cannot pickle it: {text or type(error).__name__}"
    )


def _while_readable(parts: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    try:
        yield from parts
    except Exception:  # of a property or an iterator of the user's
        pass


def _shown(key: Any) -> str:
    try:
        return repr(key)
    except Exception:
        return f"<{type(key).__name__}>"

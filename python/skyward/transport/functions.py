"""The bodies of functions, as workers load them.

A function is sent as cloudpickle bytes, which are reused as long as nothing that it refers to
changes. cloudpickle is loaded when the first function is sent."""

import threading
from typing import Any

from skyward.call.by_value import dumps_by_value, registered_by_value
from skyward.exceptions import SerializationError
from skyward.transport.forks import renewed
from skyward.transport.references import look_up, note_references
from skyward.transport.unpicklable import explain


def is_kept(fn: Any) -> bool:
    """Whether the body of this function object is kept."""
    return _bodies.has(fn)


def dumps_function(fn: Any, name: str) -> bytes:
    """The body of a function, as a worker loads it."""
    kept = _bodies.get(fn)
    if kept is not None:
        return kept
    # Before it is pickled: another thread may change meanwhile what it refers to.
    seen = references_of(fn)
    try:
        body = dumps_by_value(fn)
    except Exception as error:
        text = explain(f"function {name!r}", fn, error)
        raise SerializationError(text) from error.with_traceback(None)
    if seen is not None and are_unchanged(seen):
        _bodies.put(fn, body, seen)
    return body


def references_of(fn: Any) -> list[tuple[Any, Any, Any]] | None:
    """What the body of the function depends on; None if it is not to be kept."""
    seen: list[tuple[Any, Any, Any]] = []
    if registered_by_value() or not note_references(fn, seen, set()):
        return None
    return seen


def are_unchanged(seen: list[tuple[Any, Any, Any]]) -> bool:
    return all(look_up(place, key) is value for place, key, value in seen)


class _Bodies:
    """Pickled functions, each with what it referred to at that time."""

    LIMIT = 256
    LIMIT_BYTES = 64 << 20  # of bodies; the newest is kept whatever its size

    def __init__(self) -> None:
        self._lock = renewed(threading.RLock())  # any thread may send
        self._bytes = 0
        # By id; the function is kept in the entry, so that its id stays its own.
        self._entries: dict[int, tuple[Any, list[tuple[Any, Any, Any]], bytes]] = {}

    def has(self, fn: Any) -> bool:
        return id(fn) in self._entries

    def get(self, fn: Any) -> bytes | None:
        entry = self._entries.get(id(fn))
        if entry is None or registered_by_value():
            return None
        for place, key, value in entry[1]:
            if look_up(place, key) is not value:
                self._drop(id(fn))
                return None
        return entry[2]

    def put(self, fn: Any, body: bytes, seen: list[tuple[Any, Any, Any]]) -> None:
        with self._lock:
            self._drop(id(fn))
            self._entries[id(fn)] = (fn, seen, body)
            self._bytes += len(body)
            for oldest in list(self._entries)[:-1]:
                if len(self._entries) <= self.LIMIT and self._bytes <= self.LIMIT_BYTES:
                    break
                self._drop(oldest)

    def _drop(self, key: int) -> None:
        with self._lock:
            entry = self._entries.pop(key, None)
            if entry is not None:
                self._bytes -= len(entry[2])


_bodies = _Bodies()

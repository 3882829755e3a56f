"""Large NumPy arrays that are read-only, stored for the nodes once, for as long as the program has
them: a call that sends such an array again sends a reference.

An array counts as read-only if neither it nor any array whose memory it shows can be written to. A
writable view that was made earlier can still change the bytes, and so can an array that is made
writable for a while: the guide warns of both, and a sample of the bytes is compared each time."""

import sys
import threading
import weakref
from typing import Any

from skyward.transport.shared_arguments import default_limit, fingerprint

ARRAY_BYTES = 1 << 20
"""Smaller arrays are copied in no time."""


class ReadOnlyArrays:
    """Those of one open pool. Any thread may use it."""

    def __init__(self, core: Any, limit: int | None = None) -> None:
        """`core`: stores and forgets. `limit`: of the bytes stored, in all."""
        self._core = core
        self._limit = default_limit() if limit is None else limit
        self._lock = threading.Lock()
        # Changed without the lock, too: arrays may die at any point of any thread.
        self._known: dict[tuple[int, int, int], _Known] = {}
        self._clock = 0

    def reference(self, view: memoryview) -> Any:
        """A reference to what the nodes have of it, or will have from this call on; the view itself
        if it must be copied. An array is stored when it is sent for the second time, since most
        are sent once."""
        if not view.readonly or view.nbytes < ARRAY_BYTES:
            return view
        owner = _owner(view)
        if owner is None:
            return view
        exporter: Any = view.obj
        start = exporter.__array_interface__["data"][0]
        key = (id(owner), start, view.nbytes)
        mark = fingerprint(view)
        with self._lock:
            self._clock += 1
            known = self._known.get(key)
            if known is None or known.owner() is not owner or known.mark != mark:
                self._forget(key)
                self._known[key] = _Known(weakref.ref(owner, lambda _: self._forget(key)), mark)
                return view
            known.last = self._clock
            if known.stored is None and self._has_room(view.nbytes):
                known.stored = self._core.store(view)
            return view if known.stored is None else known.stored

    def close(self) -> None:
        """Forgets all; calls in flight keep what they need."""
        for key in list(self._known):
            self._forget(key)

    def _forget(self, key: tuple[int, int, int]) -> None:
        known = self._known.pop(key, None)
        if known is not None and known.stored is not None:
            self._core.forget(known.stored)

    def _has_room(self, size: int) -> bool:
        """Forgets what was sent longest ago until there is."""
        if size > self._limit:
            return False
        items = list(self._known.items())
        stored = [(known.last, key) for key, known in items if known.stored is not None]
        for _, (_, _, nbytes) in stored:
            size += nbytes
        for _, key in sorted(stored):
            if size <= self._limit:
                break
            self._forget(key)
            size -= key[2]
        return True


class _Known:
    """An array that was sent."""

    __slots__ = ("last", "mark", "owner", "stored")

    def __init__(self, owner: Any, mark: Any) -> None:
        self.owner = owner
        self.mark = mark
        self.last = 0
        self.stored: Any = None


def _owner(view: memoryview) -> Any:
    """The array that owns the memory, if no array from here to there can be written to."""
    numpy = sys.modules.get("numpy")
    array: Any = view.obj
    while numpy is not None and type(array) is numpy.ndarray and not array.flags.writeable:
        if array.base is None:
            return array if array.flags.owndata else None
        array = array.base
    return None

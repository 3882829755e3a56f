"""Large NumPy arrays that are read-only, stored for the nodes once, for as long as the program has
them: a call that sends such an array again sends a reference.

An array counts as read-only if neither it nor any array whose memory it shows can be written to. A
writable view that was made earlier can still change the bytes, and so can an array that is made
writable for a while: the guide warns of both, and a sample of the bytes is compared each time."""

import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from skyward.transport.forks import renewed
from skyward.transport.shared_arguments import (
    MOST_STORED,
    default_limit,
    fingerprint,
    stored_limit,
)

ARRAY_BYTES = 1 << 20
"""Smaller arrays are copied in no time."""
MOST_BYTES = 4 << 30
"""Of what is stored."""
MOST_SEEN = 1024
"""Arrays that were sent once."""


class ReadOnlyArrays:
    """Those of one open pool. Any thread may use it."""

    def __init__(self, core: Any, limit: int | None = None) -> None:
        """`core`: stores and forgets, and knows the nodes. `limit`: of the bytes stored, in all."""
        self._core = core
        self._most = min(default_limit(), MOST_BYTES) if limit is None else limit
        # Reentrant: a handler of a signal may send calls. Arrays may die at any point of any
        # thread, and leave the tables without it.
        self._lock = renewed(threading.RLock())
        self._seen: dict[_Key, _Known] = {}  # sent once; the latest last
        self._stored: dict[_Key, _Known] = {}  # what was sent last comes last

    def for_calls(self) -> Callable[[memoryview], Any]:
        """For calls that are sent together, makes of a large buffer what is sent of it: a reference
        to what the nodes have, or will have from now on; or the view itself if it must be copied.

        An array is stored when it is sent for the second time, since most are sent once. Calls that
        are sent together have their copies in common anyway."""
        return partial(self._reference, object())

    def _reference(self, calls: object, view: memoryview) -> Any:
        if not view.readonly or view.nbytes < ARRAY_BYTES:
            return view
        owner = _owner(view)
        if owner is None:
            return view
        exporter: Any = view.obj
        key = (id(owner), exporter.__array_interface__["data"][0], view.nbytes)
        mark = fingerprint(view)
        with self._lock:
            stored = self._stored.pop(key, None)
            if stored is not None:
                if stored.is_of(owner, mark):
                    self._stored[key] = stored
                    return stored.reference
                self._core.forget(stored.reference)
            seen = self._seen.get(key)
            if seen is None or not seen.is_of(owner, mark):
                self._see(key, _Known(self._watched(owner, key), mark, calls))
                return view
            if seen.calls is calls or view.nbytes > self._most:
                return view
        # Without the lock: it takes its time.
        limit = stored_limit(self._core, self._most)
        if view.nbytes > limit:
            return view
        reference = self._core.store(view)
        with self._lock:
            self._seen.pop(key, None)
            if (other := self._stored.pop(key, None)) is not None:  # another thread was quicker
                self._core.forget(other.reference)
            self._make_room(view.nbytes, limit)
            self._stored[key] = _Known(self._watched(owner, key), mark, reference=reference)
        return reference

    def close(self) -> None:
        """Forgets all; calls in flight keep what they need."""
        self._seen.clear()
        for key in list(self._stored):
            self._forget(key)

    def _watched(self, owner: Any, key: "_Key") -> weakref.ref[Any]:
        return weakref.ref(owner, lambda _: self._forget(key))

    def _see(self, key: "_Key", seen: "_Known") -> None:
        self._seen.pop(key, None)
        while len(self._seen) >= MOST_SEEN:
            self._seen.pop(next(iter(list(self._seen))), None)
        self._seen[key] = seen

    def _forget(self, key: "_Key") -> None:
        self._seen.pop(key, None)
        stored = self._stored.pop(key, None)
        if stored is not None:
            self._core.forget(stored.reference)

    def _make_room(self, size: int, limit: int) -> None:
        """Forgets what was sent longest ago."""
        keys = list(self._stored)
        used = size + sum(nbytes for _, _, nbytes in keys)
        count = len(keys) + 1
        for key in keys:
            if used <= limit and count <= MOST_STORED:
                return
            self._forget(key)
            used -= key[2]
            count -= 1


_Key = tuple[int, int, int]
"""Of the bytes: the id of the array that owns them, where they begin, how many they are."""


class _Known:
    """Bytes that were sent."""

    __slots__ = ("calls", "mark", "owner", "reference")

    def __init__(
        self, owner: weakref.ref[Any], mark: Any, calls: object = None, reference: Any = None
    ) -> None:
        self.owner = owner
        self.mark = mark
        self.calls = calls
        """Those that they were sent with."""
        self.reference = reference
        """To what is stored."""

    def is_of(self, owner: Any, mark: Any) -> bool:
        return self.owner() is owner and self.mark == mark


def _owner(view: memoryview) -> Any:
    """The array that owns the memory, if no array from here to there can be written to."""
    numpy = sys.modules.get("numpy")
    array: Any = view.obj
    while numpy is not None and type(array) is numpy.ndarray and not array.flags.writeable:
        if array.base is None:
            return array if array.flags.owndata else None
        array = array.base
    return None

"""Large arguments that many calls have in common, stored for the nodes once.

What is large is compared byte by byte with what was sent before: equal bytes are sent as a
reference to the copy that the nodes have. Nothing is taken for granted because it is the same
object: a program may write into an array between two calls. Arrays are compared where they lie;
lists, texts and other objects in their pickled form."""

import pickle
import threading
import zlib
from functools import partial
from typing import Any

from skyward.call.by_value import plain_dumps, registered_by_value
from skyward.transport.forks import renewed

SHARED_BYTES = 64 << 10
"""Smaller buffers travel inside the call."""
MOST_STORED = 64
"""Each takes a descriptor."""
MANY_ITEMS = 512
"""Containers below this are not looked at."""
_SAMPLES, _SAMPLE_BYTES = 16, 256


class SharedArguments:
    """Those of one pool, as long as it is open. Any thread may use it."""

    def __init__(self, pool: Any, limit: int | None = None) -> None:
        self._pool = pool
        self._most = limit if limit is not None else default_limit()
        self._lock = renewed(threading.Lock())
        self._kept: dict[tuple[int, int], list[_Kept]] = {}
        self._core: Any = None
        self._clock = 0
        self.stored_bytes = 0
        """Bytes that were stored for the nodes, over all calls."""
        self.kept_bytes = 0

    @property
    def kept_buffers(self) -> int:
        return sum(map(len, self._kept.values()))

    def arguments(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, those of joblib's batches with their large objects wrapped."""
        for batch in args:
            items = getattr(batch, "items", None)
            if isinstance(items, list):
                batch.items = [
                    (function, tuple(map(_packed, values)), _packed_values(named))
                    for function, values, named in items
                ]
        return args

    def buffers(self, core: Any, views: list[memoryview]) -> list[Any]:
        """The buffers of one call; large ones as references to what is stored, now or before."""
        if not any(view.nbytes >= SHARED_BYTES for view in views):
            return list(views)
        with self._lock:
            self._enter(core)
            self._clock += 1
            clock = self._clock
            sent = [self._find(view) if view.nbytes >= SHARED_BYTES else view for view in views]
        missing = [at for at, buffer in enumerate(sent) if buffer is None]
        if missing:
            # Without the lock: it takes its time.
            limit = stored_limit(core, self._most) or self._most
            missing.sort(key=lambda at: views[at].nbytes, reverse=True)
            with self._lock:
                self._enter(core)
                for at in missing:
                    sent[at] = self._stored(views[at], limit, clock)
        return sent

    def close(self) -> None:
        """Drops everything; calls in flight keep what they need."""
        with self._lock:
            for entries in self._kept.values():
                for kept in entries:
                    self._core.forget(kept.stored)
            self._enter(None)

    def _enter(self, core: Any) -> None:
        if core is not self._core:  # the pool was left and entered again
            self._kept.clear()
            self._core, self.kept_bytes = core, 0

    def _find(self, view: memoryview) -> Any:
        """What is stored of these bytes, or None."""
        for kept in self._kept.get(fingerprint(view), ()):
            if kept.stored.holds(view):
                kept.uses += 1
                kept.last = self._clock
                return kept.stored
        return None

    def _stored(self, view: memoryview, limit: int, clock: int) -> Any:
        """What is stored of these bytes from now on, or the view if there is no room for them."""
        stored = self._find(view)  # there twice, or another thread was quicker
        if stored is not None:
            return stored
        if not self._make_room(view.nbytes, limit, clock):
            return view
        kept = _Kept(self._core.store(view), view.nbytes, self._clock)
        self._kept.setdefault(fingerprint(view), []).append(kept)
        self.stored_bytes += view.nbytes
        self.kept_bytes += view.nbytes
        return kept.stored

    def _make_room(self, size: int, limit: int, clock: int) -> bool:
        """Drops what was used once and longest ago, then what was used longest ago; never what has
        been used since `clock`. Drops nothing if that makes no room."""
        if _has_room(size, limit, self.kept_bytes, self.kept_buffers):
            return True
        old = [
            (kept.uses > 1, kept.last, key, kept)
            for key, entries in self._kept.items()
            for kept in entries
            if kept.last < clock
        ]
        used_bytes = self.kept_bytes - sum(kept.size for _, _, _, kept in old)
        if not _has_room(size, limit, used_bytes, self.kept_buffers - len(old)):
            return False
        for _, _, key, kept in sorted(old, key=lambda entry: entry[:2]):
            if _has_room(size, limit, self.kept_bytes, self.kept_buffers):
                break
            self._kept[key].remove(kept)
            if not self._kept[key]:
                del self._kept[key]
            self.kept_bytes -= kept.size
            self._core.forget(kept.stored)
        return True


def _has_room(size: int, limit: int, kept_bytes: int, kept_buffers: int) -> bool:
    """What is larger than the limit is kept alone: each call would have its own copy otherwise."""
    if kept_buffers == 0:
        return True
    return kept_bytes + size <= limit and kept_buffers < MOST_STORED


class _Kept:
    """One stored buffer."""

    __slots__ = ("last", "size", "stored", "uses")

    def __init__(self, stored: Any, size: int, clock: int) -> None:
        self.stored = stored
        self.size = size
        self.uses = 1
        self.last = clock


class _Packed:
    """An object in its pickled form, which travels beside the call, as do the buffers that are not
    in it; a worker unpickles it to the object itself."""

    __slots__ = ("_buffers", "_data")

    def __init__(self, data: bytes, buffers: list[pickle.PickleBuffer]) -> None:
        self._data = data
        self._buffers = buffers

    def __reduce_ex__(self, protocol: Any) -> Any:
        return partial(pickle.loads, buffers=self._buffers), (pickle.PickleBuffer(self._data),)


def _packed(value: Any) -> Any:
    """`value`, or a _Packed of it when its pickle is large without the buffers of arrays."""
    if not _is_candidate(value) or registered_by_value():
        return value
    buffers: list[pickle.PickleBuffer] = []
    try:
        data = plain_dumps(value, buffer_callback=buffers.append)
    except Exception:  # cloudpickle may know how
        return value
    if len(data) < SHARED_BYTES or b"_main__" in data:
        return value
    return _Packed(data, buffers)


def _packed_values(named: dict[str, Any]) -> dict[str, Any]:
    return {name: _packed(value) for name, value in named.items()}


def _is_candidate(value: Any) -> bool:
    kind = type(value)
    if kind in (list, tuple, dict, set, frozenset, str, bytes):
        return len(value) >= MANY_ITEMS
    # Numbers travel as buffers anyway; arrays and tables of objects, texts and times do not.
    flags: Any = getattr(value, "flags", None)
    if hasattr(flags, "c_contiguous"):
        loose = not (flags.c_contiguous or flags.f_contiguous)
        return (value.dtype.kind in "OMm" or loose) and value.size >= MANY_ITEMS
    return hasattr(value, "iloc") and len(value) >= MANY_ITEMS


def fingerprint(view: memoryview) -> tuple[int, int]:
    """(size, checksum of some places): equal for equal bytes, rarely for others."""
    size, step = view.nbytes, max(1, view.nbytes // _SAMPLES)
    checksum = zlib.crc32(view[-_SAMPLE_BYTES:])
    for at in range(0, size, step):
        checksum = zlib.crc32(view[at : at + _SAMPLE_BYTES], checksum)
    return size, checksum


def default_limit() -> int:
    """An eighth of the memory that this process may use."""
    from skyward import _core

    return _core.usable_memory() // 8


def stored_limit(core: Any, most: int) -> int:
    """The nodes must hold what is stored, too: `most`, but no more than an eighth of the smallest
    one, which may be another one each time, since nodes are replaced. 0 if that is not known."""
    least: int = core.least_memory()
    return min(most, least // 8)

"""Calls of one function for many inputs: what ``pool.map()`` sends, and how its answers come back.

Quick calls travel in groups (skyward/wire/group.h): the engine sees one task, and the results
arrive one by one all the same. A group is as large as what its function takes suggests, so a
function that takes long is sent call by call. A call that fails ends its group, and those behind it
are sent again; so are those that wait behind a slow one."""

import pickle
import time
from collections import deque
from collections.abc import Generator, Iterator
from itertools import islice
from typing import Any

from skyward import _core
from skyward.call.by_value import registered_by_value
from skyward.call.function import ComputeFunction, is_generator
from skyward.call.pending import PendingCompute
from skyward.call.text import call_text
from skyward.exceptions import TimeoutError
from skyward.pool.outcome import answer_of
from skyward.transport import serialize

AHEAD_CALLS = 1024
AHEAD_BYTES = 64 << 20
"""map() sends ahead of its reader up to this many calls or bytes of arguments, but always enough to
fill the slots."""
GROUPS_AHEAD = 4
"""Groups for each slot."""
GROUP_SECONDS = 250e-6
"""How long a group should run."""
GROUP_CALLS = 512  # kMaxGroupCalls
GROWTH = 4
"""A group is at most so much larger than the last one."""
LARGE_BYTES = 2000
"""Results from about that size on end their group."""
REFUSED = 16
"""So many calls that are not for a group, and all go alone: one by one they take longer."""
STEP_SECONDS = 0.01
ATTEMPTS = 4
"""How often calls are sent again when their machine is lost, as the engine does (kMaxAttempts)."""

_LOSSES = ("lost", "unreachable")


class _Group:
    """Calls that were sent together."""

    __slots__ = ("attempt", "bytes", "calls", "core", "got", "inputs", "token")

    def __init__(self, core: Any, inputs: list[Any], token: int, attempt: int) -> None:
        self.core = core
        self.inputs = inputs
        self.token = token
        self.attempt = attempt
        self.bytes = core.size
        self.got = 0  # results
        self.calls = len(inputs)  # as sent; `inputs` are those that have not been withdrawn


class _Single:
    __slots__ = ("bytes", "call", "handle", "item")

    def __init__(self, item: PendingCompute[Any], call: Any, handle: Any) -> None:
        self.item = item
        self.call = call
        self.handle = handle
        self.bytes = call.size()


class MappedCalls:
    """The calls of one map(). `pool`: the OpenPool; `inputs`: the arguments of each call."""

    def __init__(
        self, pool: Any, function: ComputeFunction[..., Any], inputs: Iterator[tuple[Any, ...]]
    ) -> None:
        self._pool = pool
        self._function = function
        self._inputs = inputs
        self._window: deque[_Group | _Single] = deque()
        self._calls = self._bytes = 0  # of the window
        self._groups = _core.Groups()
        self._packer = pool.core.packer()
        self._beside, self._buffers = serialize.collector()
        self._tokens = 0
        self._in_groups = True
        self._refused = 0
        self._size = 0  # calls of the next group; 0: no call has ended yet
        self._failure: Exception | None = None  # of the call behind the window

    def answers(self, end: float | None) -> Generator[Any, None, None]:
        """First None, when the first calls have been sent, and then the answers in order. `end`:
        when to stop waiting, on the monotonic clock.

        A call that cannot be sent raises at its place, after the answers before it."""
        window = self._window
        try:
            self._fill()
            if not window and self._failure is not None:
                raise self._failure
            yield None
            while True:
                self._fill()
                if not window:
                    if self._failure is not None:
                        raise self._failure
                    return
                first = window[0]
                if isinstance(first, _Group):
                    yield from self._results(first, end)
                    continue
                self._wait_single(first, end)
                yield self._pool.answer(first.item, first.call, first.handle, end)
                self._leave(first, 1)
        finally:
            for sent in window:
                (sent.core if isinstance(sent, _Group) else sent.handle).cancel()

    # ------------------------------------------------------------------ sending

    def _fill(self) -> None:
        while self._failure is None and (room := self._room()):
            inputs: list[tuple[Any, ...]] = []
            failure: Exception | None = None
            try:
                inputs.extend(islice(self._inputs, room))
            except Exception as error:  # of the caller's iterables
                failure = error
            self._send(inputs)
            if self._failure is None:
                self._failure = failure
            if len(inputs) < room:
                return

    def _room(self) -> int:
        """How many more calls may be sent."""
        calls, slots = self._calls, int(self._pool.core.total_slots)
        most = max(AHEAD_CALLS, GROUPS_AHEAD * slots * self._size)
        if calls > most // 2:  # wait until many can be sent together
            return 0
        fill_slots = 2 * slots - calls
        if calls == 0 or (self._in_groups and not self._size):  # their size is not known yet
            return max(fill_slots, 0)
        by_size = (AHEAD_BYTES - self._bytes) * calls // max(self._bytes, 1)
        return max(fill_slots, min(most - calls, by_size), 0)

    def _send(self, inputs: list[tuple[Any, ...]]) -> None:
        """Sends calls, as groups where it can."""
        at = 0
        while at < len(inputs) and self._failure is None:
            group = self._group(inputs[at : at + max(1, self._size)])
            if group is not None:
                at += len(group.inputs)
                self._enter(group, len(group.inputs))
                continue
            some = inputs[at : at + 1] if self._in_groups else inputs[at:]
            at += len(some)
            for single in self._singles(some):
                self._enter(single, 1)

    def _send_again(self, group: _Group, first: int, place: int, attempt: int = 1) -> None:
        """Sends the calls of the group from that one on as groups of their own, which get that
        place in the window."""
        inputs = group.inputs[first:]
        del group.inputs[first:]
        at = 0
        while at < len(inputs):
            some = inputs[at : at + max(1, self._size)]
            self._tokens += 1
            core = self._groups.send_again(
                self._packer, group.core, first + at, len(some), self._tokens
            )
            self._enter(_Group(core, some, self._tokens, attempt), len(some), place)
            place += 1
            at += len(some)

    def _enter(self, sent: "_Group | _Single", calls: int, place: int | None = None) -> None:
        if place is None:
            self._window.append(sent)
        else:
            self._window.insert(place, sent)
        self._calls += calls
        self._bytes += sent.bytes

    def _group(self, inputs: list[tuple[Any, ...]]) -> _Group | None:
        """Sends as many of the inputs as fit a group; None if the first is not for a group."""
        if not self._in_groups:
            return None
        try:
            item = self._function(*inputs[0])
        except Exception:  # it is reported at its place
            return None
        if not self._is_plain(item, inputs[0]):
            self._in_groups = False
            return None
        self._tokens += 1
        sent = self._groups.send(
            self._packer,
            self._pool.packing.function(item),
            inputs,
            pickle.dumps,
            self._beside,
            self._buffers,
            PendingCompute,
            self._tokens,
        )
        if sent is None:
            self._refused += 1
            self._in_groups = self._refused < REFUSED
            return None
        core, calls = sent
        return _Group(core, inputs[:calls], self._tokens, 1)

    def _is_plain(self, item: PendingCompute[Any], args: tuple[Any, ...]) -> bool:
        return (
            item.timeout is None
            and self._pool.packing.timeout is None
            and len(item.args) == len(args)
            and getattr(item.fn, "__skyward_distributed__", None) is None
            and not is_generator(item.fn)
            and not registered_by_value()
        )

    def _singles(self, inputs: list[tuple[Any, ...]]) -> list[_Single]:
        """Sends calls one by one; the error of one that cannot be sent is kept for its place."""
        items: list[PendingCompute[Any]] = []
        failure: Exception | None = None
        try:
            for args in inputs:
                items.append(self._function(*args))
        except Exception as error:  # a call that is written wrongly
            failure = error
        calls: list[Any] = []
        try:
            calls = self._pool.packing.calls(items)
        except Exception:  # one of them cannot be pickled: which?
            for position, item in enumerate(items):
                try:
                    calls += self._pool.packing.calls([item])
                except Exception as error:
                    error.add_note(f"call: {call_text(item)}")
                    failure, items = error, items[:position]
                    break
        if failure is not None:
            self._failure = failure
        if not calls:
            return []
        handles = self._pool.core.submit_many(calls)
        return [_Single(*sent) for sent in zip(items, calls, handles, strict=True)]

    # ------------------------------------------------------------------ answers

    def _wait_single(self, single: _Single, end: float | None) -> None:
        """Sends meanwhile what is withdrawn from groups behind the call."""
        if not self._tokens or single.call.is_stream:
            return
        while not single.handle.wait(STEP_SECONDS):
            self._send_withdrawn()
            if end is not None and time.monotonic() >= end:
                return

    def _results(self, group: _Group, end: float | None) -> Iterator[Any]:
        """What has arrived of the group, which is the first one; waits for something."""
        left = None if end is None else max(0.0, end - time.monotonic())
        if not group.core.wait(left):
            raise TimeoutError(
                f"map(): no answer of {self._function.__name__}() before the overall timeout"
            )
        self._send_withdrawn()
        news = group.core.take(pickle.loads)
        values = news.values
        if values:
            self._pool.tell_lines()
            group.got += len(values)
            self._calls -= len(values)
            given = 0
            for position, outcome in news.strange:  # raises, mostly
                yield from values[given:position]
                yield answer_of(self._function.__name__, group.core.task, outcome)
                given = position + 1
            yield from values[given:] if given else values
        if news.last is not None:
            yield from self._finish(group, news.last, end)

    def _finish(self, group: _Group, outcome: Any, end: float | None) -> Iterator[Any]:
        """`outcome`: of the call that ran last. Those behind it, if any, were not begun."""
        self._send_withdrawn()  # no more news of this group can come
        at, args, left = group.got, group.inputs[group.got], len(group.inputs) - group.got
        self._leave(group, left)
        self._measure(outcome, at + 1)
        # The engine sends a group again unless something of it is here, or was withdrawn.
        begun = at > 0 or len(group.inputs) < group.calls
        failed = outcome.status == "failed" and outcome.error_kind in _LOSSES
        if failed and begun and group.attempt < ATTEMPTS:
            self._send_again(group, at, 0, group.attempt + 1)
            return
        if outcome.status == "ok" or outcome.may_retry:
            self._send_again(group, at + 1, 0)
        if outcome.status == "ok":
            if group.calls > 1 and outcome.size > LARGE_BYTES:  # it has ended its group
                self._in_groups = False
            self._pool.tell_lines()
            yield answer_of(self._function.__name__, group.core.task, outcome)
            return
        item, call = self._function(*args), group.core.call(at)
        yield self._pool.answer(item, call, group.core, end, taken=([None], [(0, outcome)]))

    def _measure(self, outcome: Any, calls: int) -> None:
        if not outcome.run_seconds:  # nothing of it ran
            return
        seconds = outcome.run_seconds / calls
        fitting = (
            int(GROUP_SECONDS / seconds) if seconds > GROUP_SECONDS / GROUP_CALLS else GROUP_CALLS
        )
        self._size = max(1, min(fitting, GROWTH * max(1, self._size)))

    def _leave(self, sent: _Group | _Single, calls: int) -> None:
        """Drops the first one, with its calls that were still counted."""
        self._window.popleft()
        self._calls -= calls
        self._bytes -= sent.bytes

    def _send_withdrawn(self) -> None:
        for token, calls in self._groups.withdrawn():
            for place, sent in enumerate(self._window):
                if isinstance(sent, _Group) and sent.token == token:
                    self._calls -= calls
                    self._send_again(sent, len(sent.inputs) - calls, place + 1)
                    break

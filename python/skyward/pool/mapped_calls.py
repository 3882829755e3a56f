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
ATTEMPTS = 4
"""How often calls are sent again when their machine is lost, as the engine does (kMaxAttempts)."""


class _Group:
    """Calls on their way, or one that travels alone."""

    __slots__ = ("attempt", "bytes", "core", "got", "inputs", "token")

    def __init__(self, core: Any, inputs: list[Any], token: int, attempt: int) -> None:
        self.core = core
        self.inputs = inputs
        self.token = token
        self.attempt = attempt
        self.bytes = core.size
        self.got = 0  # results


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
                yield self._pool.answer(first.item, first.call, first.handle, end)
                self._leave(first, 1)
        finally:
            for sent in window:
                (sent.core if isinstance(sent, _Group) else sent.handle).cancel()

    # ------------------------------------------------------------------ sending

    def _fill(self) -> None:
        while self._failure is None and (room := self._room()):
            inputs: list[tuple[Any, ...]] = []
            try:
                inputs.extend(islice(self._inputs, room))
            except Exception as error:  # of the caller's iterables
                self._failure = error
            if not inputs:
                return
            self._send(inputs)
            if len(inputs) < room:
                return

    def _room(self) -> int:
        """How many more calls may be sent."""
        calls, slots = self._calls, self._pool.core.total_slots
        most = max(AHEAD_CALLS, GROUPS_AHEAD * slots * self._size)
        if calls > most // 2:  # wait until many can be sent together
            return 0
        fill_slots = 2 * slots - calls
        if calls == 0 or (self._in_groups and not self._size):  # their size is not known yet
            return max(fill_slots, 0)
        by_size = (AHEAD_BYTES - self._bytes) * calls // max(self._bytes, 1)
        return max(fill_slots, min(most - calls, by_size), 0)

    def _send(
        self, inputs: list[tuple[Any, ...]], place: int | None = None, again: int = 1
    ) -> None:
        """Sends calls as groups where it can, to the end of the window or to that place in it.
        `again`: how often they have been sent, this time included."""
        at = 0
        while at < len(inputs) and (self._failure is None or place is not None):
            sent = self._group(inputs[at : at + max(1, self._size)], again)
            new: list[_Group | _Single]
            if sent is not None:
                new = [sent]
                at += len(sent.inputs)
            else:
                some = inputs[at : at + 1] if self._in_groups else inputs[at:]
                at += len(some)
                new = self._singles(some)
            for one in new:
                if place is None:
                    self._window.append(one)
                else:
                    self._window.insert(place, one)
                    place += 1
                self._calls += len(one.inputs) if isinstance(one, _Group) else 1
                self._bytes += one.bytes

    def _group(self, inputs: list[tuple[Any, ...]], again: int) -> _Group | None:
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
            return None
        core, calls = sent
        return _Group(core, inputs[:calls], self._tokens, again)

    def _is_plain(self, item: PendingCompute[Any], args: tuple[Any, ...]) -> bool:
        return (
            item.timeout is None
            and self._pool.packing.timeout is None
            and len(item.args) == len(args)
            and getattr(item.fn, "__skyward_distributed__", None) is None
            and not is_generator(item.fn)
            and not registered_by_value()
        )

    def _singles(self, inputs: list[tuple[Any, ...]]) -> list[_Group | _Single]:
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
        args, rest = group.inputs[group.got], group.inputs[group.got + 1 :]
        self._leave(group, 1 + len(rest))
        self._measure(outcome, group.got + 1)
        if group.got and group.attempt < ATTEMPTS and outcome.error_kind in ("lost", "unreachable"):
            # The engine sends a group again unless a part of it is done.
            self._send([args, *rest], 0, group.attempt + 1)
            return
        if outcome.status == "ok" and rest:  # a large result
            self._in_groups = False
        self._send(rest, 0)
        if outcome.status == "ok":
            self._pool.tell_lines()
            yield answer_of(self._function.__name__, group.core.task, outcome)
            return
        item = self._function(*args)
        call = self._pool.packing.calls([item])[0]
        yield self._pool.answer(item, call, group.core, end, taken=([None], [(0, outcome)]))

    def _measure(self, outcome: Any, calls: int) -> None:
        seconds = outcome.run_seconds / calls
        fitting = (
            int(GROUP_SECONDS / seconds) if seconds > GROUP_SECONDS / GROUP_CALLS else GROUP_CALLS
        )
        self._size = max(1, min(fitting, GROWTH * max(1, self._size)))

    def _leave(self, sent: _Group | _Single, calls: int) -> None:
        """The first one is done, but for so many calls that leave with it."""
        self._window.popleft()
        self._calls -= calls
        self._bytes -= sent.bytes

    def _send_withdrawn(self) -> None:
        for token, calls in self._groups.withdrawn():
            for place, sent in enumerate(self._window):
                if isinstance(sent, _Group) and sent.token == token:
                    back = sent.inputs[-calls:]
                    del sent.inputs[-calls:]
                    self._calls -= calls
                    self._send(back, place + 1)
                    break

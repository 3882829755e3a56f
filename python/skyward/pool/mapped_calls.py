"""Calls of one function for many inputs: what ``pool.map()`` sends, or a large ``gather()``, and
how the answers come back.

Quick calls travel in groups (grouped_calls.py)."""

import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from skyward import _core
from skyward.call.pending import PendingCompute
from skyward.call.text import call_text
from skyward.exceptions import NotProvisionedError, TimeoutError
from skyward.pool.drawn_inputs import STEP_SECONDS, DrawnInputs
from skyward.pool.grouped_calls import (
    FIRST_SECONDS,
    GROUP_SECONDS,
    Ended,
    Group,
    GroupedCalls,
    Pace,
    is_plain,
    new_draft,
)
from skyward.pool.quick_trial import patience
from skyward.pool.sent_calls import (
    Failed,
    MappedGroup,
    RefusedCalls,
    RetriedCall,
    SentCall,
    SentCalls,
)
from skyward.pool.task_future import OutcomeFuture
from skyward.transport.forks import renewed
from skyward.transport.shared_arguments import default_limit

AHEAD_CALLS = 1024
AHEAD_BYTES = 64 << 20
"""map() sends ahead of its reader up to this many calls or bytes of arguments, but always enough to
fill the slots. Results that are not read yet may take default_limit()."""
BEHIND_CALLS = 65_536
BEHIND_CALLS_PER_SLOT = 64
"""While a slow call is waited for, further ones are sent up to the larger of these: each takes
about a kilobyte here."""
AHEAD_SECONDS = 0.25
"""Of calls that go alone, map() keeps two per slot in flight, or as many as the pool runs in this
time and two round trips: enough for distant nodes, and not too many when results become large."""
PACKED_TOGETHER = 16
"""Calls that are packed before it looks how large their arguments are."""
LOOK_SECONDS = 0.25
"""How often it looks, while the first answer has not come, how large the results of others are."""
LOOK_REST = 50.0
"""It looks at which calls have ended only after so many times as long as the last look took."""
GROUPS_AHEAD = 4
"""Groups for each slot."""
MOST_GROUPS_AHEAD = 16
"""The same where answers of a gather() travel far: 4 ms of work."""
SLOW_GROUPS = 16
"""After so many groups of slow calls, a gather() sends no more of them."""


class MappedCalls(GroupedCalls):
    """Calls of one function. `pool`: the OpenPool; `make`: makes a call of arguments; `inputs`: the
    arguments.

    With `all_end`, a call that fails ends nothing: its answer is a Failed. A slow one keeps no slot
    idle: then all calls behind it are sent at once, each by itself. One that cannot be sent ends
    all of them, or with `go_past` none. `total`: how many calls there are, where that is known.
    `round_trip`: what the way to the nodes and back takes at most, in seconds."""

    def __init__(
        self,
        pool: Any,
        make: Callable[..., PendingCompute[Any]],
        inputs: DrawnInputs,
        all_end: bool = False,
        total: int = 0,
        round_trip: float = 0.0,
        go_past: bool = False,
    ) -> None:
        super().__init__(go_on=all_end)
        self._patience = patience(FIRST_SECONDS, round_trip)
        self._groups_ahead = min(GROUPS_AHEAD + int(round_trip / GROUP_SECONDS), MOST_GROUPS_AHEAD)
        self._pool = pool
        self._make = make
        self._inputs = inputs
        self._all_end = all_end
        self._go_past = go_past
        self._name = ""
        self._window: deque[SentCalls] = deque()
        self._calls = self._bytes = 0  # of the window
        self._blobs: Counter[int] = Counter()  # calls of the window that share each
        self._result_bytes: float | None = None  # of recent results: the largest, or less
        self._unended: set[SentCalls] = set()  # of the window, as far as is known ...
        self._kept: dict[SentCalls, int] = {}  # ... and the results of the others, in bytes
        self._kept_bytes = 0  # of all of them
        self._next_look = 0.0  # at which calls have ended
        self._run = 0.0  # seconds that recent calls ran
        self._way: float | None = None  # seconds to a node and back: the shortest
        self._timed: tuple[SentCalls, float] | None = None  # a call, and when it was sent
        self._memory = 0  # for results that are not read yet
        self._news = _core.GroupNews()
        self._packer = pool.core.packer()
        self._draft = new_draft()
        self._drafted: list[tuple[Any, ...]] = []  # its inputs
        self._tokens = 0
        self._pace = Pace()
        self._probe: MappedGroup | None = None  # the last group, until it has ended
        self._body: Any = None  # the core's function, of groups
        # Functions stay as they are with the first call; some take long to serialize.
        self._known: dict[int, tuple[Any, int]] = {}
        self._failure: Exception | None = None  # of the call behind the window
        self._total = total
        self._sent = 0
        self._tasks = 0  # of the engine, for the calls that were sent
        self.unsent: int | None = None
        """With `all_end`, the position of the call that could not be sent."""

    def answers(self, end: float | None) -> Generator[Any, None, None]:
        """First None, when the first calls have been sent, and then the answers in order. `end`:
        when to stop waiting, on the monotonic clock.

        A call that cannot be sent raises at its place, after the answers before it."""
        window = self._window
        self._pool.mapped.begin(self)
        try:
            self._fill()
            if not window and self._failure is not None:
                raise self._failure
            yield None
            while True:
                self._fill()
                if self._failure is not None and (self._all_end or not window):
                    raise self._failure
                if not window:
                    return
                first = window[0]
                if self._is_held_up(first, end):
                    continue
                if isinstance(first, MappedGroup):
                    yield from self._results(first, end)
                    continue
                if isinstance(first, RefusedCalls):
                    self._leave(first, first.calls)
                    yield from first.take()
                    continue
                if isinstance(first, RetriedCall):
                    if not first.wait(_left(end)):
                        raise _late(first.item.name)
                    self._leave(first, 1)
                    yield first.take()
                    continue
                self._wait_single(first, end)
                yield self._answer(first.item, first.call, first.handle, end)
                self._leave(first, 1)
        finally:
            try:
                for sent in window:
                    sent.cancel()
            finally:
                window.clear()
                self._total = self._sent
                self._calls = 0
                self._pool.mapped.end(self)

    def beyond_tasks(self) -> tuple[int, int]:
        """How many calls have ended, and how many have not, that the engine does not count: it
        counts a group as one task, and knows nothing of what was not sent."""
        answered = self._sent - self._calls
        ended_tasks = self._tasks - len(self._window)
        return answered - ended_tasks, max(self._total, self._sent) - answered - len(self._window)

    def unfinished(self) -> int:
        """How many of the sent calls have not ended, without those that are counted as futures;
        none of a group that has news. Any thread: wait() would take the news that the reader waits
        for."""
        return sum(sent.running for sent in list(self._window) if not isinstance(sent, RetriedCall))

    # ------------------------------------------------------------------ sending

    def _fill(self) -> None:
        while self._failure is None and not self._inputs.is_dry and (room := self._room()):
            drawn = 0
            for inputs in self._inputs.draw(room):
                drawn += len(inputs)
                self._send(inputs)
                if self._failure is not None:
                    break
            self._send_group()
            if self._failure is None and self._inputs.is_dry:
                self._failure = self._inputs.failure
            # Where drawing takes long, answers do not wait for it.
            if drawn < room and self._window and self._window[0].wait(0):
                return

    def _room(self) -> int:
        """How many more calls may be sent."""
        if self._all_end and not self._pace.in_groups:
            return sys.maxsize
        calls, slots = self._calls, int(self._pool.core.total_slots)
        fill_slots = max(2 * slots - calls, 0)
        is_new = self._pace.in_groups and not self._pace.size  # how large should groups be?
        result_bytes = self._expected_bytes()
        if calls == 0 or is_new or result_bytes is None:
            return fill_slots
        if not self._all_end and not self._pace.is_quick:
            return fill_slots or self._room_alone(slots, result_bytes)
        most = max(AHEAD_CALLS, self._groups_ahead * slots * max(1, self._pace.size))
        if result_bytes * AHEAD_CALLS > AHEAD_BYTES:
            self._memory = self._memory or default_limit()
            most = max(2 * slots, min(most, self._memory // result_bytes))
        if calls > most // 2:  # wait until many can be sent together
            return 0
        return max(fill_slots, min(most - calls, self._fitting_arguments()))

    def _room_alone(self, slots: int, result_bytes: int) -> int:
        """The same for calls that are not quick. Those that have ended keep no slot busy, but their
        arguments and results are kept until they are read."""
        most = max(AHEAD_CALLS, GROUPS_AHEAD * slots)
        if not self._window[0].has_news:  # a slow one: those behind it cannot be read
            most = max(BEHIND_CALLS, BEHIND_CALLS_PER_SLOT * slots)
        if self._calls >= most:
            return 0
        self._look()
        running = len(self._unended)
        room = 2 * slots - running
        if self._run:
            seconds = AHEAD_SECONDS + 2 * (self._way or 0.0)
            ahead = min(AHEAD_CALLS, int(slots * seconds / self._run))
            if running <= ahead // 2:
                room = max(room, min(ahead - running, self._fitting_arguments()))
        self._memory = self._memory or default_limit()
        free = self._memory - self._bytes - self._kept_bytes
        return max(0, min(room, free // max(1, result_bytes) - running, most - self._calls))

    def _fitting_arguments(self) -> int:
        """Calls for which there is room if their arguments are as large as those in the window."""
        return (AHEAD_BYTES - self._bytes) * self._calls // max(self._bytes, 1)

    def _look(self) -> None:
        """Notes which calls have ended."""
        begin = time.monotonic()
        if begin < self._next_look:
            return
        for sent in [one for one in self._unended if not one.running]:
            self._unended.discard(sent)
            self._kept[sent] = size = sent.result_bytes
            self._kept_bytes += size
            self._note_result(sent, size)
            self._note_way(sent)
        end = time.monotonic()
        self._next_look = end + LOOK_REST * (end - begin)

    def _note_way(self, sent: SentCalls) -> None:
        """The call has ended. Seen late, it says too much: the shortest time counts."""
        if self._timed is not None and self._timed[0] is sent:
            took = max(0.0, time.monotonic() - self._timed[1] - sent.run_seconds)
            self._way = took if self._way is None else min(self._way, took)
            self._timed = None

    def _note_result(self, sent: SentCalls, size: int) -> None:
        """Larger than expected counts at once, smaller only slowly."""
        self._run += (sent.run_seconds - self._run) / (8 if self._run else 1)
        known = self._result_bytes
        if known is None or size > known:
            self._result_bytes = size
        else:
            self._result_bytes = known + (size - known) / 8

    def _expected_bytes(self) -> int | None:
        """Of a result that is kept until it is read; None while no call has ended."""
        if self._all_end:  # the caller wants them all
            return 0
        if self._result_bytes is None:
            ended = (sent.result_bytes for sent in self._window if sent.has_news)
            return max(ended, default=None)
        return int(self._result_bytes)

    def _is_held_up(self, first: SentCalls, end: float | None) -> bool:
        """Waits a little for the first answer where more calls may be sent without it. If it does
        not come, the slots get more to do."""
        if self._inputs.is_dry or self._failure is not None:
            return False
        if isinstance(first, SentCall) and first.is_stream:
            return False
        in_groups = self._pace.in_groups
        changes_pace = in_groups and (self._all_end or not self._pace.size)
        is_known = not changes_pace and self._expected_bytes() is not None
        if is_known and self._pace.is_quick:
            return False
        left, limit = _left(end), STEP_SECONDS if is_known else self._patience
        if first.wait(limit if left is None else min(limit, left)):
            self._note_way(first)
            return False
        if end is not None and time.monotonic() >= end:
            return False
        if is_known:  # those behind it may have ended
            self._send_withdrawn()
        elif changes_pace:
            self._pace.in_groups = not self._all_end
            self._pace.size = max(1, self._pace.size)
        else:
            self._patience = min(2 * self._patience, LOOK_SECONDS)
        return True

    def _send(self, inputs: list[tuple[Any, ...]]) -> None:
        """Sends calls, as groups where it can. The last group may wait for more calls."""
        at = 0
        while at < len(inputs) and self._failure is None:
            if at and self._has_too_much():
                self._inputs.put_back(inputs[at:])
                return
            try:
                if taken := self._draft_some(inputs, at):
                    at += taken
                    continue
                if self._drafted:
                    self._send_group()
                    continue
                together = len(inputs) if self._all_end else PACKED_TOGETHER
                some = inputs[at : at + (1 if self._pace.in_groups else together)]
                self._send_singles(some)
            except NotProvisionedError as reason:
                self._enter_refused(len(inputs) - at, reason)
                return
            at += len(some)

    def _has_too_much(self) -> bool:
        """Whether arguments are larger than was expected when room was made for them."""
        if self._bytes <= AHEAD_BYTES or self._all_end or not self._inputs.may_put_back:
            return False
        return self._calls >= 2 * int(self._pool.core.total_slots)

    def _packer_now(self) -> Any:
        return self._packer

    def _place(self, group: Group, behind: Group | None) -> None:
        self._enter_group(group, self._position_behind(behind))

    def _refuse(
        self, _: Group, calls: list[Any], reason: NotProvisionedError, behind: Group | None
    ) -> None:
        self._enter_refused(len(calls), reason, self._position_behind(behind))

    def _position_behind(self, group: Group | None) -> int:
        if group is None:
            return 0
        assert isinstance(group, MappedGroup)
        return self._window.index(group) + 1

    def _enter_refused(
        self, calls: int, reason: NotProvisionedError, place: int | None = None
    ) -> None:
        """For so many calls that the pool no longer takes."""
        if not self._all_end:
            raise reason
        self._enter(RefusedCalls(calls, reason), calls, place)

    def _enter_group(self, group: Group, place: int | None = None) -> None:
        assert isinstance(group, MappedGroup)
        self._tokens += 1
        group.token = self._tokens
        self._news.watch(group.core, group.token)
        self._enter(group, len(group.calls), place)

    def _enter(self, sent: SentCalls, calls: int, place: int | None = None) -> None:
        if place is None:
            self._window.append(sent)
            self._sent += calls
        else:
            self._window.insert(place, sent)
        self._tasks += 1
        self._unended.add(sent)
        self._calls += calls
        self._bytes += sent.bytes
        for blob, size in sent.blobs.items():
            self._bytes += 0 if self._blobs[blob] else size
            self._blobs[blob] += 1

    def _draft_some(self, inputs: list[tuple[Any, ...]], at: int) -> int:
        """Adds inputs to the next group, and sends it when it is full. Returns how many: none if
        the first of them is not for this group."""
        before = len(self._drafted)
        if before == 0 and not self._begin_group(inputs[at]):
            return 0
        self._draft.add_all(inputs[at : at + max(1, self._pace.size) - before])
        taken: int = self._draft.calls - before
        self._drafted += inputs[at : at + taken]
        if taken == before == 0:
            self._pace.refuse()
            self._pace.in_groups &= not self._all_end
        if taken > 0:
            self._pace.refused = 0
            if len(self._drafted) >= self._pace.size:
                self._send_group()
        return taken

    def _begin_group(self, first: tuple[Any, ...]) -> bool:
        """False: its first call is not for a group."""
        if not self._pace.in_groups:
            return False
        try:
            item = self._make(*first)
        except Exception:  # it is reported at its place
            return False
        self._name = item.name
        if len(item.args) != len(first) or not is_plain(self._pool, item):
            self._pace.in_groups = False
            return False
        # Those of a group are retried in their turn, which only slow calls would notice. Whether
        # they are slow, one group of one call at a time finds out.
        if item.retries and self._pace.size < 2 and self._probe is not None:
            return False
        if id(item.fn) not in self._known:
            self._known[id(item.fn)] = (self._pool.packing.function(item, again=False), 0)
        self._body, _ = self._known[id(item.fn)]
        return True

    def _send_group(self) -> None:
        calls, self._drafted = self._drafted, []
        if not calls:
            return
        try:
            (core,) = self._draft.send(self._packer, self._body, len(calls))
        except NotProvisionedError as reason:
            self._enter_refused(len(calls), reason)
            return
        self._probe = MappedGroup(core, calls, self._pace, news=self._news)
        self._enter_group(self._probe)

    def _send_singles(self, inputs: list[tuple[Any, ...]]) -> None:
        """Sends calls one by one; the error of one that cannot be sent is kept for its place."""
        items: list[PendingCompute[Any]] = []
        failure: Exception | None = None
        try:
            for args in inputs:
                items.append(self._make(*args))
        except Exception as error:  # a call that is written wrongly
            failure = error
        try:
            calls = self._pool.packing.calls(items, known=self._known)
            handles = self._pool.core.submit_many(calls) if calls else []
        except NotProvisionedError:
            raise
        except Exception:  # one of them cannot be sent: which?
            self._send_each(items)
        else:
            self._enter_singles(items, calls, handles)
        if self._failure is None:
            self._failure = failure

    def _send_each(self, items: list[PendingCompute[Any]]) -> None:
        for position, item in enumerate(items):
            try:
                calls = self._pool.packing.calls([item], known=self._known)
                handles = self._pool.core.submit_many(calls)
            except NotProvisionedError as reason:
                self._enter_refused(len(items) - position, reason)
                return
            except Exception as error:
                if self._go_past:
                    self._enter(RefusedCalls(1, error.with_traceback(None)), 1)
                    continue
                if self._all_end:
                    self.unsent = self._sent
                else:
                    error.add_note(f"call: {call_text(item)}")
                self._failure = error
                return
            self._enter_singles([item], calls, handles)

    def _enter_singles(
        self, items: list[PendingCompute[Any]], calls: list[Any], handles: list[Any]
    ) -> None:
        """They have been sent."""
        if not calls:
            return
        try:
            retried = items[0].retries and not calls[0].is_stream
            sent: Iterable[SentCalls]
            # In a done callback, the reader keeps answers from coming, and retries calls itself.
            if retried and not self._pool.answers.is_here():
                self._pool.answers.start()
                futures = self._pool.futures_of(items, calls, handles, OutcomeFuture)
                sent = map(RetriedCall, items, calls, futures)
            else:
                sent = map(SentCall, items, calls, handles)
            for one in sent:
                self._enter(one, 1)
            if self._timed is None:
                self._timed = self._window[-len(calls)], time.monotonic()
        except BaseException:  # Ctrl-C: some are in the window, and some are not
            for handle in handles:
                handle.cancel()
            raise

    # ------------------------------------------------------------------ answers

    def _wait_single(self, single: SentCall, end: float | None) -> None:
        """Sends meanwhile what is withdrawn from groups behind the call."""
        if not self._tokens or single.is_stream:
            return
        while not single.wait(STEP_SECONDS):
            self._send_withdrawn()
            if end is not None and time.monotonic() >= end:
                return

    def _results(self, group: MappedGroup, end: float | None) -> Iterator[Any]:
        """What has arrived of the group, which is the first one; waits for something."""
        if not group.wait(_left(end)):
            raise _late(self._name)
        for calls, results in self._arrived(group):
            self._pool.tell_lines()
            if not isinstance(results, Ended):
                yield from results
                continue
            item, call = self._make(*calls[0]), results.core.call(results.place)
            taken = ([None], [(0, results.outcome)])
            yield self._answer(item, call, results.core, end, taken)

    def _uncount(self, calls: int) -> None:
        self._calls -= calls

    def _note_end(self, group: Group) -> None:
        assert isinstance(group, MappedGroup)
        if group is self._probe:
            self._probe = None
        self._leave(group, len(group.calls) - group.got)
        self._pace.in_groups &= not (self._all_end and self._pace.slow >= SLOW_GROUPS)

    def _answer(
        self,
        item: PendingCompute[Any],
        call: Any,
        handle: Any,
        end: float | None,
        taken: Any = None,
    ) -> Any:
        try:
            return self._pool.answer(item, call, handle, end, taken, noted=not self._all_end)
        except Exception as error:
            if self._all_end:
                return Failed(error)
            raise

    def _leave(self, sent: SentCalls, calls: int) -> None:
        """Drops the first one, with its calls that were still counted."""
        self._window.popleft()
        self._calls -= calls
        self._bytes -= sent.bytes
        for blob, size in sent.blobs.items():
            self._blobs[blob] -= 1
            if not self._blobs[blob]:
                del self._blobs[blob]
                self._bytes -= size
        if sent in self._unended:
            self._unended.discard(sent)
            self._note_result(sent, sent.result_bytes)
        else:
            self._kept_bytes -= self._kept.pop(sent)

    def _send_withdrawn(self, _: Group | None = None) -> None:
        """Of all groups: the slots are to be kept busy."""
        for token in self._news.withdrawn():
            for sent in self._window:
                if isinstance(sent, MappedGroup) and sent.token == token:
                    super()._send_withdrawn(sent)
                    break


def _left(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())


def _late(name: str) -> TimeoutError:
    return TimeoutError(f"map(): {name}() did not answer within the overall timeout")


def wait_until(end: float, handle: Any, name: str) -> None:
    if not handle.wait(_left(end)):
        raise _late(name)


class Mapped:
    """The MappedCalls of a pool: what the engine's count of tasks lacks."""

    def __init__(self) -> None:
        # Of a garbage collection, too, which may end a dropped generator anywhere.
        self._lock = renewed(threading.RLock())
        self._now: set[MappedCalls] = set()
        self._ended = 0

    def begin(self, calls: MappedCalls) -> None:
        with self._lock:
            self._now.add(calls)

    def end(self, calls: MappedCalls) -> None:
        done = calls.beyond_tasks()[0]
        with self._lock:
            self._now.discard(calls)
            self._ended += done

    def beyond_tasks(self) -> tuple[int, int]:
        with self._lock:
            now, ended = list(self._now), self._ended
        counts = [calls.beyond_tasks() for calls in now]
        return ended + sum(done for done, _ in counts), sum(left for _, left in counts)

    def unfinished(self) -> int:
        with self._lock:
            now = list(self._now)
        return sum(calls.unfinished() for calls in now)

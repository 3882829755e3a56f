"""Groups of quick calls (skyward/wire/group.h): how large they are, and what arrives of them, by
call.

The engine sees one task, and the results arrive one by one all the same. A group is as large as
what its function takes suggests, so a function that takes long is sent call by call. A call that
fails ends its group, and those behind it are sent again; so are those that wait behind a slow
one."""

import pickle
import weakref
from collections.abc import Iterator
from typing import Any

from skyward.call.by_value import plain_dumps, registered_by_value
from skyward.call.function import is_generator
from skyward.call.pending import PendingCompute
from skyward.exceptions import NotProvisionedError
from skyward.transport import serialize

GROUP_SECONDS = 250e-6
"""How long a group should run."""
GROUP_CALLS = 512  # kMaxGroupCalls
GROWTH = 4
"""A group is at most so much larger than the last one."""
GROUPED_BYTES = 2000  # kMaxGatheredBytes
"""Larger arguments make no group, and results from about that size on end theirs."""
REFUSED = 16
"""So many calls in a row that are not for a group, or that end theirs by a large result, and all go
alone: they take longer this way."""
BETWEEN = 64
"""With so many small results between them, large ones are not in a row: sending the calls behind
each again costs less than groups save."""
FIRST_SECONDS = 0.01
"""While a first answer takes longer, calls are sent one by one, so that all slots get some."""
ATTEMPTS = 4
"""How often calls are sent again when their machine is lost, as the engine does (kMaxAttempts)."""

_LOSSES = ("lost", "unreachable")


class Pace:
    """How many calls of one function make a group, by what the last one took."""

    __slots__ = ("in_groups", "large", "refused", "seconds", "size", "slow", "small", "tried")

    def __init__(self) -> None:
        self.size = 0  # calls of the next group; 0: no call has ended yet
        self.seconds = 0.0  # that each call of the last group took
        self.slow = 0  # groups in a row of calls that take too long for groups
        self.refused = 0  # calls in a row that are not for a group
        self.large = 0  # large results in a row
        self.small = 0  # other results since the last of them
        self.tried = 0  # calls that were made before one had ended
        self.in_groups = True

    @property
    def is_quick(self) -> bool:
        return self.in_groups and self.size > 1

    def refuse(self) -> None:
        """A call is not for a group. After some, all go alone."""
        self.refused += 1
        self.in_groups &= self.refused < REFUSED

    def note_results(self, small: int, ended_by_large: bool) -> None:
        """Of one group."""
        self.small += small
        if ended_by_large:
            self.large = 1 if self.small >= BETWEEN else self.large + 1
            self.small = 0
            self.in_groups &= self.large < REFUSED

    def measure(self, outcome: Any, calls: int) -> None:
        if not outcome.run_seconds:  # nothing of it ran
            return
        seconds = self.seconds = outcome.run_seconds / calls
        fitting = (
            int(GROUP_SECONDS / seconds) if seconds > GROUP_SECONDS / GROUP_CALLS else GROUP_CALLS
        )
        self.size = max(1, min(fitting, GROWTH * max(1, self.size)))
        self.slow = self.slow + 1 if fitting < 2 else 0


class Paces:
    """Of the functions of one sender. Any thread."""

    def __init__(self) -> None:
        self._paces: weakref.WeakKeyDictionary[Any, Pace] = weakref.WeakKeyDictionary()

    def of(self, pool: Any, item: PendingCompute[Any]) -> Pace | None:
        """Of the call's function; None if the call does not travel in groups on the open pool."""
        if item.kwargs or item.retries or not is_plain(pool, item):
            return None
        try:
            pace = self._paces.get(item.fn) or self._paces.setdefault(item.fn, Pace())
        except Exception:  # of a callable that is not hashable, or whose __eq__ fails
            return None
        return pace if pace.in_groups else None


class Group:
    """Calls that were sent together. `calls`: whatever the sender calls them by."""

    __slots__ = ("attempt", "bytes", "calls", "core", "got", "pace", "sent", "token")

    def __init__(self, core: Any, calls: list[Any], pace: Pace, attempt: int = 1) -> None:
        self.core = core
        self.calls = calls  # those that have not come back
        self.pace = pace
        self.attempt = attempt
        self.bytes = core.size
        self.sent = len(calls)
        self.got = 0  # results
        self.token = 0

    @property
    def result_bytes(self) -> int:
        """Of each of its calls, as far as that is known."""
        return int(self.core.result_bytes) // max(1, len(self.calls))

    def again(self, core: Any, calls: list[Any], attempt: int) -> "Group":
        """Some of its calls, sent once more."""
        return Group(core, calls, self.pace, attempt)

    def cancel(self) -> None:
        self.core.cancel()


class Ended:
    """The outcome of a grouped call without a small, plainly picklable result."""

    __slots__ = ("core", "outcome", "place")

    def __init__(self, outcome: Any, core: Any, place: int) -> None:
        self.outcome = outcome
        self.core = core
        self.place = place


class GroupedCalls:
    """Reports how each call of a group ended. Calls without an answer when their group has
    ended, or that have come back from it, are sent again.

    `go_on`: those behind a failed call are, too."""

    def __init__(self, go_on: bool) -> None:
        self._go_on = go_on

    def _packer_now(self) -> Any:
        raise NotImplementedError

    def _is_wanted(self, _call: Any, _group: Group) -> bool:
        """Whether anybody waits for this call of the group."""
        return True

    def _place(self, group: Group, behind: Group | None) -> None:
        """Its calls have been sent again. They come behind those of that group, or first."""
        raise NotImplementedError

    def _refuse(
        self, group: Group, calls: list[Any], reason: NotProvisionedError, behind: Group | None
    ) -> None:
        """The same for calls of a group that the pool no longer takes."""
        raise NotImplementedError

    def _uncount(self, calls: int) -> None:
        """So many calls of a group have their results, or have come back from it."""

    def _note_end(self, group: Group) -> None:
        """It will have no more news."""

    def _send_withdrawn(self, group: Group) -> None:
        """Sends the calls again that have come back from the group."""
        if calls := group.core.take_withdrawn():
            self._uncount(calls)
            self._send_again(group, len(group.calls) - calls, group)

    def _send_again(self, group: Group, first: int, behind: Group | None, attempt: int = 1) -> None:
        """Sends the calls of the group from that one on as groups of their own."""
        calls = group.calls
        places = [at for at in range(first, len(calls)) if self._is_wanted(calls[at], group)]
        size = max(1, group.pace.size)
        for at in range(0, len(places), size):
            some = places[at : at + size]
            try:
                core = group.core.send_again(self._packer_now(), some)
            except NotProvisionedError as reason:
                self._refuse(group, [calls[place] for place in places[at:]], reason, behind)
                break
            sent = group.again(core, [calls[place] for place in some], attempt)
            self._place(sent, behind)
            behind = sent
        del calls[first:]

    def _arrived(self, group: Group) -> Iterator[tuple[list[Any], "list[Any] | Ended"]]:
        """What has arrived of the group: calls with their results, or one call and how it ended."""
        news = group.core.take(pickle.loads)
        values, first = news.values, group.got
        group.got = first + len(values)
        self._uncount(len(values))
        self._send_withdrawn(group)
        calls = group.calls[first : group.got]
        failed = [] if news.last is None else self._end(group, news.last, news.is_last_loaded)
        given = 0
        for position, outcome in news.strange:
            if given < position:
                yield calls[given:position], values[given:position]
            yield [calls[position]], Ended(outcome, group.core, first + position)
            given = position + 1
        if given < len(values):
            yield (calls[given:], values[given:]) if given else (calls, values)
        yield from failed

    def _end(self, group: Group, outcome: Any, is_loaded: bool) -> list[tuple[list[Any], Ended]]:
        """`outcome`: of the call that ran last; whether its result is among the others. Those
        behind it, if any, were not begun."""
        at, rest = group.got, group.calls[group.got :]
        group.pace.measure(outcome, at if is_loaded else at + 1)
        self._note_end(group)
        # The engine sends a group again unless something of it is here, or was withdrawn.
        begun = at > 0 or len(group.calls) < group.sent
        failed = outcome.status == "failed" and outcome.error_kind in _LOSSES
        if failed and begun and group.attempt < ATTEMPTS:
            self._send_again(group, at, None, group.attempt + 1)
            return []
        if not outcome.begun:
            return [
                ([call], Ended(outcome, group.core, place)) for place, call in enumerate(rest, at)
            ]
        is_large = outcome.status == "ok" and group.sent > 1 and outcome.size > GROUPED_BYTES
        group.pace.note_results(at, is_large)
        ended = [] if is_loaded else [(rest[:1], Ended(outcome, group.core, at))]
        if outcome.status == "ok" or outcome.may_retry or self._go_on:
            self._send_again(group, at + len(ended), None)
        return ended


def new_draft() -> Any:
    """A group to be filled, of the core."""
    from skyward import _core  # nodes have no extension, and may import the executor

    beside, buffers = serialize.collector()
    return _core.GroupDraft(plain_dumps, beside, buffers, PendingCompute)


def is_plain(pool: Any, item: PendingCompute[Any]) -> bool:
    """Whether calls of this function can travel in groups on the open pool."""
    return (
        item.timeout is None
        and pool.packing.timeout is None
        and not pool.collect_tasks
        and getattr(item.fn, "__skyward_distributed__", None) is None
        and not is_generator(item.fn)
        and not registered_by_value()
    )

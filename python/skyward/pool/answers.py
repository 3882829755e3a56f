"""The thread that completes futures."""

import contextlib
import os
import pickle
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from skyward import _core
from skyward.call.pending import PendingCompute
from skyward.exceptions import CancelledError, NotProvisionedError
from skyward.pool.answer import bring_answers, settle
from skyward.pool.grouped_calls import Ended, Group, GroupedCalls, Pace
from skyward.pool.outcome import answer_of, may_retry, note_attempts
from skyward.pool.stream import TaskStream, cancel
from skyward.transport.forks import renewed

CLOSE_SECONDS = 10.0
"""How long closing waits for an answer that is being handed over."""


TOGETHER = 16
"""Results that are taken at once, before the first of them is handed over."""


class Sender(Protocol):
    """The open pool: what sends a call again."""

    core: Any

    def tell_retry(
        self, item: PendingCompute[Any], error: Exception, instance_id: str, left: int, /
    ) -> None: ...
    def tell_lines(self) -> None: ...


class Receiver(Protocol):
    """What gets the answer of a call: a TaskFuture, or an executor."""

    handle: Any
    keeps_outcome: bool
    """Its result is the Outcome of a call that has succeeded, as it came."""

    def cancelled(self) -> bool: ...
    def done(self) -> bool: ...
    def send_again(self, send: Callable[[], Any], /) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def fail(self, item: PendingCompute[Any], error: BaseException, /) -> None: ...


class Origin(Protocol):
    """What has sent calls in groups: it gets their answers, by what it calls the calls."""

    def is_wanted(self, call: Any, /) -> bool: ...
    def note_place(self, group: "AnsweredGroup", /) -> None: ...
    def settle(self, calls: list[Any], results: list[Any], /) -> None: ...
    def fail(self, call: Any, error: BaseException, /) -> None: ...


_Entry = tuple[PendingCompute[Any], Any, Receiver, int]  # with its call, if it may be retried


class AnsweredGroup(Group):
    """A group whose answers are handed over as they come."""

    __slots__ = ("cancelled", "name", "origin")

    def __init__(
        self,
        core: Any,
        calls: list[Any],
        pace: Pace,
        attempt: int = 1,
        *,
        name: str,
        origin: Origin,
    ) -> None:
        super().__init__(core, calls, pace, attempt)
        self.name = name
        self.origin = origin
        self.cancelled = 0  # calls that are not wanted any more

    def again(self, core: Any, calls: list[Any], attempt: int) -> "AnsweredGroup":
        return AnsweredGroup(core, calls, self.pace, attempt, name=self.name, origin=self.origin)

    def left(self) -> list[Any]:
        """The calls without an answer."""
        return self.calls[self.got :]

    def note_cancelled(self) -> None:
        """One more of its calls is not wanted any more."""
        self.cancelled += 1
        self.stop_if_unwanted()

    def stop_if_unwanted(self) -> None:
        """Stops what runs, if nobody waits for any of the calls that are left. A call that takes
        long is soon the only one: those behind it are sent again."""
        if self.cancelled < len(self.calls) - self.got:
            return
        if not any(map(self.origin.is_wanted, self.left())):
            cancel(self.core)


def _close_here(completions: Any, process: int, _: Any) -> None:
    if os.getpid() == process:  # in a forked child, its lock may be held for ever
        completions.close()


class Answers(GroupedCalls):
    """Hands over answers from one thread, which starts with the first one that is waited for."""

    def __init__(self, pool: Sender) -> None:
        super().__init__(go_on=True)
        self.reference = weakref.ref(self)  # the same for all futures
        self._completions = completions = _core.Completions()
        # No cycle: a dropped pool frees its data at once, and ends the thread.
        self._pool = weakref.ref(pool, partial(_close_here, completions, os.getpid()))
        self._lock = renewed(threading.RLock())  # a handler of a signal may send calls
        self._threads: list[threading.Thread] = []  # that have begun: the first one hands over
        self._is_starting = False
        self._has_ended = False
        self._watched: dict[int, _Entry] = {}
        self._groups: dict[int, AnsweredGroup] = {}
        self._last = 0
        self._sent_calls = self._sent_groups = 0

    def watch(
        self,
        items: Sequence[PendingCompute[Any]],
        calls: Sequence[Any],
        receivers: Sequence[Receiver],
    ) -> None:
        entries: list[_Entry] = []
        for item, call, receiver in zip(items, calls, receivers, strict=True):
            if call.is_stream:
                receiver.set_result(TaskStream(receiver.handle, item.name))
            else:
                entries.append((item, call if item.retries else None, receiver, item.retries))
        self._add(entries)

    def send_draft(
        self,
        draft: Any,
        function: Any,
        name: str,
        calls: list[Any],
        pace: Pace,
        origin: Origin,
        places: list[int] | None = None,
    ) -> None:
        """Sends those of its calls, or all, as groups of the size that suits the function. `name`:
        of the function; `calls`: what `origin`, which gets the answers, calls those that it has."""
        self.start()
        groups = draft.send(self._packer_now(), function, max(1, pace.size), places)
        if places is not None:
            calls = [calls[place] for place in places]
        at = 0
        try:
            for core in groups:
                some = calls[at : at + core.calls]
                at += core.calls
                group = AnsweredGroup(core, some, pace, name=name, origin=origin)
                self._watch_group(group, len(some))
        except BaseException:  # Ctrl-C: nobody may read the answers
            for core in groups:
                cancel(core)
            raise

    def stop_groups(self, origin: Origin) -> None:
        """Stops what runs for an origin that waits for no answer."""
        with self._lock:
            groups = list(self._groups.values())
        for group in groups:
            if group.origin is origin:
                cancel(group.core)

    def unfinished(self) -> int:
        """How many calls have neither an answer nor been cancelled."""
        with self._lock:
            watched, groups = list(self._watched.values()), list(self._groups.values())
        count = sum(not receiver.done() for _, _, receiver, _ in watched)
        return count + sum(sum(map(group.origin.is_wanted, group.left())) for group in groups)

    def beyond_tasks(self) -> tuple[int, int]:
        """How many calls have ended, and how many have not, that the engine does not count: it
        counts a group as one task."""
        with self._lock:
            groups = list(self._groups.values())
            sent_calls, sent_groups = self._sent_calls, self._sent_groups
        left = sum(len(group.calls) - group.got for group in groups)
        return sent_calls - left - (sent_groups - len(groups)), left - len(groups)

    def is_here(self) -> bool:
        """Whether this is the thread of answers: it must wait for none."""
        return self._threads[:1] == [threading.current_thread()]

    def close(self) -> None:
        self._completions.close()
        if self._threads and not self.is_here():
            self._threads[0].join(CLOSE_SECONDS)

    def _add(self, entries: list[_Entry]) -> None:
        handles = [receiver.handle for _, _, receiver, _ in entries]
        count = len(handles)
        with self._lock:
            first = self._last + 1  # no call up to the next line: no signal is handled there
            self._last += count
            self._watched.update(enumerate(entries, first))
        self._completions.watch_all(handles, first)
        self._hand_over_late()

    def start(self) -> None:
        """Before anything is sent: without its thread, there would be no answers."""
        with self._lock:
            if self._threads or self._is_starting:  # in the latter case a signal's handler is here
                return
            self._is_starting = True
            try:
                thread = threading.Thread(target=self._work, name="skyward-answers", daemon=True)
                thread.start()
                self._threads.append(thread)
            finally:
                self._is_starting = False

    def _work(self) -> None:
        self._threads.append(threading.current_thread())
        if not self.is_here():  # Ctrl-C had kept start() from noting the other one
            return
        bring_answers(self.reference)
        while tokens := self._completions.next():
            self._hand_over(tokens)
        self._has_ended = True
        self._hand_over_late()

    def _hand_over_late(self) -> None:
        """Of calls that were watched when their pool had closed: they have ended."""
        if self._has_ended:
            self._hand_over(self._completions.next())

    def _hand_over(self, tokens: list[int]) -> None:
        if self._sent_groups:
            tokens = self._answer_groups(tokens)
        for at in range(0, len(tokens), TOGETHER):
            # No local names here: this frame may wait for long.
            self._finish_all(self._take(tokens[at : at + TOGETHER]))

    def _answer_groups(self, tokens: list[int]) -> list[int]:
        """Hands over what has arrived of groups. Returns the tokens of the others."""
        others = []
        for token in dict.fromkeys(tokens):
            if (group := self._groups.get(token)) is not None:
                self._answer_group(group)
            elif token in self._watched:
                others.append(token)
        return others

    def _answer_group(self, group: AnsweredGroup) -> None:
        pool, origin = self._pool(), group.origin
        try:
            for calls, results in self._arrived(group):
                if pool is not None:
                    pool.tell_lines()
                if isinstance(results, Ended):
                    self._settle_ended(group, calls[0], results)
                else:
                    origin.settle(calls, results)
        except BaseException as error:
            self._note_end(group)
            for call in group.calls:
                if origin.is_wanted(call):
                    origin.fail(call, error)
            return
        if group.cancelled:
            group.stop_if_unwanted()

    def _settle_ended(self, group: AnsweredGroup, call: Any, ended: Ended) -> None:
        try:
            result = answer_of(group.name, ended.core.task, ended.outcome)
        except BaseException as error:
            group.origin.fail(call, error)
        else:
            group.origin.settle([call], [result])

    # ------------------------------------------------------------------ of groups

    def _packer_now(self) -> Any:
        """Not kept: it keeps the pool's core."""
        pool = self._pool()
        if pool is None:
            raise NotProvisionedError("the pool is closed")
        return pool.core.packer()

    def _is_wanted(self, call: Any, group: Group) -> bool:
        assert isinstance(group, AnsweredGroup)
        return group.origin.is_wanted(call)

    def _place(self, group: Group, _: Group | None) -> None:
        assert isinstance(group, AnsweredGroup)
        self._watch_group(group, 0)
        # Another thread may count some of them just now, too. Too many only make it look once more.
        unwanted = sum(not group.origin.is_wanted(call) for call in group.calls)
        group.cancelled += unwanted
        if unwanted:
            group.stop_if_unwanted()

    def _watch_group(self, group: AnsweredGroup, new: int) -> None:
        """`new`: calls of it that were not sent before."""
        with self._lock:
            self._last += 1
            group.token = self._last
            self._groups[group.token] = group
            self._sent_calls += new
            self._sent_groups += 1
        group.origin.note_place(group)
        self._completions.watch_group(group.core, group.token)
        self._hand_over_late()

    def _refuse(
        self, group: Group, calls: list[Any], _reason: NotProvisionedError, _: Group | None
    ) -> None:
        assert isinstance(group, AnsweredGroup)
        for call in calls:
            group.origin.fail(call, CancelledError("the pool was closed"))

    def _note_end(self, group: Group) -> None:
        with self._lock:
            self._groups.pop(group.token, None)

    # ------------------------------------------------------------------ of single calls

    def _take(self, tokens: list[int]) -> list[_Entry]:
        with self._lock:
            return [self._watched.pop(token) for token in tokens]

    def _finish_all(self, entries: list[_Entry]) -> None:
        entries = [entry for entry in entries if not entry[2].cancelled()]
        pool = self._pool()
        if kept := [entry for entry in entries if entry[2].keeps_outcome]:
            self._keep_all(pool, kept)
            entries = [entry for entry in entries if not entry[2].keeps_outcome]
        try:
            results, others = _core.take_results(
                [receiver.handle for _, _, receiver, _ in entries], pickle.loads
            )
        except BaseException as error:
            for item, _, receiver, _ in entries:
                settle(receiver.fail, item, error)
            return
        failed = dict(others)
        if pool is not None:
            pool.tell_lines()
        for place, entry in enumerate(entries):
            if place in failed:
                self._finish(pool, failed.pop(place), *entry)
                continue
            result, results[place] = [results[place]], None
            settle(entry[2].set_result, result.pop())  # keep no reference to it

    def _keep_all(self, pool: Sender | None, entries: list[_Entry]) -> None:
        outcomes = [entry[2].handle.take() for entry in entries]
        if pool is not None:
            pool.tell_lines()
        for entry, outcome in zip(entries, outcomes, strict=True):
            if outcome.status == "ok":
                settle(entry[2].set_result, outcome)
            else:
                self._finish(pool, outcome, *entry)

    def _finish(
        self,
        pool: Sender | None,
        outcome: Any,
        item: PendingCompute[Any],
        call: Any,
        receiver: Receiver,
        retries: int,
    ) -> None:
        try:
            try:
                result = answer_of(item.name, receiver.handle.task, outcome)
            except Exception as error:
                if pool is None or not retries or not may_retry(outcome, error):
                    raise
                with contextlib.suppress(NotProvisionedError):  # the pool closes: it stays failed
                    if receiver.send_again(partial(pool.core.submit, call)):
                        self._add([(item, call, receiver, retries - 1)])
                        with contextlib.suppress(Exception):  # it runs, and must not fail here
                            pool.tell_retry(item, error, outcome.instance_id, retries)
                    return
                raise
        except BaseException as error:
            note_attempts(error, item.retries, retries)
            settle(receiver.fail, item, error)
        else:
            settle(receiver.set_result, result)

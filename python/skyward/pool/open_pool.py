"""A pool while it is open: its calls, from the request to the answer."""

import atexit
import contextlib
import os
import pickle
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from skyward import _core
from skyward.call.answers import AwaitableFuture
from skyward.call.by_value import plain_dumps
from skyward.call.function import ComputeFunction
from skyward.call.pending import PendingCompute
from skyward.call.text import call_text, note_position
from skyward.exceptions import NotProvisionedError
from skyward.pool.answers import Answers, Origin, Receiver
from skyward.pool.drawn_inputs import DrawnInputs, keeps_its_items
from skyward.pool.grouped_calls import Pace, new_draft
from skyward.pool.machines import Machines
from skyward.pool.mapped_calls import Mapped, MappedCalls, wait_until
from skyward.pool.outcome import answer_of, may_retry, note_attempts, summary_of
from skyward.pool.packing import Packing
from skyward.pool.quick_trial import TRIED_CALLS, are_quick, maker_of
from skyward.pool.restarts import run_together
from skyward.pool.sent_calls import Failed
from skyward.pool.stream import TaskStream
from skyward.pool.task_future import TaskFuture, tell_unread
from skyward.transport import serialize
from skyward.transport.forks import renewed
from skyward.transport.shared_arguments import SharedArguments

SENT_TOGETHER = 512
"""Calls that a batch sends at once, while it prepares the others."""
LINES_GRACE_SECONDS = 0.02
"""How long an answer waits for handlers to receive what its task wrote; once, while they lag."""


class OpenPool:
    """Made while the machines start: importing this takes as long as their workers need."""

    def __init__(self, machines: Machines, timeout: float | None = None) -> None:
        """`timeout`: for calls without one."""
        self.core = machines.core
        self.tell = machines.tell
        self.collect_tasks = machines.collect_tasks
        self._machines = machines
        self.packing = Packing(self.core, self.tell, machines.workers, timeout)
        self.mapped = Mapped()
        self.answers = Answers(self)
        self._awaited: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._awaited_lock = renewed(threading.RLock())  # each loop has a thread of its own
        _open_pools.add(self)
        _close_with_multiprocessing()

    def close(self, tell: bool = True) -> None:
        """Cancels running tasks, releases all machines, and returns when all events have been
        delivered. Raises MachinesLeftError then, if some machines may still run. `tell`: warns
        about futures without an answer."""
        if not self.core.is_ours:  # a forked child: the pool is its parent's
            return
        # Whatever is raised on the way, by Ctrl-C too: the machines first, then the rest.
        try:
            for awaited in self._awaited_calls():
                awaited.flush()
            if tell and (count := self.answers.unfinished() + self.mapped.unfinished()):
                self.tell(_cancelled_text(count))
        finally:
            try:
                self.core.close()
            finally:
                with contextlib.ExitStack() as ends:
                    ends.callback(_open_pools.discard, self)
                    ends.callback(self._machines.join_events)
                    ends.callback(self.packing.read_only.close)
                    self.answers.close()

    def waits_for_this_thread(self) -> bool:
        """Whether close() in another thread waits for this one."""
        return self.answers.is_here() or self._machines.is_event_thread()

    def counts(self) -> tuple[int, int, int]:
        """Calls that are done, that run, and that wait for a slot."""
        sent, left = self.core.task_counts()
        done = sent - left
        for more_done, more_left in (self.mapped.beyond_tasks(), self.answers.beyond_tasks()):
            done, left = done + more_done, left + more_left
        left += sum(awaited.waiting() for awaited in self._awaited_calls())
        running = min(left, self.core.total_slots)
        return max(0, done), running, left - running

    def run(self, pending: PendingCompute[Any]) -> Any:
        """run_all() of one call, and the short way for most of them."""
        packing = self.packing
        if pending.retries or (function := packing.plain_function(pending)) is None:
            return self.run_all([pending])[0]
        reference = packing.read_only.for_calls()
        beside, buffers = serialize.collector(reference)
        taken = self.core.run(
            function,
            (pending.args, pending.kwargs),
            packing.limit_of(pending),
            plain_dumps,
            beside,
            buffers,
            pickle.loads,
        )
        if len(taken) == 1:
            self.tell_lines()
            return taken[0]
        items = [pending]
        if taken:
            handle, outcome = taken
            answers, errors = self._collect(items, [None], [handle], taken=([None], [(0, outcome)]))
        else:  # plain pickle does not take its arguments
            call = packing.call_by_value(pending, function, reference)
            answers, errors = self._collect(items, [call], [self.core.submit(call)])
        return _in_places(items, answers, errors, False)[0]

    def run_all(
        self, items: Sequence[PendingCompute[Any]], return_exceptions: bool = False
    ) -> tuple[Any, ...]:
        """Runs all calls; when all have ended, raises the error of the first one that failed, or
        returns the errors among the answers."""
        if not items:
            if not self.core.is_active:
                raise NotProvisionedError("the pool is closed, or its timeout has passed")
            return ()
        sent = _core.Sent()
        unsent: dict[int, Exception] | None = {} if return_exceptions else None
        try:
            answers, errors = self._run_sent(items, sent, unsent)
        except BaseException:  # one cannot be pickled, or Ctrl-C: nobody will read the answers
            sent.cancel()
            raise
        return _in_places(items, answers, errors, return_exceptions)

    def _run_sent(
        self,
        items: Sequence[PendingCompute[Any]],
        sent: Any,
        unsent: dict[int, Exception] | None,
    ) -> tuple[list[Any], dict[int, Exception]]:
        """The answers, in order, and the errors by position. `sent`: a Sent of the core, which has
        what was sent if this raises. `unsent`: as in Packing.parts()."""
        tried = max(TRIED_CALLS, int(self.core.total_slots))  # they keep all slots busy
        refused = ""  # why the rest was: the pool has closed meanwhile
        if len(items) > tried and (make := maker_of(self, items)):
            self.packing.send(items, SENT_TOGETHER, sent, 0, tried, unsent)
            if not unsent:
                quick, round_trip = are_quick(sent.handles())
                if quick:
                    return self._run_mapped(make, items, sent, round_trip, unsent is not None)
            try:
                self.packing.send(items, SENT_TOGETHER, sent, tried, unsent=unsent)
            except NotProvisionedError as reason:
                refused = str(reason)
        else:
            self.packing.send(items, SENT_TOGETHER, sent, unsent=unsent)
        taken = None
        places = [at for at in range(len(items)) if at not in unsent] if unsent else []
        if sent.is_plain:
            answers, others = taken = sent.take(pickle.loads)
            if not others and not refused and not unsent:
                self.tell_lines()
                return answers, {}
        calls, handles = sent.calls(), sent.handles()
        some = [items[at] for at in places[: len(calls)]] if unsent else items[: len(calls)]
        answers, errors = self._collect(some, calls, handles, taken=taken)
        for position in range(len(answers), len(places) if unsent else len(items)):
            answers.append(None)
            errors[position] = NotProvisionedError(refused)
        if not unsent:
            return answers, errors
        spread: list[Any] = [None] * len(items)
        for at, answer in zip(places, answers, strict=True):
            spread[at] = answer
        return spread, unsent | {places[at]: error for at, error in errors.items()}

    def _run_mapped(
        self,
        make: Callable[..., PendingCompute[Any]],
        items: Sequence[PendingCompute[Any]],
        sent: Any,
        round_trip: float,
        go_past: bool,
    ) -> tuple[list[Any], dict[int, Exception]]:
        """_run_sent() of calls that can travel in groups, of which the first ones have ended.
        `go_past`: calls that cannot be sent."""
        first, others = sent.take(pickle.loads)
        answers, errors = self._collect(
            items[: len(first)], sent.calls(), sent.handles(), taken=(first, others)
        )
        rest = len(items) - len(answers)
        inputs = DrawnInputs(item.args for item in islice(items, len(answers), None))
        calls = MappedCalls(self, make, inputs, True, rest, round_trip, go_past)
        try:
            with contextlib.closing(calls.answers(None)) as arriving:  # Ctrl-C cancels them
                next(arriving)
                for position, answer in enumerate(arriving, len(answers)):
                    if type(answer) is Failed:
                        errors[position] = answer.error
                    answers.append(answer)
        except Exception as error:
            if calls.unsent is not None:
                note_position(error, items, len(items) - rest + calls.unsent)
            raise
        assert len(answers) == len(items)
        return answers, errors

    def broadcast(self, pending: PendingCompute[Any]) -> tuple[Any, ...]:
        if getattr(pending.fn, "__skyward_distributed__", None) is not None:
            return run_together(self, pending)
        call, handles = self.send_everywhere(pending)
        answers, errors = self._collect(
            [pending] * len(handles), [call] * len(handles), handles, in_place=True
        )
        if errors:
            first = errors.pop(min(errors))
            if errors:
                first.add_note(f"it failed on {len(errors)} more of {len(handles)} workers")
            raise first
        return tuple(answers)

    def send_everywhere(
        self, pending: PendingCompute[Any], together: bool = False
    ) -> tuple[Any, list[Any]]:
        """The call as sent, and its handles in rank order. `together`: its workers need each other.
        None starts before every node is there, and each knows where the others are; the loss of a
        node fails its task at once."""
        call = self.packing.calls([pending], everywhere=True)[0]
        return call, self.core.broadcast(call.together() if together else call)

    def send_to(self, pending: PendingCompute[Any], node: int, worker: int | None = None) -> Any:
        """Sends the call to a node, to any slot of it or to the first one of a worker; its handle.
        It waits for the replacement of a node that is lost. A distributed function may be sent so:
        the caller sees to it that the others run, too."""
        call = self.packing.calls([pending], everywhere=True)[0]
        return self.core.submit(call.at(node, worker))

    def tell_lines(self) -> None:
        """Delivers what a task wrote to handlers before its answer is returned."""
        self.core.await_delivery(LINES_GRACE_SECONDS)

    def submit_all(
        self,
        items: Sequence[PendingCompute[Any]],
        shared: SharedArguments | None = None,
        known: dict[int, tuple[Any, int]] | None = None,
        go_past: bool = False,
    ) -> "list[AwaitableFuture[Any]]":
        """Sends the calls; the first ones run while the others are pickled. If one cannot be
        pickled, all are cancelled, or with `go_past` its future alone fails. `shared`: keeps large
        arguments that several calls have in common. `known`: see Packing.calls()."""
        futures: list[TaskFuture] = []
        handles: list[Any] = []
        unsent: dict[int, Exception] | None = {} if go_past else None
        self.answers.start()
        try:
            for calls in self.packing.parts(
                items, SENT_TOGETHER, shared=shared, known=known, unsent=unsent
            ):
                handles = self.core.submit_many(calls)
                first = len(futures)
                if unsent:
                    some = enumerate(items[first : first + SENT_TOGETHER], first)
                    futures += self._futures_past(list(some), calls, handles, unsent)
                else:
                    futures += self.futures_of(items[first : first + len(handles)], calls, handles)
        except BaseException:
            for sent in (*futures, *handles):
                sent.cancel()
            raise
        return futures  # type: ignore[return-value]

    def _futures_past(
        self,
        placed: Sequence[tuple[int, PendingCompute[Any]]],
        calls: Sequence[Any],
        handles: Sequence[Any],
        unsent: dict[int, Exception],
    ) -> list[TaskFuture]:
        """futures_of() of the calls at these positions, of which some could not be sent."""
        sent = iter(self.futures_of([it for at, it in placed if at not in unsent], calls, handles))
        futures: list[TaskFuture] = []
        for position, item in placed:
            if (error := unsent.get(position)) is None:
                futures.append(next(sent))
            else:
                futures.append(TaskFuture(None))
                futures[-1].fail(item, error)
        return futures

    def futures_of(
        self,
        items: Sequence[PendingCompute[Any]],
        calls: Sequence[Any],
        handles: Sequence[Any],
        kind: type[TaskFuture] = TaskFuture,
    ) -> list[TaskFuture]:
        """The futures of calls that have been sent; the thread of answers has been started."""
        futures = [kind(handle, self.answers.reference) for handle in handles]
        self.answers.watch(items, calls, futures)
        return futures

    def send_all(self, items: Sequence[PendingCompute[Any]], receivers: Sequence[Receiver]) -> None:
        """Sends the calls. Their answers go to the receivers, each of which gets its handle."""
        calls = self.packing.calls(items)
        self.answers.start()
        handles = self.core.submit_many(calls)
        try:
            for receiver, handle in zip(receivers, handles, strict=True):
                receiver.handle = handle
            self.answers.watch(items, calls, receivers)
        except BaseException:  # Ctrl-C: nobody may read the answers
            for handle in handles:
                handle.cancel()
            raise

    def send_group(
        self, items: Sequence[PendingCompute[Any]], calls: list[Any], pace: Pace, origin: Origin
    ) -> int:
        """Sends those of the calls, of one function, that make one group, as send_all() does. How
        many that are: up to the first one that is not for a group. `calls`: what `origin`, which
        gets the answers, calls them."""
        draft = new_draft()
        draft.add_all([item.args for item in items])
        count = int(draft.calls)
        if count == 0:
            pace.refuse()
            return 0
        pace.refused = 0
        function = self.packing.function(items[0])
        self.answers.send_draft(draft, function, items[0].name, calls[:count], pace, origin)
        return count

    def send_awaited(self, item: PendingCompute[Any], loop: Any) -> Any:
        """Sends the call for a program that awaits it in that asyncio loop."""
        calls = self._awaited.get(loop)
        if calls is None:
            from skyward.pool.awaited_calls import AwaitedCalls  # few programs need asyncio

            with self._awaited_lock:
                self._awaited_calls()
                calls = self._awaited[loop] = AwaitedCalls(self)
        return calls.send(self, item, loop)

    def _awaited_calls(self) -> list[Any]:
        """Of all loops that may still run. The calls of one that is closed would keep it."""
        with self._awaited_lock:
            for loop in [loop for loop in self._awaited if loop.is_closed()]:
                del self._awaited[loop]
            return list(self._awaited.values())

    def map(
        self, function: ComputeFunction[..., Any], iterables: Sequence[Iterable[Any]]
    ) -> MappedCalls:
        keep = all(map(keeps_its_items, iterables))
        inputs = DrawnInputs(zip(*iterables, strict=False), one_by_one=not keep)
        return MappedCalls(self, function, inputs)

    def answer(
        self,
        item: PendingCompute[Any],
        call: Any,
        handle: Any,
        end: float | None,
        taken: tuple[list[Any], list[tuple[int, Any]]] | None = None,
        noted: bool = True,
    ) -> Any:
        """The answer to one call of a map(). `call`: None if it is neither a stream nor retried;
        `taken` as in _collect(); `noted`: an error names the call."""
        is_stream = call is not None and call.is_stream
        if taken is None and handle.done() and not is_stream:
            results, others = taken = _core.take_results([handle], pickle.loads)
            if not others:
                self.tell_lines()
                return results[0]
        answers, errors = self._collect([item], [call], [handle], end=end, taken=taken)
        if errors:
            if noted:
                errors[0].add_note(f"call: {call_text(item)}")
            raise errors[0]
        return answers[0]

    def _collect(
        self,
        items: Sequence[PendingCompute[Any]],
        calls: list[Any],
        handles: list[Any],
        in_place: bool = False,
        end: float | None = None,
        taken: tuple[list[Any], list[tuple[int, Any]]] | None = None,
    ) -> tuple[list[Any], dict[int, Exception]]:
        """The answers, in order, and the errors by position. `in_place`: a retry runs on
        the same worker. `end`: when to stop waiting, on the monotonic clock. `taken`: what the
        first attempts came to, if that was taken from the handles already."""
        handles = list(handles)
        answers: list[Any] = [None] * len(items)
        errors: dict[int, Exception] = {}
        retries = [item.retries for item in items]
        waiting = []
        for position, call in enumerate(calls):
            if call is not None and call.is_stream:
                answers[position] = TaskStream(handles[position], items[position].name)
            else:
                waiting.append(position)
        # With these, calls are taken as they end, so that no retry waits for the others.
        news = None
        if taken is None and len(waiting) > 1 and any(retries):
            news = _core.Completions()
            for position in waiting:
                news.watch(handles[position], position)
        workers = len(items) // max(1, int(self.core.instance_count))  # of a node: `in_place`
        latest, left = waiting, len(waiting)
        try:  # Ctrl-C cancels them: nobody will read the answers
            while left:
                if taken is None:
                    if news is not None:
                        latest = news.wait()
                    if end is not None:
                        for position in latest:
                            wait_until(end, handles[position], items[position].name)
                    taken = _core.take_results([handles[at] for at in latest], pickle.loads)
                (results, others), taken, again = taken, None, []
                for position, answer in zip(latest, results, strict=True):
                    answers[position] = answer
                del results
                for place, outcome in others:
                    position = latest[place]
                    task, call = handles[position].task, calls[position]
                    if in_place:
                        call = call.at(*divmod(position, workers))
                    item, more = items[position], retries[position]
                    try:
                        answers[position] = answer_of(item.name, task, outcome)
                    except Exception as error:
                        if more and may_retry(outcome, error) and (sent := self._submit(call)):
                            handles[position] = sent
                            self.tell_retry(item, error, outcome.instance_id, more)
                            retries[position] -= 1
                            again.append(position)
                            if news is not None:
                                news.watch(sent, position)
                        else:
                            note_attempts(error, item.retries, more)
                            errors[position] = error.with_traceback(None)  # it has this frame
                left += len(again) - len(latest)
                latest = again
            self.tell_lines()
        except BaseException:
            for handle in handles:
                handle.cancel()
            raise
        return answers, errors

    def _submit(self, call: Any) -> Any:
        """The handle; None if the pool takes no calls any more."""
        try:
            return self.core.submit(call)
        except NotProvisionedError:
            return None

    def tell_retry(
        self, item: PendingCompute[Any], error: Exception, instance_id: str, left: int
    ) -> None:
        """Reports a failed attempt that is retried; `left`: retries that were left."""
        attempts = item.retries + 1
        self.tell(
            f"{call_text(item)} failed: {summary_of(error)};"
            f" attempt {attempts - left + 1} of {attempts}",
            instance_id or None,
        )


def _in_places(
    items: Sequence[PendingCompute[Any]],
    answers: list[Any],
    errors: dict[int, Exception],
    return_exceptions: bool,
) -> tuple[Any, ...]:
    """The answers with the errors among them, or raises the first one."""
    for position, error in sorted(errors.items()):
        note_position(error, items, position, len(errors) - 1)
        if not return_exceptions:
            raise error
        answers[position] = error
    return tuple(answers)


def _cancelled_text(count: int) -> str:
    what = "1 unfinished call was" if count == 1 else f"{count} unfinished calls were"
    return f"{what} cancelled; wait for the futures, or read the results of map(), inside the block"


_open_pools: "weakref.WeakSet[OpenPool]" = weakref.WeakSet()


@atexit.register
def _close_open_pools() -> None:
    """For pools that were opened and never closed, and futures that were never read. Of several
    errors, the last one is raised."""
    with contextlib.ExitStack() as every:  # goes on when one of them raises
        every.callback(tell_unread)
        for pool in list(_open_pools):
            every.callback(pool.close)


_finalized = 0  # the process whose multiprocessing closes its open pools


def _close_with_multiprocessing() -> None:
    """A process that multiprocessing has forked ends without `atexit`."""
    global _finalized
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or _finalized == os.getpid():
        return
    from multiprocessing.util import Finalize

    _finalized = os.getpid()
    Finalize(None, _close_open_pools, exitpriority=0)

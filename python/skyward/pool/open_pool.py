"""A pool while it is open: its engine, the calls in flight, and the threads that bring events and
answers here."""

import atexit
import logging
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from skyward import _core
from skyward.call.function import PendingCompute, call_text, is_generator, note_position
from skyward.callback import Delivery
from skyward.events import Error, event_from_fields
from skyward.exceptions import (
    CancelledError,
    ConfigurationError,
    NotProvisionedError,
    SerializationError,
    SkywardError,
    TimeoutError,
)
from skyward.pool.answer import AnswerFuture
from skyward.transport import remote_error, serialize
from skyward.transport.runtime import ModuleWatch

if TYPE_CHECKING:
    from skyward.transport.shared_arguments import SharedArguments

STREAM_WINDOW = 16
"""Items that a generator may be ahead of its reader."""
MAP_AHEAD_CALLS = 1024
MAP_AHEAD_BYTES = 64 << 20
"""map() sends ahead of its reader up to this many calls or bytes of arguments, but always enough to
fill the slots."""
FUNCTIONS_KEPT, FUNCTION_BYTES_KEPT = 256, 64 << 20
"""Functions that nodes need not be sent anew; the newest one stays, whatever it has."""
HEAVY_BYTES = 8 << 20
"""A function with so much data in it, in each call, is worth a word."""
LOOK_SECONDS = 0.02
"""How often calls look whether the program's modules were edited: less than it takes to edit and
reload one. A function object that was not sent before always looks."""
HANDLER_GRACE_SECONDS = 10.0
"""How long leaving a pool waits for event handlers that are still busy."""
LINES_GRACE_SECONDS = 0.02
"""How long an answer waits until handlers have heard what its task wrote; once, while they lag."""

_PASSING = {
    "task",
    "lost",
    "unreachable",
    "unavailable",
}  # failures after which another try makes sense


class OpenPool:
    def __init__(self, spec: Any, deliver: Delivery, timeout: float | None = None) -> None:
        """`timeout`: of calls that have none."""
        self.core = _core.Pool(spec)
        self._timeout = timeout
        self._deliver = deliver
        self._workers = self.core.total_slots // max(1, spec.concurrency)
        # The core's function of each body. Any thread may send.
        self._functions: dict[bytes, Any] = {}
        self._functions_lock = threading.Lock()
        self._modules = ModuleWatch()
        self._heavy: set[str] = set()  # names of functions
        self._next_look = 0.0
        self._closed = threading.Event()
        self._events = threading.Thread(
            target=self._pump_events, name="skyward-events", daemon=True
        )
        self._answers = _Answers(self)

    def open(self, check: Callable[[], None] | None) -> None:
        """Blocks until the nodes are ready. Raises after everything was given back."""
        self._events.start()
        _open_pools.add(self)  # the program may end while it opens
        try:
            self.core.open(check, self._tell_interrupt)
        except BaseException:
            self.close()
            raise

    def tell(self, message: str, instance_id: str | None = None) -> None:
        """Says to whoever receives events what deserves attention."""
        self._deliver(Error(message, instance_id, pool=self.core.job_id))

    def _tell_interrupt(self) -> None:
        self.tell("interrupted; closing the pool")

    def close(self, tell: bool = True) -> None:
        """Cancels what runs, gives all machines back, and returns when all events have been
        delivered. Raises MachinesLeftError then, when some were not seen to end. `tell`: says so
        when futures had no answer yet."""
        if not self.core.is_ours:  # a forked child: the pool is its parent's
            return
        _open_pools.discard(self)
        if tell and (count := self._answers.unfinished()):
            self.tell(_cancelled_text(count))
        try:
            self.core.close()
        finally:
            self._answers.close()
            self._closed.set()
            if self._events.is_alive() and self._events is not threading.current_thread():
                self._events.join(HANDLER_GRACE_SECONDS)

    def counts(self) -> tuple[int, int, int]:
        """Tasks that are done, that run, and that wait for a slot."""
        sent, left = self.core.task_counts()
        running = min(left, self.core.total_slots)
        return max(0, sent - left), running, left - running

    def run(self, pending: PendingCompute[Any]) -> Any:
        return self.run_all([pending])[0]

    def run_all(
        self, items: Sequence[PendingCompute[Any]], return_exceptions: bool = False
    ) -> tuple[Any, ...]:
        """Makes all calls; when all have ended, raises the error of the first one that failed, or
        returns the errors among the answers."""
        if not items:
            if not self.core.is_active:
                raise NotProvisionedError("the pool is closed, or its timeout has passed")
            return ()
        calls = self._calls(items)
        handles = self.core.submit_many(calls) if len(calls) > 1 else [self.core.submit(calls[0])]
        answers, errors = self._collect(items, calls, handles)
        for position, error in sorted(errors.items()):
            note_position(error, items, position, len(errors) - 1)
            if not return_exceptions:
                raise error
            answers[position] = error
        return tuple(answers)

    def broadcast(self, pending: PendingCompute[Any]) -> tuple[Any, ...]:
        if getattr(pending.fn, "__skyward_distributed__", None) is not None:
            from skyward.pool.together import run_together

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

    def send_everywhere(self, pending: PendingCompute[Any]) -> tuple[Any, list[Any]]:
        """The call as sent, and its handles in rank order."""
        call = self._calls([pending], everywhere=True)[0]
        return call, self.core.broadcast(call)

    def tell_lines(self) -> None:
        """Lets handlers hear what a task wrote before its answer is given."""
        if threading.get_ident() != self._events.ident:  # a handler that makes calls
            self.core.await_delivery(LINES_GRACE_SECONDS)

    def submit_all(
        self, items: Sequence[PendingCompute[Any]], shared: "SharedArguments | None" = None
    ) -> list["Future[Any]"]:
        """`shared`: where large arguments are kept that other calls have as well."""
        calls = self._calls(items, shared=shared)
        handles = self.core.submit_many(calls)
        return [self._answers.watch(*entry) for entry in zip(items, calls, handles, strict=True)]

    def map(self, items: Iterator[PendingCompute[Any]]) -> Iterator[Callable[[float | None], Any]]:
        """One function per call, in order: it waits for the answer, until then, and returns it.

        What cannot be sent raises at its place, behind the answers of those before it."""
        window: deque[tuple[PendingCompute[Any], Any, Any]] = deque()
        ahead = 0
        failure: Exception | None = None
        try:
            while True:
                if failure is None and (room := self._room(len(window), ahead)):
                    batch, calls, failure = self._some_calls(items, room)
                    if calls:
                        ahead += sum(call.size() for call in calls)
                        handles = self.core.submit_many(calls)
                        window.extend(zip(batch, calls, handles, strict=True))
                if not window:
                    if failure is not None:
                        raise failure
                    return
                item, call, handle = window[0]
                yield partial(self._answer, item, call, handle)
                window.popleft()
                ahead -= call.size()
        finally:
            for _, _, handle in window:
                handle.cancel()

    def _some_calls(
        self, items: Iterator[PendingCompute[Any]], count: int
    ) -> tuple[list[PendingCompute[Any]], list[Any], Exception | None]:
        """The next calls, ready to be sent, and what befell the one behind them, if anything."""
        batch: list[PendingCompute[Any]] = []
        failure: Exception | None = None
        try:
            for item in islice(items, count):
                batch.append(item)
        except Exception as error:  # of the caller's iterables, or a call that is written wrongly
            failure = error
        try:
            return batch, self._calls(batch), failure
        except Exception:  # one of them cannot travel: which?
            calls: list[Any] = []
        for position, item in enumerate(batch):
            try:
                calls += self._calls([item])
            except Exception as error:
                error.add_note(f"call: {call_text(item)}")
                return batch[:position], calls, error
        return batch, calls, failure

    def _room(self, calls: int, size: int) -> int:
        """How many more calls map() may send while `calls` with `size` bytes of arguments wait."""
        if calls > MAP_AHEAD_CALLS // 2:  # wait until a good many can go together
            return 0
        fill_slots = 2 * self.core.total_slots - calls
        if calls == 0:  # nothing is known of their size yet
            return fill_slots
        by_size = (MAP_AHEAD_BYTES - size) * calls // max(size, 1)
        return max(fill_slots, min(MAP_AHEAD_CALLS - calls, by_size), 0)

    def _answer(self, item: PendingCompute[Any], call: Any, handle: Any, end: float | None) -> Any:
        answers, errors = self._collect([item], [call], [handle], end=end)
        if errors:
            errors[0].add_note(f"call: {call_text(item)}")
            raise errors[0]
        return answers[0]

    def _calls(
        self,
        items: Sequence[PendingCompute[Any]],
        everywhere: bool = False,
        shared: "SharedArguments | None" = None,
    ) -> list[Any]:
        packer = self.core.packer()
        functions: dict[int, tuple[Any, int]] = {}  # each distinct function once per batch
        calls: list[Any] = []
        for item in items:
            known = functions.get(id(item.fn))
            if known is None:
                if not everywhere:
                    self._refuse_alone(item)
                window = STREAM_WINDOW if is_generator(item.fn) else 0
                known = functions[id(item.fn)] = (self._function(item), window)
            function, window = known
            args = item.args if shared is None else shared.arguments(item.args)
            try:
                stream, buffers = serialize.dumps_arguments(item.fn, item.name, args, item.kwargs)
            except SerializationError as error:
                note_position(error, items, len(calls))
                raise
            if shared is not None:
                buffers = shared.buffers(self.core, buffers)
            timeout = self._timeout if item.timeout is None else item.timeout
            calls.append(_core.Call(function, packer.pack(stream, buffers), timeout, window))
        return calls

    def _refuse_alone(self, item: PendingCompute[Any]) -> None:
        """A distributed function on one worker of several would wait for the others in vain."""
        framework = getattr(item.fn, "__skyward_distributed__", None)
        if framework is not None and self._workers > 1:
            raise ConfigurationError(
                f"{item.name} is distributed ({framework}): it runs on all {self._workers} workers"
                f" at the same time, and waits until they meet; write {item.name}(…) @ pool"
            )

    def _function(self, item: PendingCompute[Any]) -> Any:
        if time.monotonic() >= self._next_look or not serialize.is_kept(item.fn):
            self._look_for_changes()
        body = serialize.dumps_function(item.fn, item.name)
        if (known := self._functions.get(body)) is not None:
            return known
        if len(body) >= HEAVY_BYTES and not serialize.is_kept(item.fn):
            self._tell_heavy(item, len(body))
        function = _core.make_function(body, item.name)
        with self._functions_lock:
            kept = self._functions
            kept[body] = function
            size = 2 * sum(map(len, kept))  # here, and in the core
            for oldest in list(kept)[:-1]:
                if len(kept) <= FUNCTIONS_KEPT and size <= FUNCTION_BYTES_KEPT:
                    break
                del kept[oldest]
                size -= 2 * len(oldest)
        return function

    def _tell_heavy(self, item: PendingCompute[Any], size: int) -> None:
        """Once for each name: such a function is pickled for every call, as what it refers to may
        change."""
        if item.name in self._heavy:
            return
        self._heavy.add(item.name)
        self.tell(
            f"{item.name}() carries {size >> 20} MiB of data, in what it refers to"
            f"{serialize.heaviest(item.fn)}, which is serialized again for each call; pass it"
            " as an argument, or create it inside the function"
        )

    def _look_for_changes(self) -> None:
        """Says that a module was edited: nodes may have imported it as it was before."""
        self._next_look = time.monotonic() + LOOK_SECONDS
        for path in self._modules.changed():
            self.tell(
                f"{path} changed after the pool opened; nodes may run the old version. Open the"
                " pool again to be sure"
            )

    def _collect(
        self,
        items: Sequence[PendingCompute[Any]],
        calls: list[Any],
        handles: list[Any],
        in_place: bool = False,
        end: float | None = None,
    ) -> tuple[list[Any], dict[int, Exception]]:
        """The answers, in order, and the errors by position. `in_place`: a call that is made again
        goes to the worker that it was on. `end`: how long is waited, of the monotonic clock."""
        handles = list(handles)
        answers: list[Any] = [None] * len(items)
        errors: dict[int, Exception] = {}
        retries = [item.retries for item in items]
        waiting = []
        for position, item in enumerate(items):
            if calls[position].is_stream:
                answers[position] = Stream(handles[position], item.name)
            else:
                waiting.append(position)
        try:
            while waiting:
                if end is None:
                    _core.wait_all([handles[position] for position in waiting])
                else:
                    for position in waiting:
                        _wait_until(end, handles[position], items[position].name)
                again = []
                for position in waiting:
                    handle = handles[position]
                    outcome = handle.take()
                    if outcome.status != "ok" and retries[position] and _may_retry(outcome):
                        self.tell_retry(items[position], handle.task, outcome, retries[position])
                        retries[position] -= 1
                        again.append(position)
                        call = calls[position]
                        if in_place and outcome.node >= 0:
                            call = call.at(outcome.node, max(outcome.worker, 0))
                        handles[position] = self.core.submit(call)
                        continue
                    try:
                        answers[position] = answer_of(items[position].name, handle.task, outcome)
                    except Exception as error:
                        errors[position] = error
                waiting = again
            self.tell_lines()
        except BaseException:  # Ctrl-C: nobody will ask for the answers any more
            for handle in handles:
                handle.cancel()
            raise
        return answers, errors

    def tell_retry(self, item: PendingCompute[Any], task: int, outcome: Any, left: int) -> None:
        """Says that an attempt failed and the call is made again; `left`: retries until now."""
        attempts = item.retries + 1
        self.tell(
            f"{call_text(item)} failed: {_summary(item.name, task, outcome)};"
            f" attempt {attempts - left + 1} of {attempts}",
            outcome.instance_id or None,
        )

    def _pump_events(self) -> None:
        while True:
            batch = self.core.next_events(0.5)
            if batch is None:
                if self._closed.wait(0.02):
                    return
                continue
            pool = self.core.job_id
            for name, fields in batch:
                self._deliver(event_from_fields(name, fields, pool))


def _wait_until(end: float, handle: Any, name: str) -> None:
    if not handle.wait(max(0.0, end - time.monotonic())):
        raise TimeoutError(f"map(): no answer of {name}() before the overall timeout")


def _cancel(handle: Any) -> None:
    try:
        handle.cancel()
    except NotProvisionedError:  # a forked child: the task is its parent's
        pass


_ENDED = object()


class Stream(Iterator[Any]):
    """The items of a generator that runs on a worker, as they come. The generator stays at most
    some items ahead.

    ``close()`` (also leaving a ``with`` block, or dropping the object) cancels what is left of it.
    """

    def __init__(self, handle: Any, name: str) -> None:
        self._handle = handle
        self._name = name
        self._lock = threading.Lock()  # of several threads that read, one waits

    def __repr__(self) -> str:
        return f"Stream({self._name}(…), {'ended' if self._handle is None else 'open'})"

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> Any:
        __tracebackhide__ = True  # for notebooks and pytest
        with self._lock:
            handle = self._handle
            if handle is None:
                raise StopIteration
            try:
                item = handle.next()
            except BaseException:
                self.close()
                raise
            if item is None:
                if self._handle is None:  # closed by another thread
                    raise StopIteration
                self._handle = None
        if item is not None:
            return serialize.loads(item, f"{self._name}()")
        outcome = handle.take()
        try:
            if outcome.status != "ok":
                answer_of(self._name, handle.task, outcome)
        except SkywardError as error:
            raise error.with_traceback(None) from error.__cause__  # the caller's line counts
        raise StopIteration

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> Any:
        """The next item, while other tasks of the asyncio loop go on."""
        from skyward.call.awaited import in_thread

        try:
            item = await in_thread(lambda: next(self, _ENDED))
        except BaseException:  # also when the task that reads is cancelled
            self.close()
            raise
        if item is _ENDED:
            raise StopAsyncIteration
        return item

    def close(self) -> None:
        """Stops the generator; it runs its ``finally`` blocks."""
        handle, self._handle = self._handle, None
        if handle is not None:
            _cancel(handle)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()


def answer_of(name: str, task: int, outcome: Any) -> Any:
    """The result of a task, or its exception."""
    if outcome.status == "ok":
        return serialize.loads(outcome.payload(), f"{name}()")
    if outcome.status == "raised":
        report = serialize.loads(outcome.payload(), f"the error report of {name}()")
        raise remote_error.raised(report, task, outcome)
    raise remote_error.failed(task, outcome)


def _summary(name: str, task: int, outcome: Any) -> str:
    """The first line of a task's error, with its class."""
    try:
        answer_of(name, task, outcome)
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(": ")
    return str(outcome.status)


def _may_retry(outcome: Any) -> bool:
    return outcome.status == "raised" or outcome.error_kind in _PASSING


def _cancelled_text(count: int) -> str:
    what = "1 call that was not done is" if count == 1 else f"{count} calls that were not done are"
    return f"{what} cancelled; wait for the futures inside the block: future.result()"


class TaskFuture(AnswerFuture):
    """The answer of a task, later. ``cancel()`` works until the answer is here: it stops the task
    on its worker. An error that nobody asks for is logged."""

    _unread = ""  # the call, when it has failed and nobody has asked yet

    def __init__(self, handle: Any) -> None:
        super().__init__()
        self.handle = handle
        self._swapping = threading.Lock()
        self._told = False

    def send_again(self, send: Callable[[], Any]) -> bool:
        """Another attempt in the place of one that failed. False: it was cancelled meanwhile."""
        with self._swapping:
            if self.cancelled():
                return False
            self.handle = send()
            return True

    def fail(self, item: PendingCompute[Any], error: BaseException) -> None:
        if not isinstance(error, CancelledError):  # of these, whoever cancelled knows
            self._unread = call_text(item)
            _failed.add(self)
        # Without the traceback, which would keep this future alive and has nothing of the caller's.
        self.set_exception(error.with_traceback(None))

    def result(self, timeout: float | None = None) -> Any:
        __tracebackhide__ = True  # for notebooks and pytest
        try:
            return super().result(timeout)
        except SkywardError as error:
            self._unread = ""
            raise error.with_traceback(None) from error.__cause__  # the caller's line counts
        except BaseException:
            self._unread = ""
            raise

    def exception(self, timeout: float | None = None) -> BaseException | None:
        error = super().exception(timeout)
        self._unread = ""
        return error

    def tell_if_unread(self) -> None:
        call, self._unread = self._unread, ""
        if call:
            logging.getLogger("skyward").error(
                "%s failed, and nothing read the error from its future",
                call,
                exc_info=super().exception(0),
            )

    def __del__(self) -> None:
        if self._unread and not sys.is_finalizing():
            self.tell_if_unread()

    def cancel(self) -> bool:
        if not super().cancel():
            return False
        with self._swapping:  # an attempt that is sent by now is the one that `handle` names
            handle, first, self._told = self.handle, not self._told, True
        if first:  # of several threads
            _cancel(handle)
            self.set_running_or_notify_cancel()
        return True


class _Answers:
    """Gives answers to futures, from one thread, which starts with the first of them."""

    def __init__(self, pool: OpenPool) -> None:
        self._pool = weakref.ref(pool)  # no circle: what it has stored goes with it, at once
        self._lock = threading.Lock()
        self._completions = _core.Completions()
        self._thread: threading.Thread | None = None
        self._watched: dict[int, tuple[PendingCompute[Any], Any, TaskFuture, int]] = {}
        self._last = 0

    def watch(self, item: PendingCompute[Any], call: Any, handle: Any) -> "Future[Any]":
        future = TaskFuture(handle)
        if call.is_stream:
            future.set_result(Stream(handle, item.name))
            return future
        self._add(item, call, future, item.retries)
        return future

    def unfinished(self) -> int:
        """Calls whose futures have no answer yet, and were not cancelled."""
        with self._lock:
            return sum(not future.done() for _, _, future, _ in self._watched.values())

    def close(self) -> None:
        self._completions.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(HANDLER_GRACE_SECONDS)

    def _add(self, item: PendingCompute[Any], call: Any, future: TaskFuture, retries: int) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="skyward-answers", daemon=True
                )
                self._thread.start()
            self._last += 1
            self._watched[self._last] = (item, call, future, retries)
            token = self._last
        self._completions.watch(future.handle, token)

    def _work(self) -> None:
        while tokens := self._completions.next():
            for token in tokens:
                self._finish(*self._take(token))  # in no name of this frame, which may wait long

    def _take(self, token: int) -> tuple[PendingCompute[Any], Any, TaskFuture, int]:
        with self._lock:
            return self._watched.pop(token)

    def _finish(
        self, item: PendingCompute[Any], call: Any, future: TaskFuture, retries: int
    ) -> None:
        if future.cancelled():
            return
        outcome, pool = future.handle.take(), self._pool()
        try:
            if pool is not None:
                if outcome.status != "ok" and retries and _may_retry(outcome):
                    pool.tell_retry(item, future.handle.task, outcome, retries)
                    if future.send_again(partial(pool.core.submit, call)):
                        self._add(item, call, future, retries - 1)
                    return
                pool.tell_lines()
            result = answer_of(item.name, future.handle.task, outcome)
        except BaseException as error:
            _settle(future.fail, item, error)
        else:
            _settle(future.set_result, result)


def _settle(settle: Callable[..., None], *values: Any) -> None:
    try:
        settle(*values)
    except InvalidStateError:  # cancelled at this very moment
        pass


_failed: "weakref.WeakSet[TaskFuture]" = weakref.WeakSet()
_open_pools: "weakref.WeakSet[OpenPool]" = weakref.WeakSet()


atexit.register(_core.close_gil)  # comes after the next: what runs last is registered first


@atexit.register
def _close_open_pools() -> None:
    """For pools that were entered by hand and never left, and futures that were never read."""
    for pool in list(_open_pools):
        pool.close()
    for future in list(_failed):
        future.tell_if_unread()

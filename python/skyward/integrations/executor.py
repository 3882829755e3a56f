"""A pool behind the interface of ``concurrent.futures``."""

import atexit
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from functools import partial
from itertools import islice
from types import FunctionType, NoneType, TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload

from skyward.call.function import ComputeFunction, compute
from skyward.call.pending import PendingCompute
from skyward.exceptions import (
    CancelledError,
    ConfigurationError,
    MachinesLeftError,
    NotProvisionedError,
)
from skyward.integrations.initial import Initial, after, initial_of
from skyward.pool.answer import AnswerFuture, set_results, settle
from skyward.pool.compute_pool import ComputePool
from skyward.pool.grouped_calls import GROUP_SECONDS, Pace, Paces
from skyward.pool.leave import end_block
from skyward.pool.stream import cancel
from skyward.transport.forks import renewed

P = ParamSpec("P")
T = TypeVar("T")


class Executor(futures.Executor):
    """A drop-in for ``ProcessPoolExecutor`` whose workers are those of a pool.

        with Executor(nodes=4, concurrency=2) as executor:
            future = executor.submit(f, 1)
            results = list(executor.map(f, range(100), chunksize=10))

    Takes the parameters of ComputePool and opens its own pool when it is entered or at the first
    submit, whichever comes first; ``shutdown()`` closes it, and so does dropping the executor. When
    the pool's timeout has passed, the next submit opens it again. The end of a ``with`` block and
    the end of the program wait for all calls. If an error or Ctrl-C ends the block, all calls are
    cancelled instead, including running ones. With `pool`, an open ComputePool, it uses that one
    and leaves it open. Functions need no decorator; one of ``@compute`` keeps its time limit and
    retries.

    Of ProcessPoolExecutor's own parameters, `max_workers` is another name for `concurrency` for a
    pool of one node, and `initializer` with `initargs` is called once in each worker process,
    before its first call. Worker processes are not restarted after a number of calls, so
    `max_tasks_per_child` is refused, and so is `mp_context`.

    As with any executor, ``cancel()`` does nothing once the call has been handed to the pool. Each
    slot is handed its next call in advance, and as many quick calls as take about two
    milliseconds."""

    def __init__(
        self,
        provider: Any = None,
        *args: Any,
        pool: ComputePool | None = None,
        max_workers: int | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: tuple[Any, ...] = (),
        **options: Any,
    ) -> None:
        if isinstance(provider, int):  # the first parameter of ProcessPoolExecutor
            provider, max_workers = None, provider
        _refuse_others(options)
        if max_workers is not None:
            options["concurrency"] = _concurrency(max_workers, options)
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        if pool is not None and (provider is not None or args or options):
            raise TypeError("Executor() takes the parameters of a pool, or a pool, not both")
        self._initial: Initial | None = None
        if initializer is not None:
            self._initial = initial_of(initializer, tuple(initargs))
        self._owned = pool is None
        self._pool = pool if pool is not None else ComputePool(provider, *args, **options)
        self._opening: Any = renewed(threading.RLock())
        self._lock: Any = renewed(threading.RLock())
        self._changed = threading.Condition(self._lock)
        self._waiting: deque[_Waiting] = deque()
        self._flying: set[AnswerFuture] = set()  # of calls that were handed to the pool
        self._alone: set[_Sent] = set()  # those of them that do not travel in groups
        self._due = 1  # so many calls that wait are sent when another one is submitted
        self._ahead = _Ahead()
        self._paces = Paces()
        self._sending = _Sending()
        self._latest: tuple[Any, ComputeFunction[..., Any] | None] = (None, None)
        self._process = os.getpid()
        self._shut = False
        self._given_up = False
        # For a pool that is unreachable. In a thread of its own, since this may run in any.
        self._dropped = weakref.finalize(self, _in_thread, self._pool._close)
        self._dropped.atexit = False
        if not self._owned:
            self._dropped.detach()

    @property
    def total_slots(self) -> int:
        """Calls that can run at the same time."""
        return self._pool.total_slots

    def __repr__(self) -> str:
        with self._lock:
            waiting, sent = len(self._waiting), len(self._flying)
        state = ", shut down" if self._shut else ""
        return f"Executor({self._pool!r}, {sent} sent, {waiting} waiting{state})"

    @overload
    def submit(
        self, fn: ComputeFunction[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> "futures.Future[T]": ...
    @overload
    def submit(
        self, fn: "partial[PendingCompute[T]]", /, *args: Any, **kwargs: Any
    ) -> "futures.Future[T]": ...
    @overload
    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> "futures.Future[T]": ...
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "futures.Future[Any]":
        """Queues ``fn(*args, **kwargs)`` and returns its future."""
        inside = self._lock._is_owned()  # the handler of a signal came in between
        function = self._compute(fn)
        live = self._pool._live
        if live is not None and not live.core.is_ours:  # nothing here would make room for it
            raise NotProvisionedError(
                "the executor's pool belongs to the process that this one was forked from; make"
                " another executor here"
            )
        if self._owned and (live is None or live.core.has_expired):
            self._open()
            live = self._pool._live
        future = AnswerFuture(None if live is None else live.answers.reference)
        call = function.record(args, kwargs)
        with self._lock:
            if self._shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._waiting.append((future, call))
            is_due = len(self._waiting) >= self._due
        if inside:
            _in_thread(self._send)  # when this thread is out of the lock
        elif is_due:
            self._send()
        return future

    @overload
    def map(
        self,
        fn: "ComputeFunction[..., T] | partial[PendingCompute[T]]",
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[T]: ...
    @overload
    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[T]: ...
    def map(
        self,
        fn: Any,
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[Any]:
        """``fn(x, y)`` for each x, y of the iterables, in order. All calls are sent at once,
        `chunksize` of them together; `timeout` limits the whole iteration, in seconds. The calls of
        a chunk share their time limit, and are retried together. With `buffersize`, at most that
        many chunks are ahead of the reader, as in Python 3.14, so inputs may be endless."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if not isinstance(buffersize, (int, NoneType)):
            raise TypeError("buffersize must be an integer or None")
        if buffersize is not None and buffersize < 1:
            raise ValueError("buffersize must be None or > 0")
        if chunksize > 1:
            iterables = (_chunks(zip(*iterables, strict=False), chunksize),)
            fn = self._chunked(fn, chunksize)
        if buffersize is None:
            answers = super().map(fn, *iterables, timeout=timeout)
        else:
            end = None if timeout is None else time.monotonic() + timeout
            rows = zip(*iterables, strict=False)
            sent = deque(self.submit(fn, *row) for row in islice(rows, buffersize))
            answers = _buffered(self, fn, rows, sent, end)
        return answers if chunksize == 1 else _one_by_one(answers)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accepts no more calls, and closes its own pool when the accepted ones are done.

        `wait`: returns only after that. In a done callback it returns at once, because no result
        arrives while the callback runs.
        `cancel_futures`: calls that have not been sent never will be."""
        with self._lock:
            first, self._shut = not self._shut, True
            dropped = [future for future, _ in self._waiting] if cancel_futures else []
            if cancel_futures:
                self._waiting.clear()
            self._changed.notify_all()
        _cancel_waiting(dropped)
        live = self._pool._live
        if wait and not (live is not None and live.answers.is_here()):
            self._finish()
        elif first:
            _in_thread(self._finish)

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Waits for the calls; when an error or Ctrl-C left the block, cancels them instead."""
        if error is None:
            try:
                self.shutdown()
                return
            except MachinesLeftError:
                raise
            except BaseException as interrupt:  # Ctrl-C while they were waited for
                self._give_up()
                end_block(self.shutdown, interrupt)
                raise
        self._give_up()
        end_block(self.shutdown, error)

    def _chunked(self, fn: Any, size: int) -> ComputeFunction[..., Any]:
        """Calls `fn` for each row of a chunk. Messages name `fn`."""
        function = fn if isinstance(fn, ComputeFunction) else compute(fn)
        run: Any = partial(_run_chunk, function.local)
        run.__name__ = function.__name__
        return function.with_function(run, size, self._pool.default_compute_timeout)

    def _compute(self, fn: Any) -> ComputeFunction[..., Any]:
        if isinstance(fn, ComputeFunction) and self._initial is None:
            return fn
        known, function = self._latest
        if known is not fn or function is None:
            function = fn if isinstance(fn, ComputeFunction) else compute(fn)
            plain = function.local
            if self._initial is not None:
                function = function.with_function(after(self._initial, plain))
            if type(plain) is FunctionType and plain.__closure__ is None:  # it keeps no data alive
                self._latest = (fn, function)
        return function

    def _give_up(self) -> None:
        """Cancels queued and running calls: nobody will read the answers."""
        with self._lock:
            self._shut = self._given_up = True
            waiting, self._waiting = [future for future, _ in self._waiting], deque()
            running = [*self._alone]
        _cancel_waiting(waiting)
        for sent in running:
            sent.give_up()
        self._stop_groups()

    def _stop_groups(self) -> None:
        with self._lock:
            left = [*self._flying]
        for future in left:
            self.fail(future, CancelledError("the executor's block was left"))
        if (live := self._pool._live) is not None:
            live.answers.stop_groups(self)

    def _open(self) -> None:
        if self._opening._is_owned():
            raise RuntimeError(
                "the handler of a signal has called submit() while this thread opens or closes the"
                " executor's pool; enter the executor before, or submit later"
            )
        with self._opening:
            if not self._owned or self._shut:
                return
            live = self._pool._live
            if live is None or live.core.has_expired:
                self._pool._open()
                self._process = os.getpid()
                _finish_at_exit(self)

    def _is_anothers(self) -> bool:
        """True in a forked child: the answers go to its parent, which alone may close."""
        live = self._pool._live
        return os.getpid() != self._process if live is None else not live.core.is_ours

    def _finish(self) -> None:
        if self._is_anothers():
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._flying)
        with self._opening:
            if self._owned:
                try:
                    self._pool._close()
                finally:
                    self._dropped.detach()

    def _send(self) -> None:
        """Keeps every slot busy, and calls ready behind each."""
        engine, slots = self._pool._live, self._pool.total_slots
        inside = self._sending.now  # a done callback, or the handler of a signal
        while True:
            batch: list[_Waiting] = []
            try:
                with self._lock:
                    pace = self._next(engine, slots, batch)
                    alone = [] if pace else batch
                    entries = [(_Sent(self, future), call) for future, call in alone]
                    self._alone.update(sent for sent, _ in entries)
                    self._note_flying()
                if not batch:
                    return
                try:
                    self._sending.now = True
                    if pace is not None:
                        self._submit_group(pace, batch)
                    else:
                        self._submit(entries)
                finally:
                    self._sending.now = inside
            except BaseException:  # Ctrl-C
                self._drop(batch)
                raise

    def _drop(self, batch: "list[_Waiting]") -> None:
        with self._lock:  # one may be there, too
            gone = {future for future, _ in batch}
            self._waiting = deque(entry for entry in list(self._waiting) if entry[0] not in gone)
        for future, _ in batch:
            self.fail(future, CancelledError("interrupted while it was being sent"))
        with self._lock:
            self._alone = {sent for sent in self._alone if not sent.done()}

    def _next(self, engine: Any, slots: int, batch: "list[_Waiting]") -> "Pace | None":
        """Moves the calls that are to be sent together to the batch. Returns the pace of their
        function, if they go as a group. Each call is in one place at least, whenever it is
        interrupted."""
        while self._waiting:
            batch.clear()
            first = self._waiting[0][1]
            pace = its = None if engine is None else self._paces.of(engine, first)
            room = self._ahead.room(pace, len(self._flying), slots)
            while self._waiting and len(batch) < room:
                call = self._waiting[0][1]
                if call.fn is not first.fn or call.kwargs or call.retries or call.timeout:
                    its = None if engine is None else self._paces.of(engine, call)
                if its is not pace or (pace and call.fn is not first.fn):  # it may be equal
                    break
                batch.append(self._waiting[0])
                self._waiting.popleft()
            taken = len(batch)
            batch[:] = [entry for entry in batch if entry[0].set_running_or_notify_cancel()]
            if batch or not taken:
                self._flying.update(future for future, _ in batch)
                return pace
        batch.clear()
        return None

    def _submit_group(self, pace: Pace, batch: "list[_Waiting]") -> None:
        """Those that are not for a group go alone."""
        while batch:
            items, calls = [call for _, call in batch], [future for future, _ in batch]
            try:
                count = self._pool._engine().send_group(items, calls, pace, self)
            except Exception:  # reported call by call
                count = 0
            if count == 0:
                sent = _Sent(self, batch[0][0])
                with self._lock:
                    self._alone.add(sent)
                self._submit([(sent, batch[0][1])])
            del batch[: max(1, count)]
        if self._given_up:
            self._stop_groups()

    def _submit(self, batch: list[tuple["_Sent", PendingCompute[Any]]]) -> None:
        try:
            self._pool._engine().send_all([call for _, call in batch], [sent for sent, _ in batch])
        except Exception as error:
            if len(batch) == 1:
                self._settle(batch[0][0], None, error.with_traceback(None))
                return
        else:
            if self._given_up:
                for sent, _ in batch:
                    sent.give_up()
            return
        for entry in batch:  # one of them cannot travel
            self._submit([entry])

    # Of calls that were sent in groups (pool/answers.py), which are known by their futures.

    def is_wanted(self, future: AnswerFuture) -> bool:
        return not future.done()

    def note_place(self, group: Any) -> None: ...

    def settle(self, calls: list[AnswerFuture], results: list[Any]) -> None:
        set_results(calls, results)
        self._land(calls)

    def fail(self, future: AnswerFuture, error: BaseException) -> None:
        settle(future.set_exception, error.with_traceback(None))
        self._land([future])

    def _settle(self, sent: "_Sent", result: Any, error: BaseException | None) -> None:
        if error is not None:
            settle(sent.future.set_exception, error)
        else:
            settle(sent.future.set_result, result)
        with self._lock:
            self._alone.discard(sent)
            self._ahead.count(self._pool.total_slots)
        self._land([sent.future])

    def _land(self, calls: list[AnswerFuture]) -> None:
        """They have their answers."""
        with self._lock:
            self._flying.difference_update(calls)
            self._note_flying()
            refill = bool(self._waiting) and self._ahead.is_low(len(self._flying))
        if refill and not self._sending.now:
            self._send()

    def _note_flying(self) -> None:
        self._due = self._ahead.due(len(self._flying))
        if not self._waiting and not self._flying:
            self._changed.notify_all()


_Waiting = tuple[AnswerFuture, PendingCompute[Any]]


class _Sending(threading.local):
    """Whether this thread hands calls over, and will look for more by itself. If each call that
    fails on the way sent the next one, many of them would exceed Python's recursion limit."""

    now = False


class _Ahead:
    """How many calls each slot is handed: two, so that it need not wait for the next one, and while
    calls are quick, as many as take about two milliseconds. They are sent together."""

    SECONDS = 0.002
    LEAST, MOST = 2, 64
    GROUPS = int(SECONDS / GROUP_SECONDS)

    def __init__(self) -> None:
        self._calls = self.LEAST  # for each slot, that do not travel in groups
        self._done = 0
        self._since = time.monotonic()
        # Of the call that was sent last:
        self._together = 1
        self._least = self._most = 1

    def due(self, sent: int) -> int:
        """How many calls that wait are to be sent, when `sent` have no answer yet, without waiting
        for answers."""
        if sent < self._least:
            return 1
        return self._together if sent < self._most else sys.maxsize

    def is_low(self, sent: int) -> bool:
        """After an answer. Half of them at a time, unless a slot would then have none behind the
        one that runs."""
        return sent <= max(self._most // 2, self._least)

    def room(self, pace: Pace | None, sent: int, slots: int) -> int:
        """How many calls may be sent together, when `sent` have no answer yet."""
        self._least = self.LEAST * slots
        if pace is None:
            self._together, self._most = 1, self._calls * slots
            return max(0, self._most - sent)
        self._together = max(1, pace.size)
        is_slow = pace.seconds > self.SECONDS / self.LEAST
        self._most = self._least if is_slow else max(self._least, self.GROUPS * pace.size * slots)
        room = self._most - sent
        is_enough = room >= self._together or sent < self._least
        return min(room, self._together) if is_enough else 0

    def count(self, slots: int) -> None:
        """Counts an answer to a call that was sent alone."""
        self._done += 1
        if self._done >= self._calls * slots:
            now = time.monotonic()
            rate = self._done / max(now - self._since, 1e-6) / slots
            self._calls = min(max(int(rate * self.SECONDS), self.LEAST), self.MOST)
            self._done, self._since = 0, now


class _Sent:
    """A call that was handed to the pool: what gets its answer."""

    keeps_outcome = False
    __slots__ = ("_executor", "future", "handle")

    def __init__(self, executor: Executor, future: AnswerFuture) -> None:
        self._executor = executor
        self.future = future
        self.handle: Any = None

    def cancelled(self) -> bool:
        return self.future.done()  # the executor was left

    def done(self) -> bool:
        return self.future.done()

    def send_again(self, send: Callable[[], Any]) -> bool:
        """Replaces a failed attempt by another one. False: the executor was left meanwhile."""
        with self._executor._lock:
            if self.future.done():
                return False
            self.handle = send()
            return True

    def set_result(self, result: Any) -> None:
        self._executor._settle(self, result, None)

    def fail(self, _: PendingCompute[Any], error: BaseException) -> None:
        self._executor._settle(self, None, error.with_traceback(None))

    def give_up(self) -> None:
        """Stops the call, whose answer nobody will read."""
        with self._executor._lock:
            handle = self.handle
        self._executor._settle(self, None, CancelledError("the executor's block was left"))
        if handle is not None:
            cancel(handle)


def _refuse_others(options: dict[str, Any]) -> None:
    for name in ("max_tasks_per_child", "mp_context"):
        if options.pop(name, None) is not None:
            raise ConfigurationError(
                f"Executor({name}=…): the pool manages its worker processes; leave {name} out"
            )


def _concurrency(max_workers: int, options: dict[str, Any]) -> int:
    """Of ``Executor(max_workers)``, for a pool of one node."""
    if max_workers <= 0:
        raise ValueError("max_workers must be greater than 0")
    for name in ("concurrency", "worker"):
        if name in options:
            raise ConfigurationError(
                f"Executor(max_workers={max_workers}, {name}=…): both mean the same; give one"
            )
    if options.get("nodes", 1) != 1:
        raise ConfigurationError(
            f"Executor(max_workers={max_workers}, nodes={options['nodes']!r}): max_workers is for a"
            " pool of one node; for more nodes, give nodes= and concurrency="
        )
    return max_workers


def _cancel_waiting(waiting: list[AnswerFuture]) -> None:
    for future in waiting:
        if future.cancel():
            future.set_running_or_notify_cancel()


def _in_thread(work: Callable[[], None]) -> None:
    """Not a daemon: the program's end waits for it."""
    threading.Thread(target=work, name="skyward-executor").start()


_with_pools: "weakref.WeakSet[Executor]" = weakref.WeakSet()
_registered = threading.Event()


def _finish_at_exit(executor: Executor) -> None:
    """For executors that nobody shuts down. Registered after a pool was opened, this runs before
    open pools are closed."""
    _with_pools.add(executor)
    if not _registered.is_set():
        _registered.set()
        atexit.register(_finish_all)


def _finish_all() -> None:
    for executor in list(_with_pools):
        if not executor._is_anothers():  # checked first: a child's locks may be held for ever
            executor.shutdown()


def _chunks(rows: Iterator[T], size: int) -> Iterator[tuple[T, ...]]:
    while chunk := tuple(islice(rows, size)):
        yield chunk


def _run_chunk(fn: Callable[..., Any], rows: tuple[tuple[Any, ...], ...]) -> list[Any]:
    """On the worker."""
    return [fn(*row) for row in rows]


def _buffered(
    executor: Executor,
    fn: Any,
    rows: Iterator[tuple[Any, ...]],
    sent: "deque[futures.Future[Any]]",
    end: float | None,
) -> Iterator[Any]:
    """The answers to the calls that were sent, and to one of each other row when one has been
    read. Keeps no answer."""
    try:
        while sent:
            sent.extend(executor.submit(fn, *row) for row in islice(rows, 1))
            left = None if end is None else end - time.monotonic()
            sent[0].result(left)
            yield sent.popleft().result()
    finally:
        for future in sent:
            future.cancel()


def _one_by_one(chunks: Iterator[list[T]]) -> Iterator[T]:
    try:
        for chunk in chunks:
            chunk.reverse()
            while chunk:
                yield chunk.pop()  # nothing of it is kept here
    finally:
        chunks.close()  # type: ignore[attr-defined]

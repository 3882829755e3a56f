"""joblib's tasks as calls of a pool. One batch of joblib's is one call."""

import queue
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from copy import copy
from typing import Any

from joblib import register_parallel_backend
from joblib.parallel import ParallelBackendBase, SequentialBackend

from skyward.call.limits import limit_together
from skyward.call.pending import PendingCompute
from skyward.exceptions import NotProvisionedError
from skyward.integrations.initial import Initial, initial_of, run_once
from skyward.pool.compute_pool import ComputePool
from skyward.task.instance_info import place_in_pool
from skyward.transport.forks import renewed
from skyward.transport.shared_arguments import SharedArguments

TARGET_SECONDS = 0.05
"""Tasks that are quicker than this go together, several in one call."""
MOST_IN_A_BATCH = 512
ABORT_SECONDS = 10.0
"""How long a failed Parallel call waits for its input, when that is about to yield a task."""

_pools: list[ComputePool] = []


@contextmanager
def use(pool: ComputePool) -> Iterator[None]:
    """Makes `pool` what ``backend="skyward"`` means, for the length of the block."""
    _pools.append(pool)
    try:
        yield
    finally:
        _pools.remove(pool)


class SkywardBackend(ParallelBackendBase):  # type: ignore[misc]
    """Registered with joblib as "skyward". Several Parallel calls may share one: those of different
    threads, or one that has handed out a generator which is not read to its end."""

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True
    supports_sharedmem = False
    uses_threads = False
    default_n_jobs = -1

    def __init__(self, pool: ComputePool | None = None, **options: Any) -> None:
        super().__init__(**options)
        if pool is None:
            if not _pools:
                raise NotProvisionedError(
                    'backend="skyward" has no pool; write: with joblib_backend(pool): …'
                )
            pool = _pools[-1]
        self._pool = pool
        self._options = options
        self._initial: Initial | None = None
        self._arguments = SharedArguments(pool)
        self._functions = _Functions()
        self._in_flight: dict[Future[Any], Any] = {}
        # Of a garbage collection, too, which may end a dropped generator anywhere.
        self._lock = renewed(threading.RLock())
        self._batch_size = 1
        self._finished: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    # ---- what joblib asks

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """0 and 1 are taken at their word; anything else is all slots of the pool."""
        return n_jobs if n_jobs in (0, 1) else self._pool.total_slots

    def configure(self, n_jobs: int = 1, parallel: Any = None, **options: Any) -> int:
        self.parallel = parallel
        options = {**self._options, **options}
        if (initializer := options.get("initializer")) is not None:
            self._initial = initial_of(initializer, tuple(options.get("initargs", ())))
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        # If this returns 1, joblib runs the calls itself, here; a pool of one slot must not.
        return 1 if n_jobs == 1 else max(2, self._pool.total_slots)

    def start_call(self) -> None:
        """What the last call's functions refer to may have changed since, and tasks may be slow."""
        self._functions = _Functions()
        self._batch_size = 1

    def submit(self, func: Any, callback: Any = None) -> "Future[Any]":
        """Never raises: joblib calls this from our thread too, where nobody would hear it."""
        try:
            _strip_warning_filters(func)
            call, known = self._functions.call_of(func, self.inner_max_num_threads, self._initial)
            if (limit := self._pool.default_compute_timeout) is not None:
                call = call.with_timeout(
                    limit_together(limit, len(getattr(func, "items", ())) or 1)
                )
            future: Future[Any] = self._pool._engine().submit_all([call], self._arguments, known)[0]
        except Exception as error:
            future = Future()
            future.set_exception(error)
        if callback is not None:
            with self._lock:
                self._in_flight[future] = getattr(callback, "parallel", None)
            future.add_done_callback(lambda done: self._hand_over(done, callback))
        return future

    def retrieve_result_callback(self, out: "Future[Any]") -> Any:
        return out.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancels the tasks of Parallel calls that have failed, running ones too."""
        with self._lock:
            in_flight = list(self._in_flight.items())
        for future, parallel in in_flight:
            if getattr(parallel, "_aborting", True):
                future.cancel()
        # A callback that began before may be about to send one task more, which would count as one
        # of the next call.
        thread, done = self._thread, threading.Event()
        if thread is not None and thread is not threading.current_thread():
            self._finished.put(done.set)
            done.wait(ABORT_SECONDS)

    def get_nested_backend(self) -> tuple[Any, None]:
        """On a worker, one thing after another: its neighbours have tasks of their own."""
        return SequentialBackend(nesting_level=(self.nesting_level or 0) + 1), None

    def compute_batch_size(self) -> int:
        return self._batch_size

    def batch_completed(self, batch_size: int, duration: float) -> None:
        """`duration` counts from the dispatch, and so includes the wait for a free slot: twice the
        batch at most, half of it when it was too much."""
        if batch_size != self._batch_size:
            return
        if duration < TARGET_SECONDS and self._batch_size < MOST_IN_A_BATCH:
            self._batch_size *= 2
        elif duration > 10 * TARGET_SECONDS and self._batch_size > 1:
            self._batch_size //= 2

    # ---- what is ours

    def close(self) -> None:
        """Forgets the shared arguments and ends the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._finished.put(None)
            if thread is not threading.current_thread():
                thread.join(10.0)
        self._arguments.close()

    def _hand_over(self, future: "Future[Any]", callback: Callable[[Any], None]) -> None:
        """joblib's callback fetches the user's next task and sends it: not in the pool's thread,
        for which that very task may be waiting."""
        if not future.cancelled():
            future.exception()  # joblib raises the first; the others are no news
        with self._lock:
            self._in_flight.pop(future, None)
            thread = self._thread
            if thread is None or (thread.ident and not thread.is_alive()):  # none, or the parent's
                self._thread = threading.Thread(
                    target=self._work, name="skyward-joblib", daemon=True
                )
                try:
                    self._thread.start()
                except RuntimeError:  # no more threads
                    self._thread = None
            is_alone = self._thread is None
        if is_alone:  # better here than never
            callback(future)
        else:
            self._finished.put(lambda: callback(future))

    def _work(self) -> None:
        while (step := self._finished.get()) is not None:
            step()

    def __reduce__(self) -> Any:
        return SequentialBackend, ()


class _Run:
    """The calls of one function, in batches: a worker loads the function once, and keeps it."""

    def __init__(self, function: Any, threads: int | None, initial: Initial | None) -> None:
        self.function = function
        self._threads = threads
        self._initial = initial

    def __call__(self, batch: Any) -> Any:
        batch.items = [(self.function, args, kwargs) for _, args, kwargs in batch.items]
        return _run(batch, self._threads, self._initial)


class _Functions:
    """Those of one Parallel call, each of which is serialized once."""

    KEPT = 8
    """Some programs make a new function for each item: the others go with each batch."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Any, int]] = {}
        """What the pool knows of each _Run, by its id."""
        self._lock = threading.Lock()
        self._runs: dict[int, _Run] = {}  # by the id of the function; both stay, and so do the ids

    def call_of(
        self, batch: Any, threads: int | None, initial: Initial | None
    ) -> tuple[PendingCompute[Any], dict[int, tuple[Any, int]] | None]:
        """The call that runs the batch, and `known`, if it is one of those that are kept."""
        items = getattr(batch, "items", ())
        if items and all(function is items[0][0] for function, _, _ in items):
            run = self._run_of(items[0][0], threads, initial)
            if run is not None:
                plain = copy(batch)
                plain.items = [(None, args, kwargs) for _, args, kwargs in items]
                return PendingCompute(run, (plain,), {}, _name(batch)), self.known
        return PendingCompute(_run, (batch, threads, initial), {}, _name(batch)), None

    def _run_of(self, function: Any, threads: int | None, initial: Initial | None) -> _Run | None:
        with self._lock:
            run = self._runs.get(id(function))
            if run is None and len(self._runs) < self.KEPT:
                run = self._runs[id(function)] = _Run(function, threads, initial)
            return run


def _run(batch: Callable[[], Any], threads: int | None, initial: Initial | None = None) -> Any:
    """On the worker. `threads`: what joblib calls inner_max_num_threads."""
    if initial is not None:
        run_once(initial)
    if threads is None:
        return batch()
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return batch()
    with threadpool_limits(threads):
        return batch()


def _name(batch: Any) -> str:
    """The name of the user's function, for messages and events."""
    items = getattr(batch, "items", None)
    function = items[0][0] if items else batch
    return getattr(function, "__name__", None) or type(function).__name__


_TRAVEL = {"builtins", "sklearn", "numpy", "scipy"}


def _strip_warning_filters(batch: Any) -> None:
    """scikit-learn sends this process's warning filters along, and with them every class of warning
    that somebody has filtered: those of packages that the worker may not have stay here."""
    if "sklearn" not in sys.modules:
        return
    for function, _, _ in getattr(batch, "items", ()):
        filters = getattr(function, "warning_filters", None)
        if filters:
            function.warning_filters = [item for item in filters if _travels(item[2])]


def _travels(category: Any) -> bool:
    kinds = category if isinstance(category, tuple) else (category,)
    return all(kind.__module__.partition(".")[0] in _TRAVEL for kind in kinds)


def _make_backend(**options: Any) -> ParallelBackendBase:
    """Inside a task there is no pool, and the slots beside it have tasks of their own."""
    if not _pools and options.get("pool") is None and place_in_pool() is not None:
        return SequentialBackend(nesting_level=options.get("nesting_level"))
    return SkywardBackend(**options)


register_parallel_backend("skyward", _make_backend)

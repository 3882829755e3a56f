"""The thread that completes futures."""

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import Any, Protocol

from skyward import _core
from skyward.call.pending import PendingCompute
from skyward.pool.outcome import answer_of, may_retry
from skyward.pool.stream import Stream
from skyward.pool.task_future import TaskFuture

CLOSE_SECONDS = 10.0
"""How long closing waits for an answer that is being handed over."""


class Sender(Protocol):
    """The open pool: what sends a call again."""

    core: Any

    def tell_retry(
        self, item: PendingCompute[Any], task: int, outcome: Any, left: int, /
    ) -> None: ...
    def tell_lines(self) -> None: ...


class Answers:
    """Completes futures from one thread, which starts with the first future."""

    def __init__(self, pool: Sender) -> None:
        self._pool = weakref.ref(pool)  # no cycle: a dropped pool frees its data at once
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
        """How many futures have neither an answer nor been cancelled."""
        with self._lock:
            return sum(not future.done() for _, _, future, _ in self._watched.values())

    def close(self) -> None:
        self._completions.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(CLOSE_SECONDS)

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
                self._finish(*self._take(token))  # no local name: this frame may wait for long

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
                if outcome.status != "ok" and retries and may_retry(outcome):
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
    except InvalidStateError:  # cancelled just now
        pass

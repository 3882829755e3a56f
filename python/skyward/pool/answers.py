"""The thread that completes futures."""

import pickle
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import InvalidStateError
from functools import partial
from typing import Any, Protocol

from skyward import _core
from skyward.call.pending import PendingCompute
from skyward.pool.outcome import answer_of
from skyward.pool.stream import Stream

CLOSE_SECONDS = 10.0
"""How long closing waits for an answer that is being handed over."""


TOGETHER = 16
"""Results that are taken at once, before the first of them is handed over."""


class Sender(Protocol):
    """The open pool: what sends a call again."""

    core: Any

    def tell_retry(
        self, item: PendingCompute[Any], task: int, outcome: Any, left: int, /
    ) -> None: ...
    def tell_lines(self) -> None: ...


class Receiver(Protocol):
    """What gets the answer of a call: a TaskFuture, or an executor."""

    handle: Any

    def cancelled(self) -> bool: ...
    def done(self) -> bool: ...
    def send_again(self, send: Callable[[], Any], /) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def fail(self, item: PendingCompute[Any], error: BaseException, /) -> None: ...


_Entry = tuple[PendingCompute[Any], Any, Receiver, int]  # with its call, and retries that are left


class Answers:
    """Hands over answers from one thread, which starts with the first one that is waited for."""

    def __init__(self, pool: Sender) -> None:
        self._pool = weakref.ref(pool)  # no cycle: a dropped pool frees its data at once
        self._lock = threading.Lock()
        self._completions = _core.Completions()
        self._thread: threading.Thread | None = None
        self._watched: dict[int, _Entry] = {}
        self._last = 0

    def watch(
        self,
        items: Sequence[PendingCompute[Any]],
        calls: Sequence[Any],
        receivers: Sequence[Receiver],
    ) -> None:
        entries: list[_Entry] = []
        for item, call, receiver in zip(items, calls, receivers, strict=True):
            if call.is_stream:
                receiver.set_result(Stream(receiver.handle, item.name))
            else:
                entries.append((item, call, receiver, item.retries))
        self._add(entries)

    def unfinished(self) -> int:
        """How many calls have neither an answer nor been cancelled."""
        with self._lock:
            return sum(not receiver.done() for _, _, receiver, _ in self._watched.values())

    def close(self) -> None:
        self._completions.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(CLOSE_SECONDS)

    def _add(self, entries: list[_Entry]) -> None:
        handles = [receiver.handle for _, _, receiver, _ in entries]
        with self._lock:
            if self._thread is None and entries:
                self._thread = threading.Thread(
                    target=self._work, name="skyward-answers", daemon=True
                )
                self._thread.start()
            first = self._last + 1
            self._last += len(entries)
            self._watched.update(enumerate(entries, first))
        self._completions.watch_all(handles, first)

    def _work(self) -> None:
        while tokens := self._completions.next():
            for at in range(0, len(tokens), TOGETHER):
                # No local names here: this frame may wait for long.
                self._finish_all(self._take(tokens[at : at + TOGETHER]))

    def _take(self, tokens: list[int]) -> list[_Entry]:
        with self._lock:
            return [self._watched.pop(token) for token in tokens]

    def _finish_all(self, entries: list[_Entry]) -> None:
        entries = [entry for entry in entries if not entry[2].cancelled()]
        pool = self._pool()
        try:
            results, others = _core.take_results(
                [receiver.handle for _, _, receiver, _ in entries], pickle.loads
            )
        except BaseException as error:
            for item, _, receiver, _ in entries:
                _settle(receiver.fail, item, error)
            return
        failed = dict(others)
        if pool is not None:
            pool.tell_lines()
        for place, entry in enumerate(entries):
            if place in failed:
                self._finish(pool, failed.pop(place), *entry)
                continue
            result, results[place] = [results[place]], None
            _settle(entry[2].set_result, result.pop())  # keep no reference to it

    def _finish(
        self,
        pool: Sender | None,
        outcome: Any,
        item: PendingCompute[Any],
        call: Any,
        receiver: Receiver,
        retries: int,
    ) -> None:
        task = receiver.handle.task
        try:
            if pool is not None and retries and outcome.may_retry:
                pool.tell_retry(item, task, outcome, retries)
                if receiver.send_again(partial(pool.core.submit, call)):
                    self._add([(item, call, receiver, retries - 1)])
                return
            result = answer_of(item.name, task, outcome)
        except BaseException as error:
            _settle(receiver.fail, item, error)
        else:
            _settle(receiver.set_result, result)


def _settle(settle: Callable[..., None], *values: Any) -> None:
    try:
        settle(*values)
    except InvalidStateError:  # cancelled just now
        pass

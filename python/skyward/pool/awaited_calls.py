"""Calls that are awaited in an asyncio loop: ``f(x).on(pool)``.

Those of one turn of the loop are sent together, in groups, and the answers that arrive together
wake the loop once."""

import asyncio
import threading
import weakref
from collections import deque
from typing import Any

from skyward.call.awaited import Awaited, awaited
from skyward.call.pending import PendingCompute
from skyward.exceptions import CancelledError
from skyward.pool.grouped_calls import FIRST_SECONDS, Pace, Paces, new_draft
from skyward.transport.forks import renewed

TOGETHER = 128
"""So many calls are sent before the turn of the loop ends: they run while others are made."""
TRIED_CALLS = 16
"""So many calls of a function are sent one by one. Those behind them wait a little for the first
answer, to see how many make a group."""


class _Awaited(Awaited):
    """`group`: where the call is. Cancelling tells it."""

    group: Any = None

    def cancel(self, msg: Any = None) -> bool:
        if not super().cancel(msg):
            return False
        if self.group is not None:
            self.group.note_cancelled()
        return True


class AwaitedCalls:
    """Those of one open pool and one loop. Used in the loop's thread; answers come from another
    one, and so may the end of the pool."""

    def __init__(self, pool: Any) -> None:
        self._pool = weakref.ref(pool)
        self._paces = Paces()
        self._lock = renewed(threading.RLock())
        # A group that has not been sent, and what its calls have in common:
        self._draft = new_draft()
        self._calls: list[_Awaited] = []
        self._fn: Any = None  # within one turn
        self._function: Any = None  # the core's
        self._name = ""
        self._pace = Pace()
        self._is_adding = False
        self._in_turn = False  # a call was sent in this turn of the loop
        self._arrived: deque[tuple[list[_Awaited], list[Any] | BaseException]] = deque()
        self._is_woken = False

    def send(self, pool: Any, item: PendingCompute[Any], loop: asyncio.AbstractEventLoop) -> Any:
        """Its arguments are pickled now. Returns a future of the loop, which is also a
        coroutine."""
        future = None
        with self._lock:
            if not self._is_adding:  # else this is called by an object that is being pickled
                self._is_adding = True
                try:
                    future = self._add(pool, item, loop)
                finally:
                    self._is_adding = False
        return awaited(pool.submit_all([item])[0], loop) if future is None else future

    def flush(self) -> None:
        """Sends what waits for the end of the turn."""
        with self._lock:
            pool = self._pool()
            self._check_draft()
            if not self._calls or pool is None:
                return
            calls = self._calls
            try:
                self._calls = []
                places = [at for at, call in enumerate(calls) if not call.done()]
                pool.answers.send_draft(
                    self._draft, self._function, self._name, calls, self._pace, self, places
                )
            except BaseException as error:  # Ctrl-C, too
                self._start_over(calls, error)
                if not isinstance(error, Exception):
                    raise

    def _check_draft(self) -> None:
        """Arguments and futures are known by their places. After an interrupt they may not match,
        and no call may get the answer of another one."""
        if self._draft.calls != len(self._calls):
            self._start_over(self._calls, None)

    def _start_over(self, calls: list[_Awaited], error: BaseException | None) -> None:
        self._draft, self._calls = new_draft(), []
        if not isinstance(error, Exception):
            error = CancelledError("interrupted while it was being sent")
        for call in calls:
            self.fail(call, error)

    def waiting(self) -> int:
        """Calls that have not been sent."""
        return len(self._calls)

    def _add(
        self, pool: Any, item: PendingCompute[Any], loop: asyncio.AbstractEventLoop
    ) -> _Awaited | None:
        """None if the call does not travel in a group."""
        if item.fn is self._fn and not (item.kwargs or item.retries or item.timeout):
            pace: Pace | None = self._pace
        else:
            pace = self._paces.of(pool, item)
        if pace is None:
            return None
        function = pool.packing.function(item)
        if self._function is not function or self._pace is not pace:
            self.flush()
        else:
            self._check_draft()
        if not self._draft.add(item.args):
            self.flush()  # it may have been full
            if not self._draft.add(item.args):
                pace.refuse()
                self._fn = None
                return None
        pace.refused = 0
        self._fn, self._function, self._name, self._pace = item.fn, function, item.name, pace
        future = _Awaited(loop=loop)
        self._calls.append(future)
        if self._is_due(pace):
            self.flush()
        if not self._in_turn:
            self._in_turn = True
            loop.call_soon(self._end_turn, loop)
        return future

    def _is_due(self, pace: Pace) -> bool:
        """Whether to send what waits before the turn ends."""
        if pace.size:
            return not self._in_turn or len(self._calls) >= min(pace.size, TOGETHER)
        pace.tried += 1
        return pace.tried <= TRIED_CALLS

    def _end_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._in_turn, self._fn = False, None
        if self._pace.size:
            self.flush()
        elif self._calls:
            loop.call_later(FIRST_SECONDS, self.flush)

    # ------------------------------------------------------------------ answers, from their thread

    def is_wanted(self, call: _Awaited) -> bool:
        return not call.done()

    def note_place(self, group: Any) -> None:
        for call in group.calls:
            call.group = group

    def settle(self, calls: list[_Awaited], results: list[Any]) -> None:
        self._arrive(calls, results)

    def fail(self, call: _Awaited, error: BaseException) -> None:
        self._arrive([call], error.with_traceback(None))

    def _arrive(self, calls: list[_Awaited], results: list[Any] | BaseException) -> None:
        self._arrived.append((calls, results))
        loop = calls[0].get_loop()
        if self._is_woken and not loop.is_closed():
            return
        self._is_woken = True
        try:
            loop.call_soon_threadsafe(self._hand_over)
        except RuntimeError:  # the loop has been closed: nobody waits for them
            self._arrived.clear()

    def _hand_over(self) -> None:
        """In the loop."""
        self._is_woken = False
        if not self._in_turn:  # calls that wait for the first answer
            self.flush()
        while self._arrived:
            calls, results = self._arrived.popleft()
            if isinstance(results, BaseException):
                if not calls[0].done():
                    calls[0].set_exception(results)
                continue
            for call, result in zip(calls, results, strict=True):
                if not call.done():
                    call.set_result(result)

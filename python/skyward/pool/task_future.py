"""The answer of a task, later."""

import logging
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from skyward.call.answers import AwaitableFuture
from skyward.call.pending import PendingCompute
from skyward.call.text import call_text
from skyward.exceptions import CancelledError, SkywardError
from skyward.pool.answer import AnswerFuture, Bringer
from skyward.pool.stream import cancel
from skyward.transport.forks import renewed

_swapping = renewed(threading.RLock())
"""Held while a retried call gets its next handle, and while a future is cancelled."""


class TaskFuture(AnswerFuture, AwaitableFuture[Any]):
    """The answer of a task, later. ``cancel()`` works until the answer is here: it stops the task
    on its worker. An error that nobody reads is logged."""

    keeps_outcome = False
    _unread = ""  # the failed call, until its error is read
    _told = False  # its task is being cancelled

    def __init__(self, handle: Any, bringer: Bringer | None = None) -> None:
        super().__init__(bringer)
        self.handle = handle

    @property
    def task(self) -> int:
        """Its number in events and logs; 0 if the call could not be sent."""
        return 0 if self.handle is None else int(self.handle.task)

    def send_again(self, send: Callable[[], Any]) -> bool:
        """Replaces a failed attempt by another one. False: it was cancelled meanwhile."""
        with _swapping:
            if self.cancelled():
                return False
            self.handle = send()
            return True

    def fail(self, item: PendingCompute[Any], error: BaseException) -> None:
        try:
            if not isinstance(error, CancelledError):  # whoever cancelled it knows
                self._unread = call_text(item)  # it may call a __repr__ of the user's
                _failed.add(self)
        finally:
            # Without the traceback, which would keep this future alive and has nothing of the
            # caller's.
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
        finally:
            del self  # its error's traceback has this frame

    def exception(self, timeout: float | None = None) -> BaseException | None:
        error = super().exception(timeout)
        self._unread = ""
        return error

    def _get_snapshot(self) -> Any:
        """How asyncio reads a future from Python 3.14 on."""
        self._unread = ""
        future: Any = super()
        return future._get_snapshot()

    def tell_if_unread(self) -> None:
        call, self._unread = self._unread, ""
        if not self._is_ours():  # a forked child: its parent tells
            return
        if call and not self.cancelled():  # else it was cancelled just before it failed
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
        with _swapping:  # `handle` is that of the latest attempt
            handle, first, self._told = self.handle, not self._told, True
        if first:  # one of several threads
            cancel(handle)
            self.set_running_or_notify_cancel()
        return True


class OutcomeFuture(TaskFuture):
    """Its result is the Outcome, still pickled, for a reader who may be slow: an unpickled result
    may take several times the memory."""

    keeps_outcome = True


_failed: "weakref.WeakSet[TaskFuture]" = weakref.WeakSet()


def tell_unread() -> None:
    """For futures that were never read, at the end of the program."""
    for future in list(_failed):
        future.tell_if_unread()

"""A cheap Future that handles falsy exceptions and detects forks."""

import logging
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any

from skyward.call.by_value import StaysHere
from skyward.exceptions import NotProvisionedError
from skyward.transport.forks import renewed

_OPEN = ("PENDING", "RUNNING")

_generation = 0
"""Another number in each forked child; the extension has one, too, but nodes have no extension."""
_making = renewed(threading.RLock())
"""Held where a future gets its condition, and where one that has none changes."""


def _note_fork() -> None:
    global _generation
    _generation += 1


os.register_at_fork(after_in_child=_note_fork)

_here = threading.local()

Bringer = weakref.ref[Any]
"""What brings the answers of a pool, from one thread."""


def bring_answers(bringer: Bringer) -> None:
    """Says of this thread that others wait for the answers that it brings."""
    _here.bringer = bringer


def brings_answers() -> bool:
    """Whether this is such a thread, of any pool."""
    return hasattr(_here, "bringer")


class _Unguarded:
    """The condition of futures that ended before anything needed one. They change no more: there is
    nothing to guard, nor to wait for. Whoever waits for several futures takes the locks of all; one
    lock that many of them share would be taken in no order."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None: ...

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None: ...

    def notify_all(self) -> None: ...


_ended = _Unguarded()


class _OnDemand:
    """The condition of a future, made when something first waits, is called back, or cancels. That
    takes half the time of making the future, and most of its memory, and few futures need it."""

    def __get__(self, future: "AnswerFuture | None", _: Any) -> Any:
        if future is None:
            return self
        # One that had a condition when it ended keeps it: another thread may have made it just now,
        # and whoever acquires what is returned here releases what the future then has.
        if future._state not in _OPEN and not future._has_condition:
            return _ended
        condition = threading.Condition()
        with _making:
            if future._state not in _OPEN and not future._has_condition:
                return _ended
            if not future._has_condition:
                future._condition = condition
                future._has_condition = True
            return future._condition


class _NoList(list[Any]):
    """The lists of futures that ended before anything needed one: there is nobody to tell."""

    def append(self, _: Any) -> None: ...

    def remove(self, _: Any) -> None: ...


_no_list = _NoList()


class _ListOnDemand:
    """One of a future's lists, made when it is first used. Few futures need theirs, and each object
    that lives makes the program's garbage collections longer."""

    def __set_name__(self, _: Any, name: str) -> None:
        self._name = name

    def __get__(self, future: "AnswerFuture | None", _: Any) -> Any:
        if future is None:
            return self
        if future._state == "FINISHED" and not future._has_condition:
            return _no_list
        made: list[Any] = []
        setattr(future, self._name, made)
        return made


class AnswerFuture(Future[Any], StaysHere):
    """One of concurrent.futures, which takes an exception that is false (a ``__len__`` of 0) for
    none. A forked child may read an answer that had come before the fork. Any other comes to the
    parent alone, and the child is refused at once."""

    _condition = _OnDemand()
    _has_condition = False
    _waiters = _ListOnDemand()
    _done_callbacks = _ListOnDemand()

    def __init__(self, bringer: Bringer | None = None) -> None:
        # The other fields of a Future:
        self._state = "PENDING"
        self._result = None
        self._exception = None
        self._owner = _generation
        self._bringer = bringer

    def set_running_or_notify_cancel(self) -> bool:
        with _making:
            if not self._has_condition and self._state == "PENDING":
                self._state = "RUNNING"
                return True
        return super().set_running_or_notify_cancel()

    def set_result(self, result: Any) -> None:
        with _making:
            if not self._has_condition and self._state in _OPEN:
                self._result = result
                self._state = "FINISHED"
                return
        super().set_result(result)

    def done(self) -> bool:
        return self._state not in _OPEN

    def result(self, timeout: float | None = None) -> Any:
        self._check_process()
        if self._state == "FINISHED" and self._exception is None:
            return self._result
        self._check_thread(timeout)
        error = None
        try:
            answer = super().result(timeout)
            if answer is None and (error := super().exception(0)) is not None:
                raise error
            return answer
        finally:
            del self, error  # the error's traceback has this frame

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._check_process()
        if self._state == "FINISHED":
            return self._exception
        self._check_thread(timeout)
        return super().exception(timeout)

    def __reduce__(self) -> Any:
        raise TypeError("a future stays in its program: pass its result, future.result()")

    def _is_ours(self) -> bool:
        """False in a forked child."""
        return self._owner == _generation

    def _check_thread(self, timeout: float | None) -> None:
        """Done callbacks run in the thread that brings the answers."""
        if timeout is not None or self._state not in _OPEN or self._bringer is None:
            return
        if getattr(_here, "bringer", None) is self._bringer:
            raise RuntimeError(
                "this future cannot end while a done callback of the same pool waits for it; in the"
                " callback, send calls with `>> pool`, or wait in another thread"
            )

    def _check_process(self) -> None:
        if self._is_ours():
            return
        if self._state in _OPEN:
            raise NotProvisionedError(
                "this future belongs to the parent process; wait for it there, or open another"
                " pool in this process"
            )
        # A thread that does not exist here may have held the parent's.
        self._condition = threading.Condition()


def set_results(futures: list[AnswerFuture], results: list[Any]) -> None:
    """``set_result()`` of each future that has not ended."""
    others: list[int] = []
    with _making:
        for place, future in enumerate(futures):
            if future._has_condition:
                others.append(place)
            elif future._state in _OPEN:
                future._result = results[place]
                future._state = "FINISHED"
    for place in others:
        settle(futures[place].set_result, results[place])


def settle(complete: Callable[..., None], *values: Any) -> None:
    """Completes a future. A thread that answers others goes on, whatever a done callback raises."""
    try:
        complete(*values)
    except InvalidStateError:  # cancelled just now
        pass
    except BaseException:
        if threading.current_thread() is threading.main_thread():  # Ctrl-C
            raise
        logging.getLogger("skyward").exception("raised while a future was completed")

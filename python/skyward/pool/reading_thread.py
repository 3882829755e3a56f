"""What ``async for`` reads a stream with."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from queue import SimpleQueue
from typing import Any, TypeVar

from skyward.transport.forks import renewed

R = TypeVar("R")


class ReadingThread:
    """A thread that reads for loops that wait, one item after another. It begins with the first,
    and ends when this is closed or dropped; the next item begins another."""

    def __init__(self) -> None:
        self._pieces: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._lock = renewed(threading.Lock())
        self._has_begun = False

    async def run(self, work: Callable[[], R]) -> R:
        """What `work` returns or raises. Whoever is cancelled meanwhile does not stop it."""
        answer: Future[R] = Future()
        waiting = asyncio.wrap_future(answer, loop=asyncio.get_running_loop())
        with self._lock:
            if not self._has_begun:
                # A daemon: the end of the program does not wait for it.
                threading.Thread(
                    target=_work, args=(self._pieces,), name="skyward-awaited", daemon=True
                ).start()
                self._has_begun = True
            self._pieces.put((work, answer))
        return await waiting

    def close(self) -> None:
        with self._lock:
            if self._has_begun:
                self._pieces.put(None)
                self._pieces, self._has_begun = SimpleQueue(), False

    def __del__(self) -> None:
        self.close()


def _work(pieces: "SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]") -> None:
    while (piece := pieces.get()) is not None:
        work, answer = piece
        try:
            result = work()
        except BaseException as error:
            _settle(answer.set_exception, error)
        else:
            _settle(answer.set_result, result)
            del result
        del piece, work, answer  # they may be the last that hold what is worked for


def _settle(settle: Callable[[Any], None], value: Any) -> None:
    try:
        settle(value)
    except (InvalidStateError, RuntimeError):
        pass  # cancelled just now, or the loop has ended

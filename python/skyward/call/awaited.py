"""Answers inside asyncio: futures that are coroutines."""

import asyncio
import inspect
from asyncio import futures
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from skyward.call.answers import AwaitedCall
from skyward.call.text import Recorded, note_position

R = TypeVar("R")


class Awaited(asyncio.Future[Any], AwaitedCall[Any]):
    """A future that is also a coroutine: ``TaskGroup.create_task()`` accepts nothing else."""

    _steps: Generator[Any, Any, Any] | None = None

    def send(self, value: Any) -> Any:
        return self._running().send(value)

    def throw(self, *error: Any) -> Any:
        if self._steps is None:  # a task that is cancelled before it begins
            self.cancel()
        return self._running().throw(*error)

    def close(self) -> None:
        if self._steps is None:
            self.cancel()
        else:
            self._steps.close()

    def _running(self) -> Generator[Any, Any, Any]:
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps


def awaited(answer: "Future[R]", loop: asyncio.AbstractEventLoop) -> AwaitedCall[R]:
    """The answer in this loop; cancelling either cancels the other."""
    future: Any = Awaited(loop=loop)
    futures._chain_future(answer, future)  # type: ignore[attr-defined]
    return future  # type: ignore[no-any-return]


def running_loop(what: Callable[[], str]) -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            f"{what()}.on(pool) needs a running asyncio loop, and there is none here; outside of"
            " async functions write … >> pool, or f(x) > pool for the future of one call"
        ) from None


class AwaitedBatch(Coroutine[Any, Any, tuple[Any, ...]]):
    """The answers of a batch. Whoever ends it before it has begun cancels the calls, too."""

    def __init__(
        self, futures: list[Any], items: Sequence[Recorded], return_exceptions: bool
    ) -> None:
        self._futures = futures
        self._answers = _all_of(futures, items, return_exceptions)

    def __await__(self) -> Generator[Any, Any, tuple[Any, ...]]:
        return self._answers.__await__()

    def send(self, value: Any) -> Any:
        return self._answers.send(value)

    def throw(self, *error: Any) -> Any:
        self._cancel_unbegun()
        return self._answers.throw(*error)

    def close(self) -> None:
        self._cancel_unbegun()
        self._answers.close()

    def _cancel_unbegun(self) -> None:
        if inspect.getcoroutinestate(self._answers) == inspect.CORO_CREATED:
            for future in self._futures:
                future.cancel()


async def _all_of(
    futures: list[Any], items: Sequence[Recorded], return_exceptions: bool
) -> tuple[Any, ...]:
    answers = await asyncio.gather(*futures, return_exceptions=True)
    # Not those that are exceptions: a function may return one.
    failed = [
        at
        for at, future in enumerate(futures)
        if future.cancelled() or future.exception() is not None
    ]
    for position in failed:
        note_position(answers[position], items, position, len(failed) - 1)
        if not return_exceptions:
            try:
                raise answers[position]
            finally:  # its traceback keeps this frame
                del answers, futures, failed, items
    return tuple(answers)

"""A pool's block inside asyncio: ``async with``. Other tasks of the loop run while machines start
and end."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Protocol

from skyward.pool.leave import end_block
from skyward.pool.machines import Opening


class Openable(Protocol):
    """A ComputePool."""

    def _open(self, *, opening: Opening) -> None: ...
    def _close(self, error: BaseException | None = None) -> None: ...


async def enter(pool: Openable) -> None:
    """Opens it. A task that is cancelled meanwhile goes on when everything has been released."""
    opening = Opening()
    answer, cancelled = await _to_its_end(lambda: pool._open(opening=opening), opening.abandon)
    if cancelled is not None and answer.exception() is None:  # it had opened already
        answer, _ = await _to_its_end(pool._close, lambda: None)
    try:
        _end(answer, cancelled)
    finally:
        del answer, cancelled  # their tracebacks have this frame


async def leave(pool: Openable, error: BaseException | None) -> None:
    """Closes it, to the end even if the task is cancelled meanwhile."""
    answer, cancelled = await _to_its_end(
        lambda: end_block(lambda: pool._close(error), error), lambda: None
    )
    try:
        _end(answer, cancelled)
    finally:
        del answer, cancelled  # their tracebacks have this frame


async def _to_its_end(
    work: Callable[[], None], on_cancel: Callable[[], object]
) -> tuple["Future[None]", asyncio.CancelledError | None]:
    """Runs `work` in a thread, in this context, and waits until it has ended, however often the
    task is cancelled. Returns how it ended, and the first cancellation."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    answer: Future[None] = Future()
    context = copy_context()

    def run() -> None:
        try:
            context.run(work)
        except BaseException as error:
            answer.set_exception(error)
        else:
            answer.set_result(None)
        try:
            loop.call_soon_threadsafe(ended.set)
        except RuntimeError:
            pass  # the loop has ended

    threading.Thread(target=run, name="skyward-block", daemon=True).start()
    cancelled = None
    while not ended.is_set():
        try:
            await ended.wait()
        except asyncio.CancelledError as error:
            cancelled = error if cancelled is None else cancelled
            on_cancel()
        except BaseException:  # the coroutine is closed: it cannot wait
            on_cancel()
            raise
    return answer, cancelled


def _end(answer: "Future[None]", cancelled: asyncio.CancelledError | None) -> None:
    """Raises what ended it. A cancellation reports machines that may be left."""
    if cancelled is None:
        return answer.result()
    try:
        end_block(answer.result, cancelled)
    except Exception:
        pass  # of an opening that was abandoned, or of a pool that is closed already
    raise cancelled

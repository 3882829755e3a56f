"""The block of one or several pools inside asyncio: ``async with``. Other tasks of the loop run
while machines start and end."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Protocol

from skyward.exceptions import MachinesLeftError
from skyward.pool.leave import end_block, report
from skyward.pool.machines import Opening


class Openable(Protocol):
    """A ComputePool or a MultiPool."""

    def _open(self, *, opening: Opening) -> None: ...
    def _close(self, error: BaseException | None = None) -> None: ...


async def enter(pool: Openable) -> None:
    """Opens. A task that is cancelled meanwhile goes on when everything has been released."""
    opening = Opening()
    error, cancelled = await _to_its_end(lambda: pool._open(opening=opening), opening.abandon)
    if cancelled is not None and error is None:  # it had opened already
        error, _ = await _to_its_end(pool._close, lambda: None)
    try:
        _raise(error, cancelled)
    finally:
        del error, cancelled  # their tracebacks have this frame


async def leave(pool: Openable, error: BaseException | None) -> None:
    """Closes, to the end even if the task is cancelled meanwhile."""
    why, cancelled = await _to_its_end(
        lambda: end_block(lambda: pool._close(error), error), lambda: None
    )
    try:
        _raise(why, cancelled)
    finally:
        del why, cancelled  # their tracebacks have this frame


async def _to_its_end(
    work: Callable[[], None], on_cancel: Callable[[], object]
) -> tuple[BaseException | None, asyncio.CancelledError | None]:
    """Runs `work` in a thread, in this context, and waits until it has ended, however often the
    task is cancelled. Returns what it has raised, and the first cancellation."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    raised: list[BaseException] = []
    context = copy_context()

    def run() -> None:
        try:
            context.run(work)
        except BaseException as error:
            raised.append(error)
        try:
            loop.call_soon_threadsafe(ended.set)
        except RuntimeError:
            pass  # the loop has ended

    try:
        threading.Thread(target=run, name="skyward-block", daemon=True).start()
    except RuntimeError:  # no more threads; and no pool may be left open
        run()
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
    return raised.pop() if raised else None, cancelled


def _raise(error: BaseException | None, cancelled: asyncio.CancelledError | None) -> None:
    """Raises what has ended it. A cancellation reports machines that may be left."""
    try:
        if cancelled is None:
            if error is not None:
                raise error
            return
        if isinstance(error, MachinesLeftError):
            report(error, cancelled)
        raise cancelled
    finally:
        del error, cancelled

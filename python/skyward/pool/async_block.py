"""A pool's block inside asyncio: ``async with``. Other tasks of the loop run while machines start
and end."""

import asyncio
import contextlib
from collections.abc import Callable

from skyward.call.awaited import in_thread


async def opened(opening: Callable[[], None], abandon: Callable[[], object]) -> None:
    """Runs `opening` in a thread. A task that is cancelled meanwhile abandons it, and goes on when
    everything has been released."""
    await _to_its_end(opening, abandon)


async def closed(closing: Callable[[], None]) -> None:
    """Runs `closing` in a thread, to its end even if the task is cancelled meanwhile."""
    await _to_its_end(closing, lambda: None)


async def _to_its_end(work: Callable[[], None], on_cancel: Callable[[], object]) -> None:
    done = asyncio.ensure_future(in_thread(work))
    try:
        await asyncio.shield(done)
    except asyncio.CancelledError:
        if not done.done():
            on_cancel()
            with contextlib.suppress(Exception):
                await done
        raise

"""The items of a generator that runs on a worker."""

import threading
from typing import TYPE_CHECKING, Any

from skyward.call.answers import Stream
from skyward.call.by_value import StaysHere
from skyward.exceptions import CancelledError, NotProvisionedError, SkywardError
from skyward.pool.outcome import answer_of
from skyward.transport import serialize
from skyward.transport.forks import renewed

if TYPE_CHECKING:
    from skyward.pool.reading_thread import ReadingThread

_ENDED = object()


class TaskStream(Stream[Any], StaysHere):
    """The items of a generator that runs on a worker, as they arrive. The generator is at most a
    few items ahead.

    ``close()`` (also leaving a ``with`` block, or dropping the object) cancels the rest.
    """

    def __init__(self, handle: Any, name: str) -> None:
        self._handle = handle
        self._name = name
        self._lock = renewed(threading.Lock())  # one reader at a time
        self._reading: ReadingThread | None = None  # the thread that reads for loops
        self._is_cut = False  # by the end of a reader that was interrupted or cancelled

    def __repr__(self) -> str:
        return f"Stream({self._name}(…), {'ended' if self._handle is None else 'open'})"

    def __reduce__(self) -> Any:
        raise TypeError("a stream stays in its program: pass its items, list(stream)")

    def __next__(self) -> Any:
        __tracebackhide__ = True  # for notebooks and pytest
        handle: Any = None
        try:
            with self._lock:
                handle = self._handle
                if handle is None:
                    raise self._end()
                try:
                    item = handle.next()
                except Exception:
                    self._cut()
                    raise
                if item is None:
                    if self._handle is None:  # closed by another thread
                        raise self._end()
                    self._handle = None
            if item is not None:
                return serialize.loads(item, f"{self._name}()")
            outcome = handle.take()
            try:
                if outcome.status != "ok":
                    answer_of(self._name, handle.task, outcome)
            except SkywardError as error:
                raise error.with_traceback(None) from error.__cause__  # the caller's line counts
        except Exception:
            raise
        except BaseException:  # Ctrl-C: what it had taken is lost
            if handle is not None:
                self._cut()
            raise
        raise StopIteration

    async def __anext__(self) -> Any:
        from asyncio import CancelledError

        if self._reading is None:
            from skyward.pool.reading_thread import ReadingThread

            self._reading = ReadingThread()
        try:
            item = await self._reading.run(lambda: next(self, _ENDED))
        except (CancelledError, GeneratorExit, KeyboardInterrupt):
            self._cut()  # its thread may have an item, or get one
            raise
        if item is _ENDED:
            self._reading.close()
            raise StopAsyncIteration
        return item

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            cancel(handle)
        if self._reading is not None:
            self._reading.close()

    def _cut(self) -> None:
        """Closes it for a reader that was interrupted or cancelled. A later read raises
        CancelledError, so nobody mistakes this for the generator's end."""
        self._is_cut = True
        self.close()

    def _end(self) -> BaseException:
        if not self._is_cut:
            return StopIteration()
        return CancelledError(
            f"{self._name}(): the stream was closed when a read of it was interrupted or cancelled;"
            " items after that may be missing"
        )

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()


def cancel(handle: Any) -> None:
    try:
        handle.cancel()
    except NotProvisionedError:  # a forked child: the task is its parent's
        pass

"""Results that arrive later, as programs and type checkers see them. Pools make them."""

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

R = TypeVar("R")
T = TypeVar("T", covariant=True)


class Stream(Iterator[T]):
    """The items of a generator that runs on a worker, as they arrive. Read it with ``for`` or, in
    asyncio, ``async for``."""

    def __iter__(self) -> Self:
        return self

    def __aiter__(self) -> Self:
        return self

    @abstractmethod
    async def __anext__(self) -> T:
        """The next item; other tasks of the asyncio loop run meanwhile."""

    @abstractmethod
    def close(self) -> None:
        """Stops the generator; it runs its ``finally`` blocks."""

    async def aclose(self) -> None:
        """The same, for ``contextlib.aclosing``. Does not wait."""
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AwaitableFuture(Future[R]):
    """The future of a call, which asyncio can await, too."""

    @property
    def task(self) -> int:
        """The id of its task in events. A retry has another one."""
        raise NotImplementedError

    def __await__(self) -> Generator[Any, None, R]:
        import asyncio

        return asyncio.wrap_future(self).__await__()


class AwaitedCall(Coroutine[object, object, T]):
    """A call inside asyncio: a future of the loop that is also a coroutine. Not for
    ``asyncio.wait()``, which refuses coroutines."""

    __slots__ = ()

    @abstractmethod
    def cancel(self, msg: Any = None) -> bool:
        """Stops the call on its worker. False if it has ended."""

    @abstractmethod
    def done(self) -> bool: ...

    @abstractmethod
    def cancelled(self) -> bool: ...

    @abstractmethod
    def result(self) -> T:
        """The answer of a call that has ended. Does not wait."""

    @abstractmethod
    def exception(self) -> BaseException | None: ...

    @abstractmethod
    def add_done_callback(self, fn: Callable[[Any], object], /) -> None: ...

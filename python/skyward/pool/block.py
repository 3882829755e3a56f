"""A whole function as the block of a pool: ``@sky.pool(nodes=4)``, and ``>> sky`` inside it.

    @sky.pool(nodes=4)
    def main():
        print(train(data) @ sky)

``skyward.pool`` is also the package around this file, and becomes an attribute of ``skyward`` as
soon as it is imported; so that the decorator is there all the same, that package can be called."""

import importlib
from collections.abc import Callable, Generator
from contextvars import copy_context
from functools import partial, wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from types import ModuleType, TracebackType
from typing import Any, TypeVar, overload

from skyward.call.target import _innermost, enclosing
from skyward.pool.compute_pool import ComputePool

F = TypeVar("F", bound=Callable[..., Any])


@overload
def pool(function: F, /) -> F: ...
@overload
def pool(**options: Any) -> "Block": ...
def pool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Opens a pool for each call of the function and closes it when the call ends; for a generator,
    from its first item to its end.

    `options` are those of ComputePool; ``with pool(nodes=4) as opened:`` also opens one, as does
    ``async with``. Inside, ``f(x) >> sky`` and ``f(x) @ sky`` mean that pool; ``sky`` is this
    package, as imported."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(function):
            raise TypeError(
                f"@pool needs a function, not {type(function).__name__};"
                " pass options by keyword: @pool(nodes=2)"
            )

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with ComputePool(**options):
                return function(*args, **kwargs)

        @wraps(function)
        async def call_later(*args: Any, **kwargs: Any) -> Any:
            async with ComputePool(**options):
                return await function(*args, **kwargs)

        @wraps(function)
        def items(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            def steps() -> Generator[Any, Any, Any]:
                with ComputePool(**options):
                    return (yield from function(*args, **kwargs))

            return (yield from _in_its_own_context(steps()))

        if isasyncgenfunction(function):
            raise TypeError(
                f"@pool: {function.__name__} is an async generator; write"
                " `async with ComputePool(…):` inside it"
            )
        if isgeneratorfunction(function):
            return items
        return call_later if iscoroutinefunction(function) else call

    return Block(decorate, options) if function is None else decorate(function)


class Block:
    """``@sky.pool(nodes=4)`` above a function, or ``with sky.pool(nodes=4) as pool:``."""

    def __init__(self, decorate: Callable[..., Any], options: dict[str, Any]) -> None:
        self._decorate = decorate
        self._options = options
        self._pools: list[ComputePool] = []  # entered and not left

    def __call__(self, function: F) -> F:
        decorated: F = self._decorate(function)
        return decorated

    def __enter__(self) -> ComputePool:
        opened = ComputePool(**self._options).open()
        self._pools.append(opened)
        return opened

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._take().__exit__(kind, error, traceback)

    async def __aenter__(self) -> ComputePool:
        opened = await ComputePool(**self._options).__aenter__()
        self._pools.append(opened)
        return opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._take().__aexit__(kind, error, traceback)

    def _take(self) -> ComputePool:
        """The one that this block leaves: several threads or tasks may have entered."""
        around = enclosing(_innermost.get())  # perhaps of one opened inside, and not closed
        opened: ComputePool = next(
            (pool for pool in around if pool in self._pools), self._pools[-1]
        )
        self._pools.remove(opened)
        return opened


def _in_its_own_context(steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """``yield from steps``, but between the items the caller does not see its context variables,
    nor does another generator."""
    run = copy_context().run
    step: Callable[[], Any] = partial(next, steps)
    while True:
        try:
            item = run(step)
        except StopIteration as end:
            return end.value
        try:
            step = partial(steps.send, (yield item))
        except GeneratorExit:
            run(steps.close)
            raise
        except BaseException as error:
            step = partial(steps.throw, error)


class CallableModule(ModuleType):
    """The class of the package skyward.pool."""

    def __call__(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        return pool(function, **options)  # type: ignore[type-var]

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)

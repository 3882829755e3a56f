"""A whole function as the block of a pool: ``@sky.pool(nodes=4)``, and ``>> sky`` inside it.

    @sky.pool(nodes=4)
    def main():
        print(train(data) @ sky)

``skyward.pool`` is also the package around this file, and becomes an attribute of ``skyward`` as
soon as it is imported; so that the decorator is there all the same, that package can be called."""

import importlib
from collections.abc import Callable, Generator
from contextlib import _AsyncGeneratorContextManager, _GeneratorContextManager
from functools import partial, wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction, unwrap
from types import AsyncGeneratorType, CoroutineType, GeneratorType, ModuleType, TracebackType
from typing import Any, TypeVar, overload

from skyward.call.target import _innermost, enclosing
from skyward.call.text import name_of
from skyward.callback import _ambient
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
                result = function(*args, **kwargs)
                _refuse_later_body(function, result)
                return result

        @wraps(function)
        async def call_later(*args: Any, **kwargs: Any) -> Any:
            async with ComputePool(**options):
                return await function(*args, **kwargs)

        @wraps(function)
        def items(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with ComputePool(**options):
                return (yield from _apart(function(*args, **kwargs)))

        if isasyncgenfunction(function):
            raise TypeError(
                f"@pool: {function.__name__} is an async generator; write"
                " `async with ComputePool(…):` inside it"
            )
        if isgeneratorfunction(function):
            return items
        return call_later if iscoroutinefunction(function) else call

    if options:
        ComputePool(**options)  # starts nothing, and refuses wrong options on this line
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
        opened = ComputePool(**self._options).__enter__()
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


def _refuse_later_body(function: Callable[..., Any], result: Any) -> None:
    """A decorator may hide that the function is asynchronous or a generator: what it returned would
    run its body when the pool has closed."""
    kinds = _AsyncGeneratorContextManager, _GeneratorContextManager
    body = result.gen if isinstance(result, kinds) else result
    if isinstance(body, CoroutineType):
        kind, code = "a coroutine", body.cr_code
    elif isinstance(body, GeneratorType):
        kind, code = "a generator", body.gi_code
    elif isinstance(body, AsyncGeneratorType):
        kind, code = "an async generator", body.ag_code
    else:
        return
    if code is not getattr(unwrap(function), "__code__", None):
        return  # made by another function, which may need no pool
    if not isinstance(body, AsyncGeneratorType):
        body.close()
    raise TypeError(
        f"@pool: {name_of(function)} returned {'a context manager' if body is not result else kind}"
        ", whose body would run after the pool has closed. Put @pool below the other decorators, or"
        " write `with sky.pool(…):` inside the function"
    )


def _apart(steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """``yield from steps``, where other pools may be entered between the items: each step is inside
    the pools that the step before it was in, and the caller stays in its own. A caller that enters
    none is inside those of the steps, as with contextlib.contextmanager."""
    step: Callable[[], Any] = partial(next, steps)
    inside: _Place | None = None
    while True:
        outside = _place()
        is_elsewhere = inside is not None and outside != inside
        _go(inside or outside)
        try:
            item = step()
        except StopIteration as end:
            return end.value
        finally:
            del step  # it may hold an error, whose traceback has this frame
            inside = _place()
            if is_elsewhere:
                _go(outside)
        try:
            step = partial(steps.send, (yield item))
        except GeneratorExit:
            outside = _place()
            _go(inside)
            try:
                steps.close()
            finally:
                if outside != inside:
                    _go(outside)
            raise
        except BaseException as error:
            step = partial(steps.throw, error)


_Place = tuple[Any, Any]
"""Who hears of events, and what ``>> sky`` means."""


def _place() -> _Place:
    return _ambient.get(), _innermost.get()


def _go(place: _Place) -> None:
    _ambient.set(place[0])
    _innermost.set(place[1])


class CallableModule(ModuleType):
    """The class of the package skyward.pool."""

    def __call__(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        return pool(function, **options)  # type: ignore[type-var]

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)

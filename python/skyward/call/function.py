"""Recorded calls: ``train(data)`` is a PendingCompute until it is sent to a pool.

train(data) >> pool                     one worker, the result
train(data) @ pool                      every worker, a tuple in rank order
train(data) > pool                      one worker; a future, at once
(f() & g()) >> pool                     at the same time, a tuple in the order written
gather(*[f(x) for x in data]) >> pool   the same for any number
gather(*calls, stream=True) >> pool     an iterator: each answer as it comes
await train(data).on(pool)              from asyncio
"""

import inspect
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, update_wrapper
from types import FunctionType, ModuleType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypeAlias,
    TypeVar,
    TypeVarTuple,
    cast,
    overload,
)

from skyward.call.target import resolve
from skyward.exceptions import ConfigurationError, ConfigurationTypeError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from concurrent.futures import Future

    from skyward.pool.compute_pool import ComputePool

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R", covariant=True)
S = TypeVar("S")
Ts = TypeVarTuple("Ts")
SHOWN_ARGUMENTS = 6
"""Of a call, in messages."""
Target: TypeAlias = "ComputePool | ModuleType"
"""The right side of an operator: a pool, or the package (``>> sky``) for the pool around."""


class ComputeFunction(Generic[P, R]):
    """A function that, when called, writes the call down. Made by ``@compute``; immutable."""

    __slots__ = ("__dict__", "__weakref__", "_check", "_fn", "_is_method", "_retries", "_timeout")
    __name__: str
    _check: Callable[..., None] | None
    _fn: Callable[P, R]
    _timeout: float | None
    _retries: int
    _is_method: bool
    """Of an object: `_fn` is a partial with the object."""

    def __init__(self, fn: Callable[P, R], timeout: float | None = None, retries: int = 0) -> None:
        timeout, retries = _limits(timeout, retries)
        update_wrapper(self, fn, updated=())
        self.__dict__.setdefault("__name__", name_of(fn))
        object.__setattr__(self, "_fn", fn)
        object.__setattr__(self, "_check", None)
        object.__setattr__(self, "_is_method", False)
        object.__setattr__(self, "_timeout", timeout)
        object.__setattr__(self, "_retries", retries)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") or name not in ("_fn", "_timeout", "_retries"):
            object.__setattr__(self, name, value)
            return
        raise AttributeError("a ComputeFunction is immutable; decorate the function again")

    @overload
    def __get__(self, instance: None, owner: Any = None) -> "ComputeFunction[P, R]": ...
    @overload
    def __get__(
        self: "ComputeFunction[Concatenate[Any, Q], S]", instance: object, owner: Any = None
    ) -> "ComputeFunction[Q, S]": ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A method of an object: the object travels along as the first argument."""
        fn = self._fn
        if instance is None or isinstance(fn, staticmethod) or not hasattr(fn, "__get__"):
            return self
        bound: Any = update_wrapper(partial(fn, instance), fn)
        del bound.__wrapped__  # its signature begins behind the object
        method = self.with_function(bound)
        object.__setattr__(method, "_is_method", True)
        return method

    @property
    def local(self) -> Callable[P, R]:
        """The function itself: calling it runs it here, now."""
        return self._fn

    def with_function(self, fn: Callable[P, S]) -> "ComputeFunction[P, S]":
        """The same limits around another function; for decorators that stand above ``@compute``."""
        return ComputeFunction(fn, self._timeout, self._retries)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> "PendingCompute[R]":
        check = self._check
        if check is None:
            check = _check_of(self._fn)
            object.__setattr__(self, "_check", check)
        check(*args, **kwargs)
        for value in (*args, *kwargs.values()) if kwargs else args:
            if type(value) is PendingCompute:
                raise _not_made(self.__name__, value)
        return self.written_down(args, kwargs)

    def written_down(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> "PendingCompute[R]":
        """The call, whatever its arguments are."""
        fn: Any = self._fn
        if self._is_method:  # the object is an argument: the function's body is sent once
            fn, args = fn.func, (*fn.args, *args)
        return PendingCompute(fn, args, kwargs, self.__name__, self._timeout, self._retries)

    if not TYPE_CHECKING:  # a type checker shall refuse these

        def __rshift__(self, other: Any) -> Any:
            raise self._not_called(f"{self.__name__}(…) >> pool")

        def __gt__(self, other: Any) -> Any:
            raise self._not_called(f"{self.__name__}(…) > pool")

        def __matmul__(self, other: Any) -> Any:
            raise self._not_called(f"{self.__name__}(…) @ pool")

        def __and__(self, other: Any) -> Any:
            raise self._not_called(f"({self.__name__}(…) & …) >> pool")

    def _not_called(self, right: str) -> TypeError:
        return TypeError(f"{self.__name__} has not been called; write {right}")

    def __repr__(self) -> str:
        return f"ComputeFunction({self.__name__})"

    def __reduce__(self) -> Any:
        from skyward.transport.serialize import reduce_by_value

        return reduce_by_value(ComputeFunction, (self._fn, self._timeout, self._retries))


@overload
def compute(fn: Callable[P, R], /) -> ComputeFunction[P, R]: ...
@overload
def compute(
    *, timeout: float | None = None, retries: int = 0
) -> Callable[[Callable[P, R]], ComputeFunction[P, R]]: ...
def compute(fn: Any = None, /, *, timeout: float | None = None, retries: int = 0) -> Any:
    """Makes a function lazy: a call returns a PendingCompute, to be sent to a pool.

    `timeout` is the run time allowed, in seconds, from the moment a worker starts the call.
    `retries` is how often to run the call again if the function raises or its worker dies. Works
    on any callable that can be pickled."""
    if fn is None:
        timeout, retries = _limits(timeout, retries)
        return lambda function: compute_with(function, timeout, retries)
    return compute_with(fn, timeout, retries)


lazy = compute
"""Another name of ``compute``."""


def compute_with(fn: Any, timeout: float | None, retries: int) -> "ComputeFunction[Any, Any]":
    if isinstance(fn, ComputeFunction):
        return ComputeFunction(
            fn.local, timeout if timeout is not None else fn._timeout, retries or fn._retries
        )
    if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        raise ConfigurationTypeError(
            f"@compute: {name_of(fn)} is async, and a worker makes one plain call at a time; leave"
            " async out, or call asyncio.run(…) inside. To wait for an answer with await:"
            f" await {name_of(fn)}(…).on(pool)"
        )
    if not callable(fn):
        raise TypeError(
            f"@compute needs a function, not {type(fn).__name__};"
            " options go by keyword: @compute(timeout=60)"
        )
    return ComputeFunction(fn, timeout, retries)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class PendingCompute(Generic[R]):
    """A recorded call. Immutable and picklable; sending it twice runs it twice."""

    fn: Callable[..., R]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    timeout: float | None = None
    """Run time allowed, in seconds; None: no limit."""
    retries: int = 0

    @property
    def kwargs_dict(self) -> dict[str, Any]:
        """The same as `kwargs`."""
        return self.kwargs

    def with_timeout(self, seconds: float | None) -> "PendingCompute[R]":
        """The same call with another time limit."""
        return replace(self, timeout=_limits(seconds, self.retries)[0])

    def __eq__(self, other: object) -> bool:
        """The same function with equal arguments. Values that do not compare as a whole (arrays)
        are equal when they are the same object."""
        if not isinstance(other, PendingCompute):
            return NotImplemented
        try:
            return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)
        except Exception:
            return False

    def __hash__(self) -> int:
        return hash((self.fn, self.name))

    def __rshift__(self, pool: Target) -> R:
        __tracebackhide__ = True
        run = getattr(resolve(pool), "run", None)
        return run(self) if run is not None else NotImplemented

    def __gt__(self, pool: Target) -> "Future[R]":
        __tracebackhide__ = True
        submit = getattr(resolve(pool), "submit", None)
        return submit(self) if submit is not None else NotImplemented

    def __matmul__(self, pool: Target) -> tuple[R, ...]:
        __tracebackhide__ = True
        broadcast = getattr(resolve(pool), "broadcast", None)
        return broadcast(self) if broadcast is not None else NotImplemented

    @overload
    def __and__(self, other: "PendingCompute[S]") -> "PendingBatch[R, S]": ...
    @overload
    def __and__(self, other: "PendingBatch[*Ts]") -> "PendingBatch[R, *Ts]": ...
    def __and__(self, other: Any) -> "PendingBatch[*tuple[Any, ...]]":
        return _join(self, other)

    if not TYPE_CHECKING:

        def __rand__(self, other: Any) -> Any:
            raise _not_pending(other)

    if not TYPE_CHECKING:

        def __await__(self) -> Any:
            raise TypeError(
                f"{call_text(self)} has not been sent; write await {self.name}(…).on(pool)"
            )

    def on(self, pool: "ComputePool") -> "Coroutine[Any, Any, R]":
        """The call as a future of the running asyncio loop; it is sent at once. It is a coroutine,
        too, so that ``create_task()`` takes it."""
        from skyward.call.awaited import awaited

        loop = _running_loop(call_text(self))
        return awaited(pool.submit(self), loop)

    def __repr__(self) -> str:
        return f"PendingCompute({call_text(self)})"

    def __reduce__(self) -> Any:
        from skyward.transport.serialize import reduce_by_value

        fields = (self.fn, self.args, self.kwargs, self.name, self.timeout, self.retries)
        return reduce_by_value(PendingCompute, fields)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class PendingBatch(Generic[*Ts]):
    """Calls to be made at the same time; the answers come in the order of the calls."""

    items: tuple[PendingCompute[Any], ...]
    return_exceptions: bool = False

    @property
    def computations(self) -> tuple[PendingCompute[Any], ...]:
        """The same as `items`."""
        return self.items

    def with_timeout(self, seconds: float | None) -> "PendingBatch[*Ts]":
        """The same calls, each with this time limit."""
        return replace(self, items=tuple(item.with_timeout(seconds) for item in self.items))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PendingBatch):
            return NotImplemented
        return (self.items, self.return_exceptions) == (other.items, other.return_exceptions)

    def __hash__(self) -> int:
        return hash(self.items)

    def __rshift__(self, pool: Target) -> tuple[*Ts]:
        __tracebackhide__ = True
        run_batch = getattr(resolve(pool), "run_batch", None)
        return run_batch(self) if run_batch is not None else NotImplemented

    @overload
    def __and__(self, other: PendingCompute[S]) -> "PendingBatch[*Ts, S]": ...
    @overload
    def __and__(
        self, other: "PendingBatch[*tuple[Any, ...]]"
    ) -> "PendingBatch[*tuple[Any, ...]]": ...
    def __and__(self, other: Any) -> "PendingBatch[*tuple[Any, ...]]":
        return _join(self, other)

    if not TYPE_CHECKING:  # a type checker shall refuse both

        def __rand__(self, other: Any) -> Any:
            raise _not_pending(other)

        def __matmul__(self, pool: Any) -> Any:
            raise TypeError("a batch cannot be broadcast; broadcast one call at a time: f() @ pool")

    def on(self, pool: "ComputePool") -> "Coroutine[Any, Any, tuple[*Ts]]":
        """The batch as an awaitable of the running asyncio loop; it is sent at once. All calls
        finish, then the first failing one (in the order written) raises."""
        import asyncio

        loop = _running_loop(repr(self))
        futures = [asyncio.wrap_future(future, loop=loop) for future in pool.submit_batch(self)]
        return cast("Coroutine[Any, Any, tuple[*Ts]]", _all_of(futures, self))

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[PendingCompute[Any]]:
        return iter(self.items)

    def __repr__(self) -> str:
        names = [item.name for item in self.items[:8]] + ["…"] * (len(self.items) > 8)
        return f"PendingBatch({', '.join(names)})"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class PendingStream(Generic[S]):
    """Calls to be made at the same time, whose answers are given one by one."""

    items: tuple[PendingCompute[Any], ...]
    ordered: bool = True
    return_exceptions: bool = False

    def with_timeout(self, seconds: float | None) -> "PendingStream[S]":
        """The same calls, each with this time limit."""
        return replace(self, items=tuple(item.with_timeout(seconds) for item in self.items))

    def __rshift__(self, pool: Target) -> Generator[S, None, None]:
        __tracebackhide__ = True
        submit = getattr(resolve(pool), "submit_batch", None)
        if submit is None:
            return NotImplemented
        answers = _as_they_come(deque(submit(PendingBatch(self.items))), self)
        next(answers)  # from here on, dropping it cancels what is left
        return answers

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[PendingCompute[Any]]:
        return iter(self.items)

    def __repr__(self) -> str:
        return f"PendingStream{repr(PendingBatch(self.items)).removeprefix('PendingBatch')}"


T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T5 = TypeVar("T5")
T6 = TypeVar("T6")
T7 = TypeVar("T7")
T8 = TypeVar("T8")


@overload
def gather() -> "PendingBatch[()]": ...
@overload
def gather(a: PendingCompute[T1], /) -> PendingBatch[T1]: ...
@overload
def gather(a: PendingCompute[T1], b: PendingCompute[T2], /) -> PendingBatch[T1, T2]: ...
@overload
def gather(
    a: PendingCompute[T1], b: PendingCompute[T2], c: PendingCompute[T3], /
) -> PendingBatch[T1, T2, T3]: ...
@overload
def gather(
    a: PendingCompute[T1], b: PendingCompute[T2], c: PendingCompute[T3], d: PendingCompute[T4], /
) -> PendingBatch[T1, T2, T3, T4]: ...
@overload
def gather(
    a: PendingCompute[T1],
    b: PendingCompute[T2],
    c: PendingCompute[T3],
    d: PendingCompute[T4],
    e: PendingCompute[T5],
    /,
) -> PendingBatch[T1, T2, T3, T4, T5]: ...
@overload
def gather(
    a: PendingCompute[T1],
    b: PendingCompute[T2],
    c: PendingCompute[T3],
    d: PendingCompute[T4],
    e: PendingCompute[T5],
    f: PendingCompute[T6],
    /,
) -> PendingBatch[T1, T2, T3, T4, T5, T6]: ...
@overload
def gather(
    a: PendingCompute[T1],
    b: PendingCompute[T2],
    c: PendingCompute[T3],
    d: PendingCompute[T4],
    e: PendingCompute[T5],
    f: PendingCompute[T6],
    g: PendingCompute[T7],
    /,
) -> PendingBatch[T1, T2, T3, T4, T5, T6, T7]: ...
@overload
def gather(
    a: PendingCompute[T1],
    b: PendingCompute[T2],
    c: PendingCompute[T3],
    d: PendingCompute[T4],
    e: PendingCompute[T5],
    f: PendingCompute[T6],
    g: PendingCompute[T7],
    h: PendingCompute[T8],
    /,
) -> PendingBatch[T1, T2, T3, T4, T5, T6, T7, T8]: ...
@overload
def gather(
    *computations: PendingCompute[S], stream: Literal[True], ordered: bool = True
) -> PendingStream[S]: ...
@overload
def gather(
    *computations: PendingCompute[S],
    stream: Literal[True],
    ordered: bool = True,
    return_exceptions: Literal[True],
) -> PendingStream[S | Exception]: ...
@overload
def gather(
    *computations: PendingCompute[S], return_exceptions: Literal[True]
) -> PendingBatch[*tuple[S | Exception, ...]]: ...
@overload
def gather(*computations: PendingCompute[S]) -> PendingBatch[*tuple[S, ...]]: ...
def gather(
    *computations: Any, stream: bool = False, ordered: bool = True, return_exceptions: bool = False
) -> Any:
    """Calls to be made at the same time: ``gather(*[f(x) for x in data]) >> pool`` is a tuple in
    this order.

    With `stream` it is an iterator, which gives each answer as it comes: in this order, or, if not
    `ordered`, the first one that is ready first. All calls are sent at once. One that fails raises
    at its place; what is not done then, or when the iterator is dropped, is cancelled.

    With `return_exceptions`, the error of a call that fails is its answer, beside the results of
    the others, and nothing is raised."""
    for position, item in enumerate(computations):
        if not isinstance(item, PendingCompute):
            fix = (
                f"call it: {item.__name__}(…)"
                if isinstance(item, ComputeFunction)
                else "to pass a list, write gather(*calls)"
            )
            raise TypeError(
                f"gather() takes calls of @compute functions, but argument {position} is"
                f" {_short(item)}"
                f" ({type(item).__name__}); {fix}"
            )
    if stream:
        return PendingStream(computations, ordered, return_exceptions)
    if not ordered:
        raise ConfigurationError("gather(ordered=False): a tuple has an order; add stream=True")
    return PendingBatch(computations, return_exceptions)


def _check_of(fn: Any) -> Callable[..., None]:
    """A function with the parameters of `fn` that does nothing: called wrongly it raises what `fn`
    would, but here and at once. Takes anything where the parameters are not known for certain."""
    plain = fn.func if type(fn) is partial else fn
    try:
        if type(plain) is not FunctionType or hasattr(plain, "__signature__"):
            return _take_anything
        signature = inspect.signature(fn, follow_wrapped=False)
        parameters = [
            one.replace(
                annotation=one.empty, default=one.default if one.default is one.empty else None
            )
            for one in signature.parameters.values()
        ]
        names: dict[str, Any] = {}
        exec(f"def check{inspect.Signature(parameters)}: pass", names)
    except (TypeError, ValueError, SyntaxError):
        return _take_anything
    check: Callable[..., None] = names["check"]
    check.__qualname__ = plain.__qualname__
    return check


def _take_anything(*args: Any, **kwargs: Any) -> None:
    pass


def _not_made(name: str, call: PendingCompute[Any]) -> TypeError:
    return TypeError(
        f"{name}(…) has {call_text(call)} as an argument, a call that was not sent: write"
        f" {name}({call.name}(…) >> pool), or pass a function that makes it"
    )


def name_of(fn: Any) -> str:
    """The name that messages and events use for a callable."""
    name = getattr(fn, "__name__", None)
    if name is None and isinstance(fn, partial):
        name = name_of(fn.func)
    return name or type(fn).__name__


def is_generator(fn: Any) -> bool:
    """True when calling `fn` makes a generator."""
    while isinstance(fn, partial):
        fn = fn.func
    code = getattr(getattr(fn, "__func__", fn), "__code__", None)
    return code is not None and bool(code.co_flags & 0x20)  # inspect.CO_GENERATOR


def _join(left: Any, right: Any) -> "PendingBatch[*tuple[Any, ...]]":
    parts: list[PendingCompute[Any]] = []
    return_exceptions = False
    for side in (left, right):
        if isinstance(side, PendingCompute):
            parts.append(side)
        elif isinstance(side, PendingBatch):
            parts.extend(side.items)
            return_exceptions |= side.return_exceptions
        else:
            raise _not_pending(side)
    return PendingBatch(tuple(parts), return_exceptions)


def _not_pending(operand: Any) -> TypeError:
    return TypeError(
        f"& joins calls of @compute functions, but one operand is {_short(operand)}"
        f" ({type(operand).__name__});"
        " >> binds tighter than &, so parentheses are needed: (f() & g()) >> pool"
    )


def call_text(call: PendingCompute[Any]) -> str:
    """As it was written, but for arguments that would be long: "train(3, data=<ndarray>)"."""
    arguments = [*map(_short, call.args), *(f"{k}={_short(v)}" for k, v in call.kwargs.items())]
    if len(arguments) > SHOWN_ARGUMENTS:
        arguments[SHOWN_ARGUMENTS:] = ["…"]
    return f"{call.name}({', '.join(arguments)})"


def note_position(
    error: BaseException, items: Sequence[PendingCompute[Any]], position: int, more: int = 0
) -> None:
    """Says in a note which of several calls it is that failed, and how many others did."""
    if len(items) > 1:
        others = f"; {more} more failed" if more else ""
        error.add_note(f"call {position + 1} of {len(items)}: {call_text(items[position])}{others}")


def _as_they_come(
    futures: "deque[Future[Any]]", stream: PendingStream[Any]
) -> Generator[Any, None, None]:
    from concurrent.futures import as_completed

    __tracebackhide__ = True
    positions = {future: position for position, future in enumerate(futures)}

    def in_order() -> Iterator["Future[Any]"]:
        while futures:
            yield futures.popleft()

    answers = in_order() if stream.ordered else as_completed(positions)
    if not stream.ordered:
        futures.clear()
    try:
        yield
        while (future := next(answers, None)) is not None:
            position, error = positions.pop(future), future.exception()
            if error is None:
                answer, future = [future.result()], None
                yield answer.pop()  # nothing of it is kept here
                continue
            note_position(error, stream.items, position)
            if not (stream.return_exceptions and isinstance(error, Exception)):
                raise error
            yield error
    finally:
        for future in positions:
            if not future.cancel():
                future.exception()  # asked for: an error behind the one that was raised is no news


def _running_loop(what: str) -> "AbstractEventLoop":
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            f"{what}.on(pool) needs a running asyncio loop, and there is none here; outside of"
            " async functions write … >> pool, or … > pool for a future"
        ) from None


async def _all_of(futures: list[Any], batch: "PendingBatch[*tuple[Any, ...]]") -> tuple[Any, ...]:
    import asyncio

    answers = await asyncio.gather(*futures, return_exceptions=True)
    failed = [at for at, answer in enumerate(answers) if isinstance(answer, BaseException)]
    for position in failed:
        note_position(answers[position], batch.items, position, len(failed) - 1)
        if not batch.return_exceptions:
            raise answers[position]
    return tuple(answers)


def _short(value: Any) -> str:
    """repr, unless it would be long or slow."""
    if isinstance(value, (float, bool, type(None))):
        return repr(value)
    if isinstance(value, int) and -(10**20) < value < 10**20:
        return repr(value)
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:39] + "…")
    return f"<{type(value).__name__}>"


def _limits(timeout: float | None, retries: int) -> tuple[float | None, int]:
    from skyward.spec.options import plain_number

    timeout, retries = plain_number(timeout), plain_number(retries)
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < 1e9
    ):
        raise ConfigurationError(
            f"timeout={timeout!r}: a time limit is a positive number of seconds, or None"
        )
    if isinstance(retries, bool) or not isinstance(retries, int) or not 0 <= retries <= 1000:
        raise ConfigurationError(f"retries={retries!r}: retries is a number from 0 to 1000")
    return timeout, retries

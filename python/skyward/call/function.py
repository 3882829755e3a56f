"""``@compute``: a function whose calls are recorded."""

import inspect
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial, update_wrapper
from types import FunctionType, MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Self,
    TypeVar,
    cast,
    final,
    overload,
)

from skyward.call.by_value import reduce_by_value
from skyward.call.limits import checked_limits, limit_together
from skyward.call.pending import PendingBatch, PendingCompute, recorded
from skyward.call.text import call_text, name_of
from skyward.exceptions import ConfigurationTypeError

if TYPE_CHECKING:
    from skyward.call.answers import Stream

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R", covariant=True)
S = TypeVar("S")


@final
class _Nothing:
    """For type checkers: no function returns it, so that only ``Any`` matches it."""


class ComputeFunction(Generic[P, R]):
    """A function whose calls are recorded, not run; ``@compute`` makes it. Immutable."""

    __slots__ = ("__dict__", "__weakref__", "_check", "_fn", "_is_method", "_retries", "_timeout")
    __name__: str
    _check: Callable[..., None] | None
    _fn: Callable[P, R]
    _timeout: float | None
    _retries: int
    _is_method: bool
    """`_fn` is a partial that binds the method's object."""

    def __init__(self, fn: Callable[P, R], timeout: float | None = None, retries: int = 0) -> None:
        timeout, retries = checked_limits(timeout, retries)
        update_wrapper(self, fn, updated=())
        self.__dict__.setdefault("__name__", name_of(fn))
        if getattr(fn, "__isabstractmethod__", False):
            self.__dict__["__isabstractmethod__"] = True  # for abc, which asks what a class holds
        object.__setattr__(self, "_fn", fn)
        object.__setattr__(self, "_check", None)
        object.__setattr__(self, "_is_method", False)
        object.__setattr__(self, "_timeout", timeout)
        object.__setattr__(self, "_retries", retries)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("_fn", "_timeout", "_retries"):
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
        """A method of an object or a class, which is sent as the first argument."""
        fn = self._fn
        if isinstance(fn, classmethod):
            fn, instance = fn.__func__, type(instance) if owner is None else owner
        if instance is None or isinstance(fn, staticmethod) or not hasattr(fn, "__get__"):
            return self
        method = self.with_function(_begun(fn, instance))
        object.__setattr__(method, "_is_method", True)
        object.__setattr__(method, "_check", partial(self._checked(), instance))
        return method

    def __eq__(self, other: object) -> bool:
        """Methods are equal when their functions are and they have the same object, as in Python;
        another function equals itself alone."""
        if not (self._is_method and isinstance(other, ComputeFunction) and other._is_method):
            return NotImplemented
        mine, its = cast("partial[Any]", self._fn), cast("partial[Any]", other._fn)
        is_alike = (self._timeout, self._retries) == (other._timeout, other._retries)
        return is_alike and mine.func == its.func and mine.args[0] is its.args[0]

    def __hash__(self) -> int:
        if not self._is_method:
            return object.__hash__(self)
        fn = cast("partial[Any]", self._fn)
        return hash((fn.func, id(fn.args[0])))

    @property
    def local(self) -> Callable[P, R]:
        """The function itself: calling it runs it here, now."""
        return self._fn

    def with_function(
        self, fn: Callable[Q, S], calls: int = 1, limit: float | None = None
    ) -> "ComputeFunction[Q, S]":
        """The same limits around another function; for decorators that stand above ``@compute``.
        `calls`: how often `fn` calls this function; multiplies its time limit, or `limit` if it has
        none."""
        each = limit if self._timeout is None else self._timeout
        return ComputeFunction(fn, limit_together(each, calls), self._retries)

    @overload  # Any, or no annotation: first, because Any matches Iterator as well
    def __call__(
        self: "ComputeFunction[Q, _Nothing]", /, *args: Q.args, **kwargs: Q.kwargs
    ) -> PendingCompute[Any]: ...
    @overload  # a generator: its items come as a stream
    def __call__(
        self: "ComputeFunction[Q, Iterator[S]]", /, *args: Q.args, **kwargs: Q.kwargs
    ) -> "PendingCompute[Stream[S]]": ...
    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> PendingCompute[R]: ...
    def __call__(self, /, *args: Any, **kwargs: Any) -> PendingCompute[Any]:
        check = self._check
        if check is None:
            check = self._checked()
        check(*args, **kwargs)
        for value in (*args, *kwargs.values()) if kwargs else args:
            if type(value) is PendingCompute:
                raise _unsent_argument(self.__name__, value)
        return self.record(args, kwargs)

    def _checked(self) -> Callable[..., None]:
        """What refuses wrong arguments, made once."""
        check = self._check
        if check is None:
            check = _check_of(self._fn)
            object.__setattr__(self, "_check", check)
        return check

    def record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PendingCompute[R]:
        """The recorded call, with unchecked arguments."""
        fn: Any = self._fn
        if self._is_method:  # the object is an argument: the function's body is sent once
            fn, args = fn.func, (*fn.args, *args)
        return recorded(fn, args, kwargs, self.__name__, self._timeout, self._retries)

    if not TYPE_CHECKING:  # type checkers must reject these

        def __rshift__(self, other: Any) -> Any:
            raise self._not_called(f"{self.__name__}(…) >> pool")

        def __gt__(self, other: Any) -> Any:
            raise self._not_called(f"{self.__name__}(…) > pool")

        def __matmul__(self, other: Any) -> Any:
            raise self._not_called(f"{self.__name__}(…) @ pool")

        def __and__(self, other: Any) -> Any:
            raise self._not_called(f"({self.__name__}(…) & …) >> pool")

        def on(self, other: Any) -> Any:
            raise self._not_called(f"await {self.__name__}(…).on(pool)")

    def _not_called(self, right: str) -> TypeError:
        return TypeError(f"{self.__name__} has not been called; write {right}")

    def __repr__(self) -> str:
        return f"ComputeFunction({self.__name__})"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        """Of a method or an object that can be called, with a copy of the object."""
        if self._is_method:
            method = cast("partial[Any]", self._fn)
            return self.with_function(method.func).__get__(deepcopy(method.args[0], memo))
        fn = deepcopy(self._fn, memo)
        return self if fn is self._fn else self.with_function(fn)

    def __reduce__(self) -> Any:
        return reduce_by_value(ComputeFunction, (self._fn, self._timeout, self._retries))


def refused_arguments(method: str, given: Any) -> TypeError:
    """For ``pool.submit(f, x)``, as executors take it."""
    if isinstance(given, (PendingCompute, PendingBatch)):
        return TypeError(f"{method}() takes one call or batch: join several with gather(…)")
    name = name_of(given)
    call = f"{name}(…)" if isinstance(given, ComputeFunction) else f"sky.compute({name})(…)"
    if method == "run_batch":
        return TypeError(f"run_batch() takes a batch: write pool.run_batch(gather({call}, …))")
    return TypeError(f"{method}() takes a call: write pool.{method}({call})")


@overload
def compute(fn: "partial[PendingCompute[R]]", /) -> ComputeFunction[..., R]: ...
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
        timeout, retries = checked_limits(timeout, retries)
        return lambda function: compute_with(function, timeout, retries)
    return compute_with(fn, timeout, retries)


lazy = compute
"""Another name for ``compute``."""


def compute_with(fn: Any, timeout: float | None, retries: int) -> "ComputeFunction[Any, Any]":
    fn = _outermost(fn)
    if isinstance(fn, ComputeFunction):
        if timeout is None and not retries:
            return fn
        return ComputeFunction(
            fn.local, timeout if timeout is not None else fn._timeout, retries or fn._retries
        )
    refuse_async("@compute", fn)
    if not callable(fn) and not isinstance(fn, classmethod):
        raise TypeError(
            f"@compute needs a function, not {type(fn).__name__};"
            " pass options by keyword: @compute(timeout=60)"
        )
    return ComputeFunction(fn, timeout, retries)


def _begun(fn: Any, *args: Any, **kwargs: Any) -> Any:
    """The function with its first arguments; it has the name of `fn` and the marks that
    sky.distributed sets."""
    begun: Any = update_wrapper(partial(fn, *args, **kwargs), fn)
    del begun.__wrapped__  # its signature starts after these arguments
    return begun


def _outermost(fn: Any) -> Any:
    """A partial or a bound method of a compute function as a compute function; else `fn`. Python
    3.13 and newer bind class methods without asking ``__get__``."""
    if isinstance(fn, partial):
        inner = _outermost(fn.func)
        if isinstance(inner, ComputeFunction):
            return inner.with_function(_begun(inner.local, *fn.args, **fn.keywords))
    elif isinstance(fn, MethodType) and isinstance(fn.__func__, ComputeFunction):
        return fn.__func__.__get__(fn.__self__)
    return fn


def refuse_async(decorator: str, fn: Any) -> None:
    fn = getattr(fn, "__func__", fn)  # of a class method or a static one
    if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        raise ConfigurationTypeError(
            f"{decorator}: {name_of(fn)} is async, and a worker runs one plain call at a time;"
            " leave async out, or call asyncio.run(…) inside. To wait for an answer with await:"
            f" await {name_of(fn)}(…).on(pool)"
        )


def _check_of(fn: Any) -> Callable[..., None]:
    """A function with the parameters of `fn` and an empty body: a wrong call raises what `fn` would
    raise, but here and at once. Accepts anything if the parameters are not known for certain."""
    fn = fn.__func__ if isinstance(fn, classmethod) else fn
    plain = fn.func if type(fn) is partial else fn
    try:
        if type(plain) is not FunctionType or hasattr(plain, "__signature__"):
            return _take_anything
        signature = signature_of(fn, follow_wrapped=False)
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


def signature_of(fn: Any, follow_wrapped: bool = True) -> inspect.Signature:
    """The parameters of `fn`. Evaluates no annotations: names that only type checkers know have no
    value."""
    how: dict[str, Any] = {}
    if sys.version_info >= (3, 14):
        import annotationlib

        how["annotation_format"] = annotationlib.Format.STRING
    return inspect.signature(fn, follow_wrapped=follow_wrapped, **how)


def _take_anything(*args: Any, **kwargs: Any) -> None:
    pass


def _unsent_argument(name: str, call: PendingCompute[Any]) -> TypeError:
    return TypeError(
        f"{name}(…) has {call_text(call)} as an argument, a call that was not sent: write"
        f" {name}({call.name}(…) >> pool), or pass a function that makes it"
    )


def is_generator(fn: Any) -> bool:
    """True when calling `fn` makes a generator."""
    while isinstance(fn, partial):
        fn = fn.func
    code = getattr(getattr(fn, "__func__", fn), "__code__", None)
    return code is not None and bool(code.co_flags & 0x20)  # inspect.CO_GENERATOR

"""``gather``: several calls to be made at the same time."""

from typing import Any, Literal, TypeVar, overload

from skyward.call.function import ComputeFunction
from skyward.call.pending import PendingBatch, PendingCompute, PendingStream
from skyward.call.text import short
from skyward.exceptions import ConfigurationError

S = TypeVar("S")
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
    *computations: PendingCompute[S],
    stream: Literal[True],
    ordered: bool = True,
    return_exceptions: Literal[False] = False,
) -> PendingStream[S]: ...
@overload
def gather(
    *computations: PendingCompute[S],
    stream: Literal[True],
    ordered: bool = True,
    return_exceptions: bool,
) -> PendingStream[S | Exception]: ...
@overload
def gather(
    *computations: PendingCompute[S],
    stream: Literal[False] = False,
    return_exceptions: Literal[False] = False,
) -> PendingBatch[*tuple[S, ...]]: ...
@overload
def gather(
    *computations: PendingCompute[S], stream: Literal[False] = False, return_exceptions: bool
) -> PendingBatch[*tuple[S | Exception, ...]]: ...
@overload
def gather(
    *computations: PendingCompute[S],
    stream: bool,
    ordered: bool = True,
    return_exceptions: bool = False,
) -> PendingBatch[*tuple[S | Exception, ...]] | PendingStream[S | Exception]: ...
def gather(
    *computations: Any, stream: bool = False, ordered: bool = True, return_exceptions: bool = False
) -> Any:
    """Calls to run at the same time: ``gather(*[f(x) for x in data]) >> pool`` is a tuple in this
    order.

    With `stream` it is an iterator over the results: in this order or, if not `ordered`, in the
    order in which they arrive. All calls are sent at once, and results that are not read yet stay
    in memory, however many there are. A failing call raises when its turn comes; calls that have
    not finished by then, or when the iterator is dropped, are cancelled.

    With `return_exceptions`, the error of a failing call takes the place of its result, and nothing
    is raised. A call whose arguments cannot be sent counts as failing."""
    for position, item in enumerate(computations):
        if not isinstance(item, PendingCompute):
            fix = (
                f"call it: {item.__name__}(…)"
                if isinstance(item, ComputeFunction)
                else "to pass a list, write gather(*calls)"
            )
            raise TypeError(
                f"gather() takes calls of @compute functions, but argument {position} is"
                f" {short(item)}"
                f" ({type(item).__name__}); {fix}"
            )
    if stream:
        return PendingStream(computations, ordered, return_exceptions)
    if not ordered:
        raise ConfigurationError("gather(ordered=False): a tuple has an order; add stream=True")
    return PendingBatch(computations, return_exceptions)

"""Recorded calls: ``train(data)`` is a PendingCompute until it is sent to a pool.

train(data) >> pool                     one worker, the result
train(data) @ pool                      every worker, a tuple in rank order
train(data) > pool                      one worker; a future, at once
(f() & g()) >> pool                     at the same time, a tuple in the order written
gather(*[f(x) for x in data]) >> pool   the same for any number
gather(*calls, stream=True) >> pool     an iterator over the answers as they arrive
await train(data).on(pool)              from asyncio
"""

import sys
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Protocol,
    TypeVar,
    TypeVarTuple,
    cast,
    overload,
)

from skyward.call.by_value import reduce_by_value
from skyward.call.limits import checked_limits
from skyward.call.target import resolve
from skyward.call.text import call_text, note_position, short

if TYPE_CHECKING:
    from concurrent.futures import Future

    from skyward.call.answers import AwaitableFuture, AwaitedCall

R = TypeVar("R", covariant=True)
S = TypeVar("S")
Ts = TypeVarTuple("Ts")


class PoolLike(Protocol):
    """What calls are sent to: a ComputePool."""

    def run(self, pending: "PendingCompute[S]", /) -> S: ...
    def run_batch(self, batch: "PendingBatch[*Ts]", /) -> tuple[*Ts]: ...
    def broadcast(self, pending: "PendingCompute[S]", /) -> tuple[S, ...]: ...
    def submit(self, pending: "PendingCompute[S]", /) -> "AwaitableFuture[S]": ...
    def submit_batch(
        self, batch: "PendingBatch[*tuple[Any, ...]]", /
    ) -> "list[AwaitableFuture[Any]]": ...


Target = PoolLike | ModuleType
"""The right side of an operator: a pool, or the package (``>> sky``) for the innermost one."""


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
        return replace(self, timeout=checked_limits(seconds, self.retries)[0])

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
        if run is None:
            return NotImplemented
        answer: R = run(self)
        if answer is NotImplemented:  # from an operator, Python takes it as a refusal
            raise TypeError(
                f"{call_text(self)} returned NotImplemented, which >> cannot return: write"
                f" pool.run({self.name}(…)), or return another value"
            )
        return answer

    def __gt__(self, pool: Target) -> "AwaitableFuture[R]":
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

    if not TYPE_CHECKING:  # type checkers must reject both

        def __rand__(self, other: Any) -> Any:
            raise _not_pending(other)

        def __await__(self) -> Any:
            raise TypeError(
                f"{call_text(self)} has not been sent; write await {self.name}(…).on(pool)"
            )

    def on(self, pool: Target) -> "AwaitedCall[R]":
        """Sends the call, and returns a future of the running asyncio loop. The future is also a
        coroutine, so ``create_task()`` accepts it. Cancelling it stops the call on its worker."""
        from skyward.call.awaited import awaited, running_loop

        loop, target = running_loop(lambda: call_text(self)), _awaited_by(self, pool)
        send = getattr(target, "_send_awaited", None)
        return awaited(target.submit(self), loop) if send is None else send(self, loop)

    def __bool__(self) -> bool:
        raise TypeError(f"{self._unsent()}, so it has no truth value")

    def _unsent(self) -> str:
        return (
            f"{call_text(self)} has not been sent: write {self.name}(…) >> pool, or"
            f" {self.name}.local(…) to call the function here and now"
        )

    def __repr__(self) -> str:
        return f"PendingCompute({call_text(self)})"

    def __copy__(self) -> "PendingCompute[R]":
        return self

    def __reduce__(self) -> Any:
        if "_skyward_worker" in sys.modules:  # there is no pool to send it to
            raise TypeError(self._unsent())
        fields = (self.fn, self.args, self.kwargs, self.name, self.timeout, self.retries)
        return reduce_by_value(PendingCompute, fields)


class _Open(Generic[R]):
    """A PendingCompute that is not immutable yet: writing to this one's fields takes a third of the
    time that a frozen one takes to initialize."""

    __slots__ = PendingCompute.__slots__


def recorded(
    fn: Callable[..., R],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
    timeout: float | None,
    retries: int,
) -> PendingCompute[R]:
    """``PendingCompute(…)``, quicker: every call of a compute function comes through here."""
    call: Any = _Open()
    call.fn = fn
    call.args = args
    call.kwargs = kwargs
    call.name = name
    call.timeout = timeout
    call.retries = retries
    call.__class__ = PendingCompute
    return call  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class PendingBatch(Generic[*Ts]):
    """Calls to run at the same time; the results are in the order of the calls."""

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

    if not TYPE_CHECKING:  # type checkers must reject both

        def __rand__(self, other: Any) -> Any:
            raise _not_pending(other)

        def __matmul__(self, pool: Any) -> Any:
            raise TypeError("a batch cannot be broadcast; broadcast one call at a time: f() @ pool")

        def __gt__(self, pool: Any) -> Any:
            return _refuse_future(
                pool,
                "for a list of futures of a batch write pool.submit_batch(gather(…)), or inside"
                " async functions await gather(…).on(pool) for all answers",
            )

    def on(self, pool: Target) -> "Coroutine[object, object, tuple[*Ts]]":
        """Sends the batch at once, and returns an awaitable of the running asyncio loop. All calls
        finish before the error of the first failing one (in the order written) is raised."""
        import asyncio

        from skyward.call.awaited import AwaitedBatch, running_loop

        loop, target = running_loop(lambda: repr(self)), _awaited_by(self, pool)
        futures = [asyncio.wrap_future(future, loop=loop) for future in target.submit_batch(self)]
        return cast(
            "Coroutine[object, object, tuple[*Ts]]",
            AwaitedBatch(futures, self.items, self.return_exceptions),
        )

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[PendingCompute[Any]]:
        return iter(self.items)

    def __repr__(self) -> str:
        names = [item.name for item in self.items[:8]] + ["…"] * (len(self.items) > 8)
        return f"PendingBatch({', '.join(names)})"

    def __copy__(self) -> "PendingBatch[*Ts]":
        return self


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class PendingStream(Generic[S]):
    """Calls to run at the same time, whose results arrive one by one."""

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
        futures = submit(PendingBatch(self.items, self.return_exceptions))
        answers = _as_they_come(deque(futures), self)
        next(answers)  # from here on, dropping it cancels the rest
        return answers

    if not TYPE_CHECKING:  # type checkers must reject it

        def __gt__(self, pool: Any) -> Any:
            return _refuse_future(
                pool, "gather(…, stream=True) >> pool sends all calls and returns at once"
            )

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[PendingCompute[Any]]:
        return iter(self.items)

    def __repr__(self) -> str:
        return f"PendingStream{repr(PendingBatch(self.items)).removeprefix('PendingBatch')}"

    def __copy__(self) -> "PendingStream[S]":
        return self


def _awaited_by(call: Any, pool: Target) -> Any:
    """The pool of ``call.on(pool)``."""
    found = resolve(pool)
    if getattr(found, "submit", None) is None:
        raise TypeError(f"{short(call)}.on({short(pool)}): a pool is expected, or sky")
    return found


def _refuse_future(pool: Any, instead: str) -> Any:
    """For ``several calls > pool``. What is no pool may know the operator itself."""
    if getattr(resolve(pool), "submit_batch", None) is None:
        return NotImplemented
    raise TypeError(f"> pool is for one call; {instead}")


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
        f"& joins calls of @compute functions, but one operand is {short(operand)}"
        f" ({type(operand).__name__});"
        " >> binds tighter than &, so parentheses are needed: (f() & g()) >> pool"
    )


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
            error = future.exception()  # Ctrl-C in it leaves the call among those to cancel
            position = positions.pop(future)
            if error is None:
                answer, future = [future.result()], None
                yield answer.pop()  # keep no reference to it
                continue
            note_position(error, stream.items, position)
            if not (stream.return_exceptions and isinstance(error, Exception)):
                try:
                    raise error
                finally:
                    del error, future  # its traceback has this frame
            yield error
    finally:
        for future in positions:
            if not future.cancel():
                future.exception()  # mark it as read: only the first error is reported

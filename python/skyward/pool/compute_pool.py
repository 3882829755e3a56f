"""ComputePool: machines for the length of a ``with`` block."""

import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Never, Self, TypeVar, TypeVarTuple, overload

from skyward.base.programs import refuse_another_version
from skyward.base.suggest import suggesting
from skyward.call.by_value import StaysHere
from skyward.call.function import ComputeFunction, compute, refused_arguments
from skyward.call.limits import checked_limits
from skyward.call.pending import PendingBatch, PendingCompute
from skyward.call.target import (
    _innermost,
    enclosing,
    has_expired,
    note_left,
    note_opened,
    opened_pools,
)
from skyward.call.text import short
from skyward.callback import Callback, Delivery, _ambient, current_callback, users_callback
from skyward.exceptions import (
    ConfigurationError,
    MachinesLeftError,
    NotProvisionedError,
    SkywardError,
)
from skyward.pool.leave import end_block, say
from skyward.pool.parameters import (
    checked_callback,
    checked_image,
    checked_mode,
    slots_of,
    time_limit,
)
from skyward.pool.request import PoolRequest
from skyward.providers.choice import Provider, resolve_providers
from skyward.spec.accelerator import Accelerator
from skyward.spec.costs import PoolCost
from skyward.spec.image import DEFAULT_IMAGE, Image
from skyward.spec.options import (
    MAX_NODES,
    STANDARD_CONCURRENCY,
    STANDARD_SPOT,
    STANDARD_TIMEOUT,
    Worker,
    dollars,
    either,
    lifetime,
    memory_from_gb,
    memory_mb,
    one_of_architectures,
    one_of_selections,
    positive_seconds,
    processors,
    seconds_or_none,
    text_or_none,
    texts,
    truth,
    variables,
    whole,
)
from skyward.spec.spot import SpotLike, normalize_spot
from skyward.spec.volume import VolumeLike, normalize_volumes
from skyward.transport.forks import renewed

if TYPE_CHECKING:
    from functools import partial

    from skyward.call.answers import AwaitableFuture
    from skyward.events import SkywardEvent
    from skyward.pool.display import Display
    from skyward.pool.machines import Machines, Opening
    from skyward.pool.mapped_calls import MappedCalls
    from skyward.pool.open_pool import OpenPool
else:
    from skyward.callback import SkywardEvent

CHECK_SECONDS = 0.05
"""How often a callback that closes the pool checks whether another thread does."""

R = TypeVar("R")
Ts = TypeVarTuple("Ts")
E = TypeVar("E", bound=SkywardEvent)
S = TypeVar("S")
H = TypeVar("H", bound=Callable[[Any], Any])


class ComputePool(PoolRequest, StaysHere):
    """Machines rented for the length of a ``with`` block, and released at its end, whatever happens
    in between.

        with ComputePool(provider=Local(), nodes=2) as pool:
            result = train(data) >> pool

    Parameters:
        provider: where machines come from, as a value or a name ("aws"); None: what
            $SKYWARD_PROVIDER or skyward.toml says, else this machine. A list: the pool tries them
            in the order of `selection`, until one has machines for it.
        image: what is installed on them.
        nodes: number of machines.
        machine: the provider's name of the machine type; None: the cheapest that fits.
        accelerator: accelerator of each machine: a name ("A100") or an Accelerator.
        cpu: CPU cores that each worker must have.
        memory: memory that each worker must have, for example "32GB".
        volume: storage to mount: volumes, or {"/data": "s3://bucket/prefix"}.
        spot: "always", "if-available", "never", "cheapest", the minimum share of spot machines
            (0.8), or a strategy of Spot. Providers without spot machines ignore it.
        timeout: lifetime of the pool in seconds, counted from the moment at which it starts to
            open; then it closes.
        env: environment variables of the tasks; they override the image's.
        concurrency: tasks that each worker runs at the same time, each in its own process. A node
            has one worker, or one for each partition of its accelerators.
        display: "log", "spinner" or "quiet".
        on_event: receives every event of the pool.
        collect_metrics: whether nodes report how busy they are.
        collect_tasks: whether events report when each task starts, finishes or fails.
        default_compute_timeout: time limit in seconds for calls that have none of their own.
        lease: seconds that nodes work without contact with this program. Then they stop all tasks,
            and machines that can terminate themselves do so. Local nodes end with this program.
        heartbeat_timeout: seconds without a message from a node after which Skyward reconnects.
        reconnect_timeout: further seconds after which the node counts as lost and is replaced;
            None: 12, or 300 at Slurm and Kubernetes.
        pip: packages, in addition to the image's.
        max_hourly_cost: limit in dollars an hour for all machines together.
        budget: limit in dollars for all machines over the whole life of the pool. Before it is
            reached, the pool starts no more tasks and releases the machines.
        architecture: "x86_64" or "arm64"; None: at AWS and Kubernetes that of this computer, or of
            the type that `machine` names; elsewhere any.
        selection: order in which several providers are tried: "first": as given; "cheapest": by
            the price of the pool; "available": as given, but those with no fitting machine last.
        allocation, ttl, vcpus, memory_gb, volumes, worker: other names for spot, timeout, cpu,
            memory, volume and concurrency; see skyward.spec.options.

    Several threads may use one pool. A pool can be entered again after its block; it then gets
    new machines."""

    _live: "OpenPool | None" = None
    _closing: "OpenPool | None" = None
    _opening: "Opening | None" = None
    _paid: Any = None  # the core whose cost still grows
    _delivery: Delivery | None = None
    _around: "ComputePool | None" = None
    _is_entered = False
    _engines: tuple[str, ...] = ()  # each holds a slot of every node
    _last_cost = PoolCost()

    @suggesting
    def __init__(
        self,
        provider: Provider | str | Sequence[Provider | str] | None = None,
        image: Image | None = DEFAULT_IMAGE,
        nodes: int = 1,
        machine: str | None = None,
        accelerator: str | Accelerator | None = None,
        cpu: float | None = None,
        memory: str | None = None,
        volume: VolumeLike | None = None,
        spot: SpotLike = STANDARD_SPOT,
        timeout: float = STANDARD_TIMEOUT,
        env: Mapping[str, str] | None = None,
        concurrency: int = STANDARD_CONCURRENCY,
        display: Literal["log", "spinner", "quiet"] = "log",
        on_event: Callback | None = None,
        collect_metrics: bool = True,
        *,
        collect_tasks: bool = False,
        default_compute_timeout: float | None = None,
        lease: float = 600,
        heartbeat_timeout: float = 3,
        reconnect_timeout: float | None = None,
        pip: Sequence[str] | None = None,
        max_hourly_cost: float | None = None,
        budget: float | None = None,
        architecture: Literal["x86_64", "arm64"] | None = None,
        allocation: SpotLike | None = None,
        ttl: float | None = None,
        vcpus: float | None = None,
        memory_gb: float | None = None,
        volumes: VolumeLike | None = None,
        worker: Worker | None = None,
        selection: Literal["first", "cheapest", "available"] = "first",
    ) -> None:
        self.providers, self.selection = resolve_providers(provider), one_of_selections(selection)
        self.image = checked_image(image).with_pip([] if pip is None else texts("pip", pip))
        self.nodes = whole("nodes", nodes, MAX_NODES)
        self.machine = text_or_none("machine", machine)
        self.accelerator = Accelerator.from_value(accelerator)
        self.cpu = processors(either("cpu", cpu, cpu is not None, "vcpus", vcpus))
        self.memory = either(
            "memory", memory, memory is not None, "memory_gb", memory_from_gb(memory_gb)
        )
        self.volume = normalize_volumes(
            either("volume", volume, volume is not None, "volumes", volumes)
        )
        self.spot = normalize_spot(
            either("spot", spot, spot is not STANDARD_SPOT, "allocation", allocation)
        )
        self.timeout = lifetime(
            either("timeout", timeout, timeout is not STANDARD_TIMEOUT, "ttl", ttl),
            "timeout" if ttl is None else "ttl",
        )
        self.default_compute_timeout = time_limit(default_compute_timeout)
        self.lease = positive_seconds("lease", lease)
        self.heartbeat_timeout = positive_seconds("heartbeat_timeout", heartbeat_timeout)
        self.reconnect_timeout = seconds_or_none("reconnect_timeout", reconnect_timeout)
        self.max_hourly_cost = dollars("max_hourly_cost", max_hourly_cost)
        self.budget = dollars("budget", budget)
        self.architecture = one_of_architectures(architecture)
        self.env = variables("env", env)
        self.concurrency = slots_of(concurrency, worker)
        self.display = checked_mode(display)
        self.on_event = checked_callback(on_event)
        self.collect_metrics = truth("collect_metrics", collect_metrics)
        self.collect_tasks = truth("collect_tasks", collect_tasks)
        memory_mb(self.memory)  # refuses what is not an amount
        self._handlers: list[_Filtered] = []
        self._lifecycle = renewed(threading.RLock())  # opening and closing exclude each other

    def open(self) -> Self:
        """Provisions the machines, as entering a ``with`` block does, and returns the pool. In a
        notebook, open it in one cell and close it in another. Pools that are still open close when
        the program ends."""
        others = [pool for pool in opened_pools() if pool is not self and pool.is_active]
        self.__enter__()
        note_opened(self)
        if others and hasattr(sys, "ps1"):  # a notebook or a prompt, where names are easily lost
            self._engine().tell.warn(_still_open_text(others))
        return self

    def close(self) -> None:
        """Releases the machines, as leaving the block does. Does nothing on a closed pool. If
        another thread is opening the pool, its ``open()`` raises CancelledError."""
        self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        self._open()
        return self._entered()

    def _entered(self) -> Self:
        around = _innermost.get()
        if around is not self:  # open() again after the pool's timeout
            self._around = next((one for one in enclosing(around) if not has_expired(one)), None)
        self._is_entered = True
        _ambient.set(self._delivery)
        _innermost.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        delivery = self._delivery
        try:
            end_block(lambda: self._close(error), error)
        finally:
            self._left(delivery)

    def _left(self, delivery: Delivery | None) -> None:
        self._is_entered = False
        note_left(self)
        # If it was entered in another thread or asyncio task, the variables of that one stay;
        # readers skip closed pools.
        if _innermost.get() is self:
            _innermost.set(self._around)
        if delivery is not None and _ambient.get() is delivery:
            _ambient.set(delivery.around)

    async def __aenter__(self) -> Self:
        from skyward.pool.async_block import enter

        if (type(self).__enter__, type(self).__exit__) != (
            ComputePool.__enter__,
            ComputePool.__exit__,
        ):
            raise TypeError(f"{type(self).__name__} has no form for asyncio; use a plain `with`")
        await enter(self)
        return self._entered()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        from skyward.pool.async_block import leave

        delivery = self._delivery
        try:
            await leave(self, error)
        finally:
            self._left(delivery)

    def run(self, pending: PendingCompute[R], *args: Never, **kwargs: Never) -> R:
        """Runs the call in the first free slot and returns its result: ``pending >> pool``."""
        __tracebackhide__ = True  # for notebooks and pytest: the caller's line is what counts
        if args or kwargs:
            raise refused_arguments("run", pending)
        engine, one = self._engine(), _pending(pending)
        try:
            result: R = engine.run(one)
        except SkywardError as error:
            raise _from_here(error)
        return result

    def run_batch(self, batch: PendingBatch[*Ts], *args: Never, **kwargs: Never) -> tuple[*Ts]:
        """Runs the calls at the same time, and returns the results in the order of the calls:
        ``batch >> pool``.

        If calls fail, waits until all have ended, and raises the error of the first failed one in
        that order; see ``gather(…, return_exceptions=True)``."""
        __tracebackhide__ = True  # for notebooks and pytest: the caller's line is what counts
        if args or kwargs:
            raise refused_arguments("run_batch", batch)
        engine, items = self._engine(), _batch(batch).items
        try:
            results: tuple[*Ts] = engine.run_all(items, batch.return_exceptions)
        except SkywardError as error:
            raise _from_here(error)
        return results

    def broadcast(self, pending: PendingCompute[R], *args: Never, **kwargs: Never) -> tuple[R, ...]:
        """Runs the call once on every worker; the results are in rank order: ``pending @ pool``."""
        __tracebackhide__ = True  # for notebooks and pytest: the caller's line is what counts
        if args or kwargs:
            raise refused_arguments("broadcast", pending)
        engine, one = self._engine(), _pending(pending)
        try:
            return engine.broadcast(one)
        except SkywardError as error:
            raise _from_here(error)

    if not TYPE_CHECKING:  # type checkers must reject these

        def __rrshift__(self, other: Any) -> Any:
            raise _not_pending(other, ">> pool")

        def __rmatmul__(self, other: Any) -> Any:
            raise _not_pending(other, "@ pool")

    def submit(
        self, pending: PendingCompute[R], *args: Never, **kwargs: Never
    ) -> "AwaitableFuture[R]":
        """Sends the call and returns at once. ``cancel()`` of the future stops the task on its
        worker."""
        if args or kwargs:
            raise refused_arguments("submit", pending)
        return self._engine().submit_all([_pending(pending)])[0]

    def _send_awaited(self, pending: PendingCompute[Any], loop: Any) -> Any:
        """What ``f(x).on(pool)`` returns."""
        return self._engine().send_awaited(pending, loop)

    def submit_batch(self, batch: "PendingBatch[*tuple[Any, ...]]") -> "list[AwaitableFuture[Any]]":
        """The same for each call of a batch."""
        items = _batch(batch).items
        return self._engine().submit_all(items, go_past=batch.return_exceptions)

    @overload
    def map(
        self,
        fn: "ComputeFunction[..., R] | partial[PendingCompute[R]]",
        *iterables: Iterable[Any],
        timeout: float | None = None,
    ) -> Generator[R, None, None]: ...
    @overload
    def map(
        self, fn: Callable[..., R], *iterables: Iterable[Any], timeout: float | None = None
    ) -> Generator[R, None, None]: ...
    def map(self, fn: Any, *iterables: Iterable[Any], timeout: float | None = None) -> Any:
        """``fn(x, y)`` for each x, y of the iterables (up to the end of the shortest), in order, as
        they arrive.

        Calls are sent some way ahead of the reader, so inputs may be endless. Those of a generator
        are serialized one by one, as they are drawn. `timeout` limits the whole iteration, in
        seconds. Dropping the iterator, or its ``close()``, cancels what is in flight."""
        if not iterables:
            raise TypeError("map() needs at least one iterable")
        timeout = checked_limits(timeout, 0)[0]
        function: ComputeFunction[..., Any] = fn if isinstance(fn, ComputeFunction) else compute(fn)
        return _mapped(self._engine().map(function, iterables), timeout)

    @overload
    def on(self, event: type[E], /) -> Callable[[Callable[[E], S]], Callable[[E], S]]: ...
    @overload
    def on(self, event: type[E], handler: Callable[[E], S], /) -> Callable[[E], S]: ...
    @overload
    def on(self, *types: type[SkywardEvent], handler: H) -> H: ...
    @overload
    def on(self, *types: type[SkywardEvent]) -> Callable[[H], H]: ...
    @overload
    def on(self, first: type[SkywardEvent], other: type[SkywardEvent], /, *more: Any) -> Any: ...
    def on(self, *types: Any, handler: Any = None) -> Any:
        """Registers a handler for events of these types (all, if none are given), now and each time
        the pool opens.

        ``pool.on(LogLine, handler)``, ``pool.on(LogLine, Metrics, handler=handler)``, or as a
        decorator: ``@pool.on(LogLine)``. Handlers run one at a time: in a thread of the pool, or,
        for what the program itself causes, in the thread that does so.
        """
        if handler is None and types and not isinstance(types[-1], type):
            *types, handler = types  # type: ignore[assignment]
        from skyward.events import EVENT_TYPES

        for cls in types:
            if cls not in EVENT_TYPES:
                raise TypeError(f"{cls!r} is not an event class; see skyward.events")
        if handler is None:
            return lambda function: self.on(*types, handler=function)
        if not callable(handler):
            raise TypeError(f"an event handler must be callable, not {type(handler).__name__}")
        callback = _Filtered(tuple(types) or EVENT_TYPES, handler)
        self._handlers.append(callback)
        if self._delivery is not None:
            self._delivery.add(callback)
        return handler

    def off(self, handler: Callable[[Any], Any]) -> None:
        """Removes a handler, whether on() or `on_event` has registered it, now and for the next
        time the pool opens. Does nothing if there is no such handler."""
        removed = [one for one in self._handlers if one.handler == handler]
        self._handlers = [one for one in self._handlers if one not in removed]
        callbacks: list[Callback] = [*removed]
        if self.on_event is not None and self.on_event == handler:
            callbacks.append(self.on_event)
            self.on_event = None
        for callback in callbacks:
            if self._delivery is not None:
                self._delivery.remove(callback)

    @property
    def provider(self) -> Provider:
        """The provider of the machines; with several, the first one until the pool has chosen."""
        live = self._open_here()
        chosen: Provider = self.providers[0 if live is None else live.core.chosen_provider]
        return chosen

    @property
    def is_active(self) -> bool:
        """True while the pool is open, until it starts to close."""
        live = self._open_here()
        return live is not None and bool(live.core.is_active)

    @property
    def instance_count(self) -> int:
        """Number of nodes; 0 when the pool is not open."""
        live = self._open_here()
        return 0 if live is None else int(live.core.instance_count)

    @property
    def cost(self) -> PoolCost:
        """What the pool has cost so far; after its block, the total, until it is entered again."""
        paid = self._paid
        return self._last_cost if paid is None or not paid.is_ours else _cost_of(paid)

    def __reduce__(self) -> Any:
        raise TypeError(
            "a pool cannot be sent or copied; return the calls, and send them from your program"
        )

    def __repr__(self) -> str:
        state = "active" if self.is_active else "inactive"
        return (
            f"Pool(provider={self.provider.name}, nodes={self.nodes},"
            f" accelerator={self.accelerator}, {state})"
        )

    def _open(
        self, check: Callable[[], None] | None = None, opening: "Opening | None" = None
    ) -> None:
        from skyward.pool.machines import Opening

        opening = Opening() if opening is None else opening
        with self._lifecycle:
            if self.is_active:
                raise ConfigurationError(
                    "the pool is open already (another thread may have opened it); use another"
                    " ComputePool for more machines"
                )
            try:
                self._end(None)  # of an opening whose time has passed
            except MachinesLeftError as left:  # this one can do nothing about them
                say(left)
            self._opening = opening
            try:
                try:
                    self._provision(check, opening)
                finally:
                    self._opening = None
                    opening.end()
                opening.check()
            except BaseException:
                if self._live is not None:  # abandoned when all was ready, or Ctrl-C
                    self._close()
                raise

    def _provision(self, check: Callable[[], None] | None, opening: "Opening") -> None:
        from skyward.pool.machines import (
            Machines,
            refuse_greenlets,
            refuse_in_spawned_child,
            refuse_subinterpreter,
        )

        refuse_in_spawned_child()
        refuse_greenlets()
        refuse_subinterpreter()
        refuse_another_version()

        def poll() -> None:
            opening.check()
            if check is not None:
                check()

        opening.check()
        spec = self.to_core()
        show = _display(self.display)
        chain: list[Callback | None] = [show, self.on_event, *self._handlers, users_callback()]
        delivery = Delivery(
            (callback for callback in chain if callback is not None), current_callback()
        )
        self._delivery = delivery
        try:
            opening.machines = machines = Machines(spec, delivery, show)
            self._paid = machines.core
            # Signals are handled in calls: none comes between the opening and this.
            self._live = live = machines.open(poll, self._open_pool)
            self._display = show
        except BaseException:
            self._settle_cost()
            self._end_delivery()
            if show is not None:
                show.close()
            raise
        finally:
            opening.machines = None
        if show is not None:
            show.count_tasks(live.counts)
        live.packing.report_edits()

    def _open_pool(self, machines: "Machines") -> "OpenPool":
        from skyward.pool.open_pool import OpenPool

        return OpenPool(machines, self.default_compute_timeout)

    def _close(self, error: BaseException | None = None) -> None:
        opening = self._opening
        if opening is not None and opening.abandon() and opening.is_event_thread():
            return  # its end waits for this thread
        live = self._live or self._closing  # which another thread sets first
        if live is None or not live.waits_for_this_thread():
            with self._lifecycle:
                self._end(error)
            return
        while not self._lifecycle.acquire(timeout=CHECK_SECONDS):
            if self._closing is not None:
                return  # another thread closes it, and waits for this one
        try:
            self._end(error)
        finally:
            self._lifecycle.release()

    def _end(self, error: BaseException | None) -> None:
        live = self._live
        if live is None:
            return
        if not live.core.is_ours:  # a forked child: all of it is its parent's
            self._live = self._delivery = self._paid = None
            return
        self._closing, self._live = live, None
        try:
            if self._display is not None and error is not None:
                self._display.ended_by(error)
        finally:  # whatever is raised on the way, by Ctrl-C too
            try:
                live.close(tell=error is None)
            finally:
                self._closing = None
                self._settle_cost()
                self._end_delivery()
                if self._display is not None:
                    self._display.close()

    def _settle_cost(self) -> None:
        if self._paid is not None:
            self._last_cost, self._paid = _cost_of(self._paid), None

    def _end_delivery(self) -> None:
        if self._delivery is not None:
            self._delivery.is_closed = True
        self._delivery = None

    def _open_here(self) -> "OpenPool | None":
        """In a forked child the pool is its parent's, and not open."""
        live = self._live
        return live if live is not None and live.core.is_ours else None

    def _engine(self) -> "OpenPool":
        live = self._live
        if live is None:
            raise NotProvisionedError(
                'the pool is not open; use it inside "with pool:", or between pool.open() and'
                " pool.close()"
            )
        if len(self._engines) >= self.concurrency:
            raise ConfigurationError(
                f"{' and '.join(self._engines)} occupies every slot on the nodes, so this call"
                " would wait until that block ends.\n"
                "Nothing was sent. Open the pool with"
                f" concurrency={len(self._engines) + 1} or more, or send calls after the block."
            )
        return live


def _still_open_text(pools: Sequence[ComputePool]) -> str:
    machines = sum(pool.instance_count for pool in pools)
    return (
        f"{'another pool' if len(pools) == 1 else f'{len(pools)} other pools'} that you have opened"
        f" with open() still {'has' if len(pools) == 1 else 'have'} {machines}"
        f" machine{'s' if machines > 1 else ''}. close() releases them; a pool that no variable"
        " refers to any more closes at its timeout or when this program ends"
    )


def _cost_of(core: Any) -> PoolCost:
    cost = core.cost()
    return PoolCost(**{name: getattr(cost, name) for name in PoolCost.__dataclass_fields__})


def _display(mode: str) -> "Display | None":
    """The display of a mode; None shows nothing."""
    if mode == "quiet":
        return None
    from skyward.pool.display import Display

    return Display(mode)


class _Filtered:
    """A handler that receives events of some types only."""

    def __init__(self, types: tuple[type, ...], handler: Callable[[Any], Any]) -> None:
        self._types = types
        self.handler = handler

    def __call__(self, event: SkywardEvent) -> Any:
        return self.handler(event) if isinstance(event, self._types) else None

    def __repr__(self) -> str:
        return repr(self.handler)


def _mapped(calls: "MappedCalls", timeout: float | None) -> Generator[Any, None, None]:
    """Starts the calls now; the iterator that it returns waits for them."""
    import time

    end = None if timeout is None else time.monotonic() + timeout

    def results() -> Generator[Any, None, None]:
        __tracebackhide__ = True
        try:
            yield from calls.answers(end)
        except SkywardError as error:
            raise _from_here(error)

    answers = results()
    next(answers)  # close() does nothing to a generator that has not begun
    return answers


def _from_here(error: SkywardError) -> SkywardError:
    """The error without the frames of this package: the caller's line is what counts, and the
    traceback of the node is its cause."""
    return error.with_traceback(None)


def _not_pending(value: Any, operator: str) -> TypeError:
    kind = type(value).__name__
    if operator == ">> pool" and isinstance(value, (list, tuple, set, frozenset, Generator)):
        return TypeError(
            f"{short(value)} {operator}: a {kind} is not a call; to make the calls in it at the"
            " same time write gather(*calls) >> pool"
        )
    return TypeError(
        f"{short(value)} {operator}: expected a call of a @sky.compute function, got {kind}"
    )


def _pending(value: Any) -> PendingCompute[Any]:
    if isinstance(value, PendingCompute):
        return value
    hint = f"; call it: {value.__name__}(…)" if isinstance(value, ComputeFunction) else ""
    raise TypeError(f"a call of a @compute function is expected, not {type(value).__name__}{hint}")


def _batch(value: Any) -> "PendingBatch[*tuple[Any, ...]]":
    if isinstance(value, PendingBatch):
        return value
    raise TypeError(f"a batch (f() & g(), or gather(…)) is expected, not {type(value).__name__}")

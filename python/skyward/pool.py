"""ComputePool: machines for the length of a ``with`` block."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from skyward.callback import Callback, Delivery, _ambient, current_callback
from skyward.display import MODES, make_display
from skyward.events import EVENT_TYPES, SkywardEvent
from skyward.exceptions import ConfigurationError, NotProvisionedError
from skyward.function import ComputeFunction, PendingBatch, PendingCompute, compute
from skyward.image import Image
from skyward.providers import Local, parse_memory_mb, resolve_provider

if TYPE_CHECKING:
    from concurrent.futures import Future

    from skyward.open_pool import OpenPool

R = TypeVar("R")
H = TypeVar("H", bound=Callable[[Any], Any])


class ComputePool:
    """Machines, had at the start of a ``with`` block and given back at its end, whatever happens in
    between.

        with ComputePool(provider=Local(), nodes=2) as pool:
            result = train(data) >> pool

    Parameters:
        provider: where machines come from; None: this machine.
        image: what is installed on them.
        nodes: number of machines.
        machine: the provider's name of the machine type; None: chosen.
        accelerator: accelerator that each machine must have.
        cpu: CPU cores that each machine must have.
        memory: memory that each machine must have, for example "32GB".
        volume: storage to mount.
        spot: "always", "if-available", "never", or the least share of spot machines (0.8).
        timeout: lifetime of the machines in seconds; they end by themselves then.
        env: environment variables of the tasks; win over the image's.
        concurrency: tasks that run on a node at the same time, each in a process of its own.
        display: "log", "spinner" or "quiet".
        on_event: receives every event of the pool.
        collect_metrics: whether nodes report how busy they are.
        pip: packages, in addition to the image's.

    A pool may be used from several threads, and entered again after it was left: that gets new
    machines."""

    def __init__(
        self,
        provider: Local | str | None = None,
        image: Image | None = None,
        nodes: int = 1,
        machine: str | None = None,
        accelerator: Any = None,
        cpu: int | None = None,
        memory: str | None = None,
        volume: Any = None,
        spot: str | float = "always",
        timeout: float = 3600,
        env: Mapping[str, str] | None = None,
        concurrency: int = 1,
        display: str = "log",
        on_event: Callback | None = None,
        collect_metrics: bool = True,
        *,
        pip: Sequence[str] | None = None,
    ) -> None:
        self.provider = resolve_provider(provider)
        self.image = (Image() if image is None else image).with_pip(_packages(pip))
        self.nodes = _whole("nodes", nodes)
        self.machine = machine
        self.accelerator = accelerator
        self.cpu = None if cpu is None else _whole("cpu", cpu)
        self.memory = memory
        self.volume = volume
        self.spot = _spot(spot)
        self.timeout = _seconds("timeout", timeout)
        self.env = _variables(env)
        self.concurrency = _whole("concurrency", concurrency)
        if display not in MODES:
            raise ConfigurationError(f"display={display!r}: choose one of {', '.join(MODES)}")
        self.display = display
        if on_event is not None and not callable(on_event):
            raise ConfigurationError(
                f"on_event={on_event!r}: a function that receives events is expected"
            )
        self.on_event = on_event
        self.collect_metrics = bool(collect_metrics)
        if memory is not None:
            parse_memory_mb(memory)
        self.provider.check(accelerator, self.cpu, memory, volume)

        self._handlers: list[Callback] = []
        self._lifecycle = threading.RLock()  # opening and closing exclude each other
        self._live: OpenPool | None = None
        self._delivery: Delivery | None = None
        self._token: Token[Callback | None] | None = None

    def __enter__(self) -> "ComputePool":
        self._open()
        self._token = _ambient.set(self._delivery)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._close()
        finally:
            token, self._token = self._token, None
            if token is not None:
                try:
                    _ambient.reset(token)
                except (
                    ValueError
                ):  # entered in another thread or asyncio task: its variables are its own
                    pass

    def run(self, pending: PendingCompute[R]) -> R:
        """Makes the call on the first free worker: ``pending >> pool``."""
        result: R = self._engine().run(_pending(pending))
        return result

    def run_batch(self, batch: "PendingBatch[*tuple[Any, ...]]") -> tuple[Any, ...]:
        """Makes the calls at the same time, and returns the answers in the order of the calls:
        ``batch >> pool``.

        All calls end before the error of the first failing one (in that order) is raised.
        """
        return self._engine().run_all(_batch(batch).items)

    def broadcast(self, pending: PendingCompute[R]) -> tuple[R, ...]:
        """Makes the call once on every worker; answers in rank order: ``pending @ pool``."""
        return self._engine().broadcast(_pending(pending))

    def submit(self, pending: PendingCompute[R]) -> "Future[R]":
        """Sends the call and returns at once. ``cancel()`` of the future stops the task on its
        worker."""
        return self._engine().submit_all([_pending(pending)])[0]

    def submit_batch(self, batch: "PendingBatch[*tuple[Any, ...]]") -> "list[Future[Any]]":
        """The same for each call of a batch."""
        return self._engine().submit_all(_batch(batch).items)

    @overload
    def map(
        self, fn: ComputeFunction[..., R], *iterables: Iterable[Any], timeout: float | None = None
    ) -> Iterator[R]: ...
    @overload
    def map(
        self, fn: Callable[..., R], *iterables: Iterable[Any], timeout: float | None = None
    ) -> Iterator[R]: ...
    def map(self, fn: Any, *iterables: Iterable[Any], timeout: float | None = None) -> Any:
        """``fn(x, y)`` for each x, y of the iterables (as far as the shortest goes), in order, as
        they come.

        Calls are sent some way ahead of the reader, so inputs may be endless. `timeout` bounds the
        whole, in seconds. Dropping the iterator cancels what is in flight."""
        if not iterables:
            raise TypeError("map() needs at least one iterable")
        function: ComputeFunction[..., Any] = fn if isinstance(fn, ComputeFunction) else compute(fn)
        answers = self._engine().map(function(*args) for args in zip(*iterables, strict=False))
        return _mapped(answers, timeout)

    @overload
    def on(self, *types: type, handler: H) -> H: ...
    @overload
    def on(self, *types: Any) -> Any: ...
    def on(self, *types: Any, handler: Any = None) -> Any:
        """Registers a handler for events of these types (none: all), from now on and at each
        opening.

        ``pool.on(LogLine, handler)``, ``pool.on(LogLine, Metrics, handler=handler)``, or as a
        decorator: ``@pool.on(LogLine)``. Handlers run in a thread of the pool, one event at a time.
        """
        if handler is None and types and not isinstance(types[-1], type):
            *types, handler = types  # type: ignore[assignment]
        for cls in types:
            if cls not in EVENT_TYPES:
                raise TypeError(f"{cls!r} is no event class; see skyward.events")
        if handler is None:
            return lambda function: self.on(*types, handler=function)
        if not callable(handler):
            raise TypeError(f"an event handler must be callable, not {type(handler).__name__}")
        callback = _Filtered(tuple(types) or EVENT_TYPES, handler)
        self._handlers.append(callback)
        if self._delivery is not None:
            self._delivery.add(callback)
        return handler

    @property
    def is_active(self) -> bool:
        """True from the end of entering to the start of leaving."""
        return self._live is not None and self._live.core.is_active

    @property
    def instance_count(self) -> int:
        """Number of machines; 0 when the pool is not open."""
        return self._live.core.instance_count if self._live is not None else 0

    @property
    def workers_per_instance(self) -> int:
        return 1

    @property
    def total_slots(self) -> int:
        """Tasks that can run at the same time."""
        return self.nodes * self.workers_per_instance * self.concurrency

    def __repr__(self) -> str:
        state = "active" if self.is_active else "inactive"
        return (
            f"Pool(provider={self.provider.name}, nodes={self.nodes},"
            f" accelerator={self.accelerator}, {state})"
        )

    def _open(self, check: Callable[[], None] | None = None) -> None:
        from skyward.open_pool import OpenPool

        with self._lifecycle:
            if self._live is not None:
                raise ConfigurationError(
                    "the pool is open already; use another ComputePool for more machines"
                )
            spec = self._spec()
            show = make_display(self.display)
            outer = current_callback()
            chain = [show, self.on_event, *self._handlers, outer]
            delivery = Delivery(callback for callback in chain if callback is not None)
            live = OpenPool(spec, delivery)
            if show is not None:
                show.count_tasks(live.counts)
            self._delivery = delivery
            try:
                live.open(check)
            except BaseException:
                self._delivery = None
                raise
            finally:
                if show is not None and not live.core.is_active:
                    show.close()
            self._live, self._display = live, show

    def _close(self) -> None:
        with self._lifecycle:
            live, self._live = self._live, None
            if live is None:
                return
            try:
                live.close()
            finally:
                self._delivery = None
                if self._display is not None:
                    self._display.close()

    def _engine(self) -> "OpenPool":
        if self._live is None:
            raise NotProvisionedError(
                "Pool not provisioned: it has machines only inside its block: with pool: … >> pool"
            )
        return self._live

    def _spec(self) -> Any:
        """All that the engine needs to know."""
        from skyward import _core
        from skyward.runtime import agent_path, worker_runtime

        spec = _core.PoolSpec()
        spec.image = self.image.to_core()
        provider = _core.ProviderSpec()
        provider.name = self.provider.name
        provider.settings = self.provider.settings()
        spec.provider = provider
        spec.nodes = self.nodes
        spec.concurrency = self.concurrency
        spec.timeout = self.timeout
        spec.env = self.env
        spec.collect_metrics = self.collect_metrics
        spec.runtime = worker_runtime(self.image.needs_environment())
        spec.agent_path = agent_path()
        return spec


class _Filtered:
    """A handler that receives events of some types only."""

    def __init__(self, types: tuple[type, ...], handler: Callable[[Any], Any]) -> None:
        self._types = types
        self._handler = handler

    def __call__(self, event: SkywardEvent) -> Any:
        return self._handler(event) if isinstance(event, self._types) else None

    def __repr__(self) -> str:
        return repr(self._handler)


def _mapped(answers: Iterator[Callable[[float | None], R]], timeout: float | None) -> Iterator[R]:
    """Starts the calls now; the iterator that it returns waits for them."""
    import itertools
    import time

    end = None if timeout is None else time.monotonic() + timeout
    first = next(answers, None)

    def results() -> Iterator[R]:
        try:
            for answer in itertools.chain(() if first is None else (first,), answers):
                yield answer(None if end is None else max(0.0, end - time.monotonic()))
        finally:
            answers.close()  # type: ignore[attr-defined]

    return results()


def _pending(value: Any) -> PendingCompute[Any]:
    if isinstance(value, PendingCompute):
        return value
    hint = f"; call it: {value.__name__}(…)" if isinstance(value, ComputeFunction) else ""
    raise TypeError(f"a call of a @compute function is expected, not {type(value).__name__}{hint}")


def _batch(value: Any) -> "PendingBatch[*tuple[Any, ...]]":
    if isinstance(value, PendingBatch):
        return value
    raise TypeError(f"a batch (f() & g(), or gather(…)) is expected, not {type(value).__name__}")


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 100_000:
        raise ConfigurationError(f"{name}={value!r}: a whole number of at least 1 is expected")
    return value


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e9:
        raise ConfigurationError(f"{name}={value!r}: a positive number of seconds is expected")
    return float(value)


def _spot(value: Any) -> str | float:
    if value in ("always", "if-available", "never") and isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        return value
    raise ConfigurationError(
        f'spot={value!r}: choose "always", "if-available", "never" or a share from 0 to 1'
    )


def _packages(value: Any) -> list[str]:
    packages = [] if value is None else value
    if isinstance(packages, str) or not all(isinstance(package, str) for package in packages):
        raise ConfigurationError(f"pip={value!r}: a list of package names is expected")
    return list(packages)


def _variables(value: Mapping[str, str] | None) -> dict[str, str]:
    variables = dict(value or {})
    for name, text in variables.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise ConfigurationError(f"env={{{name!r}: {text!r}}}: names and values must be text")
    return variables

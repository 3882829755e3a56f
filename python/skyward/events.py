"""Everything that happens to a pool, as frozen values; the twin of skyward/spec/event.h.

Fields stand in constructor order, so both ``LogLine(node, instance_id, line)`` and
``LogLine(line=line)`` match in a ``case``. ``pool.on``, ``on_event`` and ``use_callback`` say who
receives them."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, get_args


class ProviderName(StrEnum):
    """The providers, spelled as events spell them."""

    AWS = "AWS"
    DigitalOcean = "Digital Ocean"
    Kubernetes = "Kubernetes"
    RunPod = "RunPod"
    Slurm = "Slurm"
    VastAI = "Vast.ai"
    Verda = "Verda"
    Command = "command"
    Container = "Containers"
    Local = "local"
    SSH = "ssh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What every event has."""

    pool: str = field(default="", compare=False)
    """The id of the pool that emitted it; empty in events that your program creates."""


@dataclass(frozen=True, slots=True)
class PoolStarted(Event):
    """The pool is ready for work."""


@dataclass(frozen=True, slots=True)
class InfraCreating(Event):
    """Skyward is creating networks, groups and keys for the machines."""

    pool: str = ""
    """The pool's id, as the program `skyward` takes it."""


@dataclass(frozen=True, slots=True)
class InfraCreated(Event):
    region: str


@dataclass(frozen=True, slots=True)
class RegionAutoSelected(Event):
    """The requested region does not sell the instance type, or has no capacity; another is used."""

    requested_region: str
    selected_region: str
    instance_type: str
    provider: str


@dataclass(frozen=True, slots=True)
class InstanceLaunching(Event):
    count: int
    instance_type: str
    provider: str


@dataclass(frozen=True, slots=True)
class InstanceProvisioned(Event):
    """A machine exists. Prices in dollars an hour."""

    instance_id: str
    node: int
    spot: bool
    provider: str
    ip: str | None = None
    instance_type: str | None = None
    price_on_demand: float | None = None
    price_spot: float | None = None
    billing_increment_minutes: int | None = None


@dataclass(frozen=True, slots=True)
class ProvisioningCompleted(Event):
    spot: int
    on_demand: int
    provider: str
    region: str
    instances: list[str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class BootstrapStarting(Event):
    """The machine has been reached."""

    instance_id: str


@dataclass(frozen=True, slots=True)
class BootstrapProgress(Event):
    """A step is done: uv, apt, deps, volumes, skyward or server."""

    instance_id: str
    step: str


@dataclass(frozen=True, slots=True)
class BootstrapCompleted(Event):
    """The node is ready. The fields say how long that took."""

    instance_id: str
    connect_seconds: float = 0.0
    """Time to reach the machine."""
    agent_seconds: float = 0.0
    """Time to copy the agent and its files and start it; 0 where that is part of reaching it."""
    environment_seconds: float = 0.0
    """Time to set up the image."""
    workers_seconds: float = 0.0
    """Time to start the workers."""


@dataclass(frozen=True, slots=True)
class TaskPoolInitCompleted(Event):
    """All nodes are connected. `tunnels`: how many; `connections`: their slots, together."""

    tunnels: int
    connections: int
    duration_seconds: float


@dataclass(frozen=True, slots=True)
class ClusterSetupCompleted(Event):
    instance_count: int
    duration_seconds: float


@dataclass(frozen=True, slots=True)
class Metrics(Event):
    """How busy a node is. Memory is in MiB: of the container or job, if it has a limit. CPU is that
    of the whole machine. With several GPUs, utilization is their mean, memory their sum, and
    temperature that of the hottest. The GPU fields are None without an NVIDIA GPU."""

    instance_id: str
    node: int
    cpu_percent: float
    memory_percent: float
    memory_used_mb: float
    memory_total_mb: float
    gpu_utilization: float | None = None
    gpu_memory_used_mb: float | None = None
    gpu_memory_total_mb: float | None = None
    gpu_temperature: float | None = None
    timestamp: float = 0.0
    """Seconds since 1970, when this program received it."""

    @property
    def cpu(self) -> float:
        """The same as cpu_percent."""
        return self.cpu_percent

    @property
    def gpu(self) -> float | None:
        """The same as gpu_utilization."""
        return self.gpu_utilization


@dataclass(frozen=True, slots=True)
class LogLine(Event):
    """One line that a task wrote, without its newline. Of a line over 64 KiB, each piece of that
    size is an event."""

    node: int
    instance_id: str
    line: str
    timestamp: float
    """Seconds since 1970."""
    worker: int = 0
    task: int = 0
    """0: written while no task ran. Many quick calls may share an id, unless the pool has
    ``collect_tasks=True``."""
    stream: str = "stdout"
    """"stdout" or "stderr"."""


@dataclass(frozen=True, slots=True)
class TaskStarted(Event):
    """The engine sent a task to a node, which starts it now, or as soon as a slot is free. Emitted
    again, with the new node, when a waiting task moves to an idle node or its node is lost; the
    last one counts. Only in pools with ``collect_tasks=True``, like the next two events."""

    task: int
    name: str
    """The function's name."""
    node: int
    timestamp: float = 0.0
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class TaskFinished(Event):
    """A task has returned."""

    task: int
    name: str
    node: int
    worker: int
    run_seconds: float
    """Inside the function."""
    timestamp: float = 0.0


@dataclass(frozen=True, slots=True)
class TaskFailed(Event):
    """A task raised an exception, lost its worker, was cancelled or timed out. A retry that
    ``retries=`` allows is another task."""

    task: int
    name: str
    node: int
    """-1: it never reached a worker."""
    worker: int
    run_seconds: float
    reason: str
    """"it raised" for an exception, which the caller gets; otherwise what happened."""
    timestamp: float = 0.0


@dataclass(frozen=True, slots=True)
class PoolStopping(Event):
    """The pool is being closed."""


@dataclass(frozen=True, slots=True)
class InstanceStopping(Event):
    instance_id: str


@dataclass(frozen=True, slots=True)
class InstancePreempted(Event):
    """The cloud preempts a node's machine in `seconds_left`. The node gets no new tasks until it is
    replaced."""

    instance_id: str
    node: int
    reason: str
    seconds_left: float = 0.0


@dataclass(frozen=True, slots=True)
class InstanceReplaced(Event):
    """A node has a new machine; it keeps its rank."""

    old_instance_id: str
    new_instance_id: str
    node: int
    attempt: int


@dataclass(frozen=True, slots=True)
class CostUpdate(Event):
    """Money so far, in dollars."""

    elapsed_seconds: float
    accumulated_cost: float
    hourly_rate: float
    spot_count: int
    ondemand_count: int


@dataclass(frozen=True, slots=True)
class BudgetWarning(Event):
    """The budget is nearly spent: the pool stops starting tasks in `seconds_left`. In dollars."""

    spent: float
    budget: float
    hourly_rate: float
    seconds_left: float


@dataclass(frozen=True, slots=True)
class CostFinal(Event):
    """The bill in dollars, once the last machine is gone. The four parts add up to the total."""

    total_cost: float
    total_seconds: float
    hourly_rate: float
    """The highest rate at any time."""
    spot_count: int
    """Number of machines."""
    ondemand_count: int
    savings_vs_ondemand: float
    setup_cost: float = 0.0
    """From launch to ready."""
    useful_cost: float = 0.0
    """While tasks ran."""
    idle_cost: float = 0.0
    lost_cost: float = 0.0
    """Work that was lost with its machine."""


@dataclass(frozen=True, slots=True)
class NodeReceipt:
    """What one node did; part of PoolStopped."""

    node: int
    instance_id: str
    tasks: int
    failed: int
    busy_seconds: float
    """Time inside the functions, over all slots."""
    up_seconds: float
    """From ready to the end."""
    cost: float = 0.0
    """Dollars, for all machines this node had."""


@dataclass(frozen=True, slots=True)
class PoolStopped(Event):
    """The last event of a pool: what ran where, and for how long."""

    pool: str
    setup_seconds: float
    total_seconds: float
    nodes: list[NodeReceipt] = field(hash=False)
    first_call_seconds: float = 0.0
    """From the first call to the first answer; 0 without one."""
    first_call_run_seconds: float = 0.0
    """The part of that inside the function."""


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """Worth reporting, but not a failure; the pool continues."""

    message: str
    level: str = "info"
    """Or "warning"."""
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Error(Event):
    """Something failed or deserves attention; the pool may go on."""

    message: str
    instance_id: str | None = None


SkywardEvent = (
    PoolStarted
    | InfraCreating
    | InfraCreated
    | RegionAutoSelected
    | InstanceLaunching
    | InstanceProvisioned
    | ProvisioningCompleted
    | BootstrapStarting
    | BootstrapProgress
    | BootstrapCompleted
    | TaskPoolInitCompleted
    | ClusterSetupCompleted
    | Metrics
    | LogLine
    | TaskStarted
    | TaskFinished
    | TaskFailed
    | PoolStopping
    | InstanceStopping
    | InstancePreempted
    | InstanceReplaced
    | CostUpdate
    | BudgetWarning
    | CostFinal
    | PoolStopped
    | Notice
    | Error
)

EVENT_TYPES: tuple[type, ...] = get_args(SkywardEvent)
"""Every event class."""

_TYPE_OF: dict[str, Any] = {cls.__name__: cls for cls in EVENT_TYPES}


def event_from_fields(name: str, fields: tuple[Any, ...], pool: str = "") -> SkywardEvent:
    """An event from the engine's fields."""
    cls = _TYPE_OF[name]
    if cls is PoolStopped:
        id, setup, total, nodes, *rest = fields
        return PoolStopped(id, setup, total, [NodeReceipt(*receipt) for receipt in nodes], *rest)
    if cls is InfraCreating:
        return InfraCreating(*fields)
    event: SkywardEvent = cls(*fields, pool=pool)
    return event


def fields_of_event(event: Any) -> tuple[str, tuple[Any, ...]]:
    """The reverse, for the engine's displays."""
    cls = type(event)
    fields = {name: getattr(event, name) for name in cls.__match_args__}
    for name, value in fields.items():
        if isinstance(value, str):
            fields[name] = as_utf8(value)
    if isinstance(event, PoolStopped):
        fields["nodes"] = [fields_of_event(receipt)[1] for receipt in event.nodes]
    return cls.__name__, tuple(fields.values())


def as_utf8(text: str) -> str:
    """Text that the engine takes: half a surrogate pair, as in the name of a file that is not
    UTF-8, becomes an escape."""
    return text.encode("utf-8", "backslashreplace").decode()

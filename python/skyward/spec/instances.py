"""Machines as values: what is offered, what was rented, what ended; and the choice among offers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from skyward.exceptions import ConfigurationError
from skyward.spec.accelerator import Accelerator
from skyward.spec.image import Image
from skyward.spec.spot import SpotLike


@dataclass(frozen=True)
class InstanceSpec:
    """A machine type that is offered. Memory in GB, prices in dollars an hour; None: not known."""

    name: str
    vcpu: int
    memory_gb: float
    accelerator: str | None = None
    accelerator_count: float = 0
    accelerator_memory_gb: float = 0
    """Of one device; 0: unknown."""
    price_on_demand: float | None = None
    price_spot: float | None = None
    billing_increment_minutes: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Instance:
    """A machine that was rented."""

    id: str
    provider: str
    spot: bool = False
    private_ip: str = ""
    public_ip: str | None = None
    node: int = 0
    metadata: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def is_head(self) -> bool:
        return self.node == 0

    def get_meta(self, key: str, default: Any = None) -> Any:
        return self.metadata.get(key, default)


@dataclass(frozen=True)
class ExitedInstance:
    """A machine that was released, or terminated itself."""

    instance: Instance
    exit_code: int | None = None
    exit_reason: Literal["normal", "spot_interruption", "timeout", "error"] = "normal"
    error_message: str | None = None
    duration_seconds: float = 0.0


@dataclass(frozen=True)
class ComputeSpec:
    """What a pool asks of a provider."""

    nodes: int = 1
    machine: str | None = None
    accelerator: Accelerator | None = None
    image: Image = field(default_factory=Image)
    cpu: float | None = None
    memory: str | None = None
    timeout: float = 3600
    spot: SpotLike = "always"
    volumes: tuple[Any, ...] = ()
    name: str | None = None
    is_cluster: bool = False
    head_port: int = 29500
    placement_group: str | None = None


def select_instances(
    available_instances: Iterable[InstanceSpec] = (),
    cpu: float = 1,
    memory_mb: int | None = None,
    accelerator: str | Accelerator | None = None,
    accelerator_count: float | None = None,
    prefer_spot: bool = False,
    *,
    memory: str | None = None,
    instances: Iterable[InstanceSpec] | None = None,
) -> list[InstanceSpec]:
    """The machines that fit, the best first: by price (unknown ones last), then the smallest.

    Parameters:
        available_instances: what is offered; `instances` is the same.
        cpu: minimum number of processors.
        memory_mb: minimum memory in MB; `memory` is the same with a unit, such as "128GB".
        accelerator: a name or an Accelerator; None: machines without one are preferred.
        accelerator_count: minimum number of devices; None: the Accelerator's, or 1.
        prefer_spot: order by spot prices where they are known.

    Raises NoMatchingInstanceError, a ValueError, which names the closest ones."""
    from skyward import _core

    offers: Sequence[InstanceSpec] = list(available_instances if instances is None else instances)
    if memory is not None and memory_mb is not None:
        raise ConfigurationError("memory= and memory_mb= mean the same; give one of them")
    request = _core.OfferRequest()
    wanted = Accelerator.from_value(accelerator)
    if wanted is not None and accelerator_count is not None:
        wanted = wanted.with_count(accelerator_count)
    request.accelerator = None if wanted is None else wanted.to_core()
    request.cpus = float(cpu)
    if memory is not None:
        request.memory_mb = _core.parse_memory_mb(memory)
    elif memory_mb is not None:
        request.memory_mb = int(memory_mb)
    request.prefer_spot = prefer_spot
    ranked = _core.rank_offers([_offer(offer) for offer in offers], request)
    return [offers[position] for position in ranked]


def select_instance(
    available_instances: Iterable[InstanceSpec] = (), *args: Any, **options: Any
) -> InstanceSpec:
    """The cheapest machine that fits, or the smallest when prices are not known; parameters and
    errors are those of ``select_instances``."""
    return select_instances(available_instances, *args, **options)[0]


def _offer(spec: InstanceSpec) -> Any:
    from skyward import _core

    offer = _core.Offer()
    offer.instance_type = spec.name
    offer.cpus = int(spec.vcpu)
    offer.memory_gb = float(spec.memory_gb)
    offer.accelerator = spec.accelerator or ""
    offer.accelerator_count = float(spec.accelerator_count)
    offer.accelerator_memory_gb = float(spec.accelerator_memory_gb)
    offer.price_on_demand = spec.price_on_demand
    offer.price_spot = spec.price_spot
    return offer


def available_instances(provider: Any) -> tuple[InstanceSpec, ...]:
    """Everything that a provider sells."""
    from skyward import _core

    spec = _core.ProviderSpec()
    spec.name = provider.name
    spec.settings = provider.settings()
    return tuple(_spec(offer) for offer in _core.available_instances(spec))


def _spec(offer: Any) -> InstanceSpec:
    return InstanceSpec(
        name=offer.instance_type,
        vcpu=offer.cpus,
        memory_gb=offer.memory_gb,
        accelerator=offer.accelerator or None,
        accelerator_count=offer.accelerator_count,
        accelerator_memory_gb=offer.accelerator_memory_gb,
        price_on_demand=offer.price_on_demand,
        price_spot=offer.price_spot,
        billing_increment_minutes=offer.billing_increment_minutes or None,
        metadata={"region": offer.region, "architecture": offer.architecture},
    )

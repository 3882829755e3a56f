"""The clouds as values: where machines are rented, and how. Making one contacts nobody;
the account's rights, and the settings of skyward.toml, are checked when a pool opens."""

from dataclasses import dataclass, field, fields
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args, get_origin

from skyward.base.extension import compiled
from skyward.exceptions import ConfigurationTypeError

if TYPE_CHECKING:
    from skyward.spec.instances import InstanceSpec


@dataclass(frozen=True)
class _Cloud:
    """What the clouds have in common: their settings as text, checked against one table."""

    name: ClassVar[str]
    _said: ClassVar[frozenset[str]]  # of each value: the settings that its maker gave

    def __new__(cls, *values: Any, **named: Any) -> Self:
        cloud = super().__new__(cls)
        names = [setting.name for setting in fields(cls)]
        object.__setattr__(cloud, "_said", frozenset([*names[: len(values)], *named]))
        return cloud

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if isinstance(value, list):
                value = tuple(value)
                object.__setattr__(self, setting.name, value)
            if not _fits(value, setting.type):
                shown = "…" if not setting.repr else repr(value)
                raise ConfigurationTypeError(
                    f"{type(self).__name__}({setting.name}={shown}) does not fit: expected is"
                    f" {_words(setting.type)}"
                )
        if core := compiled():
            core.validate_settings(self.name, self.settings())

    def __repr__(self) -> str:
        """What its maker gave. The rest may be said elsewhere, and is not known before it is
        needed."""
        shown = [one.name for one in fields(self) if one.repr and one.name in self._said]
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__name__}({values})"

    @property
    def remote(self) -> bool:
        """Whether its nodes share no files with this machine."""
        return True

    def available_instances(self) -> "tuple[InstanceSpec, ...]":
        """Everything that is for sale there, by accelerator, its count, processors and memory.

        Asks the cloud, and needs what renting there needs. Raises ProvisioningError."""
        from skyward.spec.instances import available_instances

        return available_instances(self)

    def settings(self) -> dict[str, str]:
        """What was given, as the engine's provider reads it. The engine takes the rest from the
        environment and from skyward.toml; what is in neither is as the fields have it."""
        settings = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name not in self._said or (value is None and one.default is None):
                continue
            settings[one.name] = "none" if value is None else _text(value)
        return settings


@dataclass(frozen=True, repr=False)
class AWS(_Cloud):
    """Amazon EC2. Credentials are found as Amazon's own tools find them."""

    name: ClassVar[str] = "aws"

    region: str = "us-east-1"
    use_ssm: bool = False
    """Reach machines through Session Manager instead of port 22. Needs the AWS CLI with its
    plugin on this computer, and `instance_profile_arn`."""
    ami: str | None = None
    """Machine image; None: the newest that fits."""
    ubuntu_version: str = "24.04"
    subnet_id: str | None = None
    security_group_id: str | None = None
    instance_profile_arn: str | None = None
    username: str | None = None
    instance_timeout: int = 300
    """Seconds that a machine lives when the pool sets no timeout."""
    request_timeout: int = 30
    allocation_strategy: Literal[
        "price-capacity-optimized", "capacity-optimized", "lowest-price"
    ] = "price-capacity-optimized"
    exclude_burstable: bool = False


@dataclass(frozen=True, repr=False)
class DigitalOcean(_Cloud):
    """DigitalOcean's droplets (docs/guide/digitalocean.md).

    `token` None: from $DIGITALOCEAN_TOKEN, else from doctl. `node_token`: another token, one that
    may do nothing but delete droplets. Droplets get it, so that they can delete themselves when
    this computer cannot."""

    name: ClassVar[str] = "digital_ocean"

    region: str = "nyc1"
    """nyc1, nyc2, nyc3, sfo2, sfo3, ams3, atl1, blr1, fra1, lon1, sgp1, syd1 or tor1."""
    token: str | None = field(default=None, repr=False)
    ssh_key_fingerprint: str | None = None
    instance_timeout: int = 300
    node_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, repr=False)
class Verda(_Cloud):
    """Verda's machines (docs/guide/verda.md).

    `client_id` and `client_secret` None: from $VERDA_CLIENT_ID and $VERDA_CLIENT_SECRET, else from
    the file of Verda's own program."""

    name: ClassVar[str] = "verda"

    region: str | None = None
    """None: wherever the machine type is available."""
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    ssh_key_id: str | None = None
    instance_timeout: int = 300
    request_timeout: int = 30


@dataclass(frozen=True, repr=False)
class VastAI(_Cloud):
    """Vast.ai, a market of other people's machines (docs/guide/vastai.md).

    `api_key` None: $VAST_API_KEY, else the file that its own tool keeps. `trust="community"` allows
    machines outside of audited data centres, whose owners can see everything on them."""

    name: ClassVar[str] = "vastai"

    api_key: str | None = field(default=None, repr=False)
    min_reliability: float = 0.95
    verified_only: bool = True
    min_cuda: float = 12.0
    geolocation: str | None = None
    """Countries, "US" or "NO,SE"; None: any."""
    bid_multiplier: float = 1.2
    """A bid is this many times the least one."""
    instance_timeout: int = 300
    request_timeout: int = 30
    docker_image: str | None = None
    disk_gb: int = 100
    use_overlay: bool = True
    """No effect yet: nodes have no network of their own."""
    overlay_timeout: int = 120
    require_direct_port: bool = False
    """No effect: machines without one are never taken."""
    trust: str = "datacenters"
    """"datacenters" or "community"."""

    @staticmethod
    def ubuntu(version: str = "24.04", cuda: str = "12.9.1", cuda_dist: str = "runtime") -> str:
        """The name of NVIDIA's container image with these versions, for `docker_image`."""
        return f"nvcr.io/nvidia/cuda:{cuda}-{cuda_dist}-ubuntu{version}"


@dataclass(frozen=True, repr=False)
class RunPod(_Cloud):
    """RunPod: containers in its data centres, or with `cloud_type="community"` on other people's
    machines.

    `api_key` None: $RUNPOD_API_KEY, else the file that its own tool keeps."""

    name: ClassVar[str] = "runpod"

    api_key: str | None = field(default=None, repr=False)
    cluster_mode: Literal["individual", "instant"] = "individual"
    global_networking: bool | None = None
    """Whether nodes reach each other; None: they do not."""
    cloud_type: Literal["secure", "community"] = "secure"
    ubuntu: str = "newest"
    container_disk_gb: int = 50
    volume_gb: int = 20
    volume_mount_path: str = "/workspace"
    network_volume: str | None = None
    """The id of a network volume, instead of a disk of the pod's own."""
    registry_auth: str | None = "docker hub"
    """Name of the stored credential for images; None: none."""
    data_center_ids: str | tuple[str, ...] = "global"
    ports: tuple[str, ...] = ("22/tcp",)
    provision_timeout: int = 300
    bootstrap_timeout: int = 600
    instance_timeout: int = 300
    request_timeout: int = 30
    cpu_clock: Literal["3c", "5c"] = "3c"
    bid_multiplier: float = 1


@dataclass(frozen=True, repr=False)
class Slurm(_Cloud):
    """Nodes of a Slurm cluster: the pool submits jobs, and waits in the queue.

        sky.Slurm(partition="gpu", login="me@login.example.org")

    What is left out is as the site has it."""

    name: ClassVar[str] = "slurm"

    partition: str | None = None
    """One, or several with commas between."""
    account: str | None = None
    """The account that the jobs are charged to."""
    qos: str | None = None
    gres: str | None = None
    """What each node must have, instead of the pool's accelerator: "gpu:h100:2"."""
    time: str | None = None
    """The longest that a job may run, as sbatch takes it: "8:00:00". None: the pool's timeout."""
    login: str | None = None
    """The login node, reached by ssh: "me@login". None: Slurm's commands are on this computer."""
    exclusive: bool = False
    """Whole nodes."""
    extra: tuple[str, ...] = ()
    """More options of sbatch, one a text: "--constraint=a100"."""

    def settings(self) -> dict[str, str]:
        settings = super().settings()
        if settings.pop("extra", ""):
            settings["extra"] = "\n".join(self.extra)
        return settings


CLOUDS: dict[str, type[Any]] = {
    cloud.name: cloud for cloud in (AWS, DigitalOcean, Verda, VastAI, RunPod, Slurm)
}
"""The classes by the names that ``provider="aws"`` takes."""


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _fits(value: Any, kind: Any) -> bool:
    """Whether a setting's value is of the kind that its field is declared with. What else it must
    be is checked with all settings at once."""
    if isinstance(kind, UnionType):
        return any(_fits(value, part) for part in get_args(kind))
    if get_origin(kind) is Literal:
        return isinstance(value, str)
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
    if kind in (int, float):
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    return isinstance(value, kind)


def _words(kind: Any) -> str:
    if isinstance(kind, UnionType):
        return " or ".join(map(_words, get_args(kind)))
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(repr, get_args(kind)))
    if get_origin(kind) is tuple:
        return "a list of texts"
    names = {str: "text", bool: "True or False", int: "a whole number", float: "a number"}
    return names.get(kind, "None")

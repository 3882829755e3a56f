"""The providers whose settings are all that they have.

Making one contacts nobody; the account's rights, and the settings of skyward.toml, are checked when
a pool opens.

Made by tools/providers.py from the sheets in skyward/provider; ./dev static compares them."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from skyward.providers.cloud import LINES, Cloud, NvidiaImages


@dataclass(frozen=True, repr=False)
class AWS(Cloud):
    """Machines of Amazon EC2. Skyward looks for credentials where Amazon's own tools do.
    docs/guide/aws.md says more."""

    name: ClassVar[str] = "aws"

    region: str = "us-east-1"
    """The region. Default: from the settings, `AWS_REGION` or the profile; else `"us-east-1"`."""
    use_ssm: bool = False
    """Connect without an open port, through Session Manager. It needs the AWS CLI with its
    plugin on your computer, and `instance_profile_arn`."""
    ami: str | None = None
    """Your own image. Default: Ubuntu's newest, or Amazon's with NVIDIA's driver."""
    ubuntu_version: str = "24.04"
    """The version of Ubuntu's image."""
    subnet_id: str | tuple[str, ...] | None = None
    """Your own subnet, or one for each zone, separated by commas. Default: Amazon's default."""
    security_group_id: str | None = None
    """Your own security group. Default: one per pool."""
    instance_profile_arn: str | None = None
    """A role for the machines."""
    username: str | None = None
    """The login user. Default: by the image's name."""
    instance_timeout: int = 300
    """Ignored; use the pool's `timeout=`."""
    request_timeout: int = 30
    """Time limit for one attempt of a request, in seconds."""
    allocation_strategy: Literal[
        "price-capacity-optimized", "capacity-optimized", "lowest-price"
    ] = "price-capacity-optimized"
    """Ignored: Skyward tries zones in the order of their prices."""
    exclude_burstable: bool = False
    """Rent no burstable types (t families)."""
    private_addresses: bool = False
    """Give machines no public addresses, and connect to their private ones. It needs
    `subnet_id`."""
    tags: dict[str, str] | tuple[str, ...] = ()
    """Your own tags for machines, disks and security groups: `{"CostCenter": "1234"}`."""


@dataclass(frozen=True, repr=False)
class DigitalOcean(Cloud):
    """DigitalOcean's droplets. docs/guide/digitalocean.md says more."""

    name: ClassVar[str] = "digital_ocean"

    region: str = "nyc1"
    """Where to look first: `nyc1`, `fra1` or another of DigitalOcean's regions."""
    token: str | None = field(default=None, repr=False)
    """Your API token. Default: `$DIGITALOCEAN_TOKEN`, else doctl's."""
    ssh_key_fingerprint: str | None = None
    """An SSH key of your account to use instead of a new one. Default:
    `$DIGITALOCEAN_SSH_KEY_FINGERPRINT`, else a key per pool."""
    instance_timeout: int = 300
    """Ignored; use the pool's `timeout=`."""
    node_token: str | None = field(default=None, repr=False)
    """A second token, with which droplets can delete themselves."""


@dataclass(frozen=True, repr=False)
class Kubernetes(Cloud):
    """Pods of a Kubernetes cluster, through your own kubectl and its login.
    docs/guide/kubernetes.md says more."""

    name: ClassVar[str] = "kubernetes"

    context: str | None = None
    """The context of your kubeconfig to use. Default: the current one."""
    namespace: str | None = None
    """The namespace of the pods. Default: the context's."""
    image: str | None = None
    """The container image, with `sh` and `bash`. Default: `"python:3.x-slim"`."""
    gpu: str | None = None
    """The resource name of a GPU: `"nvidia.com/gpu"`. Default: from the nodes."""
    node_selector: dict[str, str] | tuple[str, ...] = ()
    """Labels that the nodes have: `{"disktype": "ssd"}`."""
    tolerations: tuple[str, ...] = ()
    """Taints that the pods tolerate: `"dedicated=ml:NoSchedule"`, `"dedicated"`."""
    service_account: str | None = None
    """The service account of the pods: functions have its rights in the cluster, and its secrets
    pull the image. Default: none."""
    run_as_user: int | None = None
    """The user id in the pods; not 0. Default: the image's."""
    autoscaled: bool = False
    """Whether the pool waits for nodes that an autoscaler starts."""


@dataclass(frozen=True, repr=False)
class RunPod(Cloud):
    """RunPod: containers in its data centres, or on other people's machines.
    docs/guide/runpod.md says more."""

    name: ClassVar[str] = "runpod"

    api_key: str | None = field(default=None, repr=False)
    """Your key. Default: `$RUNPOD_API_KEY`, else from the file of its command-line program."""
    cluster_mode: Literal["individual", "instant"] = "individual"
    """`"instant"` is refused: clusters cannot be rented yet."""
    global_networking: bool | None = None
    """Whether nodes can reach each other. Needs NVIDIA GPUs, on demand, in the data centres that
    have such a network. Default: no."""
    cloud_type: Literal["secure", "community"] = "secure"
    """`"community"`: other people's machines, whose owners can read everything on them."""
    ubuntu: str = "newest"
    """The version of Ubuntu: `"22.04"`, `"24.04"`."""
    container_disk_gb: int = 50
    """The size of a pod's disk; at most 20 GB without GPUs."""
    volume_gb: int = 20
    """The size of a second disk, at `volume_mount_path`: at least 10; 0: none. Pods without GPUs
    have none."""
    volume_mount_path: str = "/workspace"
    """Where the second disk is mounted."""
    network_volume: str | None = None
    """The id of a network volume, instead of the second disk."""
    registry_auth: str | None = "docker hub"
    """The name of a credential of Docker Hub that RunPod keeps for you. With one, images come
    from there; `None` (in C++ `"none"`): none. Default: `"docker hub"`, if the account has
    it."""
    data_center_ids: str | tuple[str, ...] = "global"
    """Data centres, such as `("US-TX-3", "EU-RO-1")`."""
    ports: tuple[str, ...] = ("22/tcp",)
    """Ports to open besides that of SSH."""
    provision_timeout: int = 300
    """Time limit for a pod to start, in seconds, to which `instance_timeout` is added; then
    Skyward tries another pod."""
    bootstrap_timeout: int = 600
    """Ignored: setting up a node may take ten minutes with every provider."""
    instance_timeout: int = 300
    """See `provision_timeout`."""
    request_timeout: int = 30
    """Time limit for one attempt of a request, in seconds."""
    cpu_clock: Literal["3c", "5c"] = "3c"
    """The kind of processors of pods without GPUs: `"3c"` or `"5c"`."""
    min_cuda: float = 0.0
    """Minimum CUDA version that the host's driver supports; 0: any."""
    bid_multiplier: float = 1.0
    """The bid, as a multiple of the lowest one; at least 1."""


@dataclass(frozen=True, repr=False)
class Slurm(Cloud):
    """Nodes of a Slurm cluster: the pool submits jobs, and waits in the queue.
    docs/guide/slurm.md says more."""

    name: ClassVar[str] = "slurm"

    partition: str | None = None
    """A partition, or several separated by commas. Default: any that fits."""
    account: str | None = None
    """The account that the jobs are charged to. Default: the site's default."""
    qos: str | None = None
    """The quality of service. Default: the site's default."""
    gres: str | None = None
    """What each node must have, as sbatch takes it: `"gpu:h100:2"`. Default: from the pool's
    `accelerator`."""
    time: str | None = None
    """The longest that a job may run: `"8:00:00"`, `"2-12:00:00"`. Default: from the pool's
    `timeout`."""
    login: str | None = None
    """The login node, reached by ssh: `"me@login.example.org"`, or a host of your ssh
    configuration. Default: your computer."""
    exclusive: bool = False
    """Request whole nodes, even if the pool needs less."""
    extra: tuple[str, ...] = field(default=(), metadata=LINES)
    """Further sbatch options, one string each: `"--constraint=a100"`."""


@dataclass(frozen=True, repr=False)
class VastAI(NvidiaImages, Cloud):
    """Vast.ai, a market of other people's machines. docs/guide/vastai.md says more."""

    name: ClassVar[str] = "vastai"

    api_key: str | None = field(default=None, repr=False)
    """Your key. Default: `$VAST_API_KEY`, else from the file of its command-line program."""
    min_reliability: float = 0.95
    """Minimum reliability of the host, from 0 to 1."""
    verified_only: bool = True
    """Only hosts that Vast.ai has verified."""
    min_cuda: float = 12.0
    """Minimum CUDA version that the host's driver supports; 13.0 for PyTorch."""
    geolocation: str | None = None
    """Countries, by their two letters, such as `"US"` or `"NO,SE"`. Default: any."""
    bid_multiplier: float = 1.2
    """The bid, as a multiple of the lowest one; at least 1."""
    instance_timeout: int = 300
    """Time limit for a machine to start, in seconds; then Skyward tries another one. Raise it
    for a large `docker_image`."""
    request_timeout: int = 30
    """Time limit for one attempt of a request, in seconds."""
    docker_image: str | None = None
    """The image that the machine runs; it must be a Debian or Ubuntu image. Default: NVIDIA's
    image with CUDA 12.0."""
    disk_gb: int = 100
    """The size of a machine's disk."""
    use_overlay: bool = True
    """Ignored: nodes cannot reach each other."""
    overlay_timeout: int = 120
    """Ignored."""
    require_direct_port: bool = False
    """Ignored: Skyward rents only machines with their own port."""
    trust: Literal["datacenters", "community"] = "datacenters"
    """`"community"` allows everybody's machines, whose owners can read everything on them."""


@dataclass(frozen=True, repr=False)
class Verda(Cloud):
    """Verda's machines. docs/guide/verda.md says more."""

    name: ClassVar[str] = "verda"

    region: str | None = None
    """The location, such as `"FIN-01"`. Default: wherever the type is available."""
    client_id: str | None = None
    """The client id of your API credentials. Default: `$VERDA_CLIENT_ID`, else from the file of
    its command-line program."""
    client_secret: str | None = field(default=None, repr=False)
    """The secret of these credentials. Default: `$VERDA_CLIENT_SECRET`, else from the file of
    its command-line program."""
    ssh_key_id: str | None = None
    """An SSH key of your account to use instead of a new one. Default: a key per pool."""
    instance_timeout: int = 300
    """Ignored; use the pool's `timeout=`."""
    request_timeout: int = 30
    """Time limit for one attempt of a request, in seconds."""


@dataclass(frozen=True, repr=False)
class Container(Cloud):
    """Containers that your own podman or docker runs, on your computer or on a host that ssh
    reaches. docs/guide/containers.md says more."""

    name: ClassVar[str] = "container"

    runtime: Literal["podman", "docker"] | None = None
    """The runtime to use. Default: the one that is installed, podman first."""
    image: str | None = None
    """The container image. It needs `sh`, `find` and a few other programs. Default:
    `"docker.io/library/python:3.x-slim"`."""
    network: str | None = None
    """The network of the containers: a name, or `"host"`. Default: the runtime's default."""
    host: str | None = None
    """Where the runtime is: a host for `ssh`, such as `"me@workstation"`. Default: your
    computer."""


CLOUDS: dict[str, type[Any]] = {
    cloud.name: cloud
    for cloud in (AWS, DigitalOcean, Kubernetes, RunPod, Slurm, VastAI, Verda, Container)
}
"""The classes by the names that ``provider="aws"`` takes."""

"""Where a task stands among the others of its pool."""

import os
import socket
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class InstanceInfo:
    """What ``instance_info()`` returns. Nodes and workers count from 0."""

    node: int
    total_nodes: int
    is_head: bool = False
    """True for the first worker of node 0. Always computed: a value that is passed is ignored."""
    accelerators: list[str] = field(default_factory=list, hash=False)
    """Model name of each accelerator of this node."""
    head_addr: str = "127.0.0.1"
    """Address of node 0, for frameworks that need a meeting point. Empty when the nodes cannot
    reach each other."""
    head_port: int = 29500
    job_id: str = ""
    """8 hex digits, new at each opening of the pool."""
    worker: int = 0
    """Index within the node."""
    workers_per_node: int = 1
    total_accelerators: int = 0
    peers: list[dict[str, Any]] = field(default_factory=list, hash=False)
    """{"node", "private_ip"} of every node, by node."""
    accelerator: dict[str, Any] | None = field(default=None, hash=False)
    """{"type", "count", "is_trainium"}, or None."""
    network: dict[str, Any] = field(default_factory=dict, hash=False)
    """{"missing": provider} when nodes of this provider cannot reach each other."""
    slot: int = 0
    """Index of this process among the `concurrency` processes of its worker. Calls that run at the
    same time on one worker have different slots."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_head", self.global_worker_index == 0)

    @property
    def global_worker_index(self) -> int:
        """This worker's rank, from 0 to total_workers − 1."""
        return self.node * self.workers_per_node + self.worker

    @property
    def total_workers(self) -> int:
        return self.total_nodes * self.workers_per_node

    @property
    def is_trainium(self) -> bool:
        return bool(self.accelerator and self.accelerator.get("is_trainium"))

    @property
    def hostname(self) -> str:
        return socket.gethostname()

    @classmethod
    def current(cls) -> "InstanceInfo":
        """The same as ``instance_info()``."""
        return instance_info()


_parsed: tuple[str, InstanceInfo] | None = None


def instance_info() -> InstanceInfo:
    """The place of the running task in its pool. Outside of a pool (``f.local(…)``) it is that of
    the only worker there is, with an empty `job_id`."""
    return place_in_pool() or InstanceInfo(0, 1)


def place_in_pool() -> InstanceInfo | None:
    """The same; None outside of a pool."""
    global _parsed
    text = os.environ.get("COMPUTE_POOL")
    if not text:
        return None
    if _parsed is None or _parsed[0] != text:
        import json

        known = InstanceInfo.__dataclass_fields__
        values = {name: value for name, value in json.loads(text).items() if name in known}
        values["slot"] = int(os.environ.get("SKYWARD_SLOT", "0"))
        _parsed = (text, InstanceInfo(**values))
    return _parsed[1]

"""The variables that tell each framework about its workers: functions of the place in the pool, and
a block that sets them."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from skyward.task.instance_info import InstanceInfo


def meeting_place(info: InstanceInfo) -> InstanceInfo:
    """The place in the pool with the addresses at which frameworks meet. The only node of a pool
    reaches itself at its loopback address; a router may have the one that others reach it at."""
    if info.total_nodes > 1:
        return info
    peers = [{**peer, "private_ip": "127.0.0.1"} for peer in info.peers]
    return replace(info, head_addr="127.0.0.1", peers=peers)


def for_torch(info: InstanceInfo) -> dict[str, str]:
    """MASTER_ADDR, WORLD_SIZE, RANK and their like."""
    return {
        "MASTER_ADDR": info.head_addr,
        "MASTER_PORT": str(info.head_port),
        "WORLD_SIZE": str(info.total_workers),
        "RANK": str(info.global_worker_index),
        "LOCAL_RANK": str(info.worker),
        "LOCAL_WORLD_SIZE": str(info.workers_per_node),
        "NODE_RANK": str(info.node),
    }


def network_defaults(info: InstanceInfo, interface: str | None) -> dict[str, str]:
    """What gloo and NCCL should do unless the user says otherwise. `interface`: the network
    interface that has this node's address in the pool; None: no single one has it."""
    values = {}
    if interface is not None:
        values["GLOO_SOCKET_IFNAME"] = interface
    if interface == "lo":
        values["NCCL_SOCKET_IFNAME"] = "lo"
    elif info.total_nodes > 1:  # NCCL itself knows which of a machine's networks is fast
        values["NCCL_SOCKET_IFNAME"] = "^lo,docker"
    if info.total_nodes > 1:
        values["NCCL_DEBUG"] = "WARN"
    return values


def for_jax(info: InstanceInfo) -> dict[str, str]:
    """JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES, JAX_PROCESS_ID; the device count if there are."""
    values = {
        "JAX_COORDINATOR_ADDRESS": endpoint(info.head_addr, info.head_port),
        "JAX_NUM_PROCESSES": str(info.total_workers),
        "JAX_PROCESS_ID": str(info.global_worker_index),
    }
    if info.accelerators:
        values["JAX_LOCAL_DEVICE_COUNT"] = str(len(info.accelerators))
    return values


def bind_address_of_jax(info: InstanceInfo) -> dict[str, str]:
    """Where the first process listens, unless the user says otherwise. JAX's own choice is every
    address of the machine."""
    return {"JAX_COORDINATOR_BIND_ADDRESS": endpoint(info.head_addr, info.head_port)}


def endpoint(host: str, port: int) -> str:
    """ "host:port", with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def for_tensorflow(info: InstanceInfo, addresses: Sequence[str]) -> dict[str, str]:
    """TF_CONFIG. `addresses`: "host:port" of every worker, by rank."""
    config = {
        "cluster": {"worker": list(addresses)},
        "task": {"type": "worker", "index": info.global_worker_index},
    }
    return {"TF_CONFIG": json.dumps(config)}


def own_address(info: InstanceInfo) -> str:
    """The address at which the other nodes reach this one."""
    for peer in info.peers:
        if peer.get("node") == info.node and peer.get("private_ip"):
            return str(peer["private_ip"])
    return info.head_addr


def nodes_share_an_address(info: InstanceInfo) -> bool:
    """True where nodes are processes of one machine, so that each needs ports of its own."""
    addresses = [peer.get("private_ip") for peer in info.peers]
    return len(set(addresses)) < max(len(addresses), info.total_nodes)


@contextlib.contextmanager
def variables(
    values: Mapping[str, str], defaults: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Sets variables for the length of the block, and puts back what was there. `defaults` give way
    to what is set already."""
    wanted = {name: text for name, text in (defaults or {}).items() if name not in os.environ}
    wanted.update(values)
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, text in before.items():
            if text is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = text

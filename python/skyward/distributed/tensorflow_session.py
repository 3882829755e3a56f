"""TensorFlow's cluster description for the length of a call.

TensorFlow connects when the function makes its strategy, and cannot take that connection down: a
process that has been worker 1 of a cluster stays that for its life. So the cluster is described
once in a process, and every later call finds the same description, in which a new strategy connects
at once."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from skyward.distributed.environment import (
    endpoint,
    for_tensorflow,
    nodes_share_an_address,
    own_address,
    variables,
)
from skyward.distributed.meeting import free_port, meet
from skyward.exceptions import ConfigurationError
from skyward.task.instance_info import InstanceInfo

KEYS_PER_CALL = 100_000
"""Each call has keys of its own for what it exchanges; TensorFlow counts them up from a base."""

_joined: list[str] = []
"""The cluster that this process belongs to: "host:port" of every worker."""
_calls = 0


@contextlib.contextmanager
def session(info: InstanceInfo, backend: str | None, timeout: float, name: str) -> Iterator[None]:
    """TensorFlow itself is imported by the function."""
    global _calls
    addresses, _calls = _cluster(info, name, timeout)
    if _joined and _joined != addresses:
        raise ConfigurationError(
            f"{name}: TensorFlow is connected to {', '.join(_joined)} in this worker, and keeps to"
            f" that as long as the process lives, but the workers are now {', '.join(addresses)}:"
            " one was replaced. Leave the pool and enter it again"
        )
    if not _joined:
        _forget_context()
    with variables(for_tensorflow(info, addresses)), _connected_already():
        try:
            yield
        finally:
            if _is_connected():
                _joined[:] = addresses


def _cluster(info: InstanceInfo, name: str, timeout: float) -> tuple[list[str], int]:
    """Every worker's server, and the number of this call. Nodes with addresses of their own use the
    pool's port, counted up by the worker; nodes that share a machine take free ports and tell each
    other."""
    if nodes_share_an_address(info):
        host = own_address(info)
        own = _joined[info.global_worker_index] if _joined else endpoint(host, free_port(host))
        brought = meet(info, f"{name}() of tensorflow", timeout, [own, _calls + 1])
        return [address for address, _ in brought], int(brought[0][1])
    addresses = [
        endpoint(peer["private_ip"], info.head_port + worker)
        for peer in info.peers
        for worker in range(info.workers_per_node)
    ]
    return addresses, _calls + 1


@contextlib.contextmanager
def _connected_already() -> Iterator[None]:
    """A new strategy would connect again, and lose what faster workers have sent already."""
    if not _joined:
        yield
        return
    strategies = sys.modules["tensorflow.python.distribute.collective_all_reduce_strategy"]
    strategies.CollectiveAllReduceStrategy._collective_key_base = KEYS_PER_CALL * _calls
    context = _context_module().context()
    context.enable_collective_ops = lambda _: None
    try:
        yield
    finally:
        del context.enable_collective_ops


def _forget_context() -> None:
    """What ran before without a cluster must not keep the function from connecting."""
    context = _context_module()
    if context is not None and context.context_safe() is not None:
        context._reset_context()


def _is_connected() -> bool:
    """Whether the function made a strategy over the cluster."""
    context = _context_module()
    current = context.context_safe() if context is not None else None
    return getattr(current, "_collective_ops_server_def", None) is not None


def _context_module() -> Any:
    return sys.modules.get("tensorflow.python.eager.context")

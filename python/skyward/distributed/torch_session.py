"""PyTorch's process group for the length of a call; Hugging Face's accelerate stands on it."""

import contextlib
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from skyward.distributed.environment import (
    for_torch,
    network_defaults,
    own_address,
    variables,
)
from skyward.distributed.gpus import refusal, sharing, visible_gpus
from skyward.distributed.meeting import bound_socket, interface_of, meet
from skyward.exceptions import ConfigurationError
from skyward.task.instance_info import InstanceInfo


@contextlib.contextmanager
def session(info: InstanceInfo, backend: str | None, timeout: float, name: str) -> Iterator[None]:
    """A group that the program made itself is left alone, during and after the call."""
    interface = interface_of(own_address(info))
    with variables(for_torch(info), network_defaults(info, interface)):
        import torch
        import torch.distributed as dist

        if dist.is_initialized():
            yield
            return
        store, chosen = _begin(torch, info, backend, timeout, name)
        try:
            dist.init_process_group(
                chosen, store=store, rank=info.global_worker_index, world_size=info.total_workers
            )
            # A worker that failed at once and left would break the group that others still form.
            meet(info, f"{name}() of torch, connected", timeout)
            # What is exchanged through it later takes as long as torch allows.
            store.set_timeout(dist.constants.default_pg_timeout)
            yield
        except BaseException:
            del store
            with contextlib.suppress(Exception):  # the function's own error tells more
                _release(dist)
            raise
        del store
        _release(dist)


def _begin(
    torch: Any, info: InstanceInfo, backend: str | None, timeout: float, name: str
) -> tuple[Any, str]:
    """The store in which the workers find what they need to connect, and the backend.

    The store is not at MASTER_PORT: torch never lets go of that of a group which
    DistributedDataParallel has used, so its port is lost, and each call takes another one. The time
    limit is for the others to arrive; that of each exchange between them stays torch's own."""
    chosen = backend or ("nccl" if torch.cuda.is_available() else "gloo")
    call, gpus = f"{name}() of torch", visible_gpus() if chosen == "nccl" else []
    served: dict[str, Any] = {}
    with contextlib.ExitStack() as opened:
        listener = port = None
        if info.global_worker_index == 0:
            # A socket of torch's own would listen at every address of the machine.
            listener = opened.enter_context(bound_socket(info.head_addr, info.head_port + 1))
            listener.listen()
            port = listener.getsockname()[1]
        brought = meet(info, call, timeout, [port, gpus])
        chosen = backend_for(call, backend, chosen, [seen for _, seen in brought])
        if listener is not None:
            served = {"is_master": True, "master_listen_fd": listener.detach()}
            if refuses_sockets(torch.__version__):
                served["use_libuv"] = False
    store = torch.distributed.TCPStore(
        info.head_addr,
        brought[0][0],
        world_size=info.total_workers,
        timeout=timedelta(seconds=timeout),
        **served,
    )
    return store, chosen


def backend_for(call: str, named: str | None, chosen: str, gpus: Sequence[Sequence[str]]) -> str:
    """gloo instead of nccl where workers share a GPU; ConfigurationError if nccl was named. `gpus`:
    those that each worker sees, by rank."""
    ranks = sharing(gpus)
    if not ranks:
        return chosen
    if named is not None:
        raise ConfigurationError(refusal(call, ranks, "use backend='gloo', their default"))
    return "gloo"


def refuses_sockets(version: str) -> bool:
    """Whether the store of this PyTorch takes a socket only without libuv, which it uses by default
    from 2.4 on."""
    major, minor, *_ = re.findall(r"\d+", version)
    return (2, 4) <= (int(major), int(minor)) < (2, 8)


def _release(dist: Any) -> None:
    """Resets what the next call would find: accelerate remembers the group in its classes."""
    if dist.is_initialized():  # not destroyed by the function itself
        dist.destroy_process_group()
    # The workers of a group find each other by a number that each of them increments. A group that
    # failed here counts, too, and another worker may have formed it, or never started.
    dist.distributed_c10d._world.group_count = 0
    accelerate = sys.modules.get("accelerate.state")
    if accelerate is not None:
        accelerate.AcceleratorState._reset_state(reset_partial_state=True)
        accelerate.GradientState._reset_state()

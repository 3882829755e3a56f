"""PyTorch's process group for the length of a call; Hugging Face's accelerate stands on it."""

import contextlib
import re
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from skyward.distributed.environment import (
    for_torch,
    network_defaults,
    own_address,
    variables,
)
from skyward.distributed.meeting import bound_socket, interface_of, meet
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
        chosen = backend or ("nccl" if torch.cuda.is_available() else "gloo")
        store = _store(torch, info, timeout, name)
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


def _store(torch: Any, info: InstanceInfo, timeout: float, name: str) -> Any:
    """Where the workers exchange what they need to connect. Not at MASTER_PORT: torch never lets go
    of the store of a group that DistributedDataParallel has used, so its port is lost, and each
    call takes another one. The time limit is for the others to arrive; that of each exchange
    between them stays torch's own."""
    call = f"{name}() of torch"
    served: dict[str, Any] = {}
    if info.global_worker_index == 0:
        # A socket of torch's own would listen at every address of the machine.
        with bound_socket(info.head_addr, info.head_port + 1) as listener:
            listener.listen()
            port = listener.getsockname()[1]
            meet(info, call, timeout, port)
            served = {"is_master": True, "master_listen_fd": listener.detach()}
        if refuses_sockets(torch.__version__):
            served["use_libuv"] = False
    else:
        port = meet(info, call, timeout)[0]
    return torch.distributed.TCPStore(
        info.head_addr,
        port,
        world_size=info.total_workers,
        timeout=timedelta(seconds=timeout),
        **served,
    )


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

"""PyTorch's process group for the length of a call; Hugging Face's accelerate stands on it."""

import contextlib
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
from skyward.distributed.meeting import free_port, interface_of, meet
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
        # Not MASTER_PORT: torch never lets go of the store of a group that DistributedDataParallel
        # has used, so its port is lost, and each call takes another one. The time limit is for
        # the others to arrive; that of each exchange between them stays torch's own.
        head = info.global_worker_index == 0
        brought = free_port(info.head_addr, info.head_port + 1) if head else None
        port = meet(info, f"{name}() of torch", timeout, brought)[0]
        store = dist.TCPStore(
            info.head_addr,
            port,
            world_size=info.total_workers,
            is_master=head,
            timeout=timedelta(seconds=timeout),
        )
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

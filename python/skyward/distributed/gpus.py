"""Which GPUs the workers of a call use. NCCL refuses several processes on one GPU of a host, and
takes a partition of a GPU for that GPU."""

import ctypes
import os
import socket
from collections.abc import Sequence
from pathlib import Path

_BUS_LENGTH = 32


def visible_gpus() -> list[str]:
    """Each NVIDIA GPU that this process sees, by what tells it apart for NCCL: host and PCI bus.
    None where the user lets processes share one, which NCCL can from 2.30 on."""
    if os.environ.get("NCCL_MULTI_RANK_GPU_ENABLE", "0") != "0":
        return []
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count, device = ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return []
    found = []
    for ordinal in range(count.value):
        bus = ctypes.create_string_buffer(_BUS_LENGTH)
        unknown = cuda.cuDeviceGet(ctypes.byref(device), ordinal)
        if not unknown and not cuda.cuDeviceGetPCIBusId(bus, _BUS_LENGTH, device):
            found.append(f"{_host()} {bus.value.decode()}")
    return found


def _host() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return os.environ.get("NCCL_HOSTID") or f"{socket.gethostname()} {boot}"


def sharing(seen: Sequence[Sequence[str]], uses_all: bool = False) -> list[int]:
    """The ranks of workers that cannot but share a GPU; none: each can have its own. `seen`: the
    GPUs that each worker sees, by rank. `uses_all`: it uses all of these; else one of them."""
    ranks: dict[tuple[str, ...], list[int]] = {}
    for rank, gpus in enumerate(map(dict.fromkeys, seen)):  # each once
        for choice in [(gpu,) for gpu in gpus] if uses_all else [tuple(gpus)]:
            ranks.setdefault(choice, []).append(rank)
    return next((those for gpus, those in ranks.items() if 0 < len(gpus) < len(those)), [])


def refusal(call: str, ranks: Sequence[int], instead: str) -> str:
    """What to tell the user. `instead`: what else connects such workers."""
    return (
        f"{call}: workers {', '.join(map(str, ranks))} share a GPU, but NCCL, which connects GPUs,"
        " refuses several processes on one; partitions of a GPU (mig=) count as one.\n"
        f"Nothing was started. Give each worker its own GPU, or {instead}.\n"
        "NCCL 2.30 and newer can share a GPU: set NCCL_MULTI_RANK_GPU_ENABLE=1 in the image's env."
    )

"""Vast.ai: machines in one private network add numbers up with torch.distributed.

Vast.ai does not publish the API of its overlay networks yet. Until it does, nodes there cannot
reach each other, and the distributed call raises sky.ConfigurationError. With
SKYWARD_PROVIDER=local your machine takes their place, and no GPU is asked for."""

import os

import skyward as sky

LOCAL = os.environ.get("SKYWARD_PROVIDER") == "local"


@sky.compute
def network():
    info = sky.instance_info()
    return f"node {info.node}: head at {info.head_addr}:{info.head_port}, {info.network or 'LAN'}"


@sky.compute
@sky.distributed.torch(backend="gloo" if LOCAL else "nccl")
def all_reduce(size):
    """Each worker gives its rank + 1; all get the sum. Also the rate, in MB a second."""
    import time

    import torch
    import torch.distributed as dist

    device = "cuda" if torch.cuda.is_available() else "cpu"
    numbers = torch.full((size,), float(dist.get_rank() + 1), device=device)
    began = time.perf_counter()
    dist.all_reduce(numbers)
    total = numbers[0].item()
    return total, numbers.nbytes / 1e6 / (time.perf_counter() - began)


def main():
    provider = sky.VastAI(
        use_overlay=True,  # a private network among the machines
        geolocation="NO,SE,FI",
        min_reliability=0.98,
        bid_multiplier=1.3,
    )
    with sky.ComputePool(
        provider=provider,
        nodes=2,
        accelerator=None if LOCAL else "RTX 4090",
        image=sky.Image() if LOCAL else sky.Image(pip=["torch"]),
        budget=2,
    ) as pool:
        print(*(network() @ pool), sep="\n")
        for rank, (total, rate) in enumerate(all_reduce(1_000_000) @ pool):
            print(f"rank {rank}: 1 + 2 = {total:g}, {rate:.0f} MB/s")
            assert total == 3


if __name__ == "__main__":
    main()

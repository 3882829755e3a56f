"""MultiPool: two pools with different accelerators, opened at the same time, run one benchmark.

With SKYWARD_PROVIDER=local your machine takes the place of AWS, and no GPU is asked for."""

import os

import skyward as sky

LOCAL = os.environ.get("SKYWARD_PROVIDER") == "local"


@sky.compute
def matmul(size):
    """The device's name, and how many products of two square matrices it makes in a second."""
    import time

    name, rounds = sky.current_accelerator(), 10
    if name is None:
        import numpy as np

        a = np.ones((size, size), "f4")
    else:
        import torch

        a = torch.ones(size, size, device="cuda")
    (a @ a).sum().item()  # the first run loads libraries
    began = time.perf_counter()
    for _ in range(rounds):
        (a @ a).sum().item()  # .item() waits for the device
    return name or "CPU", rounds / (time.perf_counter() - began)


def pool_with(accelerator):
    return sky.ComputePool(
        provider=sky.AWS(),
        accelerator=None if LOCAL else accelerator,
        image=sky.Image() if LOCAL else sky.Image(pip=["torch", "numpy"]),
        budget=2,
    )


def main():
    # Both open at the same time. If one fails to open, the other closes.
    with sky.MultiPool(pool_with("T4"), pool_with("L4")) as (t4, l4):
        answers = {"T4": matmul(512) >> t4, "L4": matmul(512) >> l4}
    for asked, (name, speed) in answers.items():
        print(f"asked for {asked}, got {name}: {speed:.0f} products a second")
        assert speed > 0


if __name__ == "__main__":
    main()

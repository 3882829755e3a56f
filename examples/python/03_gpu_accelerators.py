"""Accelerators: what a node has, a matrix product on CPU and GPU, and a small training.

With SKYWARD_PROVIDER=local your machine takes the place of AWS, and no GPU is asked for."""

import os

import skyward as sky

LOCAL = os.environ.get("SKYWARD_PROVIDER") == "local"


@sky.compute
def device():
    return sky.instance_info()  # a plain value, which can be returned


@sky.compute
def matmul_seconds(size):
    """Seconds for the product of two square matrices, by device."""
    import time

    import numpy as np

    def measure(multiply):
        multiply()  # the first run loads libraries
        began = time.perf_counter()
        multiply()
        return time.perf_counter() - began

    a, b = np.random.default_rng(0).normal(size=(2, size, size)).astype("f4")
    seconds = {"cpu": measure(lambda: a @ b)}
    if sky.current_accelerator() is not None:
        import torch

        there = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
        seconds["gpu"] = measure(lambda: (torch.matmul(*there), torch.cuda.synchronize()))
    return seconds


@sky.compute
def fit(steps):
    """Gradient descent on the GPU where there is one: weights of a linear model."""
    import numpy as np

    random = np.random.default_rng(1)
    x, truth = random.normal(size=(1000, 3)), np.array([2.0, -1.0, 0.5])
    y, weights = x @ truth, np.zeros(3)
    if sky.current_accelerator() is not None:
        import torch

        x, y, weights = (torch.from_numpy(part).cuda() for part in (x, y, weights))
    for _ in range(steps):
        weights = weights - 0.1 / len(x) * x.T @ (x @ weights - y)
    return [round(float(weight), 3) for weight in weights]


def main():
    with sky.ComputePool(
        provider=sky.AWS(),
        accelerator=None if LOCAL else "T4",  # or sky.accelerators.T4(count=4)
        image=sky.Image() if LOCAL else sky.Image(pip=["torch", "numpy"]),
        budget=2,
    ) as pool:
        info = device() >> pool
        print(f"node {info.node} of {info.total_nodes}: {info.accelerators or 'no accelerator'}")
        print({name: f"{s * 1000:.1f} ms" for name, s in (matmul_seconds(512) >> pool).items()})
        weights = fit(200) >> pool
    print(f"weights {weights}")
    assert weights == [2.0, -1.0, 0.5]


if __name__ == "__main__":
    main()

"""What a node's accelerator is, and what it is worth: a matrix product on it and on the CPU."""

import skyward as sky


@sky.compute
def device_info() -> sky.InstanceInfo | None:
    """Node, rank and accelerators, as the task sees them."""
    return sky.instance_info()


@sky.compute
def matmul_benchmark(size: int = 4096, rounds: int = 5) -> dict[str, float]:
    """Seconds for one product of two square matrices, on the CPU and on the GPU if there is one."""
    import time

    import torch

    def measure(device: str) -> float:
        left = torch.randn(size, size, device=device)
        right = torch.randn(size, size, device=device)
        torch.matmul(left, right)  # the first one compiles kernels
        if device == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(rounds):
            torch.matmul(left, right)
        if device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - begin) / rounds

    answer = {"cpu_seconds": measure("cpu")}
    if torch.cuda.is_available():
        answer["gpu_seconds"] = measure("cuda")
        answer["speedup"] = answer["cpu_seconds"] / answer["gpu_seconds"]
    print({name: round(value, 4) for name, value in answer.items()})
    return answer


if __name__ == "__main__":
    # AWS rents A100s by eights, so this costs what eight do. The same program runs on any provider
    # that has the model; on this machine, if it has one, with SKYWARD_PROVIDER=local.
    with sky.ComputePool(
        provider=sky.AWS(),
        accelerator=sky.accelerators.A100(),
        image=sky.Image(pip=["torch"]),
    ) as pool:
        info = device_info() >> pool
        assert info is not None
        print(f"node {info.node} of {info.total_nodes} has {info.accelerators or 'no accelerator'}")
        print(matmul_benchmark() >> pool)

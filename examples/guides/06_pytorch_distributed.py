"""PyTorch: what ``distributed.torch`` sets up, and that gradients are averaged over the nodes."""

import skyward as sky


@sky.compute
@sky.distributed.torch(backend="gloo")
def step(values):
    """One step of gradient descent; returns rank, world and the weight that all agree on."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
    with torch.no_grad():
        model.module.weight.fill_(1.0)
    mine = torch.tensor(sky.shard(values)).unsqueeze(1)
    model(mine).mean().backward()  # the gradient is averaged over all nodes here
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return dist.get_rank(), dist.get_world_size(), model.module.weight.item()


def main():
    with sky.ComputePool(nodes=2) as pool:
        answers = step([1.0, 2.0, 3.0, 4.0]) @ pool
    print(answers)
    assert [(rank, world) for rank, world, _ in answers] == [(0, 2), (1, 2)]
    assert all(abs(weight - 0.75) < 1e-6 for _, _, weight in answers)  # 1 - 0.1 · mean of all


if __name__ == "__main__":
    main()

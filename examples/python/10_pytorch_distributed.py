"""PyTorch: two nodes train one model with DistributedDataParallel, each on its part of the data."""

import numpy as np

import skyward as sky


def two_moons(count):
    """Points of two interleaved half circles, and which of the two each belongs to."""
    random = np.random.default_rng(1)
    angle = random.uniform(0, np.pi, count)
    which = random.integers(0, 2, count)
    x = np.where(which == 0, np.cos(angle), 1 - np.cos(angle))
    y = np.where(which == 0, np.sin(angle), 0.5 - np.sin(angle))
    points = np.stack([x, y], axis=1) + random.normal(scale=0.1, size=(count, 2))
    return points.astype("f4"), which.astype("f4")


@sky.compute
@sky.distributed.torch(backend="gloo")
def train(points, which, epochs):
    """Returns this node's rank, its losses, and the share of its own points that it gets right."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    dataset = TensorDataset(torch.from_numpy(points), torch.from_numpy(which))
    sampler = sky.DistributedSampler(dataset, drop_last=True)
    net = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    loss_of = torch.nn.BCEWithLogitsLoss()
    losses = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(dataset, batch_size=64, sampler=sampler):
            optimizer.zero_grad()
            loss = loss_of(model(x).squeeze(1), y)
            loss.backward()
            optimizer.step()
        dist.all_reduce(loss.detach(), op=dist.ReduceOp.SUM)
        losses.append(loss.item())
    mine, truth = sky.shard(points, which)
    right = ((model(torch.from_numpy(mine)).squeeze(1) > 0).numpy() == truth).mean()
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {right:.1%} right")
    return dist.get_rank(), losses, float(right)


def main():
    with sky.ComputePool(nodes=2) as pool:
        answers = train(*two_moons(2000), epochs=10) @ pool
    for rank, losses, right in answers:
        print(f"rank {rank}: loss {losses[0]:.3f} to {losses[-1]:.3f}, {right:.1%} right")
        assert right > 0.95


if __name__ == "__main__":
    main()

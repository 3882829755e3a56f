"""Sharding: each node gets its part of several inputs, aligned, and in the kind they have."""

import numpy as np

import skyward as sky


@sky.compute
def class_means(rows, labels):
    """Mean row of each class, over this node's part: {label: (sum of rows, their number)}."""
    rows, labels = sky.shard(rows, labels, shuffle=True, seed=42)
    return {int(k): (rows[labels == k].sum(axis=0), int((labels == k).sum())) for k in set(labels)}


@sky.compute
def kinds(*inputs):
    return [type(part).__name__ for part in sky.shard(*inputs)]


@sky.compute
def epoch_orders(count, epochs):
    """The order in which a DataLoader would read this node's part, epoch by epoch."""
    sampler = sky.DistributedSampler(range(count), seed=42)
    orders = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)  # else every epoch repeats the first order
        orders.append(list(sampler))
    return orders


def main():
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, size=3000)
    rows = random.normal(size=(3000, 4)) + labels[:, None]

    with sky.ComputePool(nodes=3) as pool:
        parts = class_means(rows, labels) @ pool
        print(kinds([1, 2, 3], (4, 5, 6), np.arange(3), range(3)) @ pool)
        orders = epoch_orders(10, epochs=2) @ pool

    for label in range(3):
        total = sum(part[label][0] for part in parts)
        count = sum(part[label][1] for part in parts)
        print(f"class {label}: {count} rows, mean {np.round(total / count, 2)}")
        assert np.allclose(total / count, rows[labels == label].mean(axis=0))
    for epoch in range(2):
        print(f"epoch {epoch}:", *[order[epoch] for order in orders])
        assert sorted(sum((order[epoch] for order in orders), [])) == list(range(10))


if __name__ == "__main__":
    main()

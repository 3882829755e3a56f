"""Broadcast: every node sums its own part of the numbers, and the driver adds the parts up."""

import skyward as sky


@sky.compute
def partial_sum(numbers):
    mine = sky.shard(numbers)
    info = sky.instance_info()
    print(f"node {info.node} of {info.total_nodes} sums {len(mine)} numbers")
    return sum(mine)


def main():
    with sky.ComputePool(nodes=4) as pool:
        parts = partial_sum(list(range(1000))) @ pool  # a tuple, in the order of the nodes
    print(f"{parts} together: {sum(parts)}")
    assert sum(parts) == 499_500


if __name__ == "__main__":
    main()

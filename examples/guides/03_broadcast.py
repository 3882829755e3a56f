"""Broadcast: `@` runs a call once on every node; each takes its part by its rank."""

import skyward as sky


@sky.compute
def where():
    info = sky.instance_info()
    return f"node {info.node} of {info.total_nodes}{' (head)' if info.is_head else ''}"


@sky.compute
def largest(numbers):
    return max(sky.shard(numbers))


def main():
    with sky.ComputePool(nodes=3) as pool:
        print(*(where() @ pool), sep="\n")
        parts = largest([3, 1, 4, 1, 5, 9, 2, 6]) @ pool
    print(f"largest of each part: {parts}; of all: {max(parts)}")
    assert max(parts) == 9


if __name__ == "__main__":
    main()

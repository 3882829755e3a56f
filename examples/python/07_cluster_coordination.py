"""Coordination: each node takes a role by its rank, and together they count words."""

from collections import Counter

import skyward as sky

TEXT = "the quick brown fox jumps over the lazy dog while the dog sleeps and the fox runs".split()


@sky.compute
def role():
    info = sky.instance_info()
    return f"node {info.node}/{info.total_nodes}: {'head' if info.is_head else 'worker'}"


@sky.compute
def count_words(words):
    """The map step: words of this node's part."""
    return Counter(sky.shard(words))


@sky.compute
def merge(counters):
    """The reduce step, on one node."""
    return sum(counters, Counter())


def main():
    with sky.ComputePool(nodes=3) as pool:
        print(*(role() @ pool), sep="\n")
        words = merge(count_words(TEXT) @ pool) >> pool
    print(words.most_common(3))
    assert words == Counter(TEXT)


if __name__ == "__main__":
    main()

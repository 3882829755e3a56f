"""Partitions: one H100 as two workers, each with a half of it and a model of its own.

This machine needs an H100 and the right to split it; elsewhere, `provider=` rents one."""

import skyward as sky


@sky.compute
def train(rates):
    """Each worker takes one rate, and sees its own partition alone."""
    import os

    info = sky.instance_info()
    rate = sky.shard(rates)[0]
    print(f"worker {info.worker} of {info.workers_per_node}: rate {rate}")
    return rate, os.environ["CUDA_VISIBLE_DEVICES"]


def main():
    half = sky.accelerators.H100(mig="3g.40gb")
    with sky.ComputePool(accelerator=half) as pool:
        answers = train([0.1, 0.01]) @ pool
    print(*answers, sep="\n")
    assert [rate for rate, _ in answers] == [0.1, 0.01]
    assert len({device for _, device in answers}) == 2


if __name__ == "__main__":
    main()

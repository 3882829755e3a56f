"""Fractions of a GPU: two nodes share one T4, each asks a small model; half a GPU costs half.

This machine needs a T4; elsewhere, `provider=` rents one."""

import skyward as sky


@sky.compute
def judge(numbers: list[float]) -> tuple[str, list[bool]]:
    """A model small enough that a whole GPU would mostly wait for it."""
    import math
    import os

    mine = sky.shard(numbers)
    weight, bias = 2.0, -1.0
    answers = [1 / (1 + math.exp(-(weight * x + bias))) > 0.5 for x in mine]
    return os.environ["CUDA_VISIBLE_DEVICES"], answers


def main() -> None:
    half = sky.accelerators.T4(count=0.5)
    assert half.fractional
    with sky.ComputePool(nodes=2, accelerator=half) as pool:
        answers = judge([0.0, 0.2, 0.8, 1.0]) @ pool
    print(*answers, sep="\n")
    devices = {device for device, _ in answers}
    assert len(devices) == 1, "both work on the same GPU"
    assert [right for _, part in answers for right in part] == [False, True, False, True]


if __name__ == "__main__":
    main()

"""Calls on a local pool, to be counted from outside: `workload.py gather|call COUNT`."""

import sys

import skyward as sky


def echo(x):
    return x


def main(kind, count):
    call = sky.compute(echo)
    with sky.ComputePool(
        provider=sky.Local(), nodes=1, display="quiet", collect_metrics=False
    ) as pool:
        assert list(sky.gather(*[call(i) for i in range(64)]) >> pool) == list(range(64))
        if kind == "gather":
            answers = list(sky.gather(*[call(i) for i in range(count)]) >> pool)
        else:
            answers = [call(i) >> pool for i in range(count)]
        assert answers == list(range(count))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

"""Slots are processes: tasks share no interpreter lock, and a crash takes no other task down."""

import os

import skyward as sky


@sky.compute
def count_down(n):
    while n:
        n -= 1
    return os.getpid()


@sky.compute
def crash():
    os.abort()


def main():
    # Worker(concurrency=2) says the same as concurrency=2.
    with sky.ComputePool(worker=sky.Worker(concurrency=2)) as pool:
        slots = set(sky.gather(*[count_down(1_000_000) for _ in range(8)]) >> pool)
        print(f"8 tasks in {len(slots)} processes")

        good, bad = pool.submit(count_down(3_000_000)), pool.submit(crash())
        print("the one:", bad.exception())
        assert isinstance(bad.exception(), sky.ExecutionError)
        assert good.result() in slots
    assert len(slots) == 2


if __name__ == "__main__":
    main()

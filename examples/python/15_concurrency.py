"""Concurrency: a hundred waiting tasks on twenty slots, by map and by threads that each block."""

import time

from skyward.conc import map_async

import skyward as sky


@sky.compute
def wait_a_little(number):
    import time

    time.sleep(0.1)
    return number * number


def main():
    expected = [n * n for n in range(100)]
    with sky.ComputePool(nodes=2, concurrency=10) as pool:
        list(pool.map(wait_a_little, range(pool.total_slots)))  # every slot has started
        for name, run in (
            ("pool.map", lambda: list(pool.map(wait_a_little, range(100)))),
            ("map_async", lambda: list(map_async(lambda n: wait_a_little(n) >> pool, range(100)))),
        ):
            started = time.perf_counter()
            assert run() == expected
            print(f"{name}: 10 s of waiting in {time.perf_counter() - started:.2f} s")


if __name__ == "__main__":
    main()

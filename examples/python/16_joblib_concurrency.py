"""joblib: ``Parallel(n_jobs=-1)`` spreads its tasks over all slots of the pool."""

import time

from joblib import Parallel, delayed
from skyward.integrations import joblib_backend

import skyward as sky


def slow_square(number):
    time.sleep(0.1)
    return number * number, sky.instance_info().node


def main():
    # To install joblib on the nodes, write JoblibPool(nodes=2, concurrency=5).
    with sky.ComputePool(nodes=2, concurrency=5) as pool, joblib_backend(pool):
        started = time.perf_counter()
        answers = Parallel(n_jobs=-1)(delayed(slow_square)(n) for n in range(50))
        took = time.perf_counter() - started
    assert [square for square, _ in answers] == [n * n for n in range(50)]
    nodes = {node for _, node in answers}
    print(f"50 tasks of 0.1 s in {took:.2f} s, on nodes {sorted(nodes)}")
    assert nodes == {0, 1}


if __name__ == "__main__":
    main()

"""joblib: a generator of results from twenty slots, far more than this machine has cores."""

import time

from joblib import Parallel, delayed
from skyward.integrations import joblib_backend

import skyward as sky


def fetch(number):
    time.sleep(0.1)  # such as a download
    return number


def main():
    with sky.ComputePool(nodes=2, concurrency=10) as pool, joblib_backend(pool):
        began = time.perf_counter()
        answers = Parallel(n_jobs=-1, return_as="generator")(delayed(fetch)(n) for n in range(100))
        total = sum(answers)  # reads each result as it arrives
    print(f"10 s of waiting in {time.perf_counter() - began:.1f} s, sum {total}")
    assert total == 4950


if __name__ == "__main__":
    main()

"""Executor: errors, waiting, time limits and cancelling, as ``concurrent.futures`` has them."""

from concurrent.futures import FIRST_COMPLETED, wait

import skyward as sky


def reciprocal(x):
    if x == 0:
        raise ValueError("zero has no reciprocal")
    return 1 / x


def pause(seconds):
    import time

    time.sleep(seconds)
    return seconds


def main():
    with sky.Executor(nodes=2, concurrency=2) as executor:
        print(f"{executor.total_slots} slots")
        print(list(executor.map(reciprocal, [1, 2, 4, 5], chunksize=2)))

        future = executor.submit(reciprocal, 0)
        try:
            future.result()
        except ValueError as error:  # the function's own exception
            print(f"{type(error).__name__}: {error}")
        assert isinstance(future.exception(), ValueError)

        slow, quick = executor.submit(pause, 1.0), executor.submit(reciprocal, 8)
        done, _ = wait([slow, quick], return_when=FIRST_COMPLETED)
        assert done == {quick} and not slow.done()

        try:
            next(executor.map(pause, [1.0], timeout=0.1))
        except TimeoutError:
            print("not done in 0.1 s")

        queue = [executor.submit(pause, 0.2) for _ in range(30)]
        executor.shutdown(cancel_futures=True)
        cancelled = sum(future.cancelled() for future in queue)
        print(f"{cancelled} of {len(queue)} were cancelled before they began")
        assert 0 < cancelled < len(queue)


if __name__ == "__main__":
    main()

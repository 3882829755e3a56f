"""Parallel calls: `&` keeps types apart, `gather` takes any number, a stream gives what is done."""

import skyward as sky


@sky.compute
def simulate(seconds):
    import time

    time.sleep(seconds)
    return seconds


@sky.compute
def describe(name):
    return f"pool of {name}"


def main():
    with sky.ComputePool(concurrency=3) as pool:
        seconds, text = (simulate(0.1) & describe("three slots")) >> pool
        print(seconds, text)

        waits = [0.6, 0.3, 0.0]
        calls = [simulate(wait) for wait in waits]
        assert sky.gather(*calls) >> pool == tuple(waits)  # all at once, in the order written
        assert list(sky.gather(*calls, stream=True) >> pool) == waits  # one by one, in that order
        first = next(sky.gather(*calls, stream=True, ordered=False) >> pool)  # whichever is first
        print(f"the call of {first} s was first")


if __name__ == "__main__":
    main()

"""Parallel calls: `&` for a few different ones, `gather` for any number; results keep the order."""

import math

import skyward as sky


@sky.compute
def add(*numbers):
    return sum(numbers)


@sky.compute
def multiply(*numbers):
    return math.prod(numbers)


@sky.compute
def factorial(n):
    return math.factorial(n)


def main():
    with sky.ComputePool(nodes=2, concurrency=2) as pool:
        total, product = (add(1, 2, 3) & multiply(4, 5)) >> pool  # & needs the parentheses
        three = (add(1, 1) & multiply(2, 3) & factorial(4)) >> pool
        many = sky.gather(*[factorial(n) for n in range(10)]) >> pool
    print(f"{total}, {product}; {three}; {many}")
    assert (total, product, three) == (6, 20, (2, 6, 24))
    assert many == tuple(map(math.factorial, range(10)))


if __name__ == "__main__":
    main()

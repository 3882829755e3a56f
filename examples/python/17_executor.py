"""Executor: a program written for ``concurrent.futures`` runs on a pool, unchanged."""

from concurrent.futures import as_completed

import skyward as sky


def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))


def main():
    numbers = [2**k - 1 for k in range(2, 32)]
    with sky.Executor(nodes=2, concurrency=2) as executor:
        futures = {executor.submit(is_prime, n): n for n in numbers}
        primes = sorted(futures[future] for future in as_completed(futures) if future.result())
        same = [
            n for n, prime in zip(numbers, executor.map(is_prime, numbers), strict=True) if prime
        ]
    print(f"of the form 2^k - 1: {primes}")
    assert primes == same == [3, 7, 31, 127, 8191, 131071, 524287, 2147483647]


if __name__ == "__main__":
    main()

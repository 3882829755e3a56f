"""DigitalOcean: a droplet with two processors and memory for the work counts prime numbers.

With SKYWARD_PROVIDER=local your machine takes its place."""

import skyward as sky


@sky.compute
def count_primes(first, last):
    return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(max(first, 2), last))


def main():
    provider = sky.DigitalOcean(region="nyc1")  # the token is in $DIGITALOCEAN_TOKEN
    with sky.ComputePool(provider=provider, cpu=2, memory="1GB", concurrency=2, budget=1) as pool:
        counts = sky.gather(*[count_primes(n, n + 5000) for n in range(0, 20_000, 5000)]) >> pool
    print(f"primes below 20000: {' + '.join(map(str, counts))} = {sum(counts)}")
    assert sum(counts) == 2262


if __name__ == "__main__":
    main()

"""Streams: a generator's items arrive while it runs, and calls are made while inputs still come."""

import itertools

import skyward as sky


@sky.compute
def epochs(count):
    loss = 1.0
    for epoch in range(count):
        loss *= 0.7
        yield epoch, round(loss, 3)


@sky.compute
def square(x):
    return x * x


def main():
    with sky.ComputePool(nodes=2) as pool:
        with epochs(1_000_000) >> pool as progress:  # at most 16 items ahead of its reader
            for epoch, loss in progress:
                print(f"epoch {epoch}: loss {loss}")
                if loss < 0.2:
                    break  # leaving the block stops the generator on its node

        endless = pool.map(square, itertools.count())  # inputs from an iterator, in order
        squares = list(itertools.islice(endless, 5))
        endless.close()

        both = pool.map(square, (epoch for epoch, _ in epochs(4) >> pool))  # from one to the next
        print(squares, list(both))
    assert loss < 0.2 and squares == [0, 1, 4, 9, 16]


if __name__ == "__main__":
    main()

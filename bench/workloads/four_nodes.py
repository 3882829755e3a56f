"""Four local nodes: how soon they are ready, and a large argument for all of them."""

import statistics
import time

FIGURES = {
    "four_start": ("s", False),
    "four_answered": ("s", False),
    "broadcast_first": ("×", False),
    "broadcast_again": ("×", False),
}
TARGETS = {"four_start": [0.1], "broadcast_first": [1.1], "broadcast_again": [1.1]}
ROUNDS = 3


def opened(nodes):
    import skyward as sky

    return sky.ComputePool(nodes=nodes, display="quiet", collect_metrics=False)


def starts():
    """Seconds until the block is entered, and until each worker has answered."""
    import skyward as sky

    begin = time.perf_counter()
    with opened(4) as pool:
        ready = time.perf_counter() - begin
        assert sky.compute(len)("four") @ pool == (4, 4, 4, 4)
        return ready, time.perf_counter() - begin


def broadcasts(array, nodes):
    """Seconds for the array to arrive, the first time and when memory has been used before."""
    import skyward as sky

    took = []
    with opened(nodes) as pool:
        size_of = sky.compute(len)
        size_of("warm") @ pool
        for _ in range(4):
            begin = time.perf_counter()
            assert size_of(array) @ pool == (len(array),) * nodes
            took.append(time.perf_counter() - begin)
    return took[0], statistics.median(took[1:])


def measure(size):
    ready, answered = zip(*(starts() for _ in range(size.rounds)), strict=True)
    rounds = [[broadcasts(size.array, nodes) for nodes in (1, 4)] for _ in range(ROUNDS)]
    first, again = (
        statistics.median(four[i] for _, four in rounds)
        / statistics.median(one[i] for one, _ in rounds)
        for i in (0, 1)
    )
    return {
        "four_start": statistics.median(ready),
        "four_answered": statistics.median(answered),
        "broadcast_first": first,
        "broadcast_again": again,
    }

"""What a large argument takes that the node has had before, unchanged."""

import statistics
import time

FIGURES = {"same_object": ("ms", False), "equal_object": ("ms", False)}
TARGETS = {"same_object": [1]}
ROUNDS = 5


def measure(size):
    import skyward as sky

    equal = size.array.copy()
    same_took, equal_took = [], []
    with sky.ComputePool(nodes=1, display="quiet", collect_metrics=False) as pool:
        size_of = sky.compute(len)
        for array in (size.array, equal):  # both have been there
            size_of(array) >> pool
        for _ in range(ROUNDS):
            for array, took in ((size.array, same_took), (equal, equal_took)):
                begin = time.perf_counter()
                assert size_of(array) >> pool == len(array)
                took.append((time.perf_counter() - begin) * 1e3)
    return {
        "same_object": statistics.median(same_took),
        "equal_object": statistics.median(equal_took),
    }

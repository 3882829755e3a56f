"""What a large argument takes that the node has had before, unchanged."""

import statistics
import time

FIGURES = {
    "same_object": ("ms", False),
    "equal_object": ("ms", False),
    "read_only_object": ("ms", False),
}
TARGETS = {"same_object": [1], "read_only_object": [1]}
ROUNDS = 5


def measure(size):
    import skyward as sky

    objects = {"same_object": size.array, "equal_object": size.array.copy()}
    objects["read_only_object"] = read_only = size.array.copy()
    read_only.flags.writeable = False
    took = {name: [] for name in objects}
    with sky.ComputePool(nodes=1, display="quiet", collect_metrics=False) as pool:
        size_of = sky.compute(len)
        for array in (*objects.values(), read_only):  # all have been there, and one is stored
            size_of(array) >> pool
        for _ in range(ROUNDS):
            for name, array in objects.items():
                begin = time.perf_counter()
                assert size_of(array) >> pool == len(array)
                took[name].append((time.perf_counter() - begin) * 1e3)
    return {name: statistics.median(times) for name, times in took.items()}

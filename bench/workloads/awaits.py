"""Quick calls that an asyncio program makes together."""

import asyncio
import time

from contenders import echo

FIGURES = {"awaits_per_second": ("1/s", True)}
TARGETS = {"awaits_per_second": [50_000]}
WORKERS = 2
ROUNDS = 3


async def rounds(call, pool, count):
    await asyncio.gather(*[call(number).on(pool) for number in range(1000)])
    begin = time.perf_counter()
    for _ in range(ROUNDS):
        answers = await asyncio.gather(*[call(number).on(pool) for number in range(count)])
        assert answers == list(range(count))
    return time.perf_counter() - begin


def measure(size):
    import skyward as sky

    with sky.ComputePool(nodes=WORKERS, display="quiet", collect_metrics=False) as pool:
        took = asyncio.run(rounds(sky.compute(echo), pool, size.tasks))
    return {"awaits_per_second": ROUNDS * size.tasks / took}

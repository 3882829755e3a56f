"""One file for each workload: what it measures (FIGURES: unit, and whether more is better), what
Skyward is to reach (TARGETS) and how (measure)."""

from workloads import (
    agent,
    awaits,
    calls,
    engine,
    gather,
    large_argument,
    mapping,
    output,
    queue,
    submit,
)

ALL = [calls, gather, mapping, submit, large_argument]
"""What each contender does."""

OWN = [awaits, agent, output, queue, engine]
"""What no contender has its like of."""

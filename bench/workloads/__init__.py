"""One file for each workload: what it measures (FIGURES: unit, and whether more is better), what
Skyward is to reach (TARGETS) and how (measure). A figure also needs its name in page.py;
IN_A_NEW_POOL = True restarts the contender first; missing() says why it cannot run."""

from workloads import (
    agent,
    awaits,
    calls,
    cpp,
    engine,
    four_nodes,
    gather,
    large_again,
    large_argument,
    large_result,
    mapping,
    output,
    queue,
    ssh,
    submit,
)

ALL = [calls, gather, mapping, submit, large_argument, large_result]
"""What each contender does."""

OWN = [awaits, four_nodes, large_again, ssh, cpp, agent, output, queue, engine]
"""What no contender has its like of. One with missing() is skipped where that names a reason."""

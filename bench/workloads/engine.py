"""The engine alone, with nodes that answer at once (sim/cost.cc)."""

import json
import subprocess
from pathlib import Path

FIGURES = {
    "engine_task": ("us", False),
    "engine_scale": ("%", False),
    "engine_node": ("kB", False),
    "engine_growth": ("MB", False),
    "engine_accept": ("s", False),
    "engine_queued": ("B", False),
    "engine_left": ("MB", False),
}
TARGETS = {
    "engine_scale": [25],
    "engine_node": [10],
    "engine_growth": [1],
    "engine_accept": [5],
    "engine_queued": [512],
    "engine_left": [1],
}
PROGRAM = Path(__file__).resolve().parents[2] / "build" / "release" / "bin" / "skyward-sim"


def cost(tasks):
    command = [PROGRAM, "--cost", "--tasks", str(tasks)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def measure(size):
    report = cost(size.engine_tasks)
    pools, queue = report["pools"], report["queue"]
    costs = [pool["us_per_task"] for pool in pools]
    usual = sum(costs) / len(costs)
    return {
        "engine_task": usual,
        "engine_scale": max(abs(cost / usual - 1) for cost in costs) * 100,
        "engine_node": pools[-1]["bytes_per_node"] / 1e3,
        "engine_growth": max(pool["grown_bytes"] for pool in pools) / 1e6,
        "engine_accept": queue["accept_seconds"],
        "engine_queued": queue["bytes_per_task"],
        "engine_left": queue["left_bytes"] / 1e6,
    }

"""The agent of a node where nothing happens: its file, its memory, its CPU time."""

import os
import threading
import time
import zlib
from pathlib import Path

import processes

FIGURES = {
    "agent_disk": ("MB", False),
    "agent_packed": ("MB", False),
    "agent_resident": ("MB", False),
    "agent_idle_cpu": ("%", False),
}
SAMPLE_SECONDS = 60
"""How long one may take; they come every two seconds."""
TARGETS = {
    "agent_disk": [6],
    "agent_packed": [2.5],
    "agent_resident": [4],
    "agent_idle_cpu": [0.1],
}
MB = 1e6


def measure(size):
    import skyward as sky

    samples = threading.Semaphore(0)  # of the machine, which the agent sends now and then

    def count_samples(event):
        if isinstance(event, sky.Metrics):
            samples.release()

    with sky.ComputePool(nodes=1, display="quiet", on_event=count_samples) as pool:
        sky.compute(int)() >> pool
        agent = processes.agent()
        assert samples.acquire(timeout=SAMPLE_SECONDS)
        cpu, begin = processes.cpu_seconds_of(agent), time.perf_counter()
        for _ in range(size.idle_samples):
            assert samples.acquire(timeout=SAMPLE_SECONDS)
        idle = (processes.cpu_seconds_of(agent) - cpu) / (time.perf_counter() - begin)
        resident = processes.resident_bytes(agent)
        file = Path(os.readlink(f"/proc/{agent}/exe")).read_bytes()
    return {
        "agent_disk": len(file) / MB,
        "agent_packed": len(zlib.compress(file, 6)) / MB,  # as gzip -6, but for a few bytes
        "agent_resident": resident / MB,
        "agent_idle_cpu": idle * 100,
    }

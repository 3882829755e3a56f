"""Waiting for things that nobody announces: files, processes, lists that another thread fills."""

import threading
import time

DEADLINE = 30.0
"""Seconds; no test waits longer for anything."""

POLL_SECONDS = 0.01


def wait_until(condition, seconds=DEADLINE):
    """Returns when `condition()` is true; fails when that takes too long."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s in vain"
        threading.Event().wait(POLL_SECONDS)

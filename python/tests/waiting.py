"""Waiting for things that nobody announces: files, processes, lists that another thread fills."""

import threading
import time
from functools import partial

DEADLINE = 30.0
"""Seconds; no test waits longer for anything."""

POLL_SECONDS = 0.01


def wait_until(condition, seconds=DEADLINE):
    """Returns when `condition()` is true; fails when that takes too long."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s in vain"
        threading.Event().wait(POLL_SECONDS)


def answers_at_once(count, act, seconds=DEADLINE):
    """What `act(number)` returns or raises for each number, in threads of this process."""
    answers = [None] * count

    def at(number):
        try:
            answers[number] = act(number)
        except Exception as error:
            answers[number] = error

    threads = [threading.Thread(target=partial(at, number)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive()
    return answers


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False

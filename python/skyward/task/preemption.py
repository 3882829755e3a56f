"""The notice before a machine is terminated."""

import sys
from collections.abc import Callable


def on_preemption(callback: Callable[[float], object]) -> None:
    """Inside a compute function: have `callback` called before the cloud preempts the machine, or
    the pool's `timeout` or `budget` ends it.

        @sky.compute
        def train():
            stop = threading.Event()
            sky.on_preemption(lambda seconds_left: stop.set())
            while not stop.is_set():
                ...

    It is called once, with the number of seconds left (at most two minutes on EC2), on another
    thread; immediately if the notice has already come. It is forgotten at the end of the call. What
    it raises is printed. Outside a compute function it is never called."""
    if not callable(callback):
        raise TypeError(f"on_preemption() takes a function, not {type(callback).__name__}")
    process = sys.modules.get("_skyward_worker")
    if process is not None and process.worker is not None:
        process.worker.on_preemption(callback)

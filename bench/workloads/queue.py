"""Tasks that wait, because the only worker is busy."""

import gc
import os
import tempfile
import threading
import time

import processes
from contenders import echo

FIGURES = {
    "queue_seconds": ("s", False),
    "queue_memory": ("B", False),
    "queue_left": ("MB", False),
}
TARGETS = {"queue_seconds": [5], "queue_left": [20]}
LOOK_SECONDS = 0.01
RETURN_SECONDS = 3
"""The engine returns memory one second after the last of many tasks."""


def wait_for(fifo):
    with open(fifo, "rb") as pipe:
        pipe.read()


def measure(size):
    import skyward as sky

    calls = [sky.compute(echo)(number) for number in range(size.queued)]
    with (
        tempfile.TemporaryDirectory() as folder,
        sky.ComputePool(nodes=1, display="quiet", collect_metrics=False) as pool,
    ):
        fifo = os.path.join(folder, "busy")
        os.mkfifo(fifo)
        list(sky.gather(*calls[:1000]) >> pool)
        busy = pool.submit(sky.compute(wait_for)(fifo))
        answers = []
        waiting = threading.Thread(target=lambda: answers.extend(sky.gather(*calls) >> pool))
        with open(fifo, "wb"):  # the worker has opened it, too
            before, sent = processes.resident_bytes(), sum(pool._live.counts())
            begin = time.perf_counter()
            waiting.start()
            while sum(pool._live.counts()) < sent + size.queued:
                time.sleep(LOOK_SECONDS)
            took = time.perf_counter() - begin
            full = processes.resident_bytes()
        busy.result()
        waiting.join()
        assert answers == list(range(size.queued))
        del answers[:]
        gc.collect()
        time.sleep(RETURN_SECONDS)
        left = processes.resident_bytes()
    return {
        "queue_seconds": took,
        "queue_memory": (full - before) / size.queued,
        "queue_left": (left - before) / 1e6,
    }

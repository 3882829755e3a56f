"""Ctrl-C while calls are being sent."""

import ctypes
import operator
import signal
from functools import partial

import pytest
from quick_calls import double, wait_at
from waiting import wait_until

import skyward as sky
from skyward.pool.grouped_calls import new_draft

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def pool():
    with sky.ComputePool(concurrency=2, display="quiet") as pool:
        yield pool


def send_many(engine, waiting):
    return partial(engine.core.submit_many, engine.packing.calls([waiting] * 100))


def send_everywhere(engine, waiting):
    return partial(engine.core.broadcast, engine.packing.calls([waiting], everywhere=True)[0])


def send_groups(engine, waiting):
    draft = new_draft()
    draft.add_all([waiting.args] * 100)
    return partial(draft.send, engine.core.packer(), engine.packing.function(waiting), 10)


@pytest.mark.parametrize("way", [send_many, send_everywhere, send_groups])
def test_calls_are_cancelled_whose_handles_nobody_gets(pool, tmp_path, way):
    engine = pool._engine()
    send = way(engine, wait_at(0, 0, -1, str(tmp_path)))
    # Nothing here looks for signals, as signal.raise_signal() does.
    press_ctrl_c = partial(getattr(ctypes.CDLL(None), "raise"), int(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        list(map(operator.call, [press_ctrl_c, send]))
    wait_until(lambda: engine.core.task_counts()[1] == 0)
    assert double(1) >> pool == 2

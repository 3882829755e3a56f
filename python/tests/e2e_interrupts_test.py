"""Ctrl-C at bad moments: while pools open and close, calls are sent, and streams are read."""

import contextlib
import ctypes
import operator
import signal
from functools import partial

import pytest
from quick_calls import double, wait_at
from skyward.pool.display import Display
from skyward.pool.grouped_calls import new_draft
from waiting import wait_until

import skyward as sky
from skyward.pool import machines

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


def interrupted_once():
    """What raises KeyboardInterrupt when it is first called."""
    left = [KeyboardInterrupt]

    def interrupt(*_):
        if left:
            raise left.pop()

    return interrupt


@pytest.fixture
def cloud():
    return sky.testing.FakeCloud(speed=0)


@pytest.mark.parametrize(
    ("owner", "name"), [(machines._opening, "discard"), (Display, "count_tasks")]
)
def test_a_pool_that_has_just_opened_is_closed(cloud, monkeypatch, owner, name):
    pool = sky.ComputePool(provider=cloud)
    monkeypatch.setattr(owner, name, interrupted_once())
    with pytest.raises(KeyboardInterrupt) as caught:
        pool.open()
    assert (cloud.launched, cloud.running, pool.is_active) == (1, 0, False)
    assert caught.tb, "it keeps all that was made"


def test_a_pool_closes_although_its_display_is_interrupted(cloud, monkeypatch):
    with pytest.raises(KeyboardInterrupt) as caught, sky.ComputePool(provider=cloud) as pool:
        monkeypatch.setattr(pool._display, "ended_by", interrupted_once())
        raise ValueError("mine")
    assert (cloud.launched, cloud.running) == (1, 0)
    assert caught.tb, "it keeps all that was made"


def test_machines_are_released_before_what_else_there_is(cloud, monkeypatch):
    pool = sky.ComputePool(provider=cloud, display="quiet").open()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt) as caught:
        patched.setattr(contextlib.ExitStack, "callback", interrupted_once())
        pool.close()
    assert (cloud.launched, cloud.running) == (1, 0)
    assert caught.tb, "it keeps all that was made"


@sky.compute
def fail_after(items):
    yield from range(items)
    raise LookupError("no more rows")


@pytest.mark.parametrize("items", [1, 0])
def test_a_read_that_is_interrupted_is_not_taken_for_the_end_of_a_stream(pool, monkeypatch, items):
    stream = fail_after(items) >> pool
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("skyward.transport.serialize.loads", interrupted_once())
        next(stream)
    with pytest.raises(sky.CancelledError, match="interrupted or cancelled"):
        next(stream)

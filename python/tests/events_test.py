"""Events and callbacks, without an engine."""

import asyncio
import contextvars
import dataclasses
import logging
import subprocess
import sys
import threading
import typing
from types import SimpleNamespace

import pytest
from skyward.callback import MAX_DERIVED_DEPTH, Delivery
from skyward.events import EVENT_TYPES, event_from_fields, fields_of_event

import skyward as sky
from skyward import callback

LINE = sky.LogLine(0, "local-0", "hello", 1.0)
METRICS = sky.Metrics("local-0", 0, 12.5, 40.0, 1000.0, 2000.0)


def test_events_are_frozen_and_match_both_ways():
    with pytest.raises(dataclasses.FrozenInstanceError):
        LINE.line = "other"
    match LINE:
        case sky.LogLine(node, instance, line):
            assert (node, instance, line) == (0, "local-0", "hello")
    match METRICS:
        case sky.Metrics(cpu=cpu, gpu=gpu):
            assert (cpu, gpu) == (12.5, None)


def test_every_event_is_exported():
    for cls in EVENT_TYPES:
        assert getattr(sky, cls.__name__) is cls


def test_events_survive_the_border():
    receipt = sky.NodeReceipt(0, "i", 1, 0, 0.5, 1.0)
    for event in (LINE, METRICS, sky.PoolStarted(), sky.PoolStopped("p", 1.0, 2.0, [receipt])):
        assert event_from_fields(*fields_of_event(event)) == event


def test_the_engine_has_the_same_fields():
    core = pytest.importorskip("skyward._core")
    samples = {str: "x", int: 3, float: 0.5, bool: True, "list[str]": ["a"]}
    for cls in EVENT_TYPES:
        if cls is sky.PoolStopped:
            event = sky.PoolStopped("p", 1.0, 2.0, [sky.NodeReceipt(0, "i", 1, 0, 0.5, 1.0)])
        else:
            values = [
                samples.get(field.type) or samples.get(str(field.type))
                for field in dataclasses.fields(cls)
                if field.name in cls.__match_args__
            ]
            event = cls(*values)
        name, fields = core.round_trip(*fields_of_event(event))
        assert event_from_fields(name, fields) == event


def test_emit_without_callback_is_silent():
    sky.emit(LINE)


@pytest.mark.parametrize("is_a_copy", [True, False])
def test_a_callback_may_end_in_another_context(is_a_copy):
    seen, outer = [], []
    with sky.use_callback(outer.append):
        begun, elsewhere = contextvars.copy_context(), contextvars.copy_context()
    block = sky.use_callback(seen.append)
    begun.run(block.__enter__)
    ended = begun.copy() if is_a_copy else elsewhere
    error = KeyError("the block's own")
    assert not ended.run(block.__exit__, KeyError, error, None)
    begun.run(sky.emit, LINE)
    ended.run(sky.emit, METRICS)
    assert seen == [LINE] and outer == [METRICS]


def test_use_callback_replaces_and_restores():
    outer, inner = [], []
    with sky.use_callback(outer.append):
        with sky.use_callback(inner.append):
            sky.emit(LINE)
        sky.emit(METRICS)
    sky.emit(LINE)
    assert (inner, outer) == ([LINE], [METRICS])


def test_errors_reach_whoever_emitted():
    def fail(event):
        raise ValueError("no")

    with sky.use_callback(fail), pytest.raises(ValueError):
        sky.emit(LINE)


def test_compose():
    seen = []
    assert sky.compose(seen.append) == seen.append
    assert sky.compose()(LINE) is None
    both = sky.compose(
        lambda e: METRICS if e is LINE else None, lambda e: [LINE, METRICS] if e is LINE else None
    )
    assert both(LINE) == [METRICS, LINE, METRICS]
    assert both(METRICS) is None


def test_derived_events_follow_breadth_first():
    seen = []

    def derive(event):
        seen.append(event)
        if event == LINE:
            return [METRICS, sky.PoolStarted()]
        if event == METRICS:
            return sky.PoolStopping()
        return None

    with sky.use_callback(derive):
        sky.emit(LINE)
    assert seen == [LINE, METRICS, sky.PoolStarted(), sky.PoolStopping()]
    seen.clear()
    Delivery([derive])(LINE)
    assert seen == [LINE, METRICS, sky.PoolStarted(), sky.PoolStopping()]


def test_endless_answers_are_cut(caplog):
    count = []
    chain = Delivery([lambda event: count.append(1) or event])
    with caplog.at_level(logging.ERROR, "skyward"):
        chain(LINE)
    assert len(count) == MAX_DERIVED_DEPTH + 1
    assert "Skyward drops this" in caplog.text
    with sky.use_callback(lambda event: event), pytest.raises(RecursionError):
        sky.emit(LINE)


def test_a_failing_callback_is_reported_once_and_stops_nothing(caplog):
    seen = []

    def fail(event):
        raise ValueError("broken callback")

    chain = Delivery([fail, seen.append])
    with caplog.at_level(logging.ERROR, "skyward"):
        chain(LINE)
        chain(METRICS)
    assert seen == [LINE, METRICS]
    assert caplog.text.count("ValueError: broken callback") == 1


def test_a_callback_that_fails_for_long_is_reported_once_a_minute(caplog, monkeypatch):
    def fail(event):
        raise ValueError("broken callback")

    now = [5.0]
    monkeypatch.setattr(callback, "time", SimpleNamespace(monotonic=lambda: now[0]))
    chain = Delivery([fail])
    with caplog.at_level(logging.ERROR, "skyward"):
        for _ in range(4):
            chain(LINE)
        assert len(caplog.records) == 1
        now[0] += 61
        chain(LINE)
        assert len(caplog.records) == 2
        assert "3 times since the last report" in caplog.records[1].getMessage()
        chain.remove(fail)
        chain.add(fail)
        chain(LINE)
        assert len(caplog.records) == 3, "a handler that was registered again"


def test_a_callback_that_exits_is_reported_like_any_other(caplog):
    seen = []
    deliver = Delivery([lambda event: sys.exit(3), seen.append])
    deliver(sky.Error("one"))
    deliver(sky.Error("two"))
    assert [event.message for event in seen] == ["one", "two"]
    assert len(caplog.records) == 1 and "SystemExit: 3" in caplog.text


def interrupt(event):
    raise KeyboardInterrupt


def test_ctrl_c_in_a_callback_reaches_the_main_thread():
    with pytest.raises(KeyboardInterrupt):
        Delivery([interrupt])(sky.Error("one"))


def test_a_callback_may_emit():
    seen = []

    def echo(event):
        seen.append(event)
        if event == LINE:
            chain(METRICS)
            seen.append("after")

    chain = Delivery([echo])
    chain(LINE)
    assert seen == [LINE, "after", METRICS]


def test_hints_name_the_events():
    @dataclasses.dataclass
    class Mine:
        told: sky.Callback

    assert typing.get_type_hints(sky.emit)["event"] == sky.SkywardEvent
    for of in (Mine, sky.compose, sky.use_callback, sky.ComputePool.__init__):
        assert "PoolStarted" in str(typing.get_type_hints(of))
    quiet = "import sys, skyward.pool.open_pool; sys.exit('skyward.events' in sys.modules)"
    subprocess.run([sys.executable, "-c", quiet], check=True)


def test_one_event_at_a_time():
    inside, worst = [0], [0]

    def count(event):
        inside[0] += 1
        worst[0] = max(worst[0], inside[0])
        inside[0] -= 1

    chain = Delivery([count])
    threads = [threading.Thread(target=lambda: [chain(LINE) for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worst == [1]


class Hanging:
    """A chain whose handler is busy, in another thread, with a first event."""

    def __init__(self):
        self.seen = []
        self.chain = Delivery([self._hang])
        self._begun, self._go_on = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self.chain, args=(LINE,))
        self._thread.start()
        assert self._begun.wait(60)

    def _hang(self, event):
        self.seen.append(event)
        self._begun.set()
        assert self._go_on.wait(60)

    def end(self):
        self._go_on.set()
        self._thread.join(60)


def test_a_loop_waits_for_no_handler(monkeypatch):
    monkeypatch.setattr(callback, "BUSY_SECONDS", 60)
    hanging = Hanging()

    async def emit():
        hanging.chain(METRICS)

    asyncio.run(asyncio.wait_for(emit(), 30))
    assert hanging.seen == [LINE]
    hanging.end()
    assert hanging.seen == [LINE, METRICS]


def test_no_event_is_left_by_threads_that_pass_each_other(monkeypatch):
    """One comes when the other has found the queue empty, and still has the lock."""
    monkeypatch.setattr(callback, "BUSY_SECONDS", 0)
    seen, late = [], [METRICS]

    class Slow(Delivery):
        def _deliver_queue(self):
            super()._deliver_queue()
            if late:
                other = threading.Thread(target=self, args=(late.pop(),))
                other.start()
                other.join(60)

    Slow([seen.append])(LINE)
    assert seen == [LINE, METRICS]


def test_nobody_waits_for_a_handler_that_hangs(monkeypatch):
    monkeypatch.setattr(callback, "BUSY_SECONDS", 0.05)
    hanging = Hanging()
    hanging.chain(METRICS)
    assert hanging.seen == [LINE], "it is left to the thread that is busy"
    hanging.end()
    assert hanging.seen == [LINE, METRICS]


def test_a_child_that_is_forked_while_a_handler_is_busy_waits_for_none():
    program = """
import os, signal, threading
import skyward as sky
from skyward import callback

begun, go_on, seen = threading.Event(), threading.Event(), []

def handle(event):
    seen.append(event.message)
    begun.set()
    assert go_on.wait(60)

chain = callback.Delivery([handle])
threading.Thread(target=chain, args=(sky.Error("first"),)).start()
assert begun.wait(60)
callback.BUSY_SECONDS = 0
chain(sky.Error("second"))  # it waits for the handler
callback.BUSY_SECONDS = 60
if (child := os.fork()) == 0:
    signal.alarm(20)
    go_on.set()
    chain(sky.Error("third"))
    os._exit(seen != ["first", "third"])
assert os.waitpid(child, 0)[1] == 0
go_on.set()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)

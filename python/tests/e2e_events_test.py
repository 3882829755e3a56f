"""What a pool tells while it lives."""

import io
import logging
import os
import subprocess
import sys
import threading
import time

import pytest
from waiting import DEADLINE, wait_until

import skyward as sky
from skyward.pool import open_pool


@sky.compute
def say(*lines, end="\n"):
    for line in lines:
        print(line, end=end)


class Seen(list):
    def of(self, *types):
        return [event for event in self if isinstance(event, types)]

    def wait(self, condition):
        wait_until(lambda: condition(self))


def test_order_of_a_life():
    seen = Seen()
    with sky.ComputePool(nodes=2, display="quiet", on_event=seen.append) as pool:
        say("hello") >> pool
    kinds = [type(event).__name__ for event in seen]
    order = ["InstanceLaunching", "InstanceProvisioned", "BootstrapStarting", "BootstrapCompleted"]
    order += ["TaskPoolInitCompleted", "PoolStarted", "LogLine", "PoolStopping", "PoolStopped"]
    positions = [kinds.index(name) for name in order]
    assert positions == sorted(positions), kinds
    assert kinds[-1] == "PoolStopped"
    assert [event.node for event in seen.of(sky.InstanceProvisioned)] == [0, 1]
    assert len(seen.of(sky.InstanceStopping)) == 2
    (receipt,) = seen.of(sky.PoolStopped)
    assert sum(node.tasks for node in receipt.nodes) == 1


def test_handlers_can_be_removed():
    seen, others = Seen(), Seen()
    with sky.ComputePool(display="quiet", on_event=seen.append) as pool:
        pool.on(sky.LogLine, seen.append)
        pool.on(sky.Error, sky.LogLine, handler=seen.append)
        pool.on(sky.LogLine, others.append)
        say("first") >> pool
        others.wait(lambda others: len(others) == 1)
        pool.off(seen.append)
        pool.off(print)
        assert len(seen.of(sky.LogLine)) == 3
        say("second") >> pool
        others.wait(lambda others: len(others) == 2)
    with pool:
        say("third") >> pool
        others.wait(lambda others: len(others) == 3)
    assert [event.line for event in seen.of(sky.LogLine)] == ["first"] * 3
    assert not seen.of(sky.PoolStopped)


class Cells(dict):
    """The cell of each thread, as ipykernel's streams keep it."""

    def pop(self, thread, default=None):
        assert thread == threading.get_ident()
        self[threading.current_thread().name] = "the one that runs"


def test_threads_of_a_pool_print_under_the_cell_that_runs(monkeypatch):
    stream = type("Stream", (io.StringIO,), {})()
    stream._thread_to_parent_header, stream._thread_to_parent = Cells(), Cells()
    monkeypatch.setattr(sys, "stderr", stream)
    with sky.ComputePool():
        say("hello") @ sky
    for cells in (stream._thread_to_parent_header, stream._thread_to_parent):
        assert sorted(cells) == ["skyward-display", "skyward-events"]


def test_metrics():
    seen = Seen()
    with sky.ComputePool(display="quiet", on_event=seen.append):
        seen.wait(lambda seen: seen.of(sky.Metrics))
    metrics = seen.of(sky.Metrics)[0]
    assert 0 <= metrics.cpu <= 100 and 0 < metrics.memory_used_mb < metrics.memory_total_mb


def test_a_future_says_which_lines_are_its(pool):
    seen = Seen()
    pool.on(sky.LogLine, seen.append)
    try:
        futures = {word: say(word) > pool for word in ("one", "two", "three")}
        seen.wait(lambda seen: {event.line for event in seen} >= futures.keys())
        tasks = {event.line: event.task for event in seen}
        assert all(future.task == tasks[word] for word, future in futures.items())
    finally:
        pool._handlers.pop()


def test_lines_of_parallel_tasks_stay_whole_and_apart(pool):
    seen = Seen()
    pool.on(sky.LogLine, seen.append)

    @sky.compute
    def chatter(tag):
        for i in range(100):
            print(f"{tag}:{i}")
            print(f"{tag}!{i}", file=sys.stderr)

    sky.gather(*[chatter(f"t{k}") for k in range(8)]) >> pool
    tags = {f"t{k}" for k in range(8)}
    seen.wait(lambda seen: sum(e.line.split(":")[0].split("!")[0] in tags for e in seen) == 1600)
    tasks = {}
    for event in seen:
        tag = event.line.split(":")[0].split("!")[0]
        if tag in tags:
            tasks.setdefault(tag, set()).add((event.task, event.node))
            assert event.stream == ("stderr" if "!" in event.line else "stdout")
    assert all(len(owners) == 1 for owners in tasks.values())
    assert len({next(iter(owners))[0] for owners in tasks.values()}) == 8
    for k in range(8):
        assert [e.line for e in seen if e.line.startswith(f"t{k}:")] == [
            f"t{k}:{i}" for i in range(100)
        ]


def test_handlers_hear_a_tasks_lines_before_its_answer_is_given(monkeypatch):
    monkeypatch.setattr(open_pool, "LINES_GRACE_SECONDS", DEADLINE)
    heard = []

    def hear(event):
        if isinstance(event, sky.LogLine):
            threading.Event().wait(0.01)  # a handler that takes its time
            heard.append(event.line)

    with sky.ComputePool(nodes=2, display="quiet", on_event=hear) as pool:
        for turn in range(3):
            say(f"call {turn}") >> pool
            assert heard[-1] == f"call {turn}"
            (say(f"future {turn}") > pool).result(DEADLINE)
            assert heard[-1] == f"future {turn}"
            say(f"all {turn}") @ pool
            assert heard[-2:] == [f"all {turn}"] * 2


def test_nobody_waits_for_a_handler_that_waits_itself():
    answered = threading.Event()
    calls = []

    def wait_and_call(event):
        if isinstance(event, sky.LogLine):
            calls.append((answered.wait(DEADLINE), say() >> pool))

    with sky.ComputePool(display="quiet", on_event=wait_and_call) as pool:
        for _ in range(3):
            say("a line") >> pool
        answered.set()
        wait_until(lambda: len(calls) == 3)
    assert calls == [(True, None)] * 3


def test_progress_bars_and_last_lines_without_newline(pool):
    seen = Seen()
    pool.on(sky.LogLine, seen.append)
    say(*(f"{i}%" for i in range(101)), "done", end="\r") >> pool
    seen.wait(lambda seen: any("done" in event.line for event in seen))
    lines = [event.line for event in seen]
    assert len(lines) < 60 and all("\r" not in line for line in lines), lines
    say("no newline", end="") >> pool
    seen.wait(lambda seen: any(event.line == "no newline" for event in seen))


def test_handlers_in_every_form(pool):
    direct, keyword, decorated, all_events = Seen(), Seen(), Seen(), Seen()
    pool.on(sky.LogLine, direct.append)
    pool.on(sky.LogLine, sky.Metrics, handler=keyword.append)
    pool.on(handler=all_events.append)

    @pool.on(sky.LogLine)
    def remember(event):
        decorated.append(event)

    say("marker") >> pool
    for seen in (direct, keyword, decorated, all_events):
        seen.wait(lambda seen: any(isinstance(e, sky.LogLine) and e.line == "marker" for e in seen))
    assert not direct.of(sky.Metrics)
    with pytest.raises(TypeError, match="not an event class"):
        pool.on(int, print)
    with pytest.raises(TypeError, match="callable"):
        pool.on(sky.LogLine, handler=3)


def test_an_outer_callback_sees_the_pool_and_emit_reaches_the_pool():
    outer, inner = Seen(), Seen()
    with sky.use_callback(outer.append):
        with sky.ComputePool(display="quiet", on_event=inner.append):
            sky.emit(sky.Error("from the block"))
        sky.emit(sky.Error("after"))
    assert [e.message for e in inner.of(sky.Error)] == ["from the block"]
    assert [e.message for e in outer.of(sky.Error)] == ["from the block", "after"]
    assert outer.of(sky.PoolStarted) and outer.of(sky.PoolStopped)


def test_derived_events_are_delivered():
    seen = Seen()

    def derive(event):
        seen.append(event)
        return sky.Error("derived") if isinstance(event, sky.PoolStarted) else None

    with sky.ComputePool(display="quiet", on_event=derive):
        pass
    assert [e.message for e in seen.of(sky.Error)] == ["derived"]


def test_a_failing_callback_stops_nothing(caplog):
    def fail(event):
        raise ValueError("broken callback")

    with caplog.at_level(logging.ERROR, "skyward"):
        with sky.ComputePool(display="quiet", on_event=fail) as pool:
            assert sky.compute(abs)(-1) >> pool == 1
    assert caplog.text.count("ValueError: broken callback") == 1


def test_a_callback_that_always_answers_stops_nothing(caplog):
    with caplog.at_level(logging.ERROR, "skyward"):
        with sky.ComputePool(display="quiet", on_event=lambda event: event) as pool:
            assert sky.compute(abs)(-1) >> pool == 1
    assert "Skyward drops this" in caplog.text


def test_a_handler_may_use_the_pool():
    answers = []
    done = threading.Event()
    with sky.ComputePool(display="quiet") as pool:

        @pool.on(sky.LogLine)
        def ask(event):
            if event.line == "ask":
                answers.append(sky.compute(abs)(-5) >> pool)
                done.set()

        say("ask") >> pool
        assert done.wait(DEADLINE)
    assert answers == [5]


PROGRAM = """
import skyward as sky
with sky.ComputePool(nodes=1, display={mode!r}) as pool:
    sky.compute(print)("a line of the task") >> pool
print("result")
"""


@pytest.mark.parametrize("mode", ["log", "spinner", "quiet"])
def test_displays_write_to_stderr_only(mode):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(mode=mode)],
        capture_output=True, text=True, timeout=60, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "result\n"
    assert ("a line of the task" in done.stderr) == (mode != "quiet")
    assert "\x1b[" not in done.stderr


def test_tasks_tell_when_they_start_and_how_they_end(monkeypatch):
    monkeypatch.setattr(open_pool, "LINES_GRACE_SECONDS", DEADLINE)

    def work(x):
        if x == 2:
            raise ValueError("no")
        if x == 3:
            os._exit(7)
        return x

    f, seen = sky.compute(work), []
    with sky.ComputePool(display="quiet", collect_tasks=True, on_event=seen.append) as pool:
        f(1) >> pool
        told = [event for event in seen if isinstance(event, sky.TaskFinished)]
        assert len(told) == 1, "before the answer"
        for x in (2, 3):
            with pytest.raises(sky.ExecutionError):
                f(x) >> pool
    started = [event for event in seen if isinstance(event, sky.TaskStarted)]
    failed = [event for event in seen if isinstance(event, sky.TaskFailed)]
    assert [event.task for event in started] == [told[0].task, *(event.task for event in failed)]
    assert all(event.name == "work" and event.node == 0 for event in [*started, *told, *failed])
    assert failed[0].reason == "it raised" and "exited with code 7" in failed[1].reason
    assert all(abs(event.timestamp - time.time()) < 600 for event in [*started, *told, *failed])
    assert told[0].run_seconds < 60


def test_without_being_asked_tasks_tell_nothing():
    seen = []
    with sky.ComputePool(display="quiet", on_event=seen.append) as pool:
        sky.compute(abs)(-1) >> pool
    assert not any(type(event).__name__.startswith("Task") and "Pool" not in type(event).__name__
                   for event in seen)  # fmt: skip


def test_metrics_have_their_time():
    heard = threading.Event()
    seen = []
    with sky.ComputePool(display="quiet") as pool:
        pool.on(sky.Metrics, lambda event: (seen.append(event), heard.set()))
        assert heard.wait(DEADLINE)
    assert abs(seen[0].timestamp - time.time()) < 600

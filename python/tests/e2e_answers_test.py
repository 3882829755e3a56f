"""The thread that completes futures: nothing stops it, and no future is left without an answer."""

import queue
import sys
import threading

import pytest
from quick_calls import double, wait_at
from skyward.pool.answers import Answers
from waiting import wait_until

import skyward as sky

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def pool():
    with sky.ComputePool(concurrency=2, display="quiet") as pool:
        yield pool


def submit(pool, executor, call):
    return call > pool


def submit_to_executor(pool, executor, call):
    return executor.submit(call.fn, *call.args)


def warm(executor, folder):
    """From here on, its calls of wait_at() travel in groups."""
    calls = [executor.submit(wait_at.local, x, -1, -1, str(folder)) for x in range(300)]
    assert [call.result(60) for call in calls] == [*range(300)]


BOTH = pytest.mark.parametrize("send", [submit, submit_to_executor])


@BOTH
def test_a_callback_that_exits_ends_no_other_call(pool, send, tmp_path, caplog):
    with sky.Executor(pool=pool) as executor:
        warm(executor, tmp_path)
        calls = [send(pool, executor, wait_at(0, 0, -1, str(tmp_path))) for _ in range(4)]
        for call in calls:
            call.add_done_callback(lambda _: sys.exit("this callback"))
        (tmp_path / "go").touch()
        assert [call.result(60) for call in calls] == [0] * 4
        assert send(pool, executor, double(1)).result(60) == 2
    assert "this callback" in caplog.text


@BOTH
def test_a_callback_that_waits_for_an_answer_of_its_pool_is_told(pool, send, tmp_path):
    said = queue.Queue()

    def wait(_):
        try:
            send(pool, executor, double(2)).result()
        except RuntimeError as error:
            said.put(str(error))
        said.put(double(2) >> pool)
        said.put((double(2) > other).result())

    with sky.Executor(pool=pool) as executor, sky.ComputePool(display="quiet") as other:
        first = send(pool, executor, wait_at(0, 0, -1, str(tmp_path)))
        first.add_done_callback(wait)
        (tmp_path / "go").touch()
        assert "wait in another thread" in said.get(timeout=60)
        assert [said.get(timeout=60) for _ in range(2)] == [4, 4]
        assert send(pool, executor, double(1)).result(60) == 2


def test_an_argument_without_a_repr_ends_no_other_call(pool):
    class Shy(str):
        def __repr__(self):
            raise ValueError("no repr")

    @sky.compute
    def fail(_):
        raise LookupError("mine")

    failed = fail(Shy("x")) > pool
    with pytest.raises(LookupError, match="mine"):
        failed.result(60)
    assert (double(1) > pool).result(60) == 2


def test_an_error_that_is_not_utf8_fails_no_retry(pool, tmp_path):
    @sky.compute(retries=1)
    def parse(gate):
        from pathlib import Path

        if not Path(gate).exists():
            Path(gate).touch()
            raise ValueError("cannot parse caf\udce9")
        return 1

    told = []
    pool.on(sky.Error, told.append)
    assert (parse(str(tmp_path / "future")) > pool).result(60) == 1
    wait_until(lambda: told)
    assert parse(str(tmp_path / "call")) >> pool == 1
    wait_until(lambda: len(told) == 2)
    assert all("cannot parse caf\\udce9; attempt 2 of 2" in error.message for error in told)


@BOTH
def test_a_pool_that_closes_before_its_call_is_watched(pool, send, tmp_path, monkeypatch):
    executor = sky.Executor(pool=pool)
    warm(executor, tmp_path)
    name = "_add" if send is submit else "_watch_group"
    watch = getattr(Answers, name)

    def watch_later(*arguments):
        monkeypatch.undo()
        closing = threading.Thread(target=pool.close)
        closing.start()
        closing.join(60)
        return watch(*arguments)

    monkeypatch.setattr(Answers, name, watch_later)
    call = send(pool, executor, wait_at(1, 0, -1, str(tmp_path)))
    assert isinstance(call.exception(60), sky.CancelledError | None)
    executor.shutdown()


def test_a_thread_that_does_not_start_is_started_later(pool, monkeypatch):
    def start(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError, match="can't start"):
        submit(pool, None, double(1))
    monkeypatch.undo()
    assert (double(1) > pool).result(60) == 2


def test_a_callback_shuts_the_executor_down(pool, tmp_path):
    executor = sky.Executor(pool=pool)
    done = threading.Event()
    call = executor.submit(wait_at.local, 0, 0, -1, str(tmp_path))
    call.add_done_callback(lambda _: (executor.shutdown(), done.set()))
    (tmp_path / "go").touch()
    assert done.wait(60) and call.result(60) == 0
    assert (double(1) > pool).result(60) == 2
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, -3)


def test_a_handler_of_a_signal_may_send_calls_anywhere(pool):
    sent = []

    def work():
        live = pool._live
        with live.answers._lock, live.packing._functions_lock:  # as if it came just now
            sent.append(sky.compute(lambda: 3)() > pool)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    assert sent and sent[0].result(60) == 3


def test_a_handler_that_sends_while_the_thread_starts_starts_no_other(monkeypatch):
    real, started = threading.Thread.start, []

    def start(thread):
        if thread.name == "skyward-answers":
            started.append(thread)
            if len(started) < 3:
                opened._live.answers.start()  # as a handler of a signal would
        real(thread)

    with sky.ComputePool(display="quiet") as opened:
        monkeypatch.setattr(threading.Thread, "start", start)
        assert (sky.compute(lambda: 3)() > opened).result(60) == 3
    assert len(started) == 1


@pytest.mark.parametrize("runs", [False, True])
def test_an_interrupt_while_the_thread_starts_loses_no_answer(monkeypatch, runs):
    real, started = threading.Thread.start, []

    def start(thread):
        if thread.name != "skyward-answers" or started:
            return real(thread)
        started.append(thread)
        if runs:
            real(thread)
        raise KeyboardInterrupt

    with sky.ComputePool(display="quiet") as opened:
        monkeypatch.setattr(threading.Thread, "start", start)
        with pytest.raises(KeyboardInterrupt):
            submit(opened, None, double(1))
        assert (double(1) > opened).result(60) == 2

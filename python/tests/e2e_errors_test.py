"""Failures of every kind: named, placed, and survived by the pool."""

import ctypes
import os
import pathlib
import signal
import sys
import threading
import time
import traceback

import pytest
from waiting import DEADLINE, wait_until

import skyward as sky


class NeedsTwoError(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} {b}")


class HoldsLockError(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


@sky.compute
def call(fn, *args):
    return fn(*args)


@pytest.fixture(autouse=True)
def pool_survives(pool):
    yield
    assert sky.gather(*[call(abs, -i) for i in range(8)]) >> pool == tuple(range(8))


def throw(error):
    print("before the end")
    raise error


def test_an_exception_keeps_its_class_and_gains_a_place(pool):
    with pytest.raises(ValueError, match="bad value") as caught:
        call(throw, ValueError("bad value")) >> pool
    error = caught.value
    assert isinstance(error, sky.ExecutionError)
    assert error.node in (0, 1) and error.worker == 0 and error.instance_id and error.task > 0
    assert "in throw" in error.remote_traceback
    assert "before the end" in error.output
    text = "".join(traceback.format_exception(error))
    assert "in throw" in text and f"node {error.node}" in text and "before the end" in text
    assert "_worker.py" not in text


def test_an_exception_that_does_not_pickle(pool):
    with pytest.raises(sky.ExecutionError, match="no pickle"):
        call(lambda: throw(HoldsLockError("no pickle"))) >> pool


def test_an_exception_that_pickles_but_does_not_load(pool):
    with pytest.raises(NeedsTwoError, match="a b") as caught:
        call(lambda: throw(NeedsTwoError("a", "b"))) >> pool
    assert isinstance(caught.value, sky.ExecutionError)


def test_a_result_that_does_not_pickle(pool):
    with pytest.raises(sky.SerializationError, match=r"\['x'\]\[1\].*cannot pickle '_thread.lock'"):
        call(lambda: {"x": [1, threading.Lock()]}) >> pool


def test_an_argument_that_does_not_pickle(pool):
    with pytest.raises(
        sky.SerializationError, match=r"argument .*\.lock: cannot pickle '_thread.lock'"
    ):
        call(len, HoldsLockError("x")) >> pool


def test_sys_exit(pool):
    with pytest.raises(sky.ExecutionError, match=r"called sys.exit\(3\)"):
        call(sys.exit, 3) >> pool


@pytest.mark.parametrize("end", ["exit", "kill", "segfault"])
def test_a_worker_that_dies(pool, end):
    deaths = {
        "exit": lambda: os._exit(3),
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "segfault": lambda: ctypes.string_at(0),
    }
    says = {"exit": "3", "kill": "SIGKILL|signal 9", "segfault": "SIGSEGV|signal 11"}
    with pytest.raises(sky.ExecutionError, match=says[end]) as caught:
        call(deaths[end]) >> pool
    assert caught.value.node in (0, 1)


def test_a_death_hits_one_task_only(pool, tmp_path):
    calls = [call(abs, -i) for i in range(20)]
    calls[7] = call(os._exit, 1)
    futures = [pool.submit(pending) for pending in calls]
    for i, future in enumerate(futures):
        if i == 7:
            with pytest.raises(sky.ExecutionError):
                future.result(DEADLINE)
        else:
            assert future.result(DEADLINE) == i


def test_the_first_failing_item_raises_after_all_have_ended(pool, tmp_path):
    def work(i):
        (pathlib.Path(tmp_path) / str(i)).touch()
        if i in (3, 5):
            raise ValueError(i)

    with pytest.raises(ValueError) as caught:
        sky.gather(*[call(work, i) for i in range(8)]) >> pool
    assert caught.value.args == (3,)
    assert len(os.listdir(tmp_path)) == 8


def test_timeout(pool):
    start = time.monotonic()
    with pytest.raises(sky.TimeoutError, match="0.5|500"):
        call(time.sleep, 600).with_timeout(0.5) >> pool
    assert time.monotonic() - start < DEADLINE
    with pytest.raises(TimeoutError):
        sky.compute(timeout=0.3)(time.sleep)(600) >> pool


def test_timeout_of_a_task_that_ignores_interrupts(pool):
    def stubborn():
        while True:
            try:
                time.sleep(600)  # on a worker
            except KeyboardInterrupt:
                pass

    with pytest.raises(sky.TimeoutError):
        call(stubborn).with_timeout(0.3) >> pool


def test_cancel_a_running_task(pool, tmp_path):
    started, stopped = tmp_path / "started", tmp_path / "stopped"

    def work(started, stopped):
        try:
            open(started, "w").close()
            time.sleep(600)  # on a worker
        except KeyboardInterrupt:
            open(stopped, "w").close()
            raise

    future = pool.submit(call(work, str(started), str(stopped)))
    wait_until(started.exists)
    assert future.cancel() and future.cancelled()
    wait_until(stopped.exists)


def test_cancel_tasks_that_wait(pool, tmp_path):
    gate = tmp_path / "gate"

    def wait_for(gate):
        while not os.path.exists(gate):
            time.sleep(0.01)  # on a worker
        return "ran"

    blockers = [pool.submit(call(wait_for, str(gate))) for _ in range(pool.total_slots)]
    waiting = [pool.submit(call(abs, -i)) for i in range(50)]
    cancelled = [future.cancel() for future in waiting]
    gate.touch()
    assert [blocker.result(DEADLINE) for blocker in blockers] == ["ran"] * pool.total_slots
    assert all(cancelled)


def test_retries(pool, tmp_path):
    def work(i):
        tries = len(os.listdir(tmp_path))
        (pathlib.Path(tmp_path) / str(tries)).touch()
        if tries == 0:
            raise ValueError("first try")
        if tries == 1:
            os._exit(1)
        return tries

    assert sky.compute(retries=2)(work)(0) >> pool == 2
    for file in tmp_path.iterdir():
        file.unlink()
    assert pool.submit(sky.compute(retries=2)(work)(0)).result(DEADLINE) == 2
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(ValueError, match="first try"):
        sky.compute(work)(0) >> pool


def test_a_module_that_is_missing_there(pool):
    def needs_it():
        import no_such_module_of_ours  # noqa: F401

    with pytest.raises(ModuleNotFoundError, match="no_such_module_of_ours") as raised:
        call(needs_it) >> pool
    assert any("Image(pip=" in note for note in raised.value.__notes__)

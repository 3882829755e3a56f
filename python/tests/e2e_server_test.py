"""Pools in processes of servers: for days, beside other pools, and under replaced threads."""

import gc
import os
import subprocess
import sys
import threading
import time
import types
import weakref

import pytest
from waiting import DEADLINE, is_alive, wait_until

import skyward as sky

identity = sky.compute(lambda x: x)


@pytest.mark.parametrize(
    ("name", "question", "part"),
    [
        ("gevent.monkey", "is_module_patched", "threading"),
        ("eventlet.patcher", "is_monkey_patched", "thread"),
    ],
)
def test_a_pool_does_not_open_where_threads_are_greenlets(monkeypatch, name, question, part):
    patched = set()
    module = types.ModuleType(name)
    setattr(module, question, patched.__contains__)
    monkeypatch.setitem(sys.modules, name, module)
    with sky.ComputePool(display="quiet") as pool:  # imported, and nothing is replaced
        assert pool.is_active
    patched.add(part)
    with pytest.raises(sky.ConfigurationError, match=f"{name.partition('.')[0]}.*gthread"):
        pool.open()
    assert not pool.is_active


SUBINTERPRETER = """
import sys, threading
from skyward import _core

if sys.version_info < (3, 13):
    import _xxsubinterpreters as interpreters
    app = interpreters.create(isolated=False)
else:
    import _interpreters as interpreters
    app = interpreters.create("legacy")  # as Py_NewInterpreter() makes them
interpreters.run_string(app, '''
import skyward as sky
cloud = sky.testing.FakeCloud()
try:
    sky.ComputePool(provider=cloud, display="quiet").open()
except sky.ConfigurationError as error:
    print(cloud.launched, error, flush=True)
''')
interpreters.destroy(app)
other = threading.Thread(target=_core.make_function, args=(b"", "f"), daemon=True)
other.start()  # it drops the lock of the interpreter and takes it again
other.join(float(sys.argv[1]))
print(other.is_alive())
"""


def test_a_subinterpreter_is_refused():
    done = subprocess.run(
        [sys.executable, "-c", SUBINTERPRETER, str(DEADLINE / 2)],
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    refused, is_blocked = done.stdout.splitlines()
    assert refused.startswith("0 a pool cannot be used in a subinterpreter"), done.stderr
    assert "WSGIApplicationGroup %{GLOBAL}" in refused
    assert is_blocked == "False" and done.returncode == 0, done.stderr


def threads():
    return {thread for thread in threading.enumerate() if thread.name.startswith("skyward-")}


@pytest.mark.parametrize("display", ["log", "quiet"])
def test_an_expired_pool_that_is_dropped_leaves_nothing(display):
    def opened():
        cloud = sky.testing.FakeCloud(speed=0)
        pool = sky.ComputePool(provider=cloud, timeout=3600, display=display, on_event=repr)
        return cloud, pool.open()

    def replaced():
        cloud, first = opened()
        assert identity(1) >> first == 1
        assert first.submit(identity(2)).result(DEADLINE) == 2
        cloud.advance(hours=2)
        wait_until(lambda: first._delivery.is_closed)  # after the last event
        assert not first.is_active
        _, second = opened()
        return second, [weakref.ref(it) for it in (first, first._live, first._delivery)]

    def are_gone():
        gc.collect()
        return not any(part() for part in parts)

    before = threads()
    second, parts = replaced()
    try:
        wait_until(are_gone)
        wait_until(lambda: len(threads() - before) <= 1 + (display == "log"))
        assert {thread.name for thread in threads() - before} <= {
            "skyward-display",
            "skyward-events",
        }
        assert identity(2) >> second == 2
    finally:
        second.close()
    wait_until(lambda: not threads() - before)


def test_a_pool_inside_the_block_of_an_expired_one_leaves_that_block_as_it_was():
    cloud = sky.testing.FakeCloud(speed=0)
    with (
        sky.ComputePool(display="quiet"),
        sky.ComputePool(provider=cloud, timeout=3600, display="quiet") as expired,
    ):
        cloud.advance(hours=2)
        wait_until(lambda: not expired.is_active)
        with sky.ComputePool(display="quiet"):
            assert identity(1) >> sky == 1
        with pytest.raises(sky.TimeoutError):
            identity(1) >> sky


MULTIPROCESSING = """
import multiprocessing, os, pathlib, sys
import skyward as sky

stopped = pathlib.Path(sys.argv[1])

def work():
    pool = sky.ComputePool(display="quiet")
    pool.on(sky.PoolStopped, lambda _: stopped.touch())
    print(sky.compute(os.getpid)() >> pool.open(), flush=True)

child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join()
print(child.exitcode, stopped.exists())
"""


def test_a_forked_process_of_multiprocessing_closes_what_it_has_opened(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", MULTIPROCESSING, str(tmp_path / "stopped")],
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    pid, end = done.stdout.splitlines()
    assert end == "0 True" and not is_alive(int(pid)), done.stderr


def test_an_executor_opens_its_own_pool_again_after_its_timeout():
    with sky.Executor(timeout=5, display="quiet") as executor:
        first = executor.submit(os.getpid).result(DEADLINE)
        wait_until(lambda: not executor._pool.is_active)
        assert executor.submit(os.getpid).result(DEADLINE) != first


def test_an_executor_opens_its_own_pool_again_after_the_timeout_of_a_simulated_cloud():
    cloud = sky.testing.FakeCloud(speed=0)
    with sky.Executor(provider=cloud, timeout=3600, display="quiet") as executor:
        executor.submit(os.getpid).result(DEADLINE)
        cloud.advance(hours=2)
        wait_until(lambda: not executor._pool.is_active)
        executor.submit(os.getpid).result(DEADLINE)
    assert cloud.launched == 2


def test_an_executor_whose_budget_is_spent_stays_closed(monkeypatch):
    cloud = sky.testing.FakeCloud(prices={"cpu": 1.0}, speed=0)
    with sky.Executor(
        provider=cloud, spot="never", budget=1.0, timeout=36000, display="quiet"
    ) as executor:
        executor.submit(os.getpid).result(DEADLINE)
        cloud.advance(hours=2)
        wait_until(lambda: not executor._pool.is_active)
        clock = time.time
        monkeypatch.setattr(time, "time", lambda: clock() + 36000)
        with pytest.raises(sky.BudgetExceededError):
            executor.submit(os.getpid).result(DEADLINE)
    assert cloud.launched == 1


def test_a_second_thread_that_opens_a_pool_is_told_of_the_first():
    with (
        sky.ComputePool(display="quiet") as pool,
        pytest.raises(sky.ConfigurationError, match="another thread may have opened it"),
    ):
        pool.open()

"""Distributed functions in a pool, as far as that needs no framework."""

import os
import time

import pytest
from skyward.call.starts import STARTS_ATTRIBUTE, Starts
from skyward.distributed import elastic

import skyward as sky


@sky.compute
@sky.distributed.torch(backend="gloo", timeout=20)
def train(_=0):
    return sky.instance_info().node


def test_one_worker_of_several_is_refused_before_anything_starts(pool):
    for send in (
        lambda: train() >> pool,
        lambda: pool.submit(train()),
        lambda: sky.gather(train(), train()) >> pool,
        lambda: pool.map(train, [1]),
    ):
        with pytest.raises(sky.ConfigurationError, match="train\\(…\\) @ pool"):
            send()


def together(function, **options):
    """What a decorator of sky.distributed makes of it, without a framework."""
    function.__skyward_distributed__ = "test"
    return sky.compute(**options)(function)


def test_the_failure_that_came_first_is_raised(pool):
    def fails():
        import threading

        if sky.instance_info().node == 1:
            raise LookupError("no such row")
        threading.Event().wait(1.0)
        raise ConnectionResetError("peer is gone")

    with pytest.raises(LookupError, match="no such row") as caught:
        together(fails)() @ pool
    assert "worker 0 failed too: ConnectionResetError: peer is gone" in caught.value.__notes__


def test_the_failure_that_came_first_is_raised_though_another_worker_answers_sooner(pool):
    def fails():
        import threading

        # A framework's session notes when the function failed, and then takes time to end.
        if sky.instance_info().node == 1:
            error, after = LookupError("no such row"), 0.1
            threading.Event().wait(0.5)
        else:
            error, after = ConnectionResetError("peer is gone"), 0.2
        error.__skyward_failed_after__ = after
        raise error

    with pytest.raises(LookupError, match="no such row") as caught:
        together(fails)() @ pool
    assert "worker 0 failed too: ConnectionResetError: peer is gone" in caught.value.__notes__


def test_a_restart_waits_for_the_failure_and_begins_in_new_processes(pool, tmp_path):
    def train(folder, _skyward_start=None):
        import os
        import threading

        info, restart = sky.instance_info(), _skyward_start["restart"]
        with open(f"{folder}/{info.node}-{restart}", "w") as file:
            file.write(str(os.getpid()))
        if restart == 0 and info.node == 0:
            raise ConnectionResetError("peer is gone")
        if restart == 0:
            threading.Event().wait(0.5)
            raise LookupError("no such row")
        return _skyward_start["of"]

    setattr(train, STARTS_ATTRIBUTE, Starts(elastic.renew, elastic.discard, 1))
    assert together(train)(str(tmp_path)) @ pool == (1, 1)
    pids = {(tmp_path / f"{node}-{restart}").read_text() for node in (0, 1) for restart in (0, 1)}
    assert len(pids) == 4
    assert together(lambda: 1)() @ pool == (1, 1)


def test_ending_worker_processes_between_two_starts_is_no_failure():
    receipts = []
    with sky.ComputePool(nodes=2, display="quiet", on_event=receipts.append) as pool:
        pids = sky.compute(os.getpid)() @ pool
        assert sky.compute(elastic.renew)() @ pool == (None, None)
        assert not set(sky.compute(os.getpid)() @ pool) & set(pids)
    (stopped,) = [event for event in receipts if isinstance(event, sky.PoolStopped)]
    assert [(node.tasks, node.failed) for node in stopped.nodes] == [(3, 0)] * 2


def test_checkpoints_are_found_again_by_new_processes(pool):
    def folder(elsewhere):
        import os

        node = os.getcwd()
        os.chdir(elsewhere)
        try:
            return node, str(elastic.folder_of("1a2b"))
        finally:
            os.chdir(node)

    for node, found in sky.compute(folder)("/") @ pool:
        assert found == f"{node}/checkpoints/1a2b"


def test_those_who_wait_for_one_that_failed_are_stopped(pool, monkeypatch):
    from skyward.pool import together as module

    monkeypatch.setattr(module, "GRACE_SECONDS", 0.5)

    def fails(seconds):
        import threading

        if sky.instance_info().node == 1:
            raise LookupError("no such row")
        threading.Event().wait(seconds)

    started = time.monotonic()
    with pytest.raises(LookupError, match="no such row") as caught:
        together(fails)(120) @ pool
    assert time.monotonic() - started < 60
    assert any("worker 0 failed too: CancelledError" in note for note in caught.value.__notes__)
    assert together(lambda: 1)() @ pool == (1, 1), "the workers are free again"


def test_all_workers_try_again(pool, tmp_path):
    def once_more(path):
        import os

        info = sky.instance_info()
        with open(f"{path}/{info.node}", "a") as file:
            file.write("x")
        if info.node == 1 and os.path.getsize(f"{path}/1") < 3:
            raise LookupError("not yet")
        return info.node

    assert together(once_more, retries=2)(str(tmp_path)) @ pool == (0, 1)
    assert [(tmp_path / name).read_text() for name in "01"] == ["xxx", "xxx"]


def test_generators_of_all_workers(pool):
    def count(n):
        yield from range(n)

    first, second = together(count)(3) @ pool
    assert list(first) == list(second) == [0, 1, 2]

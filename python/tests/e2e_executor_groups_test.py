"""Executor.submit() of quick calls, which travel in groups. Each is a call of its own all the
same."""

import threading
from concurrent import futures

import pytest
from quick_calls import Strange, double, lose_node_at, note, runs, stay_at, wait_at
from skyward.pool.answer import AnswerFuture
from waiting import wait_until

import skyward as sky

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def pool():
    with sky.ComputePool(concurrency=2, display="quiet") as pool:
        yield pool


@pytest.fixture
def executor(pool):
    with sky.Executor(pool=pool) as opened:
        yield opened


def results(calls):
    return [call.result(60) for call in calls]


def test_calls_are_sent_together(pool, executor):
    def tasks():
        before = pool._engine().core.task_counts()[0]
        calls = [executor.submit(double, x) for x in range(10_000)]
        answers = sorted(call.result() for call in futures.as_completed(calls))
        assert answers == results(calls) == list(range(0, 20_000, 2))
        return pool._engine().core.task_counts()[0] - before

    # Calls that are slow for a moment go alone, and a machine may be busy with something else.
    assert any(tasks() < 2500 for _ in range(8))


def test_calls_that_are_not_for_a_group_go_alone_among_others(executor):
    calls = []
    for x in range(600):
        calls.append(executor.submit(divmod, x, 7))
        calls.append(executor.submit(int, str(x), base=16))
    calls.append(executor.submit(len, bytes(100_000)))
    calls.append(executor.submit(len, threading.Lock()))
    calls += [executor.submit(len, "x" * x) for x in range(300)]
    wrong = calls.pop(1201)
    assert results(calls[:1200]) == [y for x in range(600) for y in (divmod(x, 7), int(str(x), 16))]
    assert results(calls[1200:]) == [100_000, *range(300)]
    assert isinstance(wrong.exception(60), sky.SerializationError)


def test_large_results_among_quick_calls(executor):
    sizes = [1, 10, 100_000, 5, 3] * 100
    assert [len(x) for x in results([executor.submit(bytes, size) for size in sizes])] == sizes


def test_a_slow_call_holds_up_no_other(executor, tmp_path):
    # The slow one ends when the one behind it, in the same group, has run elsewhere.
    inputs = [*range(3000), "slow", "last", *range(500)]
    calls = [executor.submit(wait_at, x, "slow", "last", str(tmp_path)) for x in inputs]
    assert results(calls) == inputs


@sky.compute
def wait_for(path, is_slow):
    import os
    import time

    while is_slow or not os.path.exists(path):
        time.sleep(0.01)  # on a worker
        is_slow = False


@pytest.mark.parametrize("quick", [0, 2000])
def test_slow_calls_wait_where_they_can_be_cancelled(executor, tmp_path, quick):
    is_there, gate = str(tmp_path), tmp_path / "gate"
    assert len(results([executor.submit(wait_for, is_there, False) for _ in range(quick)])) == quick
    for _ in range(2):
        executor.submit(wait_for, is_there, True).result(60)
    calls = [executor.submit(wait_for, str(gate), True) for _ in range(100)]
    try:
        assert sum(call.running() for call in calls) <= 2 * executor.total_slots
        executor.shutdown(wait=False, cancel_futures=True)
        assert sum(call.cancelled() for call in calls) >= 100 - 2 * executor.total_slots
    finally:
        gate.touch()


def fail_at_times(x):
    if x % 100 == 50:
        raise LookupError(f"no row {x}")
    return x


class Times:
    def __init__(self, factor):
        self.factor = factor

    def __hash__(self):
        return 1

    def __call__(self, x):
        return self.factor * x


class Alike(Times):
    def __eq__(self, other):
        return True

    __hash__ = Times.__hash__


class Incomparable(Times):
    def __eq__(self, other):
        raise ValueError("neither equal nor unequal")

    __hash__ = Times.__hash__


@pytest.mark.parametrize("kind", [Alike, Incomparable])
def test_functions_that_compare_badly_are_not_confused(executor, kind):
    first = kind(1)
    assert results([executor.submit(first, x) for x in range(200)]) == [*range(200)]
    functions = [kind(x) for x in range(300)]
    assert results([executor.submit(function, 1) for function in functions]) == [*range(300)]


def test_an_error_is_that_of_its_call(executor):
    calls = {x: executor.submit(fail_at_times, x) for x in range(3000)}
    for x in range(50, 3000, 100):
        with pytest.raises(LookupError, match=rf"no row {x}\n"):
            calls.pop(x).result(60)
    assert results(calls.values()) == list(calls)


def test_the_death_of_a_worker_is_blamed_on_the_call_that_ran(executor, tmp_path):
    calls = [executor.submit(note, x, 2500, str(tmp_path)) for x in range(3000)]
    with pytest.raises(sky.ExecutionError, match="exited with code 3"):
        calls.pop(2500).result(60)
    assert results(calls) == [x for x in range(3000) if x != 2500]
    assert set(runs(tmp_path).values()) == {1} and len(runs(tmp_path)) == 3000


def test_a_result_that_does_not_load_is_the_error_of_its_call(executor):
    def strange_at(x):
        return Strange() if x % 600 == 599 else x

    calls = [executor.submit(strange_at, x) for x in range(1500)]
    for at in (1199, 599):
        with pytest.raises(Exception, match="not here"):
            calls.pop(at).result(60)
    assert results(calls) == [x for x in range(1500) if x % 600 != 599]


def test_calls_of_a_lost_node_run_again(tmp_path):
    with sky.Executor(nodes=2, display="quiet") as executor:
        calls = [executor.submit(lose_node_at, x, 1500, str(tmp_path)) for x in range(3000)]
        assert results(calls) == list(range(3000))
    assert (tmp_path / "lost").exists()


def test_leaving_the_block_with_an_error_stops_what_runs(pool, tmp_path):
    with pytest.raises(ValueError, match="mine"), sky.Executor(pool=pool) as executor:
        calls = [executor.submit(stay_at, x, 500, str(tmp_path)) for x in range(20_000)]
        wait_until((tmp_path / "began").exists)
        raise ValueError("mine")
    assert all(call.done() for call in calls)
    assert isinstance(calls[500].exception(), sky.CancelledError)
    wait_until((tmp_path / "ended").exists)
    wait_until(lambda: not pool._engine().counts()[1])
    assert double(1) >> pool == 2


def test_a_pool_that_closes_fails_the_calls_of_groups(tmp_path):
    with sky.ComputePool(concurrency=2, display="quiet") as pool:
        executor = sky.Executor(pool=pool)
        calls = [executor.submit(wait_at, x, 1000, "never", str(tmp_path)) for x in range(1001)]
        assert results(calls[:1000]) == list(range(1000))
    assert isinstance(calls[1000].exception(60), sky.CancelledError)
    executor.shutdown()


STARTS = "set_running_or_notify_cancel"


class Interrupting:
    def __reduce__(self):
        raise KeyboardInterrupt


@pytest.mark.parametrize("quick", [False, True])
def test_an_interrupt_while_a_call_is_sent_leaves_none_behind(pool, quick):
    function = (lambda _: 1) if quick else (lambda _: 2)
    with sky.Executor(pool=pool) as executor:
        if quick:
            assert len(results([executor.submit(function, x) for x in range(300)])) == 300
        with pytest.raises(KeyboardInterrupt):
            executor.submit(function, Interrupting())
        assert executor.submit(function, 0).result(60) == 2 - quick
    assert not executor._alone and not executor._flying


@pytest.mark.parametrize("late", [False, True])
def test_an_interrupt_while_calls_leave_the_queue_loses_none(pool, monkeypatch, late):
    def function(_):
        return 1

    with sky.Executor(pool=pool) as executor:
        target = (executor, "_note_flying") if late else (AnswerFuture, STARTS)
        real, left = getattr(*target), [KeyboardInterrupt]

        def interrupt(*args):
            if left and threading.current_thread() is threading.main_thread():
                raise left.pop()
            return real(*args)

        before = [executor.submit(function, x) for x in range(20)]
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(*target, interrupt)
            while True:  # until some leave
                before.append(executor.submit(function, 0))
        assert executor.submit(function, 0).result(60) == 1
        for call in before:
            call.exception(60) if not call.cancelled() else None
    assert not executor._alone and not executor._flying and not executor._waiting


def test_the_counts_are_those_of_calls(pool, executor):
    done = pool._engine().counts()[0]
    assert len(results([executor.submit(double, x) for x in range(5000)])) == 5000
    wait_until(lambda: pool._engine().counts() == (done + 5000, 0, 0))


def test_a_pool_that_collects_tasks_sends_each_call_alone():
    with sky.Executor(concurrency=2, display="quiet", collect_tasks=True) as executor:
        core = executor._pool._engine().core
        before = core.task_counts()[0]
        assert len(results([executor.submit(abs, -x) for x in range(700)])) == 700
        assert core.task_counts()[0] - before == 700

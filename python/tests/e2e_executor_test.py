"""sky.Executor is an executor as concurrent.futures has them."""

import functools
import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from concurrent import futures

import pytest
from waiting import wait_until

import skyward as sky
from skyward import conc


@pytest.fixture
def executor(pool):
    with sky.Executor(pool=pool) as opened:
        yield opened


def wait_for(path):
    import os
    import threading

    while not os.path.exists(path):
        threading.Event().wait(0.01)
    return path


def fail(x):
    raise LookupError(x)


def capture(*args, **kwargs):
    return args, kwargs


class Thing:
    def __init__(self, number=0):
        self.number = number

    def method(self):
        return self.number


@sky.compute
def double(x, plus=0):
    return 2 * x + plus


def test_submit(executor, pool):
    assert executor.submit(pow, 2, 8).result(30) == 256
    assert executor.submit(int, "ff", base=16).result(30) == 255
    assert executor.submit(double, 4, plus=1).result(30) == 9
    assert executor.submit(functools.partial(double, plus=1), 4).result(30) == 9
    assert executor.submit(lambda: sky.instance_info().total_nodes).result(30) == 2
    assert isinstance(executor, futures.Executor) and executor.total_slots == pool.total_slots
    assert executor.submit(capture, 1, self=2, fn=3).result(30) == ((1,), {"self": 2, "fn": 3})
    for nothing in ({}, {"arg": 1}, {"fn": capture, "arg": 1}):
        with pytest.raises(TypeError):
            executor.submit(**nothing)


def test_the_error_of_a_call(executor):
    future = executor.submit(fail, "row 7")
    assert isinstance(future.exception(30), LookupError)
    with pytest.raises(LookupError, match="row 7"):
        future.result()


def test_what_cannot_travel_fails_alone(executor):
    tasks = [executor.submit(len, [1]), executor.submit(id, threading.Lock())]
    assert tasks[0].result(30) == 1
    assert isinstance(tasks[1].exception(30), sky.SerializationError)


def test_very_many_that_cannot_travel_fail_each_by_itself(pool, tmp_path):
    executor = sky.Executor(pool=pool)
    gate = str(tmp_path / "gate")
    slow = [executor.submit(wait_for, gate) for _ in range(2 * pool.total_slots)]
    wrong = [executor.submit(id, threading.Lock()) for _ in range(3000)]  # they wait in the queue
    (tmp_path / "gate").touch()
    assert [call.result(60) for call in slow] == [gate] * len(slow)
    errors = [call.exception(60) for call in wrong]
    assert {type(error) for error in errors} == {sky.SerializationError}
    assert not any(error.__traceback__ for error in errors)  # it would keep the arguments
    executor.shutdown()


def test_map(executor):
    assert list(executor.map(pow, range(10), range(10))) == [n**n for n in range(10)]
    for size in (1, 3, 6, 50):
        assert list(executor.map(double, range(20), chunksize=size)) == list(range(0, 40, 2))
    assert list(executor.map(pow, [], [])) == []
    with pytest.raises(ValueError, match="chunksize"):
        executor.map(pow, [1], [1], chunksize=0)


def test_map_raises_where_the_call_stands(executor):
    answers = executor.map(divmod, [1, 1, 1, 1], [2, 3, 0, 5])
    assert next(answers) == (0, 1) and next(answers) == (0, 1)
    with pytest.raises(ZeroDivisionError):
        next(answers)


def test_map_timeout(executor, tmp_path):
    started = time.monotonic()
    answers = executor.map(wait_for, [str(tmp_path), str(tmp_path / "never")], timeout=5)
    assert next(answers) == str(tmp_path)
    with pytest.raises(futures.TimeoutError):
        next(answers)
    assert time.monotonic() - started < 60
    (tmp_path / "never").touch()


def test_calls_begin_before_the_answers_are_asked_for(executor, tmp_path):
    def touch(path):
        open(path, "w").close()

    executor.map(touch, [str(tmp_path / str(n)) for n in range(30)])
    wait_until(lambda: len(list(tmp_path.iterdir())) == 30)


def test_wait_and_as_completed(executor, tmp_path):
    slow = executor.submit(wait_for, str(tmp_path / "go"))
    quick = executor.submit(len, "abc")
    done, open_ = futures.wait([slow, quick], timeout=30, return_when=futures.FIRST_COMPLETED)
    assert done == {quick} and open_ == {slow}
    assert slow.running() and not slow.cancel()
    (tmp_path / "go").touch()
    assert set(futures.as_completed([slow, quick], timeout=30)) == {slow, quick}


def test_callbacks(executor):
    seen, called = [], threading.Event()

    def callback(future):
        seen.append(future.result())
        called.set()

    executor.submit(len, "four").add_done_callback(callback)
    assert called.wait(30) and seen == [4]


def test_calls_that_wait_can_be_cancelled(pool, tmp_path):
    executor = sky.Executor(pool=pool)
    gate = str(tmp_path / "gate")
    calls = [executor.submit(wait_for, gate) for _ in range(50)]
    assert calls[-1].cancel() and calls[-1].cancelled() and not calls[0].cancel()
    executor.shutdown(wait=False, cancel_futures=True)
    (tmp_path / "gate").touch()
    executor.shutdown()
    cancelled = [call for call in calls if call.cancelled()]
    others = [call for call in calls if not call.cancelled()]
    assert len(cancelled) > 20 and others
    for call in others:
        assert call.done() and call.result() == gate
    assert set(futures.as_completed(calls, timeout=5)) == set(calls)


def test_shutdown_refuses_new_calls_and_finishes_old_ones(pool):
    executor = sky.Executor(pool=pool)
    calls = [executor.submit(pow, n, 2) for n in range(30)]
    executor.shutdown()
    assert all(call.done() for call in calls) and calls[5].result() == 25
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(pow, 1, 1)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.map(pow, [1], [1])
    executor.shutdown()
    assert pool.is_active, "a pool of the caller's stays open"


def test_shutdown_without_waiting(pool, tmp_path):
    executor = sky.Executor(pool=pool)
    calls = [executor.submit(wait_for, str(tmp_path / "go")) for _ in range(3)]
    executor.shutdown(wait=False)
    assert not any(call.done() for call in calls)
    (tmp_path / "go").touch()
    assert [call.result(30) for call in calls] == [str(tmp_path / "go")] * 3


def test_a_pool_of_its_own():
    executor = sky.Executor(sky.Local(), nodes=1, concurrency=3, display="quiet")
    assert executor.total_slots == 3 and not executor._pool.is_active
    with executor:
        assert executor._pool.is_active
        assert executor.submit(len, "ab").result(30) == 2
    assert not executor._pool.is_active
    lazy = sky.Executor(nodes=1, display="quiet")
    assert lazy.submit(len, "abc").result(60) == 3
    lazy.shutdown()
    assert not lazy._pool.is_active
    with pytest.raises(RuntimeError, match="after shutdown"):
        lazy.submit(len, "")
    never = sky.Executor(nodes=1)
    never.shutdown()
    with pytest.raises(TypeError, match="not both"):
        sky.Executor(sky.Local(), pool=executor._pool)


@pytest.mark.parametrize("chunksize", [1, 2])
def test_functions_keep_their_limits(executor, chunksize, tmp_path):
    @sky.compute(retries=1)
    def fail_once(x, folder):
        import pathlib

        if x == 3 and not (tried := pathlib.Path(folder, "tried")).exists():
            tried.touch()
            raise LookupError("no row")
        return x

    @sky.compute(timeout=0.2)
    def hang(x):
        import time

        time.sleep(60 if x == 1 else 0)  # on a worker

    folders = [str(tmp_path)] * 5
    assert list(executor.map(fail_once, range(5), folders, chunksize=chunksize)) == list(range(5))
    with pytest.raises(sky.TimeoutError):
        list(executor.map(hang, range(2), chunksize=chunksize))


def test_the_limit_of_the_pool_is_that_of_each_call_in_a_chunk():
    with sky.Executor(default_compute_timeout=1, display="quiet") as limited:
        assert list(limited.map(time.sleep, [0.2] * 8, chunksize=8)) == [None] * 8
        with pytest.raises(sky.TimeoutError):
            list(limited.map(time.sleep, [60, 0], chunksize=2))


def test_an_error_of_a_chunk_names_the_function(executor):
    with pytest.raises(sky.ExecutionError, match="^_exit: the worker process died") as caught:
        list(executor.map(os._exit, [3, 3], chunksize=2))
    assert "_run_chunk" not in str(caught.value)


@pytest.mark.parametrize("chunksize", [1, 3])
def test_results_are_not_kept(executor, chunksize):
    for thing in executor.map(Thing, range(10), chunksize=chunksize):
        seen = weakref.ref(thing)
        del thing
        wait_until(lambda seen=seen: seen() is None)


def test_arguments_are_not_kept(executor):
    thing = Thing()
    seen = weakref.ref(thing)
    assert executor.submit(thing.method).result(30) == 0
    del thing
    wait_until(lambda: seen() is None)


def test_an_executor_that_is_dropped_gives_its_pool_back():
    executor = sky.Executor(nodes=1, display="quiet")
    future, pool = executor.submit(len, "ab"), executor._pool
    del executor
    assert future.result(30) == 2
    wait_until(lambda: gc.collect() >= 0 and not pool.is_active)


AT_THE_END = """
import time, skyward as sky
executor = sky.Executor(nodes=1, display="quiet")
first, second = executor.submit(time.sleep, 0.5), executor.submit(abs, -3)
first.add_done_callback(lambda future: print("ended", future.exception()))
second.add_done_callback(lambda future: print("then", future.result()))
"""


def test_the_end_of_the_program_waits_for_the_calls():
    done = subprocess.run(
        [sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("ended None\nthen 3\n", "")


def test_a_pool_that_closes_under_it_fails_the_calls():
    with sky.ComputePool(nodes=1, display="quiet") as pool:
        executor = sky.Executor(pool=pool)
        calls = [executor.submit(wait_for, "/no/such/file") for _ in range(10)]
    for call in calls:
        assert isinstance(call.exception(30), sky.SkywardError)
    executor.shutdown()


def test_blocking_calls_in_threads(pool):
    assert list(conc.map_async(lambda x: double(x) >> pool, range(20))) == list(range(0, 40, 2))
    assert list(conc.map_async(lambda x: x, [])) == []
    seen = []
    conc.for_each_async(seen.append, range(5), concurrency=2)
    assert sorted(seen) == [0, 1, 2, 3, 4]
    pairs = conc.map_async_indexed(lambda i, x: (double(x) >> pool) + i, [5, 6], with_index=True)
    assert list(pairs) == [(0, 10), (1, 13)]


def test_the_first_failing_item_raises():
    def check(x):
        if x % 2:
            raise LookupError(x)
        return x

    answers = conc.map_async(check, range(4), concurrency=1)
    assert next(answers) == 0
    with pytest.raises(LookupError, match="1"):
        next(answers)


def test_inputs_of_threads_are_drawn_when_their_calls_can_start():
    drawn, go = [], threading.Event()

    def endless():
        for item in itertools.count():
            drawn.append(item)
            yield item

    answers = conc.map_async(lambda x: go.wait(30) and x, endless(), concurrency=2)
    assert drawn == [0, 1]
    go.set()
    assert [next(answers) for _ in range(50)] == list(range(50))
    answers.close()


def test_threads_are_kept_busy_while_the_first_call_runs():
    ninth = threading.Event()

    def call(x):
        if x == 9:
            ninth.set()
        return x if x else ninth.wait(30) and "first"

    assert list(conc.map_async(call, range(12), 2)) == ["first", *range(1, 12)]


def test_threads_run_ahead_of_a_slow_first_call_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(conc, "AHEAD", 20)
    drawn, got, go = [], [], threading.Event()

    def endless():
        for item in itertools.count():
            drawn.append(item)
            yield item

    answers = conc.map_async(lambda x: x or go.wait(30), endless(), concurrency=2)
    reader = threading.Thread(target=lambda: got.append(next(answers)))
    reader.start()
    wait_until(lambda: len(drawn) >= 22)
    go.set()
    reader.join()
    assert got == [True] and len(drawn) == 23
    answers.close()


def test_threads_are_limited_and_a_lack_of_them_is_no_error_of_the_input(monkeypatch):
    monkeypatch.setattr(conc, "MOST_THREADS", 3)
    assert len(set(conc.map_async(lambda _: threading.get_ident(), range(50)))) <= 3

    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(conc.ThreadPoolExecutor, "submit", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        conc.map_async(str, [1, 2])


def test_an_input_of_threads_that_fails_raises_at_its_place():
    def two():
        yield from (1, 2)
        raise LookupError("no third")

    answers = conc.map_async(str, two(), concurrency=3)
    assert [next(answers), next(answers)] == ["1", "2"]
    with pytest.raises(LookupError, match="no third"):
        next(answers)


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "2"])
def test_threads_need_a_number(wrong):
    with pytest.raises(sky.ConfigurationError, match=r"concurrency=.*at least 1, or None"):
        conc.map_async(str, [1], wrong)


def test_context_variables_are_those_of_the_caller():
    from contextvars import ContextVar

    name = ContextVar("name", default="")
    name.set("here")
    assert list(conc.map_async(lambda _: name.get(), range(3))) == ["here"] * 3


def mark_and_stay(path):
    with open(path, "w"):
        pass
    threading.Event().wait(60)


@pytest.mark.parametrize("owned", [False, True])
def test_an_error_in_the_block_cancels_the_queue(pool, tmp_path, owned):
    options = {"nodes": 1, "display": "quiet"} if owned else {"pool": pool}
    started = time.monotonic()
    with pytest.raises(ValueError, match="mine"), sky.Executor(**options) as executor:
        running = executor.submit(mark_and_stay, tmp_path / "begun")
        rest = [executor.submit(mark_and_stay, tmp_path / f"{n}") for n in range(40)]
        wait_for(tmp_path / "begun")
        raise ValueError("mine")
    assert time.monotonic() - started < 30
    assert isinstance(running.exception(0), sky.CancelledError)
    assert rest[-1].cancelled() and all(future.done() for future in rest)
    assert not (tmp_path / "39").exists()
    if not owned:
        assert double(1) >> pool == 2


def test_an_interrupt_while_the_queue_is_waited_for_cancels_it(tmp_path):
    program = f"""
import signal, threading
import skyward as sky
from pathlib import Path

def stay(path):
    Path(path).touch()
    threading.Event().wait(60)

signal.signal(signal.SIGINT, signal.default_int_handler)
with sky.Executor(nodes=1, display="quiet") as executor:
    futures = [executor.submit(stay, f"{tmp_path}/{{n}}") for n in range(9)]
"""
    script = tmp_path / "program.py"
    script.write_text(program)
    run = subprocess.Popen([sys.executable, str(script)], stderr=subprocess.PIPE, text=True)
    try:
        wait_for(tmp_path / "0")
        run.send_signal(signal.SIGINT)
        _, error = run.communicate(timeout=30)
    finally:
        run.kill()
    assert "KeyboardInterrupt" in error and run.returncode != 0
    assert not (tmp_path / "8").exists()


def test_the_handler_of_a_signal_may_submit_in_the_middle_of_submit(executor, monkeypatch):
    class Interrupted(deque):
        def append(self, item):
            if not inside:
                signal.raise_signal(signal.SIGUSR1)
            super().append(item)

    inside = []
    before = signal.signal(
        signal.SIGUSR1, lambda *_: inside.append(None) or inside.append(executor.submit(abs, -2))
    )
    try:
        monkeypatch.setattr(executor, "_waiting", Interrupted())
        outer = executor.submit(abs, -1)
        assert (outer.result(30), inside[1].result(30)) == (1, 2)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_the_handler_of_a_signal_may_not_open_the_pool_a_second_time(monkeypatch):
    refused = []

    def submit(*_):
        with pytest.raises(RuntimeError, match="the handler of a signal has called submit"):
            executor.submit(abs, -2)
        refused.append(True)

    executor = sky.Executor(display="quiet")
    opened = executor._pool._open

    def interrupted(*options):
        signal.raise_signal(signal.SIGUSR1)
        opened(*options)

    monkeypatch.setattr(executor._pool, "_open", interrupted)
    before = signal.signal(signal.SIGUSR1, submit)
    try:
        with executor:
            assert executor.submit(abs, -1).result(30) == 1 and refused == [True]
    finally:
        signal.signal(signal.SIGUSR1, before)

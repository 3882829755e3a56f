"""What programs know from the standard library and from joblib, and count on."""

import concurrent.futures
import os
import pickle
import sys
import threading
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

import pytest
from exits_at_first import ExitsAtFirst, loads

import skyward as sky


class Exits:
    """Its unpickling ends the program that does it."""

    def __reduce__(self):
        return sys.exit, (3,)


def exits_at_first():
    return ExitsAtFirst()


class FalsyError(Exception):
    def __len__(self):
        return 0


def exits():
    return Exits()


def streams_one_that_exits():
    yield 1
    yield Exits()


def test_a_result_whose_unpickling_exits(pool):
    call = sky.compute(exits)
    ways = [
        lambda: call() >> pool,
        lambda: (call() & call()) >> pool,
        lambda: call() @ pool,
        lambda: (call() > pool).result(30),
        lambda: list(pool.map(call, *[[]])) or next(sky.gather(call(), stream=True) >> pool),
    ]
    for way in ways:
        with pytest.raises(sky.SerializationError, match="cannot be rebuilt here: SystemExit"):
            way()
    stream = sky.compute(streams_one_that_exits)() >> pool
    assert next(stream) == 1
    with pytest.raises(sky.SerializationError):
        next(stream)


def test_an_exit_that_a_signal_asks_for_while_a_result_loads_stays_one(pool):
    call = sky.compute(exits_at_first)
    for way in (lambda: call() >> pool, lambda: (call() & call()) >> pool, lambda: call() @ pool):
        loads.clear()
        with pytest.raises(SystemExit):
            way()


def test_an_error_that_exits_when_it_is_unpickled(pool):
    class ExitsError(ValueError):
        def __reduce__(self):
            return (sys.exit if os.getpid() == here else ValueError), (4,)

    here = os.getpid()

    def fail():
        raise ExitsError("no")

    with pytest.raises(sky.ExecutionError):
        sky.compute(fail)() >> pool


def test_an_error_that_is_false(pool):
    def fail():
        raise FalsyError("no")

    call = sky.compute(fail)()
    for ask in (lambda f: f.result(30), lambda f: concurrent.futures.wait([f]) and f.result()):
        with pytest.raises(FalsyError):
            ask(call > pool)
    with pytest.raises(FalsyError):
        call >> pool
    with sky.Executor(pool=pool) as executor, pytest.raises(FalsyError):
        executor.submit(fail).result(30)


def test_what_the_standard_library_calls_these_errors(pool):
    with pytest.raises(pickle.PicklingError):
        sky.compute(len)([threading.Lock()]) >> pool
    with pytest.raises(BrokenProcessPool, match="exited with code 3") as caught:
        sky.compute(os._exit)(3) >> pool
    assert isinstance(caught.value, sky.ExecutionError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, BrokenProcessPool) and str(again) == str(caught.value)


def test_cancelling_from_many_threads_while_attempts_are_made_again(pool):
    @sky.compute(retries=1000)
    def fail():
        raise ValueError("again")

    for _ in range(20):
        future = fail() > pool
        gate = threading.Barrier(4)
        answers = []

        def cancel(gate=gate, future=future, answers=answers):
            gate.wait()
            answers.append(future.cancel())

        threads = [threading.Thread(target=cancel) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [True] * 4 and future.cancelled()
    assert sky.compute(abs)(-1) >> pool == 1
    assert pool._live.core.task_counts()[1] == 0 or (sky.compute(abs)(-2) >> pool) == 2


# ---- executors


def mark(word):
    os.environ["MARKED"] = os.environ.get("MARKED", "") + word


def marked():
    return os.environ.get("MARKED")


def test_an_initializer_runs_once_in_each_process():
    with sky.Executor(2, initializer=mark, initargs=("x",), display="quiet") as executor:
        assert executor.total_slots == 2
        assert set(executor.map(lambda _: marked(), range(20))) == {"x"}


CALLS, MODEL = [], None


def test_functions_of_a_program_have_the_globals_that_an_initializer_has_left():
    """Each brings a copy of the program's globals."""

    def load(model):
        global MODEL, ADDED
        MODEL = ADDED = model
        CALLS.append(model)

    def use(x):
        global MODEL
        MODEL += x
        return MODEL, ADDED, CALLS

    def others(x):
        CALLS.append(x)
        return MODEL, CALLS

    with sky.Executor(1, initializer=load, initargs=(10,), display="quiet") as executor:
        assert list(executor.map(use, range(4))) == [(x, 10, [10]) for x in (10, 11, 13, 16)]
        assert executor.submit(others, 5).result(30) == (10, [10, 5])
        call = sky.compute(lambda: (MODEL, CALLS))
        assert executor.submit(call).result(30) == (10, [10, 5])
        assert list(executor.map(lambda _: CALLS, range(4), chunksize=2)) == [[10, 5]] * 4
    assert CALLS == [] and MODEL is None


def test_an_initializer_that_cannot_be_sent_is_refused_at_once():
    with pytest.raises(sky.SerializationError, match=r"the initializer.*lock"):
        sky.Executor(initializer=mark, initargs=(threading.Lock(),))


def test_an_initializer_that_raises_runs_again():
    def load():
        CALLS.append("load")
        if len(CALLS) == 1:
            raise LookupError("no model")

    with sky.Executor(1, initializer=load, display="quiet") as executor:
        with pytest.raises(LookupError, match="no model"):
            executor.submit(len, "abc").result(30)
        with pytest.raises(LookupError, match="no model"):  # a fresh copy of its globals
            executor.submit(len, "abcd").result(30)


def test_parameters_of_process_pools():
    with pytest.raises(ValueError, match="max_workers must be greater than 0"):
        sky.Executor(max_workers=0)
    with pytest.raises(TypeError, match="initializer must be a callable"):
        sky.Executor(initializer=3)
    for name, value in (("max_tasks_per_child", 3), ("mp_context", get_context("spawn"))):
        with pytest.raises(sky.ConfigurationError, match=name):
            sky.Executor(**{name: value})
    with pytest.raises(sky.ConfigurationError, match="max_workers=3, nodes="):
        sky.Executor(max_workers=3, nodes=2)
    with pytest.raises(sky.ConfigurationError, match="concurrency=….: both mean the same"):
        sky.Executor(max_workers=3, concurrency=2)
    assert sky.Executor(max_workers=3, nodes=1, max_tasks_per_child=None).total_slots == 3


def test_proxies_of_a_manager_travel_to_this_machines_workers():
    with get_context("spawn").Manager() as manager:
        shared = manager.dict()

        def put(proxy, key):
            proxy[key] = os.getpid()
            return "SKYWARD_AUTHKEY" in os.environ

        with sky.ComputePool(display="quiet") as pool:
            assert sky.compute(put)(shared, "a") >> pool is False
        assert shared["a"] != os.getpid()


def test_threads_of_libraries_are_divided_among_the_slots(monkeypatch):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "SKYWARD_CPUS")
    ask = sky.compute(lambda: [os.environ.get(name) for name in names])
    with sky.ComputePool(
        nodes=2, concurrency=2, env={"MKL_NUM_THREADS": "7"}, display="quiet"
    ) as pool:
        share, mkl, processors = ask() >> pool
        assert (share, mkl) == (str(max(1, int(processors) // 4)), "7")
        assert int(processors) <= len(os.sched_getaffinity(0))
    with sky.ComputePool(display="quiet", env={"MKL_NUM_THREADS": "7"}) as pool:
        assert (ask() >> pool)[:2] == [None, "7"]


# ---- images of this machine


def test_included_modules_and_files_are_found(tmp_path):
    (tmp_path / "included_helper.py").write_text("answer = 42\n")

    def ask():
        import included_helper

        return included_helper.answer

    image = sky.Image(includes=[str(tmp_path / "included_helper.py")])
    with sky.ComputePool(image=image, display="quiet") as pool:
        assert sky.compute(ask)() >> pool == 42


def test_what_is_included_must_be_there():
    image = sky.Image(includes=["/no/such/file"])
    with (
        pytest.raises(sky.ConfigurationError, match=r"includes=\['/no/such/file'\]"),
        sky.ComputePool(image=image, display="quiet"),
    ):
        pytest.fail("entered")

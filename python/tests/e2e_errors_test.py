"""Failures of every kind: named, placed, and survived by the pool."""

import asyncio
import concurrent.futures
import ctypes
import gc
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref

import pytest
from skyward.transport import serialize
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
    assert "skyward/worker/" not in text


def test_an_exception_behind_much_output_that_is_not_utf_8(pool):
    def fail():
        sys.stdout.buffer.write(b"\xff" * (7 << 20))
        raise ValueError("bad image")

    with pytest.raises(ValueError, match="bad image") as caught:
        call(fail) >> pool
    assert set("".join(caught.value.output)) == {"\ufffd"}


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
    if end == "segfault":
        shown = "".join(traceback.format_exception(caught.value))
        assert "Fatal Python error: Segmentation fault" in shown and " in call" in shown
        assert "skyward/worker/" not in shown and shown.count(f"node {caught.value.node}") == 1


BREAKS = """
import os, pathlib, socket, sys

def die(*_):
    print("No space left on device", file=sys.stderr, flush=True)
    os._exit(3)

def send_and_die(sock, data):
    send(sock, data)
    die()

folder, send = pathlib.Path(__file__).parent, socket.socket.sendall
with open(folder / "starts", "a") as file:
    file.write("x")
if (folder / "broken").exists():
    WHEN
"""


@pytest.mark.parametrize(
    "when", ["die()", "socket.socket.sendall = send_and_die"], ids=["start", "greeting"]
)
def test_workers_that_die_before_their_first_task(tmp_path, when):
    (tmp_path / "sitecustomize.py").write_text(BREAKS.replace("WHEN", when))
    broken, starts = tmp_path / "broken", tmp_path / "starts"
    image = sky.Image(env={"PYTHONPATH": str(tmp_path)})
    with sky.ComputePool(image=image, display="quiet") as pool:
        broken.touch()
        with pytest.raises(sky.ExecutionError, match="exited with code 1"):
            call(os._exit, 1) >> pool
        said = "ended 3 times in a row before it began a task: exit code 3"
        with pytest.raises(sky.ExecutionError, match=said) as caught:
            call(abs, -1) >> pool
        assert "No space left on device" in "".join(traceback.format_exception(caught.value))
        # Three more if the call came when the node had stopped trying.
        assert len(starts.read_text()) in (4, 7)
        broken.unlink()
        assert call(abs, -1) >> pool == 1


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


@sky.compute
def boom(x, data=None):
    if x % 2:
        raise ValueError(f"bad {x}")
    return x


async def awaited(pending, pool):
    return await pending.on(pool)


def test_the_error_of_a_sweep_says_which_call_failed(pool):
    calls = [boom(x, data=[0] * 10_000) for x in range(6)]
    note = "call 2 of 6: boom(1, data=<list>); 2 more failed"
    with pytest.raises(ValueError, match="bad 1") as caught:
        sky.gather(*calls) >> pool
    assert caught.value.__notes__.count(note) == 1
    with pytest.raises(ValueError, match="bad 1") as caught:
        for _ in sky.gather(*calls, stream=True) >> pool:
            pass
    assert "call 2 of 6: boom(1, data=<list>)" in caught.value.__notes__
    with pytest.raises(ValueError, match="bad 1") as caught:
        asyncio.run(awaited(sky.gather(*calls), pool))
    assert note in caught.value.__notes__
    with pytest.raises(ValueError, match="bad 1") as caught:
        list(pool.map(boom, range(3)))
    assert "call: boom(1)" in caught.value.__notes__
    with pytest.raises(ValueError, match="bad 1") as caught:
        boom(1) @ pool
    assert "it failed on 1 more of 2 workers" in caught.value.__notes__
    with pytest.raises(sky.SerializationError) as caught:
        sky.gather(boom(0), boom(2, threading.Lock())) >> pool
    assert "call 2 of 2: boom(2, <lock>)" in caught.value.__notes__


def test_errors_among_the_answers(pool):
    calls = [boom(x) for x in range(4)]
    kinds = [int, ValueError, int, ValueError]
    for batch in (
        sky.gather(*calls, return_exceptions=True),
        sky.gather(*calls, return_exceptions=True).with_timeout(60),
        sky.gather(*calls[:3], return_exceptions=True) & calls[3],
        sky.gather(*calls, stream=True, return_exceptions=True),
    ):
        answers = list(batch >> pool)
        assert all(isinstance(a, k) for a, k in zip(answers, kinds, strict=True))
        assert str(answers[3]) == "bad 3" and answers[3].node in (0, 1)
    any_order = sky.gather(*calls, stream=True, ordered=False, return_exceptions=True)
    assert sorted(str(answer) for answer in any_order >> pool) == ["0", "2", "bad 1", "bad 3"]
    batch = sky.gather(*calls, return_exceptions=True)
    answers = asyncio.run(awaited(batch, pool))
    assert all(isinstance(a, k) for a, k in zip(answers, kinds, strict=True))


def test_an_error_that_nobody_asks_for_is_logged(pool, caplog):
    pool.submit(boom(1))
    wait_until(lambda: "boom(1) failed, and nothing read the error from its future" in caplog.text)
    assert "bad 1" in caplog.text
    caplog.clear()
    read = [boom(x) > pool for x in (3, 5)]
    assert isinstance(read[0].exception(30), ValueError)
    with pytest.raises(ValueError, match="bad 5"):
        read[1].result(30)
    dropped = call(time.sleep, 60) > pool
    dropped.cancel()
    del read, dropped
    gc.collect()
    assert not caplog.text


def test_an_error_that_asyncio_reads_as_in_python_3_14_is_not_logged(pool, caplog, monkeypatch):
    def snapshot(future):
        assert future._state == "FINISHED"
        return True, False, future._result, future._exception

    monkeypatch.setattr(concurrent.futures.Future, "_get_snapshot", snapshot, raising=False)
    failed = boom(3) > pool
    concurrent.futures.wait([failed], 30)
    assert str(failed._get_snapshot()[3]) == "bad 3"
    del failed
    gc.collect()
    assert not caplog.text


def test_futures_that_are_left_are_told_of(tmp_path, capfd):
    program = tmp_path / "program.py"
    program.write_text("""
import concurrent.futures, threading
import skyward as sky

@sky.compute
def stay(seconds):
    threading.Event().wait(seconds)

@sky.compute
def boom(x):
    raise ValueError(f"bad {x}")

with sky.ComputePool(nodes=1) as pool:
    failed = boom(7) > pool
    concurrent.futures.wait([failed])
    left = [pool.submit(stay(60)) for _ in range(3)]
""")
    subprocess.run([sys.executable, str(program)], check=True, timeout=60)
    shown = capfd.readouterr().err
    assert "3 unfinished calls were cancelled; wait for the futures, or read" in shown
    assert "boom(7) failed, and nothing read the error from its future" in shown
    assert shown.count("nothing read the error") == 1


def test_a_retry_is_told_of(pool):
    seen = []
    pool.on(sky.Error, seen.append)
    try:
        for send in (
            lambda c: c >> pool,
            lambda c: c @ pool,
            lambda c: (c > pool).result(DEADLINE),
        ):
            seen.clear()
            with pytest.raises(ValueError, match="bad 1"):
                send(sky.compute(retries=1)(boom.local)(1))
            wait_until(lambda: seen)  # of futures, it is told on the thread of events
            assert seen[0].message == "boom(1) failed: ValueError: bad 1; attempt 2 of 2"
            assert seen[0].instance_id
    finally:
        pool._handlers.pop()


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


def test_a_module_of_the_program_that_is_missing_there(pool, tmp_path, monkeypatch):
    (tmp_path / "a_late_module_of_ours.py").touch()
    monkeypatch.syspath_prepend(tmp_path)  # after the pool has opened

    def needs_it():
        import a_late_module_of_ours  # noqa: F401

    with pytest.raises(ModuleNotFoundError) as raised:
        call(needs_it) >> pool
    assert any(
        "Image(includes=['a_late_module_of_ours'])" in note for note in raised.value.__notes__
    )


def test_a_file_that_is_here_and_not_there(pool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.txt").write_text("x")
    read = sky.compute(lambda path: open(path).read())
    with pytest.raises(FileNotFoundError) as caught:
        read("data.txt") >> pool
    assert any("'data.txt' exists on this machine" in note for note in caught.value.__notes__)
    with pytest.raises(FileNotFoundError) as caught:
        read("nowhere.txt") >> pool
    assert not any("of this machine" in note for note in caught.value.__notes__)


class Unreadable:
    def __reduce__(self):
        return _refuse, ()


def _refuse():
    raise RuntimeError("not like this")


def test_an_argument_that_does_not_unpickle(pool):
    with pytest.raises(RuntimeError, match="not like this") as caught:
        call(len, Unreadable()) >> pool
    assert "raised while the arguments of the call were unpickled, on the node" in (
        caught.value.__notes__
    )


def test_a_stream_shows_itself(pool):
    stream = sky.compute(range_of)(2) >> pool
    assert repr(stream) == "Stream(range_of(…), open)"
    assert list(stream) == [0, 1]
    assert repr(stream) == "Stream(range_of(…), ended)"


def range_of(n):
    yield from range(n)


def test_a_call_that_fails_just_after_it_was_cancelled_is_no_unread_error(caplog):
    from concurrent.futures import Future, InvalidStateError

    from skyward.pool.task_future import TaskFuture

    future = TaskFuture(None)
    Future.cancel(future)
    with pytest.raises(InvalidStateError):
        future.fail(sky.compute(len)([]), ValueError("bad"))
    future.tell_if_unread()
    assert caplog.text == ""


def test_a_call_whose_result_does_not_pickle_is_not_run_again(pool, tmp_path):
    @sky.compute(retries=2)
    def train(name):
        with (tmp_path / name).open("a") as log:
            log.write("ran\n")
        return threading.Lock()

    waits = {
        "sent": lambda call: call >> pool,
        "future": lambda call: (call > pool).result(),
        "everywhere": lambda call: call @ pool,
        "gathered": lambda call: sky.gather(call, call) >> pool,
    }
    for name, wait in waits.items():
        with pytest.raises(sky.SerializationError, match="cannot be sent back"):
            wait(train(name))
        runs = {"everywhere": pool.total_slots // 2, "gathered": 2}.get(name, 1)
        assert (tmp_path / name).read_text().count("ran") == runs, name


def test_the_last_error_says_which_attempt_it_was(pool):
    flaky = sky.compute(retries=2)(throw)
    waits = (
        lambda call: call >> pool,
        lambda call: (call > pool).result(),
        lambda call: call @ pool,
    )
    for wait in waits:
        with pytest.raises(ValueError, match="always") as caught:
            wait(flaky(ValueError("always")))
        assert "attempt 3 of 3" in caught.value.__notes__
    with pytest.raises(ValueError, match="once") as caught:
        call(throw, ValueError("once")) >> pool
    assert not any("attempt" in note for note in caught.value.__notes__)


def test_the_report_of_an_attempt_that_is_retried_is_unpickled_once(pool, monkeypatch):
    loads, reports = serialize.loads, []

    def count(data, what):
        reports.append(what)
        return loads(data, what)

    monkeypatch.setattr(serialize, "loads", count)
    flaky = sky.compute(retries=2)(throw)
    for wait in (lambda call: call >> pool, lambda call: (call > pool).result()):
        with pytest.raises(ValueError, match="always"):
            wait(flaky(ValueError("always")))
        assert reports == ["the error report of throw()"] * 3
        reports.clear()


@sky.compute
def pipeline():
    return call(len, "abc")  # forgets to send it


@sky.compute
def asks():
    return "empty" if not call(len, "") else "full"


def test_a_call_that_was_not_sent_says_so_inside_a_task(pool):
    with pytest.raises(sky.SerializationError, match=r"call\(.*\) has not been sent.*\.local"):
        pipeline() >> pool
    with pytest.raises(TypeError, match="has not been sent"):
        asks() >> pool
    with pytest.raises(TypeError, match="has no truth value"):
        bool(asks())


def test_futures_and_streams_say_why_they_stay(pool):
    @sky.compute
    def count():
        yield from range(3)

    future = call(abs, -1) > pool
    with pytest.raises(sky.SerializationError, match=r"argument 'fn': .*future\.result\(\)"):
        call(future) >> pool
    with pytest.raises(sky.SerializationError, match=r"argument .*: .*list\(stream\)"):
        call(len, count() >> pool) >> pool
    assert future.result() == 1


def test_an_error_of_that_name_that_a_function_raises_is_retried(pool, tmp_path):
    @sky.compute(retries=1)
    def convert(path):
        with open(path, "a") as log:
            log.write("ran\n")
        raise sky.SerializationError("no such format")

    with pytest.raises(sky.SerializationError, match="no such format"):
        convert(str(tmp_path / "log")) >> pool
    assert (tmp_path / "log").read_text() == "ran\n" * 2


class Marked:
    """An object of the caller's."""


def in_a_batch(pool):
    sky.gather(boom(1), boom(3)) >> pool


def among_answers(pool):
    raise (sky.gather(boom(1), boom(2), return_exceptions=True) >> pool)[0]


def in_a_broadcast(pool):
    boom(1) @ pool


def of_a_future(pool):
    (boom(1) > pool).result(30)


def of_an_executor(pool):
    with sky.Executor(pool=pool) as executor:
        executor.submit(boom.local, 1).result(30)


def of_a_stream_of_answers(pool):
    next(sky.gather(boom(1), boom(2), stream=True) >> pool)


def in_a_map(pool):
    list(pool.map(boom, [1, 2]))


def of_an_argument(pool):
    call(len, [[threading.Lock()]]) >> pool


@pytest.mark.parametrize(
    "fail",
    [
        in_a_batch,
        among_answers,
        in_a_broadcast,
        of_a_future,
        of_an_executor,
        of_a_stream_of_answers,
        in_a_map,
        of_an_argument,
    ],
)
def test_an_error_that_was_handled_keeps_nothing_of_the_callers(pool, fail):
    def handle():
        mark = Marked()
        try:
            fail(pool)
        except (ValueError, sky.SerializationError):
            return weakref.ref(mark)

    gc.collect()
    gc.disable()
    try:
        kept = handle()
        wait_until(lambda: kept() is None)
    finally:
        gc.enable()

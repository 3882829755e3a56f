"""A forked child has the pool's memory and none of its threads: every method says so at once, or
does nothing, and none waits."""

import subprocess
import sys
import textwrap

import pytest
from waiting import DEADLINE

REFUSED = [
    "square(2) >> pool",
    "square(2) @ pool",
    "square(2) > pool",
    "(square(2) & square(3)) >> pool",
    "sky.gather() >> pool",
    "next(sky.gather(square(2), stream=True) >> pool)",
    "list(pool.map(square, [1]))",
    "pool.run(square(2))",
    "pool.run_batch(sky.gather(square(2)))",
    "pool.broadcast(square(2))",
    "pool.submit(square(2))",
    "pool.submit_batch(sky.gather(square(2)))",
    "asyncio.run(awaited(pool))",
    "sky.Executor(pool=pool).submit(len, []).result()",
    "future.result()",
    "future.exception()",
    "next(stream)",
]
QUIET = [
    "pool.is_active, pool.instance_count, pool.total_slots, pool.cost, pool.provider, repr(pool)",
    "pool.workers_per_instance, pool.job_id if hasattr(pool, 'job_id') else None",
    "pool.on(sky.LogLine, print)",
    "sky.emit(sky.Error('x'))",
    "pool.close()",
    "pool.__exit__(None, None, None)",
    "executor.shutdown()",
    "stream.close(), future.cancel()",
    "future.done(), repr(future)",
    "ready.result() == 16 or sys.exit(1)",
]

PROGRAM = """
import asyncio, os, sys, threading, time, signal
from skyward.transport import functions
import skyward as sky

over = threading.Event()

def hold(*locks):
    # in a thread, until the child has ended
    def work():
        for lock in locks:
            lock.acquire()
        held.set()
        over.wait()
        for lock in locks:
            lock.release()
    held = threading.Event()
    threading.Thread(target=work).start()
    held.wait()

@sky.compute
def square(x):
    return x * x

@sky.compute
def count():
    yield from range(100)

@sky.compute
def nap():
    time.sleep(600)  # on a worker

async def awaited(pool):
    return await square(2).on(pool)

with sky.ComputePool(concurrency=3, display="quiet") as pool:
    stream = count() >> pool
    assert next(stream) == 0
    future = nap() > pool
    ready = square(4) > pool
    ready.result()
    executor = sky.Executor(pool=pool)
    sys.stdout.flush()
    {before}
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        try:
            {what}
        except (sky.NotProvisionedError, sky.CancelledError) as error:
            print("refused:", type(error).__name__, flush=True)
        except BaseException as error:
            print("other:", repr(error), flush=True)
        else:
            print("nothing", flush=True)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    over.set()
    print(code, square(3) >> pool, next(stream), flush=True)
    future.cancel()
"""


def run(what, before="pass"):
    program = textwrap.dedent(PROGRAM).replace("{what}", what).replace("{before}", before)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("what", REFUSED)
def test_what_needs_the_pool_is_refused(what):
    lines, err = run(what)
    assert lines[-1] == "0 9 1", (lines, err)
    assert lines[0].startswith("refused: "), (lines, err)


@pytest.mark.parametrize("what", QUIET)
def test_the_rest_does_nothing(what):
    lines, err = run(what)
    assert lines == ["nothing", "0 9 1"], (lines, err)


def test_a_child_that_ends_as_programs_do_ends():
    """Threads of its parent may have waited for the interpreter's lock when it was forked."""
    program = """
import os, sys, threading
import skyward as sky

double = sky.compute(lambda x: 2 * x)

def call():
    while not over:
        double(2) >> pool

over = []
with sky.ComputePool(concurrency=2, display="quiet") as pool:
    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    codes = []
    for _ in range(40):
        if (pid := os.fork()) == 0:
            sys.exit(3)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    over.append(True)
    for thread in threads:
        thread.join()
print(set(codes))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert done.stdout == "{3}\n", done.stderr


@pytest.mark.parametrize(
    ("lock", "what"),
    [
        ("pool._live.answers._lock", "pool.submit(square(2))"),
        ("pool._live.packing._functions_lock", "pool.run(sky.compute(lambda: 2)())"),
        ("executor._lock", "executor.submit(len, []).result()"),
    ],
)
def test_a_lock_that_a_thread_held_is_free_in_the_child(lock, what):
    lines, err = run(what, f"hold({lock})")
    assert lines[-1] == "0 9 1", (lines, err)
    assert lines[0].startswith("refused: "), (lines, err)


def test_a_child_sends_functions_whatever_the_parents_threads_held():
    what = "assert sky.compute(lambda: 3)() >> sky.ComputePool(display='quiet').open() == 3"
    lines, err = run(what, "hold(functions._bodies._lock)")
    assert lines == ["nothing", "0 9 1"], (lines, err)


def test_a_child_of_a_parent_whose_slots_are_full_is_refused(tmp_path):
    program = f"""
import os, signal, time
import skyward as sky

def wait():
    while not os.path.exists({str(tmp_path / "go")!r}):
        time.sleep(0.01)  # on a worker

with sky.Executor(display="quiet") as executor:
    calls = [executor.submit(wait) for _ in range(4)]
    if (pid := os.fork()) == 0:
        signal.alarm(20)
        try:
            executor.submit(abs, -1)
        except sky.NotProvisionedError as error:
            print("refused:", "forked from" in str(error), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
    open({str(tmp_path / "go")!r}, "w").close()
    print([call.result() for call in calls])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert done.stdout == "refused: True\n[None, None, None, None]\n", done.stderr


@pytest.mark.parametrize("how", ["pass", "del future; import gc; gc.collect()"])
def test_a_child_leaves_unread_errors_to_its_parent(how):
    program = f"""
import os, sys
from concurrent.futures import wait
import skyward as sky

@sky.compute
def fail():
    raise LookupError("no row")

with sky.ComputePool(display="quiet") as pool:
    future = fail() > pool
    wait([future])
    if (pid := os.fork()) == 0:
        {how}
        sys.exit(3)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(code, isinstance(future.exception(), LookupError))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert done.stdout == "3 True\n" and "nothing read the error" not in done.stderr

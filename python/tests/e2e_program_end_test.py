"""Pools end with their program, however that ends."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest
from waiting import DEADLINE, is_alive, wait_until

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def start(program, ignored=(), arguments=(), **options):
    """A driver of its own, with the usual dispositions wherever the tests run."""

    def set_dispositions():
        for number in HANDLED:
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=set_dispositions, **options,
    )  # fmt: skip


OPEN = """
import os, signal, sys, threading, time
import skyward as sky
pids = sky.compute(lambda: (os.getpid(), os.getppid()))
"""


def told_pids(child, ends=False):
    """`ends`: the program goes on to its end by itself, and so may its nodes by now."""
    found = list(map(int, child.stdout.readline().split()))
    assert found, child.stderr.read()
    assert ends or all(map(is_alive, found))
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("what", ["waits", "calls", "thread"])
def test_a_signal_closes_the_pool_and_ends_the_program(number, what, tmp_path):
    wait = {
        # pause() would miss a signal that comes just before.
        "waits": "while True: signal.sigtimedwait([], 0.1)",
        "calls": "sky.compute(time.sleep)(600) >> pool",  # on a worker
        "thread": "threading.Event().wait()",
    }[what]
    run = "main()" if what != "thread" else "t = threading.Thread(target=main); t.start(); t.join()"
    child = start(
        OPEN
        + f"""
def main():
    stopped = lambda event: open({str(tmp_path / "stopped")!r}, "w").close()
    with sky.ComputePool(nodes=2, display="quiet") as pool:
        pool.on(sky.PoolStopped, stopped)
        print(*(pid for pair in pids() @ pool for pid in pair), flush=True)
        {wait}
{run}
"""
    )
    found = told_pids(child)
    child.send_signal(number)
    _, err = child.communicate(timeout=DEADLINE)
    assert child.returncode == -number, err
    assert not any(map(is_alive, found))
    assert (tmp_path / "stopped").exists(), "the last event was delivered"


def signal_all(number, processes):
    for process in processes:
        os.kill(process, number)


SAVING = """
begun, saved = sys.argv[1:]
def work():
    try:
        open(begun, "w").close()
        time.sleep(600)  # on a worker
    finally:
        time.sleep(0.2)  # on a worker
        open(saved, "w").close()
with sky.ComputePool(display="log") as pool:
    print(*(pids() >> pool), flush=True)
    sky.compute(work)() >> pool
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("first", ["program", "worker"])
def test_a_signal_to_all_processes_of_a_service_leaves_calls_time_to_save(number, first, tmp_path):
    """`systemctl stop` sends it to the nodes of local pools, too."""
    begun, saved = tmp_path / "begun", tmp_path / "saved"
    child = start(OPEN + SAVING, arguments=[begun, saved])
    found = told_pids(child)
    wait_until(begun.exists)
    everyone = [child.pid, *reversed(found)]
    signal_all(number, everyone if first == "program" else reversed(everyone))
    _, err = child.communicate(timeout=DEADLINE)
    assert child.returncode == -number, err
    assert saved.exists() and "was lost" not in err
    assert not any(map(is_alive, found))


def test_after_such_a_signal_a_server_finishes_its_calls_which_run_once(tmp_path):
    ran = tmp_path / "ran"
    child = start(
        OPEN
        + """
def work(path):
    with open(path, "a") as file:
        print("begun", file=file)
    while not os.path.exists(path + ".go"):
        time.sleep(0.01)  # on a worker
    return os.getpid()
signal.signal(signal.SIGTERM, lambda *_: print("told", flush=True))
with sky.ComputePool(display="quiet") as pool:
    worker, agent = pids() >> pool
    print(worker, agent, flush=True)
    print((sky.compute(work)(sys.argv[1]) >> pool) == worker)
""",
        arguments=[ran],
    )
    worker, agent = told_pids(child)
    wait_until(lambda: ran.exists() and ran.read_text())
    signal_all(signal.SIGTERM, [worker, agent, child.pid])
    assert child.stdout.readline() == "told\n"
    (tmp_path / "ran.go").touch()
    out, err = child.communicate(timeout=DEADLINE)
    assert (out, child.returncode) == ("True\n", 0), err
    assert ran.read_text() == "begun\n"


def test_a_signal_closes_the_pool_after_another_handler_has_come_and_gone():
    child = start(
        OPEN
        + f"""
import asyncio

async def handle():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, print)

def is_caught():
    with open("/proc/self/status") as file:
        caught = next(line for line in file if line.startswith("SigCgt"))
    return int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1

with sky.ComputePool(display="quiet") as pool:
    found = pids() >> pool
    asyncio.run(handle())
    end = time.monotonic() + {DEADLINE}
    while not is_caught() and time.monotonic() < end:
        threading.Event().wait(0.01)
    print(*found, flush=True)
    sky.compute(time.sleep)(600) >> pool  # on a worker
"""
    )
    found = told_pids(child)
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=DEADLINE)
    assert child.returncode == -signal.SIGTERM, err
    assert not any(map(is_alive, found))


ISOLATED = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


@pytest.mark.skipif(
    subprocess.run([*ISOLATED, "true"], capture_output=True, check=False).returncode != 0,
    reason="needs the right to make a PID namespace",
)
def test_a_signal_ends_the_first_program_of_a_container(tmp_path):
    """The kernel does not let it die of a signal that it sends to itself."""
    (tmp_path / "program.py").write_text(
        OPEN
        + """
with sky.ComputePool(display="quiet") as pool:
    pids() >> pool
    print("open", flush=True)
    sky.compute(time.sleep)(600) >> pool  # on a worker
"""
    )
    child = subprocess.Popen(
        [*ISOLATED, "sh", "-c",
         f"exec 3<&0; (read go <&3; kill -TERM 1) & exec {sys.executable} {tmp_path}/program.py"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout.readline() == "open\n"
        _, err = child.communicate("go\n", timeout=DEADLINE)
    finally:
        child.kill()  # and with it all that is in the namespace
    assert child.returncode == 128 + signal.SIGTERM, err


def test_a_signal_closes_a_pool_that_opens(tmp_path):
    agent = tmp_path / "agent"  # never speaks
    agent.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    agent.chmod(0o755)
    child = start(
        OPEN + "sky.ComputePool().open()", env={**os.environ, "SKYWARD_AGENT": str(agent)}
    )
    pid = tmp_path / "pid"
    wait_until(lambda: pid.exists() and pid.read_text().strip())
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=DEADLINE)
    assert child.returncode == -signal.SIGTERM, err
    assert not is_alive(int(pid.read_text()))


def test_a_handler_of_the_programs_own_is_what_counts():
    child = start(
        OPEN
        + """
heard = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: heard.set())
with sky.ComputePool(display="quiet") as pool:
    signal.signal(signal.SIGHUP, lambda *_: heard.set())
    for _ in range(2):
        print(*(pids() >> pool), flush=True)
        assert heard.wait(60)
        heard.clear()
    print(sky.compute(abs)(-1) >> pool, flush=True)
"""
    )
    found = told_pids(child)
    child.send_signal(signal.SIGTERM)
    assert told_pids(child) == found
    child.send_signal(signal.SIGHUP)
    out, err = child.communicate(timeout=DEADLINE)
    assert (out, child.returncode) == ("1\n", 0), err


def test_an_ignored_signal_is_ignored():
    child = start(
        OPEN
        + """
with sky.ComputePool(display="quiet") as pool:
    print(*(pids() >> pool), flush=True)
    sys.stdin.readline()
    print(sky.compute(abs)(-1) >> pool, flush=True)
""",
        ignored=(signal.SIGTERM, signal.SIGHUP),
        stdin=subprocess.PIPE,
    )
    told_pids(child)
    for number in (signal.SIGTERM, signal.SIGHUP):
        child.send_signal(number)
    out, err = child.communicate("go on\n", timeout=DEADLINE)
    assert (out, child.returncode) == ("1\n", 0), err


def test_after_the_pool_signals_do_what_they_did():
    child = start(
        OPEN
        + """
with sky.ComputePool(display="quiet") as pool:
    pass
print("closed", flush=True)
with open("/proc/self/status") as file:
    caught = int(next(line for line in file if line.startswith("SigCgt")).split()[1], 16)
print([number for number in (15, 1) if caught >> (number - 1) & 1], flush=True)
"""
    )
    out, err = child.communicate(timeout=DEADLINE)
    assert out == "closed\n[]\n", err


def test_a_child_that_is_forked_dies_of_a_signal_as_ever():
    child = start(
        OPEN
        + """
with sky.ComputePool(display="quiet") as pool:
    found = pids() >> pool
    pid = os.fork()
    if pid == 0:
        while True:
            signal.sigtimedwait([], 0.1)
    os.kill(pid, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), pids() >> pool == found)
"""
    )
    out, err = child.communicate(timeout=DEADLINE)
    assert out == "-15 True\n", err


# ---- the end of the interpreter


@pytest.mark.parametrize(
    "wait",
    [
        "sky.compute(time.sleep)(600) >> pool",  # on a worker
        "list(pool.map(sky.compute(time.sleep), [600, 600]))",
        "(sky.compute(time.sleep)(600) > pool).result()",
        "next(sky.gather(sky.compute(time.sleep)(600), stream=True) >> pool)",
    ],
)
def test_the_program_may_end_while_a_daemon_thread_waits(wait):
    child = start(
        OPEN
        + f"""
pool = sky.ComputePool(display="quiet").open()
print(*(pids() >> pool), flush=True)
threading.Thread(target=lambda: {wait}, daemon=True).start()
pool._live.core.task_counts()[1] or threading.Event().wait(0.2)  # it waits by then
"""
    )
    found = told_pids(child, ends=True)
    _, err = child.communicate(timeout=DEADLINE)
    assert child.returncode == 0, err
    assert not any(map(is_alive, found))


def test_the_program_may_end_while_a_daemon_thread_opens_a_pool(tmp_path):
    agent = tmp_path / "agent"
    agent.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    agent.chmod(0o755)
    child = start(
        OPEN
        + f"""
threading.Thread(target=sky.ComputePool(display="quiet").open, daemon=True).start()
pid = {str(tmp_path / "pid")!r}
while not (os.path.exists(pid) and os.path.getsize(pid)):
    threading.Event().wait(0.01)
""",
        env={**os.environ, "SKYWARD_AGENT": str(agent)},
    )
    begin = time.monotonic()
    _, err = child.communicate(timeout=DEADLINE)
    assert child.returncode == 0, err
    assert time.monotonic() - begin < 20
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_the_program_may_end_while_a_daemon_thread_asks_a_cloud():
    """It has no pool."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        child = start(
            """
import select, sys, threading
import skyward as sky

class Late:
    def __del__(self, wait=select.select):
        wait([], [], [], 1)  # meanwhile the thread looks for signals several times

late = Late()
cloud = sky.AWS(region="us-east-1")
threading.Thread(target=cloud.available_instances, daemon=True).start()
sys.stdin.readline()
""",
            stdin=subprocess.PIPE,
            env={
                **os.environ,
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{silent.getsockname()[1]}",
                "AWS_ACCESS_KEY_ID": "x",
                "AWS_SECRET_ACCESS_KEY": "y",
                "AWS_EC2_METADATA_DISABLED": "true",
            },
        )
        silent.settimeout(DEADLINE)
        with silent.accept()[0]:
            _, err = child.communicate("go on\n", timeout=DEADLINE)
    assert child.returncode == 0, err


def test_interpreters_end_often(tmp_path):
    """Threads that come from the engine at any moment of the interpreter's end."""
    program = (
        OPEN
        + """
pool = sky.ComputePool(display="quiet").open()
def work():
    while True:
        sky.compute(abs)(-1) >> pool
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
sky.compute(abs)(-1) >> pool
"""
    )
    for _ in range(5):
        child = start(program)
        _, err = child.communicate(timeout=DEADLINE)
        assert child.returncode == 0, err


def test_a_pool_that_a_thread_has_opened_and_left_is_closed():
    child = start(
        OPEN
        + """
import gc
def told(event):
    print(type(event).__name__, flush=True)
def work():
    sky.ComputePool(display="quiet", on_event=told).open()
thread = threading.Thread(target=work)
thread.start()
thread.join()
gc.collect()
"""
    )
    out, err = child.communicate(timeout=DEADLINE)
    assert child.returncode == 0 and "PoolStopped" in out, err


# ---- closing that takes long


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("how", ["leaves", "interrupted"])
def test_closing_says_what_it_waits_for_and_a_signal_shortens_it(number, how):
    """The agent of the node is stopped: it does not end by itself."""
    child = start(
        OPEN
        + f"""
def told(event):
    if isinstance(event, sky.Notice):
        print(event.message, flush=True)
with sky.ComputePool(display="quiet", on_event=told) as pool:
    worker, agent = pids() >> pool
    os.kill(agent, signal.SIGSTOP)
    print(worker, agent, flush=True)
    while {how == "interrupted"}:
        signal.sigtimedwait([], 0.1)  # pause() would miss a signal that comes just before
"""
    )
    found = told_pids(child)
    if how == "interrupted":
        child.send_signal(number)
        child.send_signal(number)  # as from a wrapper that passes on what the terminal sent, too
    text = child.stdout.readline()
    assert text.startswith("closing: waiting for node 0 to stop; killing it in "), text
    begin = time.monotonic()
    child.send_signal(number)
    _, err = child.communicate(timeout=DEADLINE)
    assert time.monotonic() - begin < 8, err  # it is killed 8.5 s after the text
    assert child.returncode == -number, err
    wait_until(lambda: not any(map(is_alive, found)))  # workers end with their agent


def test_without_a_signal_a_stopped_agent_is_killed_in_time():
    child = start(
        OPEN
        + """
with sky.ComputePool(display="log") as pool:
    worker, agent = pids() >> pool
    os.kill(agent, signal.SIGSTOP)
    print(worker, agent, flush=True)
"""
    )
    found = told_pids(child)
    begin = time.monotonic()
    _, err = child.communicate(timeout=DEADLINE)
    assert time.monotonic() - begin < 25, "kCloseTimeout, not its deadline"
    assert child.returncode == 0, err
    assert "closing: waiting for node 0 to stop" in err
    wait_until(lambda: not any(map(is_alive, found)), 5)

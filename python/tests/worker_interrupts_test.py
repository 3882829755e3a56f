"""Signals, cancellation and withdrawal in the worker."""

import signal
import subprocess
import sys
import time

import pytest
from worker_agent import (
    CANCELLED,
    COMPILED,
    NOTICE,
    OK,
    PLAIN,
    WITHDRAW,
    Agent,
    agent,
    by_value,
    call,
)

__all__ = ["agent", "by_value"]

SIGNAL_DURING_A_SIGNAL = """
import collections, mmap, os, pickle, signal, socket, struct, sys, types

package = types.ModuleType("_skyward_worker")
package.__path__ = sys.argv[1:]
sys.modules["_skyward_worker"] = package
from _skyward_worker import connection, loop, protocol

ours, theirs = socket.socketpair()
loop.CANCEL_PIPE, notes = os.pipe()
os.set_blocking(loop.CANCEL_PIPE, False)
memory = os.memfd_create("shared")
os.ftruncate(memory, 1 << 20)
worker = loop.Worker(theirs, mmap.mmap(memory, 0))
signal.signal(signal.SIGINT, worker.on_interrupt)
ran = []

def encoded(task, function):
    arguments = pickle.dumps(((task,), {}))
    return protocol.ONE_RUN.pack(
        72 + len(arguments), 1, 0, 0, task, function, 0, 0, 1, len(arguments), 0, 0, -1, 0
    ) + arguments

def cancel(task):
    os.write(notes, struct.pack("<Q", task))
    os.kill(os.getpid(), signal.SIGINT)

class Incoming(protocol.Incoming):
    __slots__ = ()
    made = 0

    def __init__(self):  # while the handler of the first signal parses, another one comes
        Incoming.made += 1
        if Incoming.made == 10:
            cancel(41)

def first(_):
    ours.sendall(b"".join(encoded(task, b"f" * 16) for task in range(2, 65)))
    connection.Incoming = Incoming
    cancel(40)
    connection.Incoming = protocol.Incoming
    ours.shutdown(socket.SHUT_WR)

worker.functions[b"f" * 16] = ran.append
worker.functions[b"g" * 16] = first
worker.send = lambda *_: None
ours.sendall(encoded(1, b"g" * 16))
worker.loop()
assert Incoming.made >= 10
print(sorted(task for task, times in collections.Counter(ran).items() if times > 1), len(ran))
os._exit(0)
"""


@pytest.mark.parametrize("program", [PLAIN, COMPILED], ids=["plain", "compiled"])
def test_a_signal_during_a_signal_runs_nothing_twice(program):
    folders = [str(program.parent), str(program.parent.parent / "native")]
    done = subprocess.run(
        [sys.executable, "-c", SIGNAL_DURING_A_SIGNAL, *folders],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stdout == "[] 61\n", done.stdout + done.stderr


@pytest.mark.parametrize("agent", [COMPILED], ids=["compiled"], indirect=True)
def test_plain_calls_are_given_back_from_within_a_running_one(agent):
    def nap():
        print("running", flush=True)
        time.sleep(20)  # on a worker

    assert call(agent, int).value() == 0
    agent.run(101, nap)
    agent.wait_output(b"running")
    for task in (102, 103, 104):
        agent.run(task, int, task, behind=True)
    agent.interrupt(102 | WITHDRAW, 104 | WITHDRAW)
    assert [agent.answer()[1:3] for _ in range(2)] == [(CANCELLED, 102), (CANCELLED, 104)]
    agent.interrupt(101)
    assert agent.answer()[1:3] == (CANCELLED, 101)
    assert agent.answer().value() == 103


def nap():
    import time

    print("napping", flush=True)
    time.sleep(30)  # on a worker


def test_interrupts_the_running_task_only(agent):
    agent.run(1, nap)
    agent.wait_output(b"napping")
    agent.interrupt(99)  # another one: nothing happens
    agent.run(2, lambda: 5)
    agent.interrupt(1)
    answer = agent.answer()
    assert (answer.task, answer.status) == (1, CANCELLED)
    answer = agent.answer()
    assert (answer.task, answer.status, answer.value()) == (2, OK, 5)


def test_an_interrupted_task_may_clean_up_and_may_finish(agent):
    def stubborn():
        import time

        try:
            print("napping", flush=True)
            time.sleep(30)  # on a worker
        except KeyboardInterrupt:
            return "saved"

    agent.run(1, stubborn)
    agent.wait_output(b"napping")
    agent.interrupt(1)
    answer = agent.answer()
    assert (answer.status, answer.value()) == (OK, "saved")


def write_slow_module(path, first="", last=""):
    """It says that it loads, and waits for the file "go" beside it."""
    path.write_text(
        f"{first}import os, time\n"
        "print('loading', flush=True)\n"
        f"while not os.path.exists({str(path.parent / 'go')!r}):\n"
        "    time.sleep(0.01)\n"  # on a worker
        f"{last}"
    )


def test_an_import_ends_before_the_task_is_interrupted(agent, tmp_path):
    write_slow_module(tmp_path / "slow_to_load.py")

    def load(folder):
        import sys
        import time

        sys.path.insert(0, folder)
        import slow_to_load  # noqa: F401

        time.sleep(20)  # on a worker

    def loaded():
        import sys

        return "slow_to_load" in sys.modules

    agent.run(1, load, str(tmp_path))
    agent.wait_output(b"loading")
    agent.interrupt(1)
    agent.interrupt(1)  # as often as the agent likes
    (tmp_path / "go").touch()
    assert agent.answer()[1:3] == (CANCELLED, 1)
    agent.run(2, loaded)
    assert agent.answer().value() is True


def test_a_call_is_interrupted_after_an_import_though_a_signal_goes_astray(agent, tmp_path):
    """As one does that comes just before the call waits in a system call."""
    write_slow_module(
        tmp_path / "slow_too.py",
        first="import signal\n"
        "really, sent = signal.pthread_kill, []\n"
        "def kill(*of):\n"
        "    sent.append(of)\n"
        "    if len(sent) != count:\n"
        "        really(*of)\n"
        "signal.pthread_kill, count = kill, 0\n",
        last="count = len(sent) + 1\n",
    )

    def load(folder):
        import sys
        import time

        sys.path.insert(0, folder)
        import slow_too  # noqa: F401

        time.sleep(20)  # on a worker

    agent.run(1, load, str(tmp_path))
    agent.wait_output(b"loading")
    agent.interrupt(1)
    (tmp_path / "go").touch()
    assert agent.answer()[1:3] == (CANCELLED, 1)


def test_a_handler_that_is_there_after_an_import_is_called(agent, tmp_path):
    write_slow_module(
        tmp_path / "slow_again.py",
        last="import signal\n"
        "heard = []\n"
        "signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))\n",
    )

    def load(folder):
        import sys

        sys.path.insert(0, folder)
        import slow_again

        until = time.monotonic() + 10
        while not slow_again.heard and time.monotonic() < until:
            time.sleep(0.01)  # on a worker
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            time.sleep(0.01)  # on a worker
        return slow_again.heard

    agent.run(1, load, str(tmp_path))
    agent.wait_output(b"loading")
    agent.interrupt(1)
    (tmp_path / "go").touch()
    assert agent.answer().value() == [signal.SIGINT]


def test_a_function_that_blocks_the_signal_is_interrupted_afterwards(agent):
    def save():
        import signal

        whole = False
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            print("saving", flush=True)
            until = time.monotonic() + 0.5
            while time.monotonic() < until:
                time.sleep(0.01)  # on a worker
            whole = True
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            time.sleep(20)  # on a worker
        except KeyboardInterrupt:
            return whole

    agent.run(1, save)
    agent.wait_output(b"saving")
    agent.interrupt(1)
    assert agent.answer().value() is True


@pytest.mark.parametrize(
    "told", [2, 2 | WITHDRAW, NOTICE | 60_000], ids=["behind", "withdraw", "notice"]
)
def test_what_cancels_nothing_reaches_no_handler_of_the_function(agent, told):
    def own_handler():
        import signal

        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("ready", flush=True)
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            time.sleep(0.01)  # on a worker
        return "done"

    agent.run(1, own_handler)
    agent.wait_output(b"ready")
    agent.interrupt(told)
    assert agent.answer().value() == "done"


def test_a_handler_of_the_function_is_called_once_for_a_cancellation(agent):
    def own_handler():
        import signal

        heard = []
        signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
        print("ready", flush=True)
        until = time.monotonic() + 10
        while not heard and time.monotonic() < until:
            time.sleep(0.01)  # on a worker
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            time.sleep(0.01)  # on a worker
        return len(heard)

    agent.run(1, own_handler)
    agent.wait_output(b"ready")
    agent.interrupt(1)
    assert agent.answer().value() == 1


def test_a_notice_that_finds_sigint_ignored_is_heard(agent):
    def run_a_program():
        import os

        import skyward

        heard = []
        skyward.on_preemption(heard.append)
        print("ready", flush=True)
        os.system("sleep 0.3")
        until = time.monotonic() + 10
        while not heard and time.monotonic() < until:
            time.sleep(0.01)  # on a worker
        return len(heard)

    agent.run(1, run_a_program)
    agent.wait_output(b"ready")
    agent.interrupt(NOTICE | 60_000)
    assert agent.answer().value() == 1


def test_gives_unstarted_tasks_back_while_another_runs(agent):
    agent.run(1, nap)
    agent.wait_output(b"napping")
    for task in (2, 3, 4):
        agent.run(task, lambda task: task, task, behind=True)
    agent.interrupt(3, 2 | WITHDRAW, 1 | WITHDRAW)  # a withdrawal never interrupts
    assert sorted(agent.answer()[1:3] for _ in range(2)) == [(CANCELLED, 2), (CANCELLED, 3)]
    agent.interrupt(1)
    assert agent.answer()[1:3] == (CANCELLED, 1)
    answer = agent.answer()
    assert (answer.task, answer.value()) == (4, 4)


def test_skips_a_task_that_was_cancelled_before_it_came(agent):
    agent.interrupt(5)
    agent.run(5, lambda: 1)
    assert agent.answer()[1:3] == (CANCELLED, 5)


@pytest.fixture
def local_agent():
    """Of a local node: its workers start with these signals ignored."""
    before = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        made = Agent()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    made.hello()
    yield made
    made.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_all_processes_of_a_service_ends_no_worker_of_a_local_node(local_agent, number):
    def be_signalled(number):
        import os
        import subprocess

        os.kill(os.getpid(), number)
        forked = os.fork()
        if forked == 0:
            os.kill(os.getpid(), number)
            os._exit(0)
        _, of_fork = os.waitpid(forked, 0)
        of_program = subprocess.run(["sh", "-c", f"kill -{int(number)} $$"], check=False)
        return os.waitstatus_to_exitcode(of_fork), of_program.returncode

    assert call(local_agent, be_signalled, number).value() == (-number, -number)


def test_such_a_signal_interrupts_no_system_call_of_c_code(local_agent):
    def flags():
        import ctypes
        import signal

        class Action(ctypes.Structure):
            _fields_ = (
                ("handler", ctypes.c_void_p),
                ("mask", ctypes.c_ubyte * 128),
                ("flags", ctypes.c_int),
                ("restorer", ctypes.c_void_p),
            )

        actions = Action(), Action()
        for number, action in zip((signal.SIGTERM, signal.SIGHUP), actions, strict=True):
            assert ctypes.CDLL(None).sigaction(number, None, ctypes.byref(action)) == 0
        return [action.flags for action in actions]

    sa_restart = 0x10000000
    assert all(each & sa_restart for each in call(local_agent, flags).value())


def test_elsewhere_such_a_signal_ends_the_worker(agent):
    agent.run(1, nap)
    agent.wait_output(b"napping")
    agent.process.terminate()
    assert agent.process.wait(20) == -signal.SIGTERM

"""The worker alone: this file plays the agent, over the socket and the pipes."""

import array
import collections
import fcntl
import hashlib
import mmap
import os
import pathlib
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import NamedTuple

import cloudpickle
import pytest

import skyward


@pytest.fixture(scope="module", autouse=True)
def by_value():
    """A worker cannot import this file."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


PLAIN = pathlib.Path(__file__).resolve().parents[1] / "skyward" / "worker" / "start.py"
"""Among the sources: nothing compiled is beside it."""
COMPILED = pathlib.Path(skyward.__file__).absolute().parent / "worker" / "start.py"
RUN, CREDIT, STOP, DROP, INSTANCE_INFO, HELLO, RESULT, ITEM = 1, 2, 3, 4, 5, 16, 17, 18
ELSEWHERE, OUTCOME = 19, 20
OK, RAISED, CANCELLED = 0, 1, 2
# Of the memory that agent and worker share: where its numbers are, and the ring of answers.
WRITTEN, USES_RING, TAKEN, SLEEPS, CLAIMS = 64, 72, 128, 136, 192
RING, RING_BYTES = 256, 256 << 10
WITHDRAW = 1 << 63
MARK = b"\xff1234567"


class Answer(NamedTuple):
    kind: int
    status: int
    task: int
    run_ns: int
    buffers: list
    retained: list
    files: list
    """Of the large buffers: what tells one from another."""

    def value(self):
        return pickle.loads(self.buffers[0], buffers=self.buffers[1:])


class Agent:
    def __init__(self, program=PLAIN, **environment):
        ours, theirs = socket.socketpair()
        cancel_read, self.cancel = os.pipe()
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        os.set_blocking(cancel_read, False)
        self.outputs = {1: out_read, 2: err_read}

        shared = os.memfd_create("begun")
        os.truncate(shared, RING + RING_BYTES)
        self.bell, bell_write = os.pipe()
        os.set_blocking(self.bell, False)
        self.shared = mmap.mmap(shared, RING + RING_BYTES)
        self.set_sleeps(True)
        self.uses_ring = False  # known when it has greeted
        self.ring = b""  # taken, not looked at

        def place():  # in the child: the descriptors from 3 on
            given = (theirs.fileno(), cancel_read, shared, bell_write)
            high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 100) for descriptor in given]
            for number, descriptor in enumerate(high, 3):
                os.dup2(descriptor, number)

        self.process = subprocess.Popen(
            [sys.executable, str(program)],
            stdin=subprocess.DEVNULL,
            stdout=out_write,
            stderr=err_write,
            pass_fds=sorted({3, 4, 5, 6, theirs.fileno(), cancel_read, shared, bell_write}),
            preexec_fn=place,
            env={
                **os.environ,
                "PYTHONUNBUFFERED": "",
                "SKYWARD_MARK": MARK.hex(),
                "SKYWARD_MEMORY": str(64 << 30),
                **environment,
            },
            start_new_session=True,
        )
        theirs.close()
        for descriptor in (cancel_read, out_write, err_write, shared, bell_write):
            os.close(descriptor)
        for descriptor in self.outputs.values():
            os.set_blocking(descriptor, False)
        self.sock = ours
        self.sock.settimeout(20)
        self.data = b""
        self.descriptors = collections.deque()
        self.answers = collections.deque()
        self.known = set()

    def number(self, at):
        return struct.unpack("<Q", self.shared[at : at + 8])[0]

    def set_sleeps(self, sleeps):
        self.shared[SLEEPS : SLEEPS + 8] = struct.pack("<Q", sleeps)

    def begun(self):
        return self.number(0)

    def rings(self):
        """How often the bell has rung since the last call."""
        try:
            return len(os.read(self.bell, 1 << 16))
        except BlockingIOError:
            return 0

    def take(self):
        """Waits until there is something in the ring."""
        deadline = time.monotonic() + 20
        while (written := self.number(WRITTEN)) == (taken := self.number(TAKEN)):
            if time.monotonic() > deadline:
                raise TimeoutError("no answer")
            readable, _, _ = select.select([self.bell, self.sock], [], [], 0.005)
            if self.sock in readable:
                data = self.sock.recv(1, socket.MSG_PEEK)
                if not data and self.number(WRITTEN) == taken:  # nor has it answered at its end
                    raise EOFError("the worker is gone")
        first, size = taken % RING_BYTES, written - taken
        ring = self.shared[RING:]
        self.ring += (ring[first:] + ring[:first])[:size]
        self.shared[TAKEN : TAKEN + 8] = struct.pack("<Q", written)

    def close(self):
        self.sock.close()
        os.close(self.cancel)
        os.close(self.bell)
        for descriptor in self.outputs.values():
            os.close(descriptor)
        self.process.kill()
        self.process.wait()

    def hello(self):
        kind, body = self.message()
        assert kind[0] == HELLO
        self.uses_ring = self.number(USES_RING) == 1
        return body.decode()

    def encode(
        self, task, function, *args, window=0, behind=False, ring=False, body=None, **kwargs
    ):
        body = cloudpickle.dumps(function) if body is None else body
        identity = hashlib.sha256(body).digest()[:16]
        if identity in self.known:
            body = b""
        self.known.add(identity)
        arguments = pickle.dumps((args, kwargs), 5)
        table = struct.pack("<QQQiI", len(arguments), 0, 0, -1, 0)
        rest = identity + struct.pack("<III", len(body), window, 1) + table + body + arguments
        return struct.pack("<IBBHQ", 12 + len(rest), RUN, behind | ring << 1, 0, task) + rest

    def run(self, task, function, *args, **options):
        self.sock.sendall(self.encode(task, function, *args, **options))

    def group(self, task, function, inputs):
        body = cloudpickle.dumps(function)
        identity = hashlib.sha256(body).digest()[:16]
        body = b"" if identity in self.known else body
        self.known.add(identity)
        calls = [pickle.dumps(((one,), {}), 5) for one in inputs]
        arguments = b"".join(struct.pack("<I", len(one)) + one for one in calls)
        table = struct.pack("<QQQiI", len(arguments), 0, 0, -1, 0)
        rest = identity + struct.pack("<III", len(body), len(calls), 1) + table + body + arguments
        self.sock.sendall(struct.pack("<IBBHQ", 12 + len(rest), RUN, 4, 0, task) + rest)

    def outcome(self, task):
        (kind, status, _, of), body = self.message()
        assert (kind, status, of) == (OUTCOME, OK, task)
        return pickle.loads(body)

    def run_with_blob(self, task, function, value, blob):
        """One argument, its buffers in a memfd."""
        views = []
        body = cloudpickle.dumps(function)
        stream = cloudpickle.dumps(((value,), {}), 5, buffer_callback=views.append)
        descriptor = os.memfd_create("test")
        table = struct.pack("<QQQiI", len(stream), 0, 0, -1, 0)
        offset = 64
        for view in views:
            raw = view.raw()
            os.pwrite(descriptor, raw, offset)
            table += struct.pack("<QQQiI", raw.nbytes, offset, blob, 0, 0)
            offset += raw.nbytes
        rest = (
            hashlib.sha256(body).digest()[:16]
            + struct.pack("<III", len(body), 0, 1 + len(views))
            + table
            + body
            + stream
        )
        head = struct.pack("<IBBHQ", 12 + len(rest), RUN, 0, 1, task)
        rights = array.array("i", [descriptor])
        self.sock.sendmsg([head + rest], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        return descriptor

    def interrupt(self, *tasks):
        os.write(self.cancel, struct.pack(f"<{len(tasks)}Q", *tasks))
        os.kill(self.process.pid, signal.SIGINT)

    def tell_instance_info(self, text):
        data = text.encode()
        self.sock.sendall(struct.pack("<IBBHQ", 12 + len(data), INSTANCE_INFO, 0, 0, 0) + data)

    def drop(self, function):
        identity = hashlib.sha256(cloudpickle.dumps(function)).digest()[:16]
        self.known.discard(identity)
        self.sock.sendall(struct.pack("<IBBHQ", 28, DROP, 0, 0, 0) + identity)

    def credit(self, task, count):
        self.sock.sendall(struct.pack("<IBBHQI", 16, CREDIT, 0, 0, task, count))

    def stop(self):
        self.sock.sendall(struct.pack("<IBBHQ", 12, STOP, 0, 0, 0))

    def more(self):
        data, ancillary, _, _ = self.sock.recvmsg(1 << 20, 1024)
        if not data:
            raise EOFError("the worker is gone")
        for _, _, payload in ancillary:
            received = array.array("i")
            received.frombytes(payload)
            self.descriptors.extend(received)
        self.data += data

    def message(self):
        if self.uses_ring:
            if not self.ring:
                self.take()
            length, kind, status, count, task = struct.unpack_from("<IBBHQ", self.ring)
            body, self.ring = self.ring[16 : 4 + length], self.ring[4 + length :]
            if kind != ELSEWHERE:
                return (kind, status, count, task), body
        return self.sent_message()

    def sent_message(self):
        while len(self.data) < 16:
            self.more()
        length, kind, status, count, task = struct.unpack_from("<IBBHQ", self.data)
        while len(self.data) < 4 + length:
            self.more()
        body, self.data = self.data[16 : 4 + length], self.data[4 + length :]
        return (kind, status, count, task), body

    def answer(self):
        (kind, status, count, task), body = self.message()
        run_ns, buffers, retained = struct.unpack_from("<QII", body)
        entries = [struct.unpack_from("<QQQiI", body, 16 + 32 * i) for i in range(buffers)]
        position = 16 + 32 * buffers
        kept = list(struct.unpack_from(f"<{retained}Q", body, position))
        position += 8 * retained
        descriptors = [self.descriptors.popleft() for _ in range(count)]
        files = [os.fstat(descriptor).st_ino for descriptor in descriptors]
        found = []
        for size, offset, _, index, _ in entries:
            if index < 0:
                found.append(body[position : position + size])
                position += size
            else:
                assert offset % 64 == 0
                mapped = mmap.mmap(descriptors[index], 0, mmap.MAP_PRIVATE)
                found.append(memoryview(mapped)[offset : offset + size])
        assert position == len(body)
        for descriptor in descriptors:
            os.close(descriptor)
        return Answer(kind, status, task, run_ns, found, kept, files)

    def output(self, stream=1):
        try:
            return os.read(self.outputs[stream], 1 << 16)
        except BlockingIOError:
            return b""

    def wait_output(self, wanted, stream=1):
        seen = b""
        deadline = time.monotonic() + 20
        while wanted not in seen:
            assert time.monotonic() < deadline, seen
            select.select([self.outputs[stream]], [], [], 1)
            seen += self.output(stream)
        return seen


@pytest.fixture(params=[PLAIN, COMPILED], ids=["plain", "compiled"])
def agent(request):
    made = Agent(request.param)
    assert made.hello().startswith(f"python {sys.version.split()[0]} cloudpickle ")
    assert made.uses_ring == (request.param is COMPILED)
    yield made
    made.close()


def call(agent, function, *args, **kwargs):
    call.task += 1
    agent.run(call.task, function, *args, **kwargs)
    answer = agent.answer()
    assert (answer.kind, answer.task) == (RESULT, call.task)
    return answer


call.task = 0


def test_runs_a_function_and_keeps_its_body(agent):
    def add(a, b=1):
        return a + b

    assert call(agent, add, 2).value() == 3
    assert call(agent, add, 2, b=5).value() == 7
    assert call(agent, add, "x", b="y").status == OK


def test_runs_tasks_in_order_and_answers_each_before_the_next(agent):
    agent.sock.sendall(
        b"".join(agent.encode(n, lambda n: n * n, n, body=None) for n in range(1, 200))
    )
    for n in range(1, 200):
        answer = agent.answer()
        assert (answer.task, answer.value()) == (n, n * n)


def test_describes_an_exception(agent):
    def fail():
        def inner():
            raise ValueError("bad value")

        try:
            {}["missing"]
        except KeyError:
            inner()

    answer = call(agent, fail)
    assert answer.status == RAISED
    told = answer.value()
    assert (told["type"], told["module"], told["message"]) == (
        "ValueError",
        "builtins",
        "bad value",
    )
    assert "KeyError: 'missing'" in told["traceback"] and "in inner" in told["traceback"]
    assert "skyward/worker/" not in told["traceback"]
    assert isinstance(pickle.loads(told["exception"]), ValueError)


def test_an_exception_that_does_not_load_again_travels_as_text(agent):
    def fail():
        class OddError(Exception):
            def __reduce__(self):
                return OddError.lost, ()

        raise OddError("1 and 2")

    told = call(agent, fail).value()
    assert told["exception"] is None
    assert told["type"].endswith("OddError")
    assert told["message"] == "1 and 2"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_no_exception_ends_the_worker(agent, error):
    def fail():
        raise error

    assert call(agent, fail).value()["type"] == type(error).__name__
    assert call(agent, lambda: 1).value() == 1


def test_names_the_part_of_a_result_that_does_not_pickle(agent):
    def fail():
        import threading

        class Model:
            def __init__(self):
                self.size = 3
                self.lock = threading.Lock()

        return {"fine": 1, "model": [0, Model()]}

    told = call(agent, fail).value()
    assert (told["module"], told["type"]) == ("skyward.exceptions", "SerializationError")
    assert told["message"] == (
        "the result cannot be sent back: "
        "result['model'][1].lock: cannot pickle '_thread.lock' object"
    )


def test_a_generator_is_not_a_value(agent):
    told = call(agent, lambda: (n for n in range(3))).value()
    assert told["type"] == "SerializationError"
    assert "generator" in told["message"]


def test_a_missing_module_says_what_to_install(agent):
    told = call(agent, None, body=b"\x80\x05cno_such_package.part\nthing\n.").value()
    assert told["type"] == "ModuleNotFoundError"
    assert "Image(includes=['no_such_package'])" in told["notes"][0]
    # The body is kept: the next call fails the same way instead of crashing.
    again = call(agent, None, body=b"\x80\x05cno_such_package.part\nthing\n.").value()
    assert again["type"] == "ModuleNotFoundError"


def test_a_result_of_a_local_class_comes_back(agent):
    class Point:
        def __init__(self, x):
            self.x = x

    point = call(agent, lambda: Point(4)).value()
    assert point.x == 4
    assert type(point) is Point


def test_main_is_a_clean_module(agent):
    def names():
        import __main__

        return [name for name in vars(__main__) if not name.startswith("__")]

    assert call(agent, names).value() == []


def test_large_arguments_are_writable_and_do_not_change_the_senders(agent):
    numpy = pytest.importorskip("numpy")
    sent = numpy.arange(100_000, dtype="int64")

    def scale(array):
        array *= 2
        return int(array.sum())

    descriptor = agent.run_with_blob(1, scale, sent, blob=7)
    answer = agent.answer()
    assert answer.value() == 2 * int(sent.sum())
    assert answer.retained == []
    assert os.pread(descriptor, sent.nbytes, 64) == sent.tobytes()


def test_tells_which_blobs_are_still_in_use(agent):
    numpy = pytest.importorskip("numpy")
    sent = numpy.arange(100_000, dtype="int64")

    def keep(array):
        import builtins

        builtins.kept = array

    agent.run_with_blob(1, keep, sent, blob=7)
    assert agent.answer().retained == [7]

    def fail(array):
        try:
            raise ValueError(len(array))
        except ValueError as error:
            members = [error]
        raise ExceptionGroup("two", [ExceptionGroup("one", members)])

    agent.run_with_blob(2, fail, sent, blob=8)
    answer = agent.answer()
    assert (answer.status, answer.retained) == (RAISED, [])
    agent.run_with_blob(3, lambda array: array, sent, blob=9)
    answer = agent.answer()
    assert answer.retained == []
    assert (answer.value() == sent).all()

    def leave_child(array):
        import subprocess

        return subprocess.Popen(["sleep", "30"]).pid

    agent.run_with_blob(4, leave_child, sent, blob=10)
    answer = agent.answer()
    assert answer.retained == [10]
    os.kill(answer.value(), signal.SIGKILL)


def test_tells_that_a_childs_child_may_use_an_argument_still(agent):
    numpy = pytest.importorskip("numpy")
    sent = numpy.arange(100_000, dtype="int64")

    def leave_grandchild(array):
        import os

        read, write = os.pipe()
        if os.fork() == 0:
            grandchild = os.fork()
            if grandchild == 0:
                os.setsid()
                os.execvp("sleep", ["sleep", "30"])
            os.write(write, str(grandchild).encode())
            os._exit(0)
        os.wait()
        return int(os.read(read, 20))

    agent.run_with_blob(1, leave_grandchild, sent, blob=7)
    answer = agent.answer()
    assert answer.retained == [7]
    os.kill(answer.value(), signal.SIGKILL)
    agent.run_with_blob(2, len, sent, blob=8)
    assert agent.answer().retained == []


def test_large_results_travel_in_shared_memory(agent):
    numpy = pytest.importorskip("numpy")

    def make():
        import numpy

        return {
            "a": numpy.arange(50_000),
            "small": numpy.arange(3),
            "b": numpy.ones((300, 300), order="F"),
        }

    answer = call(agent, make)
    assert isinstance(answer.buffers[1], memoryview)
    assert isinstance(answer.buffers[0], bytes)
    value = answer.value()
    assert (value["a"] == numpy.arange(50_000)).all()
    assert value["b"].shape == (300, 300)
    assert value["small"].tolist() == [0, 1, 2]
    assert call(agent, lambda: b"x" * 10_000_000).value() == b"x" * 10_000_000


def test_large_inline_messages_arrive_whole(agent):
    text = "x" * 3_000_000
    assert call(agent, len, text).value() == len(text)


def test_output_is_there_before_the_result(agent):
    def speak():
        import ctypes
        import os
        import sys

        print("python line")
        sys.stdout.write("no newline")
        sys.stdout.flush()
        ctypes.CDLL(None).printf(b" from C")  # stays in C's buffer until the task ends
        os.write(1, b" raw")
        print("error", file=sys.stderr)

    assert call(agent, speak).status == OK
    assert agent.output(1) == b"python line\nno newline raw from C"
    assert agent.output(2) == b"error\n"


def test_lines_that_c_prints_outlive_the_process(agent):
    def crash():
        import ctypes
        import os

        ctypes.CDLL(None).printf(b"from C\n")
        os._exit(1)

    agent.run(1, crash)
    assert agent.process.wait(20) == 1
    assert agent.output(1) == b"from C\n"


def test_a_task_behind_others_begins_with_a_mark(agent):
    def speak(text):
        print(text, end="")

    agent.sock.sendall(agent.encode(1, speak, "one") + agent.encode(2, speak, "two", behind=True))
    agent.answer()
    agent.answer()
    assert agent.output(1) == b"one" + MARK + struct.pack("<Q", 2) + b"two"
    assert agent.output(2) == MARK + struct.pack("<Q", 2)


def test_rings_behind_the_answers_for_which_it_was_asked_to(agent):
    agent.set_sleeps(False)
    assert call(agent, lambda: 1).status == OK
    assert agent.rings() == 0
    agent.run(2, lambda: 2, ring=True)
    agent.run(3, lambda: 3, behind=True)
    assert [agent.answer().value() for _ in range(2)] == [2, 3]
    assert agent.rings() == 1


@pytest.mark.parametrize("agent", [COMPILED], ids=["compiled"], indirect=True)
def test_wakes_an_agent_that_sleeps(agent):
    def fail():
        raise ValueError

    for function in (int, fail, int):
        assert call(agent, function).kind == RESULT
        assert agent.rings() == 1


@pytest.mark.parametrize("agent", [COMPILED], ids=["compiled"], indirect=True)
def test_sends_a_word_when_its_bell_is_gone(agent):
    assert call(agent, os.close, 6).status == OK
    assert agent.sent_message()[0][0] == ELSEWHERE
    assert call(agent, int).value() == 0
    assert agent.sent_message()[0][0] == ELSEWHERE


@pytest.mark.parametrize("agent", [COMPILED], ids=["compiled"], indirect=True)
def test_large_and_small_answers_keep_their_order(agent):
    sizes = [10, 3000, 10, 100_000, 10, 3000]
    for task, size in enumerate(sizes, 1):
        agent.run(task, bytes, size)
    assert [len(agent.answer().value()) for _ in sizes] == sizes


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


def test_an_import_ends_before_the_task_is_interrupted(agent, tmp_path):
    (tmp_path / "slow_to_load.py").write_text(
        "import os, time\n"
        "print('loading', flush=True)\n"
        f"while not os.path.exists({str(tmp_path / 'go')!r}):\n"
        "    time.sleep(0.01)\n"  # on a worker
    )

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


def count():
    import itertools

    try:
        for n in itertools.count():
            print(n, flush=True)
            yield n
    finally:
        print("closed", flush=True)


def test_a_dropped_function_is_forgotten_and_comes_again(agent):
    class Witness:
        def __reduce__(self):
            return Loaded, ()

    class Loaded:
        def __init__(self):
            import builtins

            builtins.loaded = getattr(builtins, "loaded", 0) + 1

        def __del__(self):
            import builtins

            builtins.loaded -= 1

    witness = Witness()

    def large():
        return witness is not None

    def count():
        import builtins

        return builtins.loaded

    assert call(agent, large).value() is True
    assert call(agent, count).value() == 1
    agent.drop(large)
    assert call(agent, count).value() == 0
    assert call(agent, large).value() is True
    assert call(agent, count).value() == 1


def test_knows_where_a_node_is_now(agent):
    def look():
        import os

        return os.environ.get("COMPUTE_POOL")

    told = '{"node": 1, "head_addr": "' + "x" * 100_000 + '"}'
    for text in (told, "{}"):
        agent.tell_instance_info(text)
        assert call(agent, look).value() == text


def test_a_stream_waits_for_its_reader(agent):
    agent.run(1, count, window=2)
    assert [agent.answer().value() for _ in range(2)] == [0, 1]
    agent.wait_output(b"2\n")  # made, but not sent
    agent.credit(1, 1)
    answer = agent.answer()
    assert (answer.kind, answer.value()) == (ITEM, 2)
    agent.wait_output(b"3\n")
    agent.interrupt(1)
    assert agent.answer()[:3] == (RESULT, CANCELLED, 1)
    agent.wait_output(b"closed\n")
    assert call(agent, lambda: 1).value() == 1


def test_a_stream_ends_with_a_result_or_an_exception(agent):
    def short(fail):
        yield 1
        if fail:
            raise ValueError("no more")

    agent.run(1, short, False, window=5)
    assert [agent.answer()[:3] for _ in range(2)] == [(ITEM, OK, 1), (RESULT, OK, 1)]
    agent.run(2, short, True, window=5)
    assert agent.answer().kind == ITEM
    answer = agent.answer()
    assert (answer.kind, answer.status, answer.value()["message"]) == (RESULT, RAISED, "no more")
    agent.run(3, lambda: 5, window=5)
    assert "a generator was expected" in agent.answer().value()["message"]


@pytest.mark.parametrize("in_group", [False, True])
def test_a_process_that_may_have_lost_its_device_ends(agent, in_group):
    def fail(text):
        if in_group:
            raise ExceptionGroup("tasks", [ExceptionGroup("step 3", [RuntimeError(text)])])
        raise ValueError("step 3") from RuntimeError(text)

    def work(text):
        return text

    assert call(agent, fail, "CUDA out of memory").status == RAISED
    assert call(agent, work, "on").value() == "on"
    broken = agent.encode(7, fail, "CUDA error: device-side assert triggered")
    agent.sock.sendall(broken + agent.encode(8, work, "behind", behind=True))
    answer = agent.answer()
    assert (answer.task, answer.status) == (7, RAISED)
    assert "replaces the worker process" in str(answer.value()["notes"])
    assert agent.process.wait(20) == 117  # and leaves the other call to the next one


def test_a_forked_child_does_not_answer(agent):
    def fork():
        import os

        child = os.fork()
        if child:
            os.waitpid(child, 0)
        return child

    assert call(agent, fork).value() > 0
    assert call(agent, lambda: 2).value() == 2


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("sys.exit(0)", 0),
        ("sys.exit()", 0),
        ("sys.exit(3)", 3),
        ("sys.exit('why')", 1),
        ("1 / 0", 1),
    ],
)
def test_a_forked_child_ends_as_a_program_does(agent, end, code):
    def fork(end):
        import os
        import sys  # noqa: F401

        if child := os.fork():
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        exec(end)

    assert call(agent, fork, end).value() == code
    said = agent.output(2)
    assert ("ZeroDivisionError" in said.decode()) == ("/" in end)
    assert (said == b"why\n") == ("why" in end)


def test_worker_processes_of_the_user_work(agent):
    def pool():
        import multiprocessing

        with multiprocessing.get_context("fork").Pool(2) as workers:
            return workers.map(abs, [-1, -2, -3])

    assert call(agent, pool).value() == [1, 2, 3]


def test_stops_in_order(agent):
    def at_exit():
        import atexit

        atexit.register(print, "bye")

    assert call(agent, at_exit).status == OK
    agent.run(7, lambda: 1)
    agent.stop()
    assert agent.answer().task == 7
    assert agent.process.wait(20) == 0
    assert agent.output(1) == b"bye\n"


def test_refuses_another_python():
    agent = Agent(SKYWARD_CLIENT_PYTHON="3.99")
    try:
        assert agent.process.wait(20) == 1
        text = agent.output(2).decode()
        assert "the driver runs Python 3.99" in text
        assert "Image(python='3.99')" in text
    finally:
        agent.close()


def test_takes_the_drivers_import_path_and_hides_its_own_variables(tmp_path):
    (tmp_path / "beside_the_script.py").write_text("answer = 42\n")
    agent = Agent(SKYWARD_SYS_PATH=str(tmp_path), COMPUTE_POOL="{}")
    try:
        agent.hello()

        def look():
            import os

            import beside_the_script

            private = (
                "SKYWARD_SYS_PATH",
                "SKYWARD_MARK",
                "SKYWARD_MEMORY",
                "SKYWARD_CLIENT_PYTHON",
            )
            ours = [name for name in private if name in os.environ]
            return beside_the_script.answer, ours, os.environ["COMPUTE_POOL"]

        assert call(agent, look).value() == (42, [], "{}")
    finally:
        agent.close()

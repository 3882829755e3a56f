"""Tests of the worker alone: this plays the agent, over the socket and the pipes."""

import array
import collections
import fcntl
import hashlib
import math
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
import termios
import time
from typing import NamedTuple

import cloudpickle
import pytest

import skyward


@pytest.fixture(scope="module", autouse=True)
def by_value(request):
    """A worker cannot import the file of the tests."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


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
NOTICE = 1 << 62
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
        self.repeat_at = math.inf
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
            self.repeat_interrupt()
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
        begun = self.begun() in tasks
        os.kill(self.process.pid, signal.SIGINT if begun else signal.SIGURG)
        self.repeat_at = time.monotonic() + 0.05

    def repeat_interrupt(self):
        """The signal may have come just before the worker waited in a system call."""
        if time.monotonic() < self.repeat_at:
            return
        self.repeat_at = math.inf
        unread = array.array("i", [0])
        fcntl.ioctl(self.cancel, termios.FIONREAD, unread)
        if unread[0]:
            os.kill(self.process.pid, signal.SIGURG)

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
        select.select([self.sock], [], [], 0.1 if self.repeat_at < math.inf else 0)
        self.repeat_interrupt()
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
    assert made.hello() == f"python {sys.version.split()[0]}"
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

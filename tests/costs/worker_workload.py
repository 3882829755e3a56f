"""Plays the agent for one worker, whose cost is counted: `worker_workload.py COUNT COMMAND…`.

Calls go out in windows of 16, as an agent sends them, and each but the first says that another one
is before it. Like an agent during a burst, it looks for the answers and is not woken."""

import fcntl
import hashlib
import mmap
import os
import pickle
import select
import socket
import struct
import subprocess
import sys
import threading

import cloudpickle

HEAD = struct.Struct("<IBBHQ")
RUN, STOP, OK = 1, 3, 0
WINDOW = 16
MARK = b"\xff1234567"
U64 = struct.Struct("<Q")
# Of the memory that agent and worker share (skyward/wire/answer_ring.h).
WRITTEN, USES_RING, TAKEN, RING, RING_BYTES = 64, 72, 128, 256, 256 << 10


def call(task, body):
    arguments = pickle.dumps(((task,), {}), 5)
    body_sent = body if task == 1 else b""
    rest = hashlib.sha256(body).digest()[:16] + struct.pack("<III", len(body_sent), 0, 1)
    rest += struct.pack("<QQQiI", len(arguments), 0, 0, -1, 0) + body_sent + arguments
    return HEAD.pack(12 + len(rest), RUN, int(task > 1), 0, task) + rest


def start(command):
    ours, theirs = socket.socketpair()
    cancel, _ = os.pipe()
    shared = os.memfd_create("shared")
    os.truncate(shared, RING + RING_BYTES)
    _, bell = os.pipe()
    given = (theirs.fileno(), cancel, shared, bell)

    def place():  # in the child: the descriptors from 3 on
        high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 100) for descriptor in given]
        for number, descriptor in enumerate(high, 3):
            os.dup2(descriptor, number)

    outputs = [os.pipe(), os.pipe()]
    process = subprocess.Popen(
        command,
        stdout=outputs[0][1],
        stderr=outputs[1][1],
        pass_fds=sorted({3, 4, 5, 6, *given}),
        preexec_fn=place,
        env={**os.environ, "SKYWARD_MARK": MARK.hex(), "SKYWARD_MEMORY": str(64 << 30)},
    )
    theirs.close()
    for read, write in outputs:
        os.close(write)
        threading.Thread(target=empty, args=(read,), daemon=True).start()
    return process, ours, mmap.mmap(shared, RING + RING_BYTES)


def empty(pipe):
    while os.read(pipe, 1 << 16):
        pass


def take_from_ring(shared):
    """What is in the ring, looking for it as often as an agent does."""

    def number(at):
        return U64.unpack_from(shared, at)[0]

    for _ in range(60_000):
        if (written := number(WRITTEN)) > (taken := number(TAKEN)):
            first, ring = taken % RING_BYTES, shared[RING:]
            U64.pack_into(shared, TAKEN, written)
            return (ring[first:] + ring[:first])[: written - taken]
        select.select([], [], [], 0.0005)
    raise TimeoutError("no answer")


def main(count, command):
    process, sock, shared = start(command)
    sock.settimeout(60)
    body = cloudpickle.dumps(lambda x: x)
    assert sock.recv(4096), "the worker has not started"
    uses_ring = U64.unpack_from(shared, USES_RING)[0] == 1
    data = b""
    for first in range(1, count + 1, WINDOW):
        tasks = range(first, min(first + WINDOW, count + 1))
        sock.sendall(b"".join(call(task, body) for task in tasks))
        for task in tasks:
            while len(data) < 16 or len(data) < 4 + HEAD.unpack_from(data)[0]:
                data += take_from_ring(shared) if uses_ring else sock.recv(1 << 16)
            length, _, status, _, answered = HEAD.unpack_from(data)
            assert (status, answered) == (OK, task)
            data = data[4 + length :]
    sock.sendall(HEAD.pack(12, STOP, 0, 0, 0))
    process.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

"""The socket to the agent: messages in, messages out."""

import array
import collections
import errno
import os
import select
import socket
import time

from . import results
from .protocol import (
    ANCILLARY_BYTES,
    ANSWER_HEAD,
    BEHIND_BIT,
    CREDIT,
    DROP,
    ELSEWHERE,
    ENTRY,
    GROUP_BIT,
    HEAD,
    INSTANCE_INFO,
    ONE_RUN,
    RECEIVE_BYTES,
    RING_BIT,
    RUN,
    RUN_HEAD,
    SMALL_ANSWER,
    STOP,
    U32,
    U64,
    Incoming,
)
from .result_memory import IDLE_SECONDS

try:
    from _skyward_worker.quick import Quick  # compiled, in another folder: start.py
except ImportError:  # not built for this interpreter, or not on this machine
    from .plain import Plain as Quick

# As numbers: Python itself combines the members of a flag, which takes half a microsecond.
CLOEXEC = int(socket.MSG_CMSG_CLOEXEC)
TRUNCATED = int(socket.MSG_CTRUNC)
# Too much is on its way already; no event tells when it is less.
FULL = (errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM)
TOO_MANY_FILES = (
    b"skyward: the worker process exits: it cannot receive the arguments of a call, because it has"
    b" too many files open. Close files in your functions, or raise the limit (ulimit -n)\n"
)


class Connection(Quick):
    unread = collections.deque()
    """The sizes of the stream's items that its reader has not taken yet. An attribute of the class,
    as is `endings`."""

    def __init__(self, sock, shared, mark):
        """`shared`: the memory that the agent shares with this process (answer_ring.h)."""
        super().__init__(shared, mark)
        self.sock = sock
        self.descriptor = sock.fileno()
        self.descriptors = collections.deque()  # received, not yet claimed by a message
        self.ready = collections.deque()  # Incoming, in order
        self.stopped = False
        self.truncated = False  # a message has lost descriptors
        self.bodies = {}  # id -> pickled body, until it is loaded
        self.told = None  # the value of COMPUTE_POOL for the calls that begin from now on
        self.stream = 0
        self.credits = 0

    def receive(self, flags=0):
        """Takes what has arrived; waits for at least something unless told MSG_DONTWAIT."""
        self.parse()
        self.receive_more(flags)

    def receive_more(self, flags=0):
        """The same, once what is here has been parsed."""
        if results.memory.kept and not flags:
            self.wait_idle()
        try:
            data, ancillary, result, _ = self.sock.recvmsg(
                RECEIVE_BYTES, ANCILLARY_BYTES, flags | CLOEXEC
            )
        except BlockingIOError:
            return
        if ancillary or result & TRUNCATED:
            self.take_descriptors(ancillary, result)
            if self.truncated:
                data = b""
        if not data:
            self.stopped = True  # the agent is gone, or this process cannot go on
            self.ready.clear()
            self.data, self.at = b"", 0
            return
        left = self.data[self.at :]
        self.data, self.at = left + data if left else data, 0

    def wait_idle(self):
        """Until something arrives. Memory that is not used meanwhile goes after a while."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        poll.poll(IDLE_SECONDS * 1000)
        results.memory.drop_unused(IDLE_SECONDS)

    def take_descriptors(self, ancillary, flags):
        """`flags`: what recvmsg() says of the message."""
        if flags & TRUNCATED:  # the kernel has dropped some, whichever they were
            try:
                os.write(2, TOO_MANY_FILES)
            finally:
                if not self.running:
                    os._exit(1)
                self.truncated = self.ends = True  # when the running call has been answered
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received = array.array("i")
                received.frombytes(payload[: len(payload) - len(payload) % received.itemsize])
                self.descriptors.extend(received)

    def parse(self, messages=-1):
        """Handles the messages that have arrived, or so many of them; calls become `ready`."""
        data, position, ready = self.data, self.at, self.ready
        end = len(data)
        while end - position >= 16 and messages:
            messages -= 1
            if data[position + 4] == RUN and end - position >= ONE_RUN.size:
                # Nearly all messages: a call of a known function with one small buffer.
                (length, _, status, count, task, function, body_bytes, window, buffers, size, _, _,
                 index, _) = ONE_RUN.unpack_from(data, position)  # fmt: skip
                after = position + 4 + length
                if buffers == 1 and index < 0 and not count and not body_bytes and after <= end:
                    run = Incoming()
                    run.task = task
                    run.behind = status & BEHIND_BIT
                    run.ring = status & RING_BIT
                    run.group = status & GROUP_BIT
                    run.function = function
                    run.window = window
                    run.descriptors = ()
                    run.buffers = [data[after - size : after]]
                    ready.append(run)
                    position = after
                    continue
            length, kind, status, count, task = HEAD.unpack_from(data, position)
            after = position + 4 + length
            if after > end:
                missing = after - end
                if missing > RECEIVE_BYTES:  # a large message: read its rest in one go
                    data = self.receive_rest(data[position:], missing)
                    position, end, after = 0, len(data), len(data)
                else:
                    self.data, self.at = data, position
                    return False
            if kind == RUN:
                ready.append(self.parse_run(data, position, status, count, task))
            elif kind == CREDIT:
                if task == self.stream:
                    taken = U32.unpack_from(data, position + 16)[0]
                    self.credits += taken
                    for _ in range(min(taken, len(self.unread))):
                        self.unread.popleft()
            elif kind == STOP:
                self.stopped = True
            elif kind == DROP:  # no run that waits here names it
                function = data[position + 16 : after]
                self.functions.pop(function, None)
                self.bodies.pop(function, None)
            elif kind == INSTANCE_INFO:
                self.told = data[position + 16 : after].decode()
            position = after
        self.data, self.at = data, position
        return end - position >= 16

    def receive_rest(self, start, missing):
        whole = bytearray(len(start) + missing)
        whole[: len(start)] = start
        view, filled = memoryview(whole), len(start)
        while filled < len(whole):
            # Descriptors of later messages may arrive early, with these bytes.
            got, ancillary, result, _ = self.sock.recvmsg_into(
                [view[filled:]], ANCILLARY_BYTES, CLOEXEC
            )
            self.take_descriptors(ancillary, result)
            if got == 0 or self.truncated:
                os._exit(1)  # the agent died in mid-message, or not all of it can arrive
            filled += got
        return bytes(whole)

    def parse_run(self, data, position, status, count, task):
        function, body_bytes, window, buffers = RUN_HEAD.unpack_from(data, position)[5:]
        run = Incoming()
        run.task = task
        run.behind = status & BEHIND_BIT
        run.ring = status & RING_BIT
        run.group = status & GROUP_BIT
        run.function = function
        run.window = window
        run.descriptors = [self.descriptors.popleft() for _ in range(count)] if count else ()
        position += RUN_HEAD.size
        table = position
        position += buffers * ENTRY.size
        if body_bytes:
            self.bodies[function] = data[position : position + body_bytes]
            self.functions.pop(function, None)
            position += body_bytes
        run.buffers = []
        for at in range(table, table + buffers * ENTRY.size, ENTRY.size):
            size, offset, blob, index, _ = ENTRY.unpack_from(data, at)
            if index >= 0:
                run.buffers.append((index, blob, offset, size))
                continue
            inline = data[position : position + size]
            position += size
            # The stream is only read; the user may write to the buffers beside it.
            run.buffers.append(bytearray(inline) if run.buffers else inline)
        return run

    def send(self, kind, status, task, run_ns, packed, retained=()):
        count, table, tail, descriptor = packed
        if table is None and not retained:
            size = len(tail)
            head = SMALL_ANSWER.pack(
                60 + size, kind, status, 0, task, run_ns, 1, 0, size, 0, 0, -1, 0
            )
            message = head + tail
            if not self.put(message):
                self.send_aside(message)
            return
        if table is None:
            table = ENTRY.pack(len(tail), 0, 0, -1, 0)
        kept = b"".join(map(U64.pack, retained))
        length = 28 + len(table) + len(kept) + len(tail)
        has_descriptor = descriptor >= 0
        head = ANSWER_HEAD.pack(
            length, kind, status, has_descriptor, task, run_ns, count, len(retained)
        )
        self.send_aside(b"".join((head, table, kept, tail)), descriptor)

    def send_aside(self, message, descriptor=-1):
        """Through the socket; with a ring, it holds the message's place."""
        has_place = self.put(ELSEWHERE, False)
        try:
            self.send_all(message, descriptor)
        except BaseException:
            if has_place:  # nothing can fill it now
                os._exit(1)
            raise

    def send_all(self, message, descriptor):
        if descriptor < 0:
            sent = os.write(self.descriptor, message)
        else:
            rights = array.array("i", [descriptor]).tobytes()
            while True:
                try:
                    sent = self.sock.sendmsg(
                        [message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
                    )
                    break
                except OSError as error:
                    if error.errno not in FULL:
                        raise
                time.sleep(0.001)
            os.close(descriptor)
        if sent < len(message):
            self.sock.sendall(memoryview(message)[sent:])

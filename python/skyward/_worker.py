"""The process that runs the user's functions: one slot of a node.

Started by the agent as a script, ``python _worker.py``, with a socket at descriptor 3 and a pipe at
descriptor 4. It is the Python twin of ``skyward/wire/worker_protocol.h``; layouts and rules stand
there. It needs the standard library and cloudpickle, nothing else of Skyward: user code may import
``skyward``, this file must not.

Tasks run one after another on the main thread. ``running`` names the task whose user code
(unpickling, call, pickling) is on the stack; only then may SIGINT raise KeyboardInterrupt, and only
for that task. Everywhere else the interrupt handler just takes notes, so that no message is ever
cut in two.
"""

import sys

if __name__ == "__main__" and sys.path and sys.path[0] == __file__.rpartition("/")[0]:
    # A script's own folder comes first there: nothing beside this file may shadow a module.
    del sys.path[0]

import _thread
import array
import atexit
import collections
import ctypes
import faulthandler
import gc
import mmap
import os
import pickle
import select
import signal
import socket
import struct
import time
import types

RUN, CREDIT, STOP, DROP, HELLO, RESULT, ITEM = 1, 2, 3, 4, 16, 17, 18
OK, RAISED, CANCELLED = 0, 1, 2
SOCKET, CANCEL_PIPE, BEGUN = 3, 4, 5
WITHDRAW_BIT, NOTICE_BIT = 1 << 63, 1 << 62
BLOB_THRESHOLD = 64 << 10  # kBlobThresholdBytes: results of this size travel in shared memory
SMALL_BUFFER = 4 << 10  # buffers below stay inline even then
RECEIVE_BYTES = 64 << 10  # malloc keeps memory of this size; more would be mapped anew each time
FINISHED = 64  # several windows: more tasks are never in this process's hands
MAX_DESCRIPTORS = 253  # kernel limit of one message

HEAD = struct.Struct("<IBBHQ")  # length, kind, status, descriptors, task
RUN_HEAD = struct.Struct("<IBBHQ16sIII")  # ... function, body bytes, stream window, buffers
ENTRY = struct.Struct("<QQQiI")  # size, offset, blob, descriptor index, 0
ANSWER_HEAD = struct.Struct("<IBBHQQII")  # ... run ns, buffers, retained
SMALL_ANSWER = struct.Struct("<IBBHQQIIQQQiI")  # the same with one inline buffer
U64 = struct.Struct("<Q")
U32 = struct.Struct("<I")


class SerializationError(Exception):
    """A result that does not pickle. Travels by name: the face has the class itself."""

    __module__ = "skyward.exceptions"


class Incoming:
    """A run message as it came; nothing of the user's is unpickled yet."""

    __slots__ = ("behind", "body", "buffers", "descriptors", "function", "task", "window")


class Worker:
    def __init__(self, sock, begun):
        self.sock = sock
        self.begun = begun  # one number, which the agent sees: the last task that has begun
        self.pending = b""  # bytes of an incomplete message
        self.descriptors = collections.deque()  # received, not yet claimed by a message
        self.ready = collections.deque()  # Incoming, in order
        self.stopped = False
        self.functions = {}  # id -> callable
        self.bodies = {}  # id -> pickled body, until it is loaded
        self.skipped = set()  # tasks to answer with `cancelled` instead of running them
        self.finished = collections.deque(maxlen=FINISHED)  # notes about these come too late
        self.running = 0
        self.interrupted = False
        self.waiting = False  # for credits: await_credit() reads the cancel pipe, not the handler
        self.stream = 0
        self.credits = 0
        self.maps = []  # (mmap, blob id) of the running task's arguments
        self.callbacks = []  # of the running task, for the machine's end
        self.gone_at = None  # when that is, by the clock below
        self.mark = bytes.fromhex(os.environ.get("SKYWARD_MARK", ""))
        self.forked = False
        os.register_at_fork(after_in_child=self.on_fork)

    # ------------------------------------------------------------------ receiving

    def receive(self, flags=0):
        """Takes what has arrived; waits for at least something unless told MSG_DONTWAIT."""
        try:
            data, ancillary, _, _ = self.sock.recvmsg(
                RECEIVE_BYTES, ANCILLARY_BYTES, flags | socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return
        if ancillary:
            self.take_descriptors(ancillary)
        if not data:
            self.stopped = True  # the agent is gone
            self.ready.clear()
            return
        if self.pending:
            data = self.pending + data
            self.pending = b""
        self.parse(data)

    def take_descriptors(self, ancillary):
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received = array.array("i")
                received.frombytes(payload[: len(payload) - len(payload) % received.itemsize])
                self.descriptors.extend(received)

    def parse(self, data):
        position, end = 0, len(data)
        while end - position >= 16:
            length, kind, status, count, task = HEAD.unpack_from(data, position)
            after = position + 4 + length
            if after > end:
                missing = after - end
                if missing > RECEIVE_BYTES:  # a large message: read its rest in one go
                    data = self.receive_rest(data[position:], missing)
                    position, end, after = 0, len(data), len(data)
                else:
                    break
            if kind == RUN:
                self.ready.append(self.parse_run(data, position, status, count, task))
            elif kind == CREDIT:
                if task == self.stream:
                    self.credits += U32.unpack_from(data, position + 16)[0]
            elif kind == STOP:
                self.stopped = True
            elif kind == DROP:  # no run that waits here names it
                function = data[position + 16 : after]
                self.functions.pop(function, None)
                self.bodies.pop(function, None)
            position = after
        self.pending = data[position:] if position < end else b""

    def receive_rest(self, start, missing):
        whole = bytearray(len(start) + missing)
        whole[: len(start)] = start
        view, filled = memoryview(whole), len(start)
        while filled < len(whole):
            # Descriptors of messages behind this one may come early, with these bytes.
            got, ancillary, _, _ = self.sock.recvmsg_into(
                [view[filled:]], ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
            )
            self.take_descriptors(ancillary)
            if got == 0:
                os._exit(1)  # the agent died in mid-message
            filled += got
        return bytes(whole)

    def parse_run(self, data, position, status, count, task):
        function, body_bytes, window, buffers = RUN_HEAD.unpack_from(data, position)[5:]
        run = Incoming()
        run.task = task
        run.behind = status == 1
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
            # The stream is only read; what lies beside it may be written to by the user.
            run.buffers.append(bytearray(inline) if run.buffers else inline)
        return run

    # ------------------------------------------------------------------ interrupts

    def on_interrupt(self, _signal, _frame):
        if self.waiting:
            return
        self.take_notes()
        running = self.running
        if not running:
            return
        # User code is on the stack, so neither sending nor receiving is: unstarted tasks can be
        # given back at once.
        if self.skipped:
            self.receive(socket.MSG_DONTWAIT)
            for run in [run for run in self.ready if run.task in self.skipped]:
                self.ready.remove(run)
                self.answer_cancelled(run)
        if running in self.skipped:
            self.cancel(running)

    def take_notes(self):
        try:
            data = os.read(CANCEL_PIPE, 65536)
        except BlockingIOError:
            return
        for (task,) in U64.iter_unpack(data[: len(data) & ~7]):
            if task & NOTICE_BIT:
                self.gone_at = clock() + (task ^ NOTICE_BIT) * 1_000_000
                self.call_back()
                continue
            if task & WITHDRAW_BIT:
                task ^= WITHDRAW_BIT
                if task in (self.running, self.stream):
                    continue
            if task not in self.finished:
                self.skipped.add(task)

    def on_preemption(self, callback):
        """Of the running task: calls it, once, when the cloud takes the machine back."""
        self.callbacks.append(callback)
        if self.gone_at is not None:
            self.call_back()

    def call_back(self):
        # On threads of their own: the main thread may hold any lock just now. They are started
        # without a lock, too.
        left = max(0.0, (self.gone_at - clock()) / 1e9)
        while self.callbacks:
            _thread.start_new_thread(warn, (self.callbacks.pop(0), left))

    def answer_cancelled(self, run):
        self.skipped.discard(run.task)
        for descriptor in run.descriptors:
            os.close(descriptor)
        self.sock.sendall(ANSWER_HEAD.pack(28, RESULT, CANCELLED, 0, run.task, 0, 0, 0))

    def on_fork(self):
        # A child of the user's function must never answer in our name.
        self.forked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    # ------------------------------------------------------------------ running

    def loop(self):
        ready = self.ready
        while True:
            while not ready:
                if self.stopped:
                    return
                self.receive()
            run = ready.popleft()
            if self.skipped and run.task in self.skipped:
                self.answer_cancelled(run)
                continue
            if run.behind and self.mark:
                mark = self.mark + U64.pack(run.task)
                write_all(1, mark)
                write_all(2, mark)
            self.run(run)

    def run(self, run):
        task = run.task
        started = clock()
        self.interrupted = False
        try:
            self.running = task
            if self.skipped and task in self.skipped:  # named since loop() looked
                self.cancel(task)
            self.begun[0] = task
            arguments = self.load_arguments(run)
            function = self.functions.get(run.function) or self.load_function(run.function)
            result = function(*arguments[0], **arguments[1])
            arguments = None
            if run.window:
                self.send_stream(task, run.window, result)
                pieces = dump(None)
            else:
                pieces = dump(result)
            result = None
            self.running = 0
            status = OK
        except BaseException as error:
            self.running = 0
            if self.forked:
                os._exit(1)
            status, pieces = self.describe_failure(error)
            # The traceback's frames hold the arguments; without it they go now.
            clear_frames(error)
            arguments = result = None
        if self.forked:  # os.fork() in the function, and this is the child
            os._exit(0)
        if status != CANCELLED:  # such a one may come back
            self.finished.append(task)
        if self.skipped:
            self.skipped.discard(task)
        if self.callbacks:
            self.callbacks.clear()
        flush_output()
        restore_output()
        if self.maps:
            # Copied first: a result that looks into an argument must not make it seem kept.
            packed = pack(pieces)
            pieces = None
            self.send(RESULT, status, task, clock() - started, packed, self.release_arguments())
        else:
            self.send(RESULT, status, task, clock() - started, pack(pieces))

    def load_function(self, identity):
        body = self.bodies[identity]
        try:
            function = pickle.loads(body)
        except ModuleNotFoundError as error:
            explain_missing_module(error, "the function")
            raise
        self.functions[identity] = function
        del self.bodies[identity]
        return function

    def load_arguments(self, run):
        buffers = run.buffers
        if run.descriptors:
            maps, views = [], []
            for descriptor in run.descriptors:
                mapped = mmap.mmap(
                    descriptor, 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE
                )
                os.close(descriptor)
                maps.append(mapped)
            blobs = {}
            for buffer in buffers:
                if type(buffer) is tuple:
                    index, blob, offset, size = buffer
                    blobs[index] = blob
                    views.append(memoryview(maps[index])[offset : offset + size])
                else:
                    views.append(buffer)
            self.maps = [(mapped, blobs.get(index, 0)) for index, mapped in enumerate(maps)]
            run.descriptors = ()
            buffers = views
        try:
            if len(buffers) == 1:
                return pickle.loads(buffers[0])
            return pickle.loads(buffers[0], buffers=buffers[1:])
        except ModuleNotFoundError as error:
            explain_missing_module(error, "an argument")
            raise
        except Exception as error:
            add_note(error, "raised while the arguments of the call were unpickled, on the node")
            raise

    def release_arguments(self):
        """Closes the argument maps; returns the ids of blobs that something still looks into."""
        retained = []
        maps, self.maps = self.maps, []
        shared_with_child = has_forked() or has_children()
        for mapped, blob in maps:
            try:
                mapped.close()
            except BufferError:
                if blob:
                    retained.append(blob)
            else:
                if shared_with_child and blob:
                    retained.append(blob)
        return retained

    def describe_failure(self, error):
        if self.interrupted:
            return CANCELLED, []
        try:
            return RAISED, dump(describe(error))
        except BaseException as second:  # a __str__ or __reduce__ of the user's that raises
            return RAISED, dump(
                {
                    "type": type(error).__name__,
                    "module": type(error).__module__,
                    "message": f"(the exception could not be described: {type(second).__name__})",
                    "traceback": "",
                    "exception": None,
                    "notes": [],
                }
            )

    # ------------------------------------------------------------------ streams

    def send_stream(self, task, window, result):
        """Sends a generator's items, never more than the reader asked for ahead."""
        if not hasattr(result, "__next__"):
            if not hasattr(result, "__iter__"):
                raise TypeError(
                    f"a generator was expected, but the function returned {type(result).__name__!r}"
                )
            result = iter(result)
        self.stream, self.credits = task, window
        try:
            for item in result:
                pieces = dump(item)
                self.running = 0
                flush_output()
                if not self.credits:
                    self.await_credit(task)
                self.credits -= 1
                self.send(ITEM, OK, task, 0, pack(pieces))
                self.running = task
                if task in self.skipped:  # cancelled while it was being sent
                    self.cancel(task)
        finally:
            self.stream = 0
            close = getattr(result, "close", None)
            if close is not None:
                close()

    def await_credit(self, task):
        self.waiting = True
        try:
            poll = select.poll()
            poll.register(self.sock, select.POLLIN)
            poll.register(CANCEL_PIPE, select.POLLIN)
            while not self.credits:
                self.take_notes()
                if task in self.skipped:
                    self.cancel(task)
                for descriptor, _ in poll.poll():
                    if descriptor != CANCEL_PIPE:
                        self.receive()
                if self.stopped and not self.credits:
                    self.cancel(task)
        finally:
            self.waiting = False

    def cancel(self, task):
        self.running = 0
        self.skipped.discard(task)
        self.interrupted = True
        raise KeyboardInterrupt("cancelled")

    # ------------------------------------------------------------------ sending

    def send(self, kind, status, task, run_ns, packed, retained=()):
        count, table, tail, descriptor = packed
        if table is None and not retained:
            size = len(tail)
            head = SMALL_ANSWER.pack(
                60 + size, kind, status, 0, task, run_ns, 1, 0, size, 0, 0, -1, 0
            )
            self.sock.sendall(head + tail)
            return
        if table is None:
            table = ENTRY.pack(len(tail), 0, 0, -1, 0)
        kept = b"".join(map(U64.pack, retained))
        length = 28 + len(table) + len(kept) + len(tail)
        has_descriptor = descriptor >= 0
        head = ANSWER_HEAD.pack(
            length, kind, status, has_descriptor, task, run_ns, count, len(retained)
        )
        message = memoryview(b"".join((head, table, kept, tail)))
        if has_descriptor:
            rights = array.array("i", [descriptor]).tobytes()
            sent = self.sock.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            os.close(descriptor)
            message = message[sent:]
        self.sock.sendall(message)


clock = time.perf_counter_ns
ANCILLARY_BYTES = socket.CMSG_LEN(MAX_DESCRIPTORS * 4)


worker = None  # of this process; for skyward.task.preemption


def warn(callback, left):
    try:
        callback(left)
    except BaseException:
        import traceback

        traceback.print_exc()


def write_all(descriptor, data):
    """A mark is one write; the pipe is only ever non-blocking if the user made it so."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
        except OSError:
            return  # the user closed it: there is no output to attribute


def size_of(buffer):
    return buffer.nbytes if type(buffer) is memoryview else len(buffer)


# -------------------------------------------------------------------------------- pickling


def dump(value):
    """Every buffer of the pickled value, the stream first."""
    if type(value) in ATOMS:
        return [pickle.dumps(value, 5)]
    if type(value) is types.GeneratorType:
        raise SerializationError(
            "the function returned a generator, which cannot be sent back as a value: make the "
            "function itself a generator (yield), or return a list"
        )
    buffers = []
    try:  # the plain pickler first: it is ten times as fast
        stream = pickle.dumps(value, 5, buffer_callback=buffers.append)
    except Exception:
        buffers = []
        stream = dump_by_value(value, buffers)
    return [stream, *[buffer.raw() for buffer in buffers]]


def pack(pieces):
    """(number of buffers, table, inline bytes, memfd or -1); no table for one small buffer."""
    if len(pieces) == 1 and len(pieces[0]) < BLOB_THRESHOLD:
        return 1, None, pieces[0], -1
    shared = []
    if sum(map(size_of, pieces)) >= BLOB_THRESHOLD:
        shared = [at for at, piece in enumerate(pieces) if size_of(piece) >= SMALL_BUFFER]
    descriptor, offsets = store(pieces, shared) if shared else (-1, {})
    table, tail = [], []
    for position, piece in enumerate(pieces):
        if position in offsets:
            table.append(ENTRY.pack(size_of(piece), offsets[position], 0, 0, 0))
        else:
            table.append(ENTRY.pack(size_of(piece), 0, 0, -1, 0))
            tail.append(piece)
    return len(pieces), b"".join(table), b"".join(tail), descriptor


ATOMS = frozenset({type(None), bool, int, float, str})


def dump_by_value(value, buffers):
    import cloudpickle

    try:
        return cloudpickle.dumps(value, 5, buffer_callback=buffers.append)
    except Exception as error:
        path, reason = find_unpicklable(value, error)
        raise SerializationError(f"the result cannot be sent back: {path}: {reason}") from None


def find_unpicklable(value, error):
    """The innermost part of `value` that does not pickle, as "result['model'].lock", and why."""
    import cloudpickle

    def fails(part):
        try:
            cloudpickle.dumps(part, 5, buffer_callback=lambda _: False)
        except Exception as reason:
            return reason
        return None

    path, seen = "result", set()
    while id(value) not in seen and len(seen) < 50:
        seen.add(id(value))
        for name, part in parts_of(value):
            reason = fails(part)
            if reason is not None:
                path, value, error = path + name, part, reason
                break
        else:
            break
    text = str(error) or type(error).__name__
    return path, text


def parts_of(value):
    if isinstance(value, dict):
        for key, part in list(value.items())[:10000]:
            yield f"[{key!r}]", part
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value[:10000]):
            yield f"[{index}]", part
    elif isinstance(value, (set, frozenset)):
        for part in value:
            yield f"{{{part!r}}}", part
    for name, part in list(getattr(value, "__dict__", {}).items()):
        if isinstance(name, str) and not isinstance(value, type):
            yield f".{name}", part
    for name in getattr(type(value), "__slots__", ()):
        if isinstance(name, str) and hasattr(value, name):
            yield f".{name}", getattr(value, name)


def store(pieces, positions):
    """Copies the pieces into one new memfd, at multiples of 64: it, and offsets by position."""
    # The receiver seals it, so that no child of this process cuts it off under its eyes.
    descriptor = os.memfd_create("skyward-result", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    offsets, offset = {}, 0
    for position in positions:
        view = memoryview(pieces[position]).cast("B")
        offsets[position] = offset
        written = 0
        while written < len(view):
            # Linux writes at most 2 GiB a call.
            written += os.pwrite(descriptor, view[written : written + (1 << 30)], offset + written)
        offset = (offset + len(view) + 63) & ~63
    return descriptor, offsets


# -------------------------------------------------------------------------------- exceptions


def explain_missing_module(error, what):
    name = (error.name or "").partition(".")[0]
    if name:
        add_note(
            error,
            f"{what} needs the module {name!r}, which is not on the worker: add its package to "
            f"Image(pip=[{name!r}]); if it is your own, import it before the pool opens or name it "
            f"in Image(includes=[{name!r}])",
        )


def add_note(error, text):
    try:
        error.add_note(text)
    except Exception:
        pass  # its class lets nobody write to it


# A frozen class would not let its instances be assigned to.
set_traceback = BaseException.with_traceback


def clear_frames(error, seen=None):
    """Cuts the traceback off everything in the chain, so that no frame keeps arguments alive."""
    seen = set() if seen is None else seen
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        set_traceback(error, None)
        clear_frames(error.__cause__, seen)
        error = error.__context__


def describe(error):
    import traceback

    import cloudpickle

    skip_own_frames(error, set())
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    clear_frames(error)
    pickled = parts = None
    if type(error) is not SerializationError:
        try:
            pickled = cloudpickle.dumps(error, 5)
            # Exceptions with an __init__ of their own often pickle but do not load.
            if not isinstance(pickle.loads(pickled), BaseException):
                raise TypeError("it loads as something else")
        except BaseException:
            pickled, parts = None, pickled_parts(error)
    return {
        "type": type(error).__qualname__,
        "module": type(error).__module__,
        "message": text_of(error),
        "traceback": text,
        "exception": pickled,
        "parts": parts,
        "notes": [str(note) for note in getattr(error, "__notes__", ())],
    }


def text_of(error):
    try:
        return str(error)
    except Exception as second:
        return f"(its __str__ raised {type(second).__name__})"


def pickled_parts(error):
    """The class, the arguments and those fields that travel, of one that does not as a whole."""
    import cloudpickle

    def travels(value):
        try:
            pickle.loads(cloudpickle.dumps(value, 5))
        except BaseException:
            return False
        return True

    cls = type(error)
    if not travels(cls):
        return None
    fields = {}
    for base in cls.__mro__:  # slots, and fields of builtin classes such as OSError
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType) and not name.startswith("__"):
                fields.setdefault(name, getattr(error, name, None))
    fields.update(error.__dict__)
    fields = {name: value for name, value in fields.items() if travels(value)}
    args = tuple([value if travels(value) else repr(value) for value in error.args])
    return cloudpickle.dumps((cls, args, fields), 5)


def skip_own_frames(error, seen):
    """Removes this file's frames from the tracebacks of the whole chain."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    set_traceback(error, trace)
    skip_own_frames(error.__cause__, seen)
    skip_own_frames(error.__context__, seen)


# -------------------------------------------------------------------------------- the process

libc_flush = ctypes.CDLL(None).fflush


def flush_output():
    """All that the task wrote reaches the pipes before its result: Python's buffers and C's."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception:
        pass  # closed or replaced by the user
    libc_flush(None)


def restore_output():
    """For the next task, when this one has closed or replaced the streams."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        own = getattr(sys, f"__{name}__")
        if own is None or own.closed:
            own = open(descriptor, "w", buffering=1, closefd=False, **TEXT)
            setattr(sys, f"__{name}__", own)
        setattr(sys, name, own)


TEXT = {"encoding": "utf-8", "errors": "backslashreplace"}


forks = 0


def count_fork():
    global forks
    forks += 1


os.register_at_fork(after_in_parent=count_fork)


def has_forked():
    """Whether this process has forked since the last call: a child, or a child's child that nobody
    waits for here, may share the argument maps."""
    global forks
    before, forks = forks, 0
    return before > 0


def has_children():
    """Whether a child process lives (or waits to be reaped): it may share the argument maps."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def check_python(wanted):
    have = f"{sys.version_info.major}.{sys.version_info.minor}"
    if wanted and wanted != have:
        sys.stderr.write(
            f"skyward: the worker runs Python {have} ({sys.executable}) but the driver runs Python "
            f"{wanted}; pickled code needs the same minor version. Set Image(python={wanted!r}) or "
            f"run the driver with Python {have}.\n"
        )
        sys.exit(1)


THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def divide_processors(slots):
    """Libraries that calculate with threads use this slot's share of the processors: each would use
    all of them. What the user has set stays."""
    if slots <= 1:
        return
    share = str(max(1, len(os.sched_getaffinity(0)) // slots))
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, share)


def take_key(key):
    """The driver's key of multiprocessing: proxies of its managers connect with it."""
    if not key:
        return
    from multiprocessing import process

    process.current_process().authkey = bytes.fromhex(key)


def prepare_modules():
    """The driver's import path, and a clean __main__ for pickled functions."""
    extra = os.environ.pop("SKYWARD_SYS_PATH", "")
    sys.path[:0] = [entry for entry in extra.split(os.pathsep) if entry and entry not in sys.path]
    sys.modules["_skyward_worker"] = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")


def main():
    check_python(os.environ.pop("SKYWARD_CLIENT_PYTHON", ""))
    prepare_modules()
    divide_processors(int(os.environ.pop("SKYWARD_SLOTS", "1")))
    take_key(os.environ.pop("SKYWARD_AUTHKEY", ""))
    import cloudpickle

    # A crash leaves the Python stack among the task's last lines, also that of a silent function.
    faulthandler.enable(os.dup(2))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, **TEXT)
    os.set_inheritable(SOCKET, False)
    os.set_inheritable(CANCEL_PIPE, False)
    os.set_blocking(CANCEL_PIPE, False)
    sock = socket.socket(fileno=SOCKET)
    sock.setblocking(True)
    with open(BEGUN, "rb+", buffering=0) as shared:
        begun = memoryview(mmap.mmap(shared.fileno(), U64.size)).cast("Q")
    global worker
    worker = Worker(sock, begun)
    os.environ.pop("SKYWARD_MARK", None)
    signal.signal(signal.SIGINT, worker.on_interrupt)
    gc.freeze()
    text = f"python {sys.version.split()[0]} cloudpickle {cloudpickle.__version__}".encode()
    sock.sendall(HEAD.pack(12 + len(text), HELLO, OK, 0, 0) + text)
    worker.loop()
    atexit._run_exitfuncs()
    flush_output()
    # The pool closes, and whoever leaves it waits: not for threads, nor for objects to end.
    os._exit(0)


if __name__ == "__main__":
    main()

"""Tasks run one after another on the main thread. ``running`` names the task whose user code
(unpickling, call, pickling) is on the stack; only then may SIGINT raise KeyboardInterrupt, and only
for that task. Everywhere else the interrupt handler only records them, so that no message is
ever cut in two.
"""

import _thread
import mmap
import os
import pickle
import select
import signal
import socket
import time

from .connection import Connection
from .failures import (
    add_note,
    clear_frames,
    describe,
    explain_missing_module,
    is_device_error,
)
from .forks import end_child, has_children, has_forked
from .output import flush_all, flush_output, settle_output, write_mark
from .protocol import (
    ANSWER_HEAD,
    CANCEL_PIPE,
    CANCELLED,
    ELSEWHERE,
    HEAD,
    ITEM,
    LEAVES,
    NOTICE_BIT,
    OK,
    OUTCOME,
    RAISED,
    RESULT,
    SMALL_OUTCOME,
    U32,
    U64,
    WITHDRAW_BIT,
    clock,
)
from .results import dump, pack, size_of

WRITABLE = mmap.PROT_READ | mmap.PROT_WRITE
UNREAD_BYTES = 64 << 20
"""A stream sends no item while its reader has so much to take; as in worker.cc."""
IMPORT_STEP_SECONDS = 0.02
"""How often a call that is to be cancelled is looked at again while it imports."""


class Worker(Connection):
    def __init__(self, sock, shared):
        mark = bytes.fromhex(os.environ.get("SKYWARD_MARK", ""))
        super().__init__(sock, shared, mark)
        # Of the compiled half, or its stand-in (plain.py):
        #   running      the task whose user code is on the stack; 0: none
        #   interrupted  it was cancelled
        #   forked       this is a child of the process
        #   skipped      tasks to answer with `cancelled` instead of running them
        #   callbacks    of the running call, for a preemption
        #   endings      of the running call: what is called when it has ended
        self.begun = memoryview(shared)[: U64.size].cast("Q")  # the task that has begun last
        self.handling = self.again = False  # a signal; one more has come meanwhile
        self.waits_for_import = 0  # the task for which a thread waits until it can be cancelled
        self.waiting = False  # for credits: await_credit() reads the cancel pipe, not the handler
        self.maps = []  # (mmap, blob id) of the running task's arguments
        self.gone_at = None  # when that is, by the clock of protocol.py
        self.ends = False  # when the running call has been answered
        self.mark = mark
        os.register_at_fork(after_in_child=self.on_fork)

    # ------------------------------------------------------------------ interrupts

    def on_interrupt(self, number, frame):
        """SIGINT: a task is to be cancelled. SIGURG: the pipe holds anything else, or what nobody
        has read yet; it says nothing to a handler that the function may have put in place."""
        if self.waiting:
            return
        self.again = True
        # A signal may come while another one is handled: that one looks once more.
        while self.again and not self.handling:
            self.again = False
            self.handling = True
            try:
                self.return_skipped()
            finally:
                self.handling = False
        if not self.handling and self.running and self.running in self.skipped:
            if number == signal.SIGURG and not self.takes_sigint():
                return
            if is_importing(frame):
                self.interrupt_after_import(self.running)
            else:
                self.cancel(self.running)

    def takes_sigint(self):
        """Not where the function has a handler of its own, which the agent has called, or blocks
        the signal, which then waits."""
        if signal.getsignal(signal.SIGINT) != self.on_interrupt:
            return False
        return signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def interrupt_after_import(self, task):
        if self.waits_for_import == task:
            return
        main = _thread.get_ident()

        def repeat():  # one signal may come just before the function waits in a system call
            while self.running == task and task in self.skipped:
                time.sleep(IMPORT_STEP_SECONDS)
                if signal.getsignal(signal.SIGINT) != self.on_interrupt:
                    signal.pthread_kill(main, signal.SIGINT)  # the function's own, meanwhile
                    return
                signal.pthread_kill(main, signal.SIGURG)

        try:
            self.waits_for_import = task
            _thread.start_new_thread(repeat, ())
        except RuntimeError:
            self.waits_for_import = 0  # no more threads here; the agent ends the process

    def return_skipped(self):
        self.take_notes()
        # With user code on the stack nothing is being sent or received: unstarted tasks can be
        # returned at once.
        if self.running and self.skipped:
            self.receive(socket.MSG_DONTWAIT)
            self.parse()
            for run in [run for run in self.ready if run.task in self.skipped]:
                self.ready.remove(run)
                self.answer_cancelled(run)

    def take_notes(self):
        try:
            data = os.read(CANCEL_PIPE, 65536)
        except BlockingIOError:
            return
        for (task,) in U64.iter_unpack(data[: len(data) & ~7]):
            if task & NOTICE_BIT:
                self.gone_at = clock() + (task ^ NOTICE_BIT) * 1_000_000
                try:
                    self.call_back()
                except RuntimeError as error:  # no more threads; the function goes on
                    os.write(2, f"on_preemption: not called: {error}\n".encode())
                continue
            if task & WITHDRAW_BIT:
                task ^= WITHDRAW_BIT
                # Between two calls of a group, nothing is running.
                if task in (self.running, self.stream, self.begun[0]):
                    continue
            if not self.is_finished(task):
                self.skipped.add(task)

    def on_preemption(self, callback):
        """Calls it once, if the cloud preempts the machine while the current task runs."""
        self.callbacks.append(callback)
        if self.gone_at is not None:
            self.call_back()

    def call_back(self):
        # On threads of their own: the main thread may hold any lock just now. They are started
        # without a lock, too.
        left = max(0.0, (self.gone_at - clock()) / 1e9)
        while True:
            try:
                callback = self.callbacks.pop(0)  # another thread may be at it, too
            except IndexError:
                return
            _thread.start_new_thread(warn, (callback, left))

    def close_descriptors(self, run):
        while run.descriptors:  # one by one: an interrupt must not make it close one twice
            os.close(run.descriptors.pop())

    def answer_cancelled(self, run):
        self.skipped.discard(run.task)
        self.close_descriptors(run)
        answer = ANSWER_HEAD.pack(28, RESULT, CANCELLED, 0, run.task, 0, 0, 0)
        if not self.put(answer):
            self.sock.sendall(answer)

    def on_fork(self):
        # A child of the user's function must never answer for the worker.
        self.forked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGURG, signal.SIG_DFL)

    # ------------------------------------------------------------------ running

    def loop(self):
        ready = self.ready
        while True:
            while not ready:
                self.take_told()
                self.run_calls()
                self.end_if_asked()
                if self.parse(self.AT_A_TIME) or ready:
                    continue
                if self.stopped:
                    return
                self.receive_more()
            self.take_told()
            run = ready.popleft()
            if self.skipped and run.task in self.skipped:
                self.answer_cancelled(run)
                continue
            if run.behind and self.mark:
                write_mark(self.mark + U64.pack(run.task))
            self.run(run)
            if run.ring:
                self.ring()
            self.end_if_asked()

    def end_if_asked(self):
        """The next call needs a new process. No exit handler of the user's may hold that up."""
        if self.ends:
            flush_all()
            os._exit(LEAVES)

    def take_told(self):
        """Between calls only: a call may restore the environment that it found."""
        if self.told is not None:
            os.environ["COMPUTE_POOL"] = self.told
            self.told = None

    def run(self, run):
        task = run.task
        started = clock()
        self.interrupted = False
        try:
            self.running = task
            if self.skipped and task in self.skipped:  # cancelled since loop() checked
                self.cancel(task)
            self.begun[0] = task
            pieces = self.run_group(run) if run.group else self.run_call(run)
            self.running = 0
            # Copied first: a result that refers to an argument must not make it seem kept.
            packed = pack(pieces)
            pieces = None
        except BaseException as error:
            self.running = 0
            pieces = None
            self.close_descriptors(run)
            return self.fail(task, started, error)
        self.finish(task, OK, started, packed)

    def run_call(self, run):
        """Runs a single call; returns its pickled result."""
        arguments = self.load_arguments(run)
        function = self.function_of(run)
        result = function(*arguments[0], **arguments[1])
        arguments = None
        if run.window:
            self.send_stream(run.task, run.window, result)
            return dump(None)
        return dump(result)

    def run_group(self, run):
        """Runs the calls of a group; returns the pickled result of the one that it ran last."""
        task, group, at = run.task, run.buffers[0], 0
        self.claimed = 0
        self.begin_group(task)
        function = self.function_of(run)
        while True:
            (size,) = U32.unpack_from(group, at)
            at += U32.size + size
            run.buffers = [group[at - size : at]]
            arguments = self.load_arguments(run)
            pieces = dump(function(*arguments[0], **arguments[1]))
            arguments = None
            if self.forked:  # os.fork() in the function, and this is the child
                os._exit(0)
            if len(pieces) > 1 or len(pieces[0]) > SMALL_OUTCOME or not self.claim(run.window):
                return pieces
            self.running = 0
            if self.callbacks or self.endings:
                self.end_call()
            settle_output()
            outcome = HEAD.pack(12 + len(pieces[0]), OUTCOME, OK, 0, task) + bytes(pieces[0])
            if not self.put(outcome):
                self.sock.sendall(outcome)
            self.running = task
            if task in self.skipped:  # cancelled while it was being sent
                self.cancel(task)

    def fail(self, task, started, error):
        """Answers for a call that raised."""
        if self.forked:
            end_child(error)
        if is_device_error(error):
            add_note(error, "Skyward replaces the worker process: the device may be unusable in it")
            self.ends = True
        status, pieces = self.describe_failure(error)
        # The traceback's frames hold the arguments; without it they go now.
        clear_frames(error)
        try:
            packed = pack(pieces)
        except Exception:  # no room in shared memory; an error is one buffer
            packed = 1, None, pieces[0], -1
        self.finish(task, status, started, packed)

    def finish(self, task, status, started, packed):
        if self.forked:  # os.fork() in the function, and this is the child
            os._exit(0)
        if status != CANCELLED:  # a cancelled task may be sent again
            self.note_finished(task)
        if self.skipped:
            self.skipped.discard(task)
        if self.callbacks or self.endings:
            self.end_call()
        settle_output()
        retained = self.release_arguments() if self.maps else ()
        self.send(RESULT, status, task, clock() - started, packed, retained)

    def end_call(self):
        """Before the answer: the next call finds nothing of this one."""
        self.callbacks.clear()
        while self.endings:
            self.endings.pop()()

    def send_result(self, task, run_ns, pieces):
        """The answer to a call that the compiled half has run, and cannot send itself."""
        try:
            packed = pack(pieces)
        except Exception as error:
            return self.fail(task, clock() - run_ns, error)
        self.send(RESULT, OK, task, run_ns, packed)

    def send_word(self):
        """Wakes the agent, whose bell the user has closed."""
        self.sock.sendall(ELSEWHERE)

    def function_of(self, run):
        if run.function in self.functions:  # which may be false, as an empty container is
            return self.functions[run.function]
        return self.load_function(run.function)

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
            views, blobs, seen = [], {}, set()
            try:
                maps = [mmap.mmap(one, 0, mmap.MAP_PRIVATE, WRITABLE) for one in run.descriptors]
            finally:
                self.close_descriptors(run)
            for buffer in buffers:
                if type(buffer) is tuple:
                    index, blob, offset, size = buffer
                    blobs[index] = blob
                    view = memoryview(maps[index])[offset : offset + size]
                    # Equal bytes came once, but the function may write to each of them.
                    views.append(memoryview(bytearray(view)) if (index, offset) in seen else view)
                    seen.add((index, offset))
                else:
                    views.append(buffer)
            self.maps = [(mapped, blobs.get(index, 0)) for index, mapped in enumerate(maps)]
            buffers = views
        try:
            if len(buffers) == 1:
                return pickle.loads(buffers[0])
            return pickle.loads(buffers[0], buffers=buffers[1:])
        except Exception as error:
            self.explain_arguments(error)
            raise

    def explain_arguments(self, error):
        if isinstance(error, ModuleNotFoundError):
            explain_missing_module(error, "an argument")
        elif isinstance(error, Exception):
            add_note(error, "raised while the arguments of the call were unpickled, on the node")

    def release_arguments(self):
        """Closes the argument maps; returns the ids of blobs that are still in use."""
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
        self.unread.clear()
        try:
            for item in result:
                pieces = dump(item)
                self.running = 0
                if self.forked:  # os.fork() in the generator, and this is the child
                    os._exit(0)
                flush_output()
                if not self.may_send():
                    self.await_credit(task)
                self.credits -= 1
                self.unread.append(sum(map(size_of, pieces)))
                self.send(ITEM, OK, task, 0, pack(pieces))
                self.running = task
                if task in self.skipped:  # cancelled while it was being sent
                    self.cancel(task)
        finally:
            self.stream = 0
            close = getattr(result, "close", None)
            if close is not None:
                close()

    def may_send(self):
        """Whether the stream's reader takes one more item."""
        return self.credits > 0 and sum(self.unread) < UNREAD_BYTES

    def await_credit(self, task):
        self.waiting = True
        try:
            poll = select.poll()
            poll.register(self.sock, select.POLLIN)
            poll.register(CANCEL_PIPE, select.POLLIN)
            while not self.may_send():
                self.take_notes()
                if task in self.skipped:
                    self.cancel(task)
                for descriptor, _ in poll.poll():
                    if descriptor != CANCEL_PIPE:
                        self.receive()
                        self.parse()
                if self.stopped and not self.may_send():
                    self.cancel(task)
        finally:
            self.waiting = False
        self.take_notes()  # that came with the credit: the handler has left them here

    def cancel(self, task):
        self.running = 0
        self.skipped.discard(task)
        self.interrupted = True
        raise KeyboardInterrupt("cancelled")


def is_importing(frame):
    """An import that is cut short leaves its extension modules half initialised: the next call that
    imports them would crash. The agent ends a worker whose import takes too long."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def warn(callback, left):
    try:
        callback(left)
    except BaseException:
        import traceback

        traceback.print_exc()

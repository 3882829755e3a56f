"""The worker alone, with and without its compiled half."""

import itertools
import os
import pickle
import signal
import struct
import subprocess
import sys

import pytest
from skyward.worker.protocol import LEAVES
from waiting import wait_until
from worker_agent import (
    CANCELLED,
    COMPILED,
    ELSEWHERE,
    ITEM,
    MARK,
    OK,
    RAISED,
    RESULT,
    Agent,
    agent,
    by_value,
    call,
)

from skyward.worker import failures

__all__ = ["agent", "by_value"]


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


def test_a_chain_of_exceptions_may_be_long(agent):
    def fail(count):
        error = None
        for number in range(count):
            try:
                raise ValueError(number) from error
            except ValueError as latest:
                error = latest
        raise error

    told = call(agent, fail, 3000).value()
    assert told["message"] == "2999" and "ValueError: 0\n" in told["traceback"]
    assert call(agent, lambda: 1).value() == 1


def test_a_cause_may_be_false(agent):
    def fail(length, text):
        class EmptyError(RuntimeError):
            def __len__(self):
                return length

        raise ValueError("step 3") from EmptyError(text)

    assert call(agent, fail, -1, "its truth cannot be asked for").status == RAISED
    broken = call(agent, fail, 0, "CUDA error: device-side assert triggered")
    assert (broken.status, broken.value()["message"]) == (RAISED, "step 3")
    assert agent.process.wait(20) == 117  # the cause was seen


@pytest.mark.parametrize(
    ("text", "is_device_error"),
    [
        ("Triton Error [CUDA]: an illegal memory access was encountered", True),
        ("CUDA driver error: unspecified launch failure", True),
        ("ncclUnhandledCudaError\nCuda failure 'an illegal memory access was encountered'", True),
        ("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", True),
        ("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED", False),
        ("Triton Error [CUDA]: out of memory", False),
        ("CUDA driver error: out of memory", False),
        ("ncclUnhandledCudaError\nCuda failure 'out of memory'", False),
    ],
)
def test_errors_after_which_a_process_cannot_use_its_gpu(text, is_device_error):
    assert failures.is_device_error(RuntimeError(text)) == is_device_error


def test_names_the_part_of_a_result_that_does_not_pickle(agent):
    def fail():
        import threading

        class Model:
            def __init__(self):
                self.size = 3
                self.lock = threading.Lock()

        class Slotted:
            __slots__ = "held"  # one name, not its letters

        class Key:
            def __repr__(self):
                raise RuntimeError("it cannot be shown")

        slotted = Slotted()
        slotted.held = Model()
        return {Key(): 1, "model": [0, slotted]}

    told = call(agent, fail).value()
    assert (told["module"], told["type"]) == ("skyward.exceptions", "SerializationError")
    assert told["message"] == (
        "the result cannot be sent back: "
        "result['model'][1].held.lock: cannot pickle '_thread.lock' object"
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


def test_a_process_without_room_for_descriptors_says_so_and_exits(agent):
    def forbid_files():
        import resource

        highest = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, highest))

    call(agent, forbid_files)
    data = pickle.PickleBuffer(bytearray(100_000))
    os.close(agent.run_with_blob(1, len, data, blob=7))
    agent.wait_output(b"it has too many files open", 2)
    assert agent.process.wait(20) == 1


def test_a_call_that_runs_is_answered_before_such_a_process_exits(agent, tmp_path):
    def wait_without_files(go):
        import os
        import resource
        import time

        highest = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, highest))
        print("limited")
        while not os.path.exists(go):
            time.sleep(0.01)  # on a worker
        return "answered"

    go = tmp_path / "go"
    agent.run(1, wait_without_files, str(go))
    agent.wait_output(b"limited")
    os.close(agent.run_with_blob(2, len, pickle.PickleBuffer(bytearray(100_000)), blob=7))
    agent.interrupt(2)  # the worker looks for calls that it can return
    agent.wait_output(b"it has too many files open", 2)
    go.touch()
    assert agent.answer().value() == "answered"
    assert agent.process.wait(20) == LEAVES


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

        print("python line")
        sys.stdout.write("no newline")
        sys.stdout.flush()
        ctypes.CDLL(None).printf(b" from C")  # stays in C's buffer until the task ends
        os.write(1, b" raw")
        print("error", file=sys.stderr)

    assert call(agent, speak).status == OK
    assert agent.output(1) == b"python line\nno newline raw from C"
    assert agent.output(2) == b"error\n"


def test_a_thread_that_reads_a_c_stream_holds_no_answer_back(agent):
    def leave_a_reader():
        import ctypes
        import os
        import threading

        libc = ctypes.CDLL(None)
        libc.fdopen.restype = ctypes.c_void_p
        stream = ctypes.c_void_p(libc.fdopen(os.pipe()[0], b"r"))
        threading.Thread(target=libc.fgetc, args=(stream,), daemon=True).start()
        while libc.ftrylockfile(stream) == 0:  # until the thread has the lock
            libc.funlockfile(stream)

    assert call(agent, leave_a_reader).status == OK
    assert call(agent, lambda: 1).value() == 1


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


def rings_soon(agent):
    """How often the bell has rung, which it does a moment after the answer."""
    rings = []
    wait_until(lambda: rings.append(agent.rings()) or sum(rings))
    return sum(rings)


def test_rings_behind_the_answers_for_which_it_was_asked_to(agent):
    agent.set_sleeps(False)
    assert call(agent, lambda: 1).status == OK
    assert agent.rings() == 0
    agent.run(2, lambda: 2, ring=True)
    agent.run(3, lambda: 3, behind=True)
    assert [agent.answer().value() for _ in range(2)] == [2, 3]
    assert rings_soon(agent) == 1
    assert call(agent, lambda: 4).status == OK
    assert agent.rings() == 0


@pytest.mark.parametrize("agent", [COMPILED], ids=["compiled"], indirect=True)
def test_wakes_an_agent_that_sleeps(agent):
    def fail():
        raise ValueError

    for function in (int, fail, int):
        assert call(agent, function).kind == RESULT
        assert rings_soon(agent) == 1


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


def test_a_stream_of_large_items_waits_for_its_reader(agent):
    def large():
        sys.modules["_skyward_worker"].loop.UNREAD_BYTES = 1000
        for number in itertools.count():
            print(number, flush=True)
            yield bytes([number]) * 600

    agent.run(1, large, window=16)
    assert [agent.answer().value()[0] for _ in range(2)] == [0, 1]
    agent.wait_output(b"2\n")  # made, but not sent
    agent.credit(1, 1)
    answer = agent.answer()
    assert (answer.kind, answer.value()[0]) == (ITEM, 2)
    agent.wait_output(b"3\n")
    agent.interrupt(1)
    assert agent.answer()[:3] == (RESULT, CANCELLED, 1)
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

        if child := os.fork():
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        exec(f"import sys; {end}")

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
                "SKYWARD_CLIENT_PYTHON",
            )
            ours = [name for name in private if name in os.environ]
            return beside_the_script.answer, ours, os.environ["COMPUTE_POOL"]

        assert call(agent, look).value() == (42, [], "{}")
    finally:
        agent.close()


@pytest.mark.parametrize(("processors", "share"), [("2", "1"), ("9", "2")])
def test_slots_share_the_processors_that_the_node_may_use(processors, share):
    agent = Agent(SKYWARD_SLOTS="4", SKYWARD_CPUS=processors, OMP_NUM_THREADS="3")
    try:
        agent.hello()

        def look():
            import os

            return os.environ["BLIS_NUM_THREADS"], os.environ["OMP_NUM_THREADS"]

        assert call(agent, look).value() == (share, "3")
    finally:
        agent.close()


def test_greets_before_it_has_imported_what_only_calls_need(tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    (tmp_path / "cloudpickle.py").write_text(
        "import sys\n"
        f"open({str(go)!r}).close()\n"
        f"sys.path.remove({str(tmp_path)!r})\n"
        "del sys.modules['cloudpickle']\n"
        "import cloudpickle\n"
    )
    agent = Agent(SKYWARD_SYS_PATH=str(tmp_path))
    try:
        agent.hello()
        os.close(os.open(go, os.O_WRONLY))  # waits until it is importing
        assert call(agent, lambda: 42).value() == 42
    finally:
        agent.close()


def test_does_not_greet_without_cloudpickle(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.path = [entry for entry in sys.path if 'site-packages' not in entry]\n"
    )
    agent = Agent(PYTHONPATH=str(tmp_path))
    try:
        assert agent.process.wait(20) == 1
        assert "No module named 'cloudpickle'" in agent.output(2).decode()
        assert agent.sock.recv(1) == b""
    finally:
        agent.close()

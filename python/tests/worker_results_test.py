"""Large results of the Python worker, and the memory in which they leave it."""

import builtins
import contextlib
import mmap
import os
import pickle
import resource
import sys
import tempfile
import time

import pytest
from skyward.worker.protocol import MOST_BUFFERS
from worker_agent import agent, by_value, call

__all__ = ["agent", "by_value"]


LARGE = 8 << 20


def repeat(value, size):
    return value * size


def test_the_memory_of_a_large_result_is_used_again_when_its_receiver_has_released_it(agent):
    first = call(agent, repeat, b"1", LARGE)
    second = call(agent, repeat, b"2", LARGE)
    assert first.files != second.files  # the first one is still mapped
    assert first.value() == b"1" * LARGE
    used = first.files
    release(first)
    third = call(agent, repeat, b"3", LARGE)
    assert third.files == used
    assert (second.value(), third.value()) == (b"2" * LARGE, b"3" * LARGE)
    release(third)
    assert call(agent, repeat, b"4", LARGE + 64).files != used


def test_memory_that_a_child_of_the_receiver_has_mapped_is_not_used_again(agent):
    first = call(agent, repeat, b"1", LARGE)
    with forked():
        release(first)
        second = call(agent, repeat, b"2", LARGE)
        assert first.files != second.files
    assert call(agent, repeat, b"3", LARGE).files == first.files


def test_what_has_the_number_of_a_file_that_the_user_has_closed_stays_as_it_is(agent):
    def begin():
        builtins.victim = tempfile.TemporaryFile()

    def replace_all():
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                if "skyward-result" in os.readlink(f"/proc/self/fd/{name}"):
                    os.dup2(builtins.victim.fileno(), int(name))
                    builtins.replaced = True

    def look():
        return builtins.replaced, os.fstat(builtins.victim.fileno()).st_size

    call(agent, begin)
    first = call(agent, repeat, b"1", LARGE)
    call(agent, replace_all)
    release(first)
    assert call(agent, repeat, b"2", LARGE).value() == b"2" * LARGE
    assert call(agent, look).value() == (True, 0)


def test_memory_is_used_again_without_room_to_map_it(agent):
    def leave_little():
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * mmap.PAGESIZE
        resource.setrlimit(resource.RLIMIT_AS, (used + LARGE * 3 // 2, -1))

    def is_mapped():
        (kept,) = sys.modules["_skyward_worker"].results.memory.kept
        return kept.map is not None

    first = call(agent, repeat, b"1", LARGE)
    release(first)
    call(agent, leave_little)
    second = call(agent, repeat, b"2", LARGE)
    assert second.files == first.files and second.value() == b"2" * LARGE
    assert not call(agent, is_mapped).value()


def test_memory_goes_that_no_result_uses(agent):
    def hurry():
        sys.modules["_skyward_worker"].connection.IDLE_SECONDS = 0.01

    call(agent, hurry)
    assert call(agent, repeat, b"1", LARGE).value() == b"1" * LARGE
    deadline = time.monotonic() + 20
    while call(agent, open_results).value():
        assert time.monotonic() < deadline
    assert call(agent, repeat, b"2", LARGE).value() == b"2" * LARGE


def test_few_files_are_kept(agent):
    def count():
        return len(os.listdir("/proc/self/fd"))

    call(agent, repeat, b"1", 1)
    before = call(agent, count).value()
    answers = [call(agent, repeat, b"1", LARGE + 64 * number) for number in range(20)]
    assert call(agent, count).value() - before <= 8
    release(answers[0])
    assert call(agent, repeat, b"2", LARGE).files != answers[0].files
    release(answers[-1])
    assert call(agent, repeat, b"2", LARGE + 64 * 19).files == answers[-1].files


def test_many_small_buffers_are_a_part_of_the_stream(agent):
    def make(count, size):
        return [pickle.PickleBuffer(bytearray([k % 251]) * size) for k in range(count)]

    def items(count, size):
        yield make(count, size)

    few, size = 10, 24
    expected = [bytearray([k]) * size for k in range(few)]
    answer = call(agent, make, few, size)
    assert len(answer.buffers) == 1 and answer.value() == expected
    agent.run(1, items, few, size, window=5)
    item = agent.answer()
    assert len(item.buffers) == 1 and item.value() == expected
    agent.answer()
    many = call(agent, make, 70_000, size)
    assert len(many.buffers) == 1 and len(many.value()) == 70_000


def test_no_more_buffers_are_beside_the_stream_than_an_answer_takes(agent):
    def make(count):
        sys.modules["_skyward_worker"].results.MOST_BUFFERS = 4
        return [pickle.PickleBuffer(bytearray([k]) * 20_000) for k in range(count)]

    assert MOST_BUFFERS == 65536  # kMaxBuffers
    answer = call(agent, make, 10)
    assert len(answer.buffers) == 4
    assert [bytes(part) for part in answer.value()] == [bytes([k]) * 20_000 for k in range(10)]


def open_results():
    """How many files of results this process has open."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found += "skyward-result" in os.readlink(f"/proc/self/fd/{name}")
    return found


def test_what_cannot_be_kept_leaves_nothing_open(agent):
    def allow(count):
        """Fails from then on, as without descriptors."""
        memory = sys.modules["_skyward_worker"].result_memory
        left, really = iter(range(count)), memory.open_again

        def open_again(descriptor):
            if next(left, None) is None:
                raise OSError("no more")
            return really(descriptor)

        memory.open_again = open_again

    for count in (1, 0):
        call(agent, allow, count)
        answer = call(agent, repeat, b"1", LARGE)
        assert answer.value() == b"1" * LARGE
        assert call(agent, open_results).value() == 0


def test_a_child_of_the_task_keeps_nothing(agent):
    def fork():
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(write, bytes([open_results()]))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        return os.read(read, 1)[0]

    first = call(agent, repeat, b"1", LARGE)
    assert call(agent, open_results).value() == 1
    assert call(agent, fork).value() == 0
    release(first)
    assert call(agent, repeat, b"2", LARGE).files == first.files


def release(answer):
    for view in answer.buffers[1:]:
        mapped = view.obj
        view.release()
        mapped.close()


@contextlib.contextmanager
def forked():
    """While there is a child of this process, which has all that it has mapped now."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    try:
        yield
    finally:
        os.close(write)
        os.waitpid(child, 0)


def without_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    builtins.taken = []
    with contextlib.suppress(OSError):
        while True:
            builtins.taken.append(open("/dev/null"))


def with_small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGE // 2, -1))


def without_limits():
    builtins.taken = []
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE):
        highest = resource.getrlimit(limit)[1]
        resource.setrlimit(limit, (highest, highest))
    return open_results()


@pytest.mark.parametrize(
    ("limited", "reason"),
    [(without_descriptors, "Too many open files"), (with_small_files, "File too large")],
)
def test_a_result_that_cannot_be_stored_is_an_error(agent, limited, reason):
    def limited_repeat(size):
        limited()
        return b"1" * size

    def fail(size):
        raise LookupError(limited_repeat(size))

    def items():
        yield b"1"
        yield limited_repeat(LARGE)

    message = f"bytes could not be stored: {reason}"
    for _ in range(2):  # the second time, the function is known
        described = call(agent, limited_repeat, LARGE).value()
        assert message in described["message"] and described["of_result"]
        assert call(agent, without_limits).value() == 0
    agent.group(1, limited_repeat, [1, LARGE, 1])
    assert agent.outcome(1) == b"1"
    assert message in agent.answer().value()["message"]
    agent.run(2, items, window=5)
    assert agent.answer().value() == b"1"
    assert message in agent.answer().value()["message"]
    assert "1111" in call(agent, fail, LARGE).value()["message"]
    assert call(agent, without_limits).value() == 0


def test_a_result_that_refers_to_an_argument_and_cannot_be_stored_keeps_nothing(agent):
    sent = pytest.importorskip("numpy").zeros(LARGE)
    agent.run_with_blob(1, lambda array: (without_descriptors(), array), sent, 7)
    answer = agent.answer()
    assert answer.retained == [] and "Too many open files" in answer.value()["message"]
    call(agent, without_limits)

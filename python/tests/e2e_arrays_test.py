"""Large data in both directions."""

import contextlib
import gc
import hashlib
import os
import sys

import numpy
import pytest
from skyward.transport import serialize

import skyward as sky
from skyward.worker import results


@sky.compute
def echo(*args):
    return args if len(args) != 1 else args[0]


@sky.compute
def digest(data):
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("count", [0, 1, 1000, 8191, 8192, 8193, 100_000, 5_000_000])
def test_arrays_of_every_size_come_back_writable(pool, count):
    array = numpy.arange(count, dtype="f8")
    back = echo(array) >> pool
    assert (back == array).all() and back.dtype == array.dtype
    back[:] = 7
    assert (array == numpy.arange(count)).all()


def test_a_task_may_write_to_its_argument(pool):
    @sky.compute
    def fill(array):
        array[:] = 1
        return float(array.sum())

    array = numpy.zeros(1_000_000)
    assert fill(array) >> pool == 1_000_000
    assert array.sum() == 0
    assert fill(array) @ pool == (1_000_000.0, 1_000_000.0)


def test_results_outlive_everything_else(pool):
    parts = [echo(numpy.full(300_000, i)) >> pool for i in range(10)]
    gc.collect()
    for i, part in enumerate(parts):
        assert (part == i).all()


def test_slices_keep_their_memory(pool):
    part = (echo(numpy.arange(1_000_000)) >> pool)[10:20]
    gc.collect()
    for _ in range(5):
        echo(numpy.zeros(1_000_000)) >> pool
    assert part.tolist() == list(range(10, 20))


def test_a_task_may_keep_its_argument(pool):
    @sky.compute
    def keep(array):
        import builtins

        old = getattr(builtins, "kept", None)
        builtins.kept = array
        return None if old is None else float(old[0])

    for i in range(6):
        seen = keep(numpy.full(200_000, float(i))) @ pool
        assert seen == ((None, None) if i == 0 else (i - 1.0, i - 1.0))


def test_one_array_in_many_calls(pool):
    array = numpy.random.default_rng(1).random(500_000)
    expected = hashlib.sha256(array).hexdigest()
    answers = sky.gather(*[digest(array) for _ in range(40)]) >> pool
    assert set(answers) == {expected}


def test_one_array_in_many_calls_is_stored_once():
    with sky.ComputePool(display="quiet") as pool:
        # What earlier tests stored may be released meanwhile: only what is new counts.
        before = stored_objects()
        array = numpy.ones(1_000_000)
        calls = [digest(array) for _ in range(30)]
        # The generator keeps its worker busy, so that the calls are all waiting when we count.
        stream = sky.compute(endless)() >> pool
        next(stream)
        futures = pool.submit_batch(sky.gather(*calls))
        assert len(stored_objects() - before) == 1
        stream.close()
        assert len({future.result(30) for future in futures}) == 1


@sky.compute
def ends(array):
    return float(array[0]), float(array[-1])


class Filled:
    """Is pickled from an array that all of its kind fill, one after another."""

    def __init__(self, shared, value):
        self.shared, self.value = shared, value

    def __reduce__(self):
        self.shared[:] = self.value
        return numpy.asarray, (self.shared,)


@pytest.mark.parametrize("count", [10_000, 100_000, 1_000_000])  # the last is compared by samples
def test_an_array_that_changes_while_calls_are_packed_is_sent_as_it_was_in_each(pool, count):
    shared = numpy.empty(count)
    calls = [ends(Filled(shared, value)) for value in (1, 2, 2, 3)]
    assert list(sky.gather(*calls) >> pool) == [(v, v) for v in (1, 2, 2, 3)]


def stored_objects():
    """The inodes of the shared memory that this process holds."""
    inodes = set()
    for entry in os.scandir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            if "memfd:" in os.readlink(entry.path):
                inodes.add(os.stat(entry.path).st_ino)
    return inodes


def endless():
    while True:
        yield 1


def test_plain_bytes_and_long_texts(pool):
    data = bytes(range(256)) * 10_000
    assert echo(data) >> pool == data
    text = "äöü" * 100_000
    assert echo(text, [text]) >> pool == (text, [text])
    assert bytes(echo(bytearray(data)) >> pool) == data


def test_large_bytes_are_copied_into_no_pickle(pool):
    @sky.compute
    def end(data, *, other):
        assert type(data) is type(other) is bytes
        return data[:-1] + other[-1:]

    size = 3_000_000
    expected = bytes(size - 1) + b"x"
    sent = end(bytes(size), other=expected)
    assert (sent >> pool) == expected
    assert (sent @ pool) == (expected, expected)
    assert list(sky.gather(sent, sent) >> pool) == [expected, expected]
    assert list(pool.map(echo, [expected, b"", expected])) == [expected, b"", expected]


def test_the_compiled_pickler_leaves_large_bytes_to_the_one_that_copies_none(pool, monkeypatch):
    found = []
    dumps = serialize.dumps_arguments

    def noted(*call):
        found.append(dumps(*call))
        return found[-1]

    monkeypatch.setattr(serialize, "dumps_arguments", noted)
    large = bytes(3_000_000)
    assert len(echo(large) >> pool) == len(large)
    assert len(list(sky.gather(echo(large), echo(b"small")) >> pool)) == 2
    assert [len(stream) < 1000 for stream, _ in found] == [True, True]


def test_all_agree_which_bytes_go_beside_the_pickle(pool, monkeypatch):
    left_by_core = []
    beyond = serialize.dumps_beyond_plain

    def noted(fn, name, args, kwargs):
        left_by_core.append(len(args[0]))
        return beyond(fn, name, args, kwargs)

    monkeypatch.setattr(serialize, "dumps_beyond_plain", noted)
    size = serialize.BESIDE_BYTES
    for length in (size - 1, size):
        assert len(echo(bytes(length)) >> pool) == length
        sky.gather(echo(bytes(length)), echo(bytes(length))) >> pool
    assert left_by_core == [size] * 3
    assert results.BESIDE_BYTES == size
    assert results.IN_BAND_BYTES == serialize.IN_BAND_BYTES


def test_several_large_buffers_in_one_call(pool):
    arrays = [numpy.full(n, n) for n in (10, 10_000, 100_000, 3)]
    back = echo(*arrays) >> pool
    assert all((a == b).all() for a, b in zip(arrays, back, strict=True))


def test_a_thousand_large_buffers_in_one_call(pool):
    arrays = [numpy.full(70_000, i % 251, "u1") for i in range(1000)]
    repeated = [arrays[999], arrays[0]] * 3
    back = echo(*arrays, *repeated) >> pool
    assert len(back) == 1006
    assert all((a == b).all() for a, b in zip(arrays + repeated, back, strict=True))


@sky.compute
def rows(count, width, kind):
    table = numpy.arange(count * width).reshape(count, width).astype(kind)
    return list(table)


# More arrays than a message has buffers, and more bytes than it takes outside of blobs.
@pytest.mark.parametrize(("count", "width"), [(70_000, 3), (25_000, 768)])
def test_many_small_arrays_come_back(pool, count, width):
    back = rows(count, width, "f4") >> pool
    assert len(back) == count and all(row.shape == (width,) for row in back)
    expected = numpy.arange(count * width).astype("f4").reshape(count, width)
    assert (numpy.stack(back) == expected).all()
    back[-1][:] = 0  # writable


@sky.compute
def sums(arrays):
    return [int(array.sum()) for array in arrays]


def test_many_arrays_that_are_a_little_smaller_go_together(pool):
    """More bytes than a message takes outside of blobs."""
    arrays = [numpy.full((224, 224), i % 251, "u1") for i in range(1400)]
    assert sums(arrays) >> pool == [224 * 224 * (i % 251) for i in range(1400)]
    there = sky.gather(sums(arrays), sums(arrays[::-1])) >> pool
    assert there[0] == there[1][::-1]


def test_calls_of_one_batch_share_their_many_buffers():
    arrays = [numpy.full(70_000, i % 251, "u1") for i in range(150)]

    with sky.ComputePool(display="quiet") as pool:
        # The first 62 of each call have blobs of their own, whatever they were in the other.
        calls = [echo(*arrays), echo(*reversed(arrays))]
        forth, back = sky.gather(*calls) >> pool
    assert all((a == b).all() for a, b in zip(arrays, forth, strict=True))
    assert all((a == b).all() for a, b in zip(arrays, reversed(back), strict=True))


def test_many_large_buffers_go_to_other_machines(tmp_path):
    shell = ["env", f"XDG_CACHE_HOME={tmp_path}", "sh", "-c"]
    arrays = [numpy.full(70_000, i % 251, "u1") for i in range(100)]
    there = sky.Command([shell], python=sys.executable)
    with sky.ComputePool(provider=there, display="quiet") as pool:
        back = echo(*arrays) >> pool
    assert all((a == b).all() for a, b in zip(arrays, back, strict=True))


def test_equal_arrays_arrive_apart(pool):
    """Their bytes are sent once."""

    @sky.compute
    def fill(first, second, third):
        first += 1
        second += 2
        return float(first.sum()), float(second.sum()), float(third.sum())

    def call():
        return fill(*numpy.zeros((3, 100_000)))

    there = sky.Command([["sh", "-c"]], python=sys.executable)
    with sky.ComputePool(provider=there, display="quiet") as machine:
        assert [call() >> machine, call() >> pool] == [(100_000, 200_000, 0)] * 2
        same = numpy.zeros(100_000)
        twice = fill(same, same[:], numpy.zeros(1))
        assert [twice >> machine, twice >> pool] == [(100_000, 200_000, 0)] * 2


def test_a_hundred_megabytes(pool):
    array = numpy.random.default_rng(2).integers(0, 255, 100 << 20, dtype="u1")
    assert digest(array) >> pool == hashlib.sha256(array).hexdigest()
    assert (echo(array) >> pool == array).all()


def test_a_callable_may_be_false(pool):
    class Empty:
        def __len__(self):
            return 0

        def __call__(self, array):
            return float(array.sum())

    empty = sky.compute(Empty())
    for _ in range(4):  # on each node, not only for the first time
        assert empty(numpy.ones(100_000)) >> pool == 100_000

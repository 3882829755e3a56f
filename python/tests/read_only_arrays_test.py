"""Large read-only arrays, which are sent once."""

import gc
import pickle

import numpy
import pytest
from skyward.transport import read_only_arrays, serialize
from skyward.transport.read_only_arrays import ARRAY_BYTES, ReadOnlyArrays
from skyward.transport.shared_arguments import MOST_STORED

import skyward as sky


class Core:
    """Notes what is stored."""

    def __init__(self):
        self.stored = []
        self.memory = 1 << 40

    def least_memory(self):
        return self.memory

    def store(self, view):
        self.stored.append(bytes(view))
        return Stored(len(self.stored))

    def forget(self, stored):
        self.stored[stored.number - 1] = None


class Stored:
    def __init__(self, number):
        self.number = number


@pytest.fixture
def core():
    return Core()


@pytest.fixture
def arrays(core):
    return ReadOnlyArrays(core)


def read_only(value=1.0, size=ARRAY_BYTES):
    array = numpy.full(size // 8, value)
    array.flags.writeable = False
    return array


def send(arrays, value):
    """What is sent of its one large buffer."""
    beside, buffers = serialize.collector(arrays.for_calls())
    pickle.dumps(value, protocol=5, buffer_callback=beside)
    (sent,) = buffers
    return sent


def test_an_array_is_stored_when_it_is_sent_again(arrays, core):
    array = read_only()
    assert isinstance(send(arrays, array), memoryview)
    assert core.stored == []
    again = send(arrays, array)
    assert again.number == 1 and core.stored == [array.tobytes()]
    assert send(arrays, {"inside": [array]}) is again


def test_a_part_of_it_is_an_array_of_its_own(arrays, core):
    array = read_only(size=3 * ARRAY_BYTES)
    part = array[: len(array) // 2]
    for value in (array, part, array.reshape(2, -1).T):
        send(arrays, value)
    assert send(arrays, array).number == 1
    assert send(arrays, part).number == 2
    assert send(arrays, array[: len(array) // 2]).number == 2
    assert send(arrays, array.reshape(2, -1).T).number == 1  # the same bytes


def test_it_is_forgotten_with_the_array(arrays, core):
    array = read_only()
    send(arrays, array), send(arrays, array)
    assert core.stored != [None]
    del array
    gc.collect()
    assert core.stored == [None]


def shown_by_a_writable_one():
    array = numpy.ones(ARRAY_BYTES)
    view = array[:]
    view.flags.writeable = False
    return view, array


@pytest.mark.parametrize(
    "make",
    [
        lambda: numpy.ones(ARRAY_BYTES),
        lambda: read_only(size=ARRAY_BYTES - 8),
        lambda: shown_by_a_writable_one()[0],
        lambda: numpy.frombuffer(bytearray(ARRAY_BYTES)),
        lambda: numpy.broadcast_to(numpy.ones(ARRAY_BYTES), (1, ARRAY_BYTES)),
    ],
    ids=["writable", "small", "a view", "foreign memory", "broadcast"],
)
def test_what_can_be_written_to_is_copied(arrays, core, make):
    array = make()
    for _ in range(3):
        assert isinstance(send(arrays, array), memoryview)
    assert core.stored == []


def test_bytes_that_have_changed_all_the_same_are_seen_in_a_sample(arrays, core):
    array = read_only()
    send(arrays, array), send(arrays, array)
    array.flags.writeable = True
    array[:] = 2.0
    array.flags.writeable = False
    assert isinstance(send(arrays, array), memoryview)
    assert send(arrays, array).number == 2
    assert core.stored == [None, array.tobytes()]


def test_what_was_sent_longest_ago_makes_room(core):
    arrays = ReadOnlyArrays(core, limit=2 * ARRAY_BYTES)
    three = [read_only(float(number)) for number in range(3)]
    for array in three:
        send(arrays, array)
    assert [send(arrays, three[number]).number for number in (0, 1, 0, 2)] == [1, 2, 1, 3]
    assert [stored is None for stored in core.stored] == [False, True, False]
    huge = read_only(size=3 * ARRAY_BYTES)
    send(arrays, huge)
    assert isinstance(send(arrays, huge), memoryview)
    assert [stored is None for stored in core.stored] == [False, True, False]


def test_small_nodes_need_not_hold_more_than_an_eighth_of_their_memory(arrays, core):
    three = [read_only(float(number)) for number in range(3)]
    for array in three:
        send(arrays, array)
    assert send(arrays, three[0]).number == 1
    core.memory = 8 * ARRAY_BYTES  # a replacement with less
    assert send(arrays, three[1]).number == 2
    assert [stored is None for stored in core.stored] == [True, False]
    core.memory = 8 * ARRAY_BYTES - 1
    assert isinstance(send(arrays, three[2]), memoryview)
    core.memory = 0  # none is there now
    send(arrays, three[0])
    assert isinstance(send(arrays, three[0]), memoryview)


def test_calls_that_are_sent_together_do_not_store_it(arrays, core):
    array = read_only()
    for count in range(2):
        beside, buffers = serialize.collector(arrays.for_calls())
        for _ in range(3):
            pickle.dumps(array, protocol=5, buffer_callback=beside)
        assert [isinstance(sent, Stored) for sent in buffers] == [count > 0] * 3
    assert len(core.stored) == 1


def test_few_descriptors_are_taken(arrays, core):
    array = read_only(size=(2 * MOST_STORED + 1) * ARRAY_BYTES)
    step = ARRAY_BYTES // 8
    parts = [array[at : at + step] for at in range(0, len(array), step)]
    for _ in range(2):
        for part in parts:
            send(arrays, part)
    assert len(core.stored) == len(parts)
    assert sum(stored is not None for stored in core.stored) == MOST_STORED


def test_arrays_that_are_sent_once_are_forgotten_some_time(arrays, core, monkeypatch):
    monkeypatch.setattr(read_only_arrays, "MOST_SEEN", 2)
    three = [read_only(float(number)) for number in range(3)]
    for number in (0, 1, 2, 0, 2):
        send(arrays, three[number])
    assert core.stored == [three[2].tobytes()]


def test_arrays_may_die_while_others_are_sent(core):
    arrays = ReadOnlyArrays(core, limit=1 << 40)
    thresholds = gc.get_threshold()
    gc.set_threshold(20, 2, 2)
    try:
        for number in range(300):
            array = read_only(float(number))
            cycle = [array]
            cycle.append(cycle)
            send(arrays, array), send(arrays, array)
    finally:
        gc.set_threshold(*thresholds)
    del array, cycle
    gc.collect()
    assert not any(core.stored)


def test_a_handler_may_send_while_an_array_is_stored(arrays, core):
    array, other = read_only(1.0), read_only(2.0)
    send(arrays, array)
    store, core.store = core.store, lambda view: (send(arrays, other), store(view))[1]
    assert isinstance(send(arrays, array), Stored)


def test_closing_forgets_all(arrays, core):
    array = read_only()
    send(arrays, array), send(arrays, array)
    arrays.close()
    assert core.stored == [None]


@sky.compute
def total(array):
    return float(array.sum()), array.flags.writeable


def test_tasks_see_the_array_as_it_is(pool):
    array = read_only(1.0, 8 << 20)
    expected = (float(len(array)), False)
    for _ in range(4):
        assert total(array) >> pool == expected
    assert total(array) @ pool == (expected, expected)
    assert sky.gather(*[total(array) for _ in range(5)]) >> pool == (expected,) * 5
    assert total(array=array[1:]) >> pool == (expected[0] - 1, False)


def test_a_new_pool_gets_it_again():
    array = read_only(1.0, 8 << 20)
    for _ in range(2):
        with sky.ComputePool(display="quiet") as pool:
            for _ in range(3):
                assert total(array) >> pool == (float(len(array)), False)

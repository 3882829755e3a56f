"""pool.map() of quick calls, which travel in groups. Each is a call of its own all the same."""

import inspect
import itertools
import math
import os
import threading
import time

import numpy
import pytest
from quick_calls import Strange, double, fail_once, lose_node_at, note, runs, wait_at
from skyward.pool.grouped_calls import BETWEEN, REFUSED, Pace, new_draft
from skyward.transport import serialize
from waiting import DEADLINE, wait_until

import skyward as sky

LAST = itertools.repeat("last")

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def pool():
    with sky.ComputePool(concurrency=2, display="quiet") as pool:
        yield pool


def test_answers_come_in_order(pool):
    assert list(pool.map(double, range(20_000))) == list(range(0, 40_000, 2))
    first = list(itertools.islice(pool.map(double, itertools.count()), 3000))
    assert first == list(range(0, 6000, 2))


def test_calls_are_sent_together(pool):
    def tasks():
        before = pool._engine().core.task_counts()[0]
        assert sum(pool.map(double, range(10_000))) == 99_990_000
        return pool._engine().core.task_counts()[0] - before

    # Calls that are slow for a moment go alone, and a machine may be busy with something else.
    assert any(tasks() < 2000 for _ in range(8))


def test_a_slow_call_does_not_hold_up_those_behind_it(pool, tmp_path):
    # The slow one ends when the last one has run, elsewhere.
    inputs = [*range(3000), "slow", *range(500), "last"]
    answers = pool.map(
        wait_at, inputs, itertools.repeat("slow"), LAST, itertools.repeat(str(tmp_path))
    )
    assert list(answers) == inputs


@pytest.mark.parametrize("count", [500, 3000])
def test_a_slow_first_call_keeps_no_slot_idle(pool, tmp_path, count):
    inputs = ["slow", *range(count), "last"]
    answers = pool.map(
        wait_at, inputs, itertools.repeat("slow"), LAST, itertools.repeat(str(tmp_path))
    )
    assert list(answers) == inputs


@pytest.mark.parametrize("are_shared", [True, False])
def test_large_arguments_behind_a_slow_call_keep_no_slot_idle(
    pool, tmp_path, monkeypatch, are_shared
):
    if are_shared:  # more than map() sends ahead, if each call counted the array
        data = numpy.zeros(5 << 20, numpy.uint8)
        data.flags.writeable = False
        arguments = itertools.repeat(data)
    else:
        monkeypatch.setattr("skyward.pool.mapped_calls.AHEAD_BYTES", 1 << 20)
        arguments = (bytes(100_000) for _ in itertools.count())
    inputs = ["slow", *range(38), "last"]
    folder = str(tmp_path)
    wait = lambda x, _: wait_at.local(x, "slow", "last", folder)
    assert list(pool.map(wait, inputs, arguments)) == inputs


@sky.compute
def fail_at(x, at):
    if x == at:
        raise LookupError(f"no row {x}")
    return x


def test_results_do_not_wait_for_slow_inputs(pool):
    read = threading.Event()
    drawn = []

    def inputs():
        for at in range(40):
            read.wait(0.2)
            drawn.append(at)
            yield at

    results = pool.map(double, inputs())
    assert list(itertools.islice(results, 3)) == [0, 2, 4]
    assert len(drawn) < 40
    read.set()
    assert list(results) == list(range(6, 80, 2))


@pytest.mark.parametrize("size", [4, 10_000, 2_000_000])
def test_an_input_is_what_it_was_when_it_was_drawn(pool, size):
    """Readers of files and cameras fill one buffer again and again."""

    def frames(count):
        buffer = bytearray(size)
        for at in range(count):
            buffer[:4] = at.to_bytes(4, "little")
            yield buffer

    count = 5000 if size == 4 else 40
    first = sky.compute(lambda frame: int.from_bytes(frame[:4], "little"))
    assert list(pool.map(first, frames(count))) == list(range(count))
    rows = ((at, [frame]) for at, frame in enumerate(frames(count)))
    assert list(pool.map(lambda row: row[0] - first.local(row[1][0]), rows)) == [0] * count


def test_small_inputs_that_can_be_changed_travel_in_groups_too(pool):
    def tasks():
        before = pool._engine().core.task_counts()[0]
        rows = ([x] if x % 1000 else x for x in range(10_000))  # and those that cannot, among them
        results = list(pool.map(lambda row: row[0] if isinstance(row, list) else row, rows))
        assert results == list(range(10_000))
        return pool._engine().core.task_counts()[0] - before

    assert any(tasks() < 2000 for _ in range(8))


def test_an_error_of_the_inputs_comes_after_the_answers_before_it(pool):
    def inputs():
        yield from range(5000)
        raise LookupError("no more rows")

    got = []
    with pytest.raises(LookupError, match="no more rows"):
        got.extend(pool.map(double, inputs()))
    assert got == list(range(0, 10_000, 2))


def test_an_error_comes_at_its_place(pool):
    answers = pool.map(fail_at, range(10_000), itertools.repeat(7000))
    got = []
    with pytest.raises(LookupError, match="no row 7000") as caught:
        got.extend(answers)
    assert got == list(range(7000))
    assert "call: fail_at(7000, 7000)" in caught.value.__notes__
    assert list(pool.map(double, range(10))) == list(range(0, 20, 2))


def test_the_death_of_a_worker_is_blamed_on_the_call_that_ran(pool, tmp_path):
    got = []
    with pytest.raises(sky.ExecutionError, match="exited with code 3") as caught:
        got.extend(
            pool.map(note, range(4000), itertools.repeat(3500), itertools.repeat(str(tmp_path)))
        )
    assert got == list(range(3500))
    assert "call: note(3500, 3500" in caught.value.__notes__[-1]
    assert max(runs(tmp_path).values()) == 1


def test_only_the_call_that_failed_is_retried(pool, tmp_path):
    @sky.compute(retries=1)
    def fail_once(x, folder):
        import os

        with open(f"{folder}/{os.getpid()}", "a") as file:
            file.write(f"{x}\n")
        if x == 2500 and not os.path.exists(f"{folder}.failed"):
            open(f"{folder}.failed", "w").close()
            os._exit(3)
        return x

    assert list(pool.map(fail_once, range(4000), itertools.repeat(str(tmp_path)))) == list(
        range(4000)
    )
    times = runs(tmp_path)
    assert times.pop(2500) == 2
    assert set(times.values()) == {1} and len(times) == 3999


def test_a_retry_does_not_wait_for_its_turn(pool, tmp_path):
    names = ["waits", "fails once"]
    work = sky.compute(retries=1)(fail_once)
    assert list(pool.map(work, names, itertools.repeat(str(tmp_path)))) == names


def test_a_call_that_fails_in_spite_of_retries_raises_at_its_place(pool, caplog):
    got = []
    with pytest.raises(LookupError, match="no row 7") as caught:
        got.extend(pool.map(sky.compute(retries=1)(fail_at.local), range(10), itertools.repeat(7)))
    assert got == list(range(7))
    assert caught.value.__notes__[-2:] == ["attempt 2 of 2", "call: fail_at(7, 7)"]
    assert list(pool.map(double, range(10))) == list(range(0, 20, 2))
    assert caplog.text == ""


def test_large_results_and_arguments_go_alone(pool):
    sizes = [1, 10, 100_000, 5, 100_000, 3]
    assert [len(x) for x in pool.map(lambda n: b"x" * n, sizes * 40)] == sizes * 40
    values = [bytes(size) for size in sizes] * 40
    assert list(pool.map(len, values)) == sizes * 40


def test_a_call_that_is_too_large_raises_at_its_place(pool, monkeypatch):
    monkeypatch.setattr(serialize, "IN_BAND_BYTES", 1)
    monkeypatch.setattr(serialize, "MOST_BUFFERS", 1 << 20)
    many = [numpy.zeros(1) for _ in range(1 << 16)]
    got = []
    with pytest.raises(sky.ConfigurationError, match="65537 buffers") as caught:
        got.extend(pool.map(lambda x: x, [*range(20), many, 20]))
    assert got == list(range(20))
    assert caught.value.__notes__[-1].startswith("call: ")


def test_a_few_large_values_leave_the_others_in_groups(pool):
    def tasks(function, inputs, outputs):
        before = pool._engine().core.task_counts()[0]
        assert list(pool.map(function, inputs)) == outputs
        return pool._engine().core.task_counts()[0] - before

    numbers = range(20_000)
    large = [bytes(5000) if x % 500 == 250 else x for x in numbers]  # 40 of them
    enlarged = lambda x: bytes(5000) if x % 500 == 250 else x
    assert any(tasks(enlarged, numbers, large) < 5000 for _ in range(8))
    assert any(tasks(lambda x: x, large, large) < 5000 for _ in range(8))


def test_groups_end_when_large_results_follow_each_other():
    pace = Pace()
    for _ in range(3 * REFUSED):
        pace.note_results(BETWEEN // 2, False)
        pace.note_results(BETWEEN // 2, True)
    assert pace.in_groups
    for _ in range(REFUSED):
        pace.note_results(BETWEEN // 2, True)
    assert not pace.in_groups


@pytest.mark.parametrize("retries", [0, 1])
def test_large_results_that_nobody_reads_hold_up_further_calls(
    pool, retries, tmp_path, monkeypatch
):
    monkeypatch.setattr("skyward.pool.mapped_calls.default_limit", lambda: 64 << 20)

    @sky.compute(retries=retries)
    def produce(x, folder):
        import pathlib
        import time

        pathlib.Path(folder, str(x)).touch()
        time.sleep(0.02)  # on a worker: longer than the first answer is waited for
        return bytes(8 << 20)

    answers = pool.map(produce, range(60), itertools.repeat(str(tmp_path)))
    for _ in range(6):
        next(answers)
    wait_until(lambda: pool._engine().core.task_counts()[1] == 0)
    assert len(list(tmp_path.iterdir())) <= 16
    assert sum(1 for _ in answers) == 54


def test_results_that_become_large_hold_up_further_calls(pool, tmp_path, monkeypatch):
    monkeypatch.setattr("skyward.pool.mapped_calls.default_limit", lambda: 64 << 20)

    def produce(x, folder):
        import pathlib
        import time

        pathlib.Path(folder, str(x)).touch()
        time.sleep(0.02)  # on a worker: too long for a group
        return bytes(10 if x < 20 else 8 << 20)

    answers = pool.map(produce, range(300), itertools.repeat(str(tmp_path)))
    assert sum(len(next(answers)) for _ in range(20)) == 200
    wait_until(lambda: pool._engine().core.task_counts()[1] == 0)
    assert (
        len(list(tmp_path.iterdir())) <= 60
    )  # 20, and what two slots run in a quarter of a second
    for _ in range(10):
        next(answers)
        wait_until(lambda: pool._engine().core.task_counts()[1] == 0)
        assert len(list(tmp_path.iterdir())) <= 60
    answers.close()


def test_arguments_that_become_large_are_not_all_packed(pool, monkeypatch):
    """An array in a file, for example, is in memory only then."""
    monkeypatch.setattr("skyward.pool.mapped_calls.AHEAD_BYTES", 1 << 20)
    packed = []

    class Loaded:
        def __init__(self, at):
            self.at = at

        def __reduce__(self):
            packed.append(self.at)
            return len, (bytes(1 << 19),)

    inputs = [*range(2000), *map(Loaded, range(200))]
    most = 0
    for at, value in enumerate(pool.map(lambda x: x, inputs)):
        assert value == (at if at < 2000 else 1 << 19)
        most = max(most, len(set(packed)) - max(0, at - 2000))
    assert len(set(packed)) == 200
    assert most < 100


class Directory:
    """Unpickling it makes the directory."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_result_of_a_call_with_retries_is_unpickled_in_its_turn(pool, tmp_path):
    paths = [tmp_path / name for name in "abc"]
    make = sky.compute(retries=1)(lambda path: Directory(path))
    answers = pool.map(make, map(str, paths))
    wait_until(lambda: pool._engine().core.task_counts()[1] == 0)
    assert (double(1) > pool).result(60) == 2  # what came before has been handed over
    assert not any(path.exists() for path in paths)
    assert [next(answers), paths[0].exists(), paths[2].exists()] == [None, True, False]
    assert list(answers) == [None, None] and all(path.exists() for path in paths)


def test_arguments_that_are_no_tuple_are_not_for_a_group():
    """Of a PendingCompute that was made by hand."""
    draft = new_draft()
    draft.add_all([(1,), [2], (3,)])
    assert draft.calls == 1
    assert not draft.add([2]) and draft.add((3,)) and draft.calls == 2


def test_a_result_that_does_not_load_comes_at_its_place(pool):
    def strange_at(x):
        return Strange() if x == 600 else x

    got = []
    with pytest.raises(Exception, match="not here"):
        got.extend(pool.map(strange_at, range(1000)))
    assert got == list(range(600))


@pytest.mark.parametrize("taken", [0, 400])
def test_closing_the_iterator_cancels_what_is_in_flight(pool, tmp_path, taken):
    answers = pool.map(
        wait_at, range(100_000), itertools.repeat(500), LAST, itertools.repeat(str(tmp_path))
    )
    assert inspect.getgeneratorstate(answers) == inspect.GEN_SUSPENDED
    assert [next(answers) for _ in range(taken)] == list(range(taken))
    answers.close()
    deadline = time.monotonic() + 20
    while pool._engine().core.task_counts()[1]:
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def test_the_end_of_the_block_tells_of_calls_that_are_cut_off(monkeypatch):
    # If the first answer took longer than this, all calls would be sent.
    monkeypatch.setattr("skyward.pool.mapped_calls.FIRST_SECONDS", DEADLINE)
    told = []
    with sky.ComputePool(display="quiet") as pool:
        assert list(pool.map(abs, range(10))) == list(range(10))
        pool.on(sky.Error, told.append)
        answers = pool.map(lambda x: x and threading.Event().wait(60), range(10))
        assert next(answers) == 0
    assert [event.message.partition(";")[0] for event in told] == [
        "1 unfinished call was cancelled"  # the others have not been sent
    ]
    with pytest.raises(sky.SkywardError):
        next(answers)


def test_closing_the_pool_wakes_a_reader_in_another_thread(tmp_path):
    got, raised = [], []

    def read(answers):
        try:
            got.extend(answers)
        except sky.SkywardError as error:
            raised.append(error)

    with sky.ComputePool(concurrency=2, display="quiet") as pool:
        answers = pool.map(
            wait_at, range(20), itertools.repeat(0), LAST, itertools.repeat(str(tmp_path))
        )
        reader = threading.Thread(target=read, args=(answers,), daemon=True)
        reader.start()
        core = pool._engine().core
        wait_until(lambda: core.task_counts() == (20, 1))  # all but the first one have ended
    reader.join(DEADLINE)
    assert not reader.is_alive()
    assert got == [] and len(raised) == 1


@pytest.mark.parametrize("wrong", [math.nan, 0, -1, "1", True])
def test_a_time_limit_is_a_positive_number(pool, wrong):
    with pytest.raises(sky.ConfigurationError, match=f"timeout={wrong!r}: a time limit is"):
        pool.map(abs, [1], timeout=wrong)


def test_the_time_limit_covers_the_whole(pool, tmp_path):
    answers = pool.map(
        wait_at,
        range(2000),
        itertools.repeat(1500),
        LAST,
        itertools.repeat(str(tmp_path)),
        timeout=1,
    )
    with pytest.raises(sky.TimeoutError, match="within the overall timeout"):
        list(answers)


def test_calls_of_a_lost_node_run_again(tmp_path):
    with sky.ComputePool(nodes=2, display="quiet") as pool:
        assert list(
            pool.map(
                lose_node_at, range(3000), itertools.repeat(1500), itertools.repeat(str(tmp_path))
            )
        ) == list(range(3000))
    assert os.path.exists(tmp_path / "lost")

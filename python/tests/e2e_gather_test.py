"""gather() of many quick calls of one function, which travel in groups. Each is a call of its own
all the same."""

import signal
import threading
import time

import pytest
from quick_calls import double, fail_once, note, stay_at, wait_at
from waiting import wait_until

import skyward as sky

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def pool():
    with sky.ComputePool(concurrency=2, display="quiet") as pool:
        yield pool


@sky.compute
def fail_at(x, places):
    if x in places:
        raise LookupError(f"no row {x}")
    return x


def test_answers_come_in_order(pool):
    calls = [double(i) for i in range(20_000)]
    assert sky.gather(*calls) >> pool == tuple(range(0, 40_000, 2))


def test_quick_calls_are_sent_together(pool):
    def tasks(calls):
        before = pool._engine().core.task_counts()[0]
        assert len(sky.gather(*calls) >> pool) == len(calls)
        return pool._engine().core.task_counts()[0] - before

    calls = [double(i) for i in range(20_000)]
    # Where others use the machine, quick calls may look slow.
    assert any(tasks(calls) < 8000 for _ in range(30))


@pytest.mark.parametrize("slow", [0, 1500])
def test_a_slow_call_keeps_no_other_from_running(pool, tmp_path, slow):
    calls = [wait_at(i, slow, 4999, str(tmp_path)) for i in range(5000)]
    assert sky.gather(*calls) >> pool == tuple(range(5000))


def test_the_first_error_is_raised_when_all_have_ended(pool, tmp_path):
    calls = [fail_at(i, (1200, 3100)) for i in range(4000)]
    with pytest.raises(LookupError, match="no row 1200") as caught:
        sky.gather(*calls) >> pool
    (told,) = (note for note in caught.value.__notes__ if note.startswith("call "))
    assert told.startswith("call 1201 of 4000: fail_at(1200") and told.endswith("; 1 more failed")


def test_errors_can_be_among_the_answers(pool):
    calls = [fail_at(i, (0, 1200, 3999)) for i in range(4000)]
    answers = sky.gather(*calls, return_exceptions=True) >> pool
    failed = [i for i, answer in enumerate(answers) if isinstance(answer, LookupError)]
    assert failed == [0, 1200, 3999]
    assert all(answer == i for i, answer in enumerate(answers) if i not in failed)


def test_the_death_of_a_worker_is_blamed_on_the_call_that_ran(pool, tmp_path):
    calls = [note(i, 2500, str(tmp_path)) for i in range(4000)]
    answers = sky.gather(*calls, return_exceptions=True) >> pool
    assert isinstance(answers[2500], sky.ExecutionError)
    assert "exited with code 3" in str(answers[2500])
    assert [i for i, answer in enumerate(answers) if answer != i] == [2500]
    lines = [line for path in tmp_path.iterdir() for line in path.read_text().split()]
    assert sorted(map(int, lines)) == list(range(4000)), "each call ran once"


@pytest.mark.parametrize("at", [0, 700, 2999])
def test_a_call_that_cannot_be_sent_is_named(pool, at):
    calls = [double(threading.Lock() if i == at else i) for i in range(3000)]
    with pytest.raises(sky.SerializationError) as caught:
        sky.gather(*calls) >> pool
    place = f"call {at + 1} of 3000: double("
    assert any(told.startswith(place) for told in caught.value.__notes__)
    assert double(4) >> pool == 8


@pytest.mark.parametrize("at", [0, 700, 2999])
@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_cannot_be_sent_is_an_error_among_the_answers(pool, at, retries, stream):
    work = sky.compute(retries=retries)(double.local)
    calls = [work(threading.Lock() if i in (at, 1500) else i) for i in range(3000)]
    answers = list(sky.gather(*calls, stream=stream, return_exceptions=True) >> pool)
    for place in (at, 1500):
        assert isinstance(answers[place], sky.SerializationError)
        (told,) = (note for note in answers[place].__notes__ if note.startswith("call "))
        assert told.startswith(f"call {place + 1} of 3000: double(")
        answers[place] = 2 * place
    assert answers == list(range(0, 6000, 2))


def test_calls_none_of_which_can_be_sent_are_all_errors(pool):
    calls = [double(threading.Lock()) for _ in range(3)]
    for stream in (False, True):
        answers = list(sky.gather(*calls, stream=stream, return_exceptions=True) >> pool)
        assert [type(answer) for answer in answers] == 3 * [sky.SerializationError]


def test_a_function_that_cannot_be_sent_is_raised(pool):
    lock = threading.Lock()
    calls = [sky.compute(lambda x: (x, lock))(i) for i in range(3)]
    with pytest.raises(sky.SerializationError):
        sky.gather(*calls, return_exceptions=True) >> pool


def test_what_does_not_fit_a_group_is_sent_all_the_same(pool):
    sizes = [1, 100_000, 5] * 400
    assert sky.gather(*[double(bytes(n)) for n in sizes]) >> pool == tuple(
        bytes(2 * n) for n in sizes
    )
    mixed = [double(i) if i % 2 else double(x=i) for i in range(1000)]
    assert sky.gather(*mixed) >> pool == tuple(range(0, 2000, 2))


def test_events_tell_of_each_task_where_they_are_asked_for():
    seen = []
    with sky.ComputePool(
        concurrency=2, display="quiet", collect_tasks=True, on_event=seen.append
    ) as pool:
        count = 1000
        assert sky.gather(*[double(i) for i in range(count)]) >> pool == tuple(
            range(0, 2 * count, 2)
        )
        assert len(list(pool.map(double, range(count)))) == count
        wait_until(lambda: sum(isinstance(e, sky.events.TaskFinished) for e in seen) >= 2 * count)
    assert len({e.task for e in seen if isinstance(e, sky.events.TaskFinished)}) == 2 * count


@pytest.mark.parametrize("slow", [100, 600, 4000])
def test_each_call_has_its_answer_when_the_pool_closes_meanwhile(tmp_path, slow):
    calls = [wait_at(i, slow, -1, str(tmp_path)) for i in range(5000)]
    with sky.ComputePool(concurrency=2, display="quiet") as pool:
        engine = pool._engine()

        def close():
            wait_until(lambda: engine.counts()[0] > 50)
            pool.close()

        thread = threading.Thread(target=close)
        thread.start()
        answers = sky.gather(*calls, return_exceptions=True) >> pool
        thread.join()
    assert len(answers) == 5000
    assert isinstance(answers[slow], sky.SkywardError)
    others = [(i, answer) for i, answer in enumerate(answers) if answer != i]
    assert all(isinstance(a, (sky.CancelledError, sky.NotProvisionedError)) for _, a in others)
    assert len({id(answer) for _, answer in others}) == len(others)


def test_calls_that_a_closed_pool_refuses_have_errors_of_their_own(monkeypatch):
    with sky.ComputePool(display="quiet") as pool:

        def close_first(*_):
            pool.close()
            return False, 0.0

        monkeypatch.setattr("skyward.pool.open_pool.are_quick", close_first)
        answers = sky.gather(*map(double, range(3000)), return_exceptions=True) >> pool
    assert len(answers) == 3000
    refused = [one for one in answers if isinstance(one, sky.NotProvisionedError)]
    assert len(refused) > 100
    assert len({id(one) for one in refused}) == len(refused)
    failed = [(i, one) for i, one in enumerate(answers) if one != 2 * i]
    assert all(isinstance(one, sky.SkywardError) for _, one in failed)


def test_calls_that_become_slow_have_their_answers(pool):
    @sky.compute
    def quick_then_slow(x):
        if x > 2000 and x % 3 == 0:
            time.sleep(0.003)  # on a worker
        return x

    assert sky.gather(*[quick_then_slow(i) for i in range(3000)]) >> pool == tuple(range(3000))


def test_an_error_names_its_call_once(pool):
    with pytest.raises(LookupError) as caught:
        sky.gather(*[fail_at(i, (3100,)) for i in range(4000)]) >> pool
    assert [note for note in caught.value.__notes__ if "fail_at(" in note] == [
        "call 3101 of 4000: fail_at(3100, <tuple>)"
    ]


def test_the_display_counts_calls(pool, tmp_path):
    engine, go = pool._engine(), tmp_path / "go"
    done = engine.counts()[0]
    calls = [wait_at(i, i, -1, str(tmp_path)) for i in range(3000)]
    seen = []

    def look():
        wait_until(lambda: engine.counts()[1:] == (2, 2998))
        seen.append(engine.counts())
        go.touch()

    thread = threading.Thread(target=look)
    thread.start()
    assert sky.gather(*calls) >> pool == tuple(range(3000))
    thread.join()
    assert seen == [(done, 2, 2998)]
    wait_until(lambda: engine.counts() == (done + 3000, 0, 0))
    assert len(list(pool.map(double, range(5000)))) == 5000
    wait_until(lambda: engine.counts() == (done + 8000, 0, 0))


def test_an_interrupted_gather_ends_its_calls(pool, tmp_path):
    calls = [wait_at(i, 600, -1, str(tmp_path)) for i in range(3000)]
    engine = pool._engine()
    sent = engine.core.task_counts()[0]

    def interrupt():
        wait_until(lambda: engine.core.task_counts()[0] > sent + 50)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        sky.gather(*calls) >> pool
    thread.join()
    wait_until(lambda: engine.core.task_counts()[1] == 0)
    assert double(1) >> pool == 2


def test_an_interrupted_stream_of_answers_ends_the_awaited_call_too(pool, tmp_path):
    engine = pool._engine()
    done = engine.counts()[0]

    def interrupt():
        wait_until(lambda: engine.counts() == (done + 9, 1, 0))
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    calls = [stay_at(x, 0, str(tmp_path)) for x in range(10)]
    with pytest.raises(KeyboardInterrupt):
        list(sky.gather(*calls, stream=True) >> pool)
    thread.join()
    wait_until(lambda: engine.counts()[1:] == (0, 0))
    assert (tmp_path / "ended").exists()


def test_an_interrupt_between_two_answers_cancels_all(pool, tmp_path, monkeypatch):
    class Answers(list):
        def append(self, answer):
            if answer == 550:
                raise KeyboardInterrupt
            super().append(answer)

    engine = pool._engine()
    real = type(engine)._collect

    def collect(self, *args, **kwargs):
        answers, errors = real(self, *args, **kwargs)
        return Answers(answers), errors

    monkeypatch.setattr(type(engine), "_collect", collect)
    calls = [wait_at(i, 900, -1, str(tmp_path)) for i in range(3000)]
    with pytest.raises(KeyboardInterrupt) as caught:
        sky.gather(*calls) >> pool
    wait_until(lambda: engine.core.task_counts()[1] == 0)
    assert caught.tb is not None, "it keeps what the frames refer to"


def test_a_retry_does_not_wait_for_the_other_calls(pool, tmp_path):
    waits = sky.compute(fail_once)("waits", str(tmp_path))
    fails = sky.compute(retries=1)(fail_once)("fails once", str(tmp_path))
    assert sky.gather(waits, fails) >> pool == ("waits", "fails once")


def test_calls_with_retries_end_in_place(pool):
    calls = [sky.compute(retries=1)(fail_at.local)(x, [1, 3]) for x in range(5)]
    with pytest.raises(LookupError, match="no row 1"):
        sky.gather(*calls) >> pool
    answers = sky.gather(*calls, return_exceptions=True) >> pool
    assert [str(answer) for answer in answers] == ["0", "no row 1", "2", "no row 3", "4"]


def test_a_retry_of_a_broadcast_stays_with_its_worker(tmp_path):
    @sky.compute(retries=1)
    def work(folder):
        import pathlib

        node = sky.instance_info().node
        tried = pathlib.Path(folder, str(node))
        if node and not tried.exists():
            tried.touch()
            raise LookupError("no row")
        return node

    with sky.ComputePool(provider=sky.Local(), nodes=3, display="quiet") as pool:
        assert work(str(tmp_path)) @ pool == (0, 1, 2)

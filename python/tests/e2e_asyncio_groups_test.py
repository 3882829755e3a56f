"""Bursts of quick calls that are awaited in asyncio, which travel in groups. Each is a call of its
own all the same."""

import asyncio
import gc
import logging
import threading
import time
import weakref

import pytest
from quick_calls import double, note, runs, stay_at, wait_at
from waiting import wait_until

import skyward as sky

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def pool():
    with sky.ComputePool(concurrency=2, display="quiet") as pool:
        asyncio.run(warm(pool, double))
        yield pool


async def warm(pool, function):
    return await asyncio.gather(*[function(x).on(pool) for x in range(200)])


def burst(calls, pool, **options):
    async def main():
        return await asyncio.gather(*[call.on(pool) for call in calls], **options)

    return asyncio.run(main())


def test_calls_of_a_burst_are_sent_together(pool):
    sent = []
    while (
        len(sent) < 8 and min(sent, default=2500) >= 2500
    ):  # calls count as slow on a busy machine
        before = pool._engine().core.task_counts()[0]
        assert burst([double(x) for x in range(10_000)], pool) == list(range(0, 20_000, 2))
        sent.append(pool._engine().core.task_counts()[0] - before)
    assert min(sent) < 2500, sent


def test_functions_may_alternate(pool):
    halve = sky.compute(lambda x: x / 2)
    calls = [function(x) for x in range(300) for function in (double, halve, double)]
    assert burst(calls, pool) == [y for x in range(300) for y in (2 * x, x / 2, 2 * x)]


def test_the_first_call_leaves_at_once(pool, tmp_path):
    @sky.compute
    def touch(path):
        open(path, "w").close()

    async def main():
        call = touch(str(tmp_path / "here")).on(pool)
        wait_until((tmp_path / "here").exists)  # the loop does not run meanwhile
        await call

    asyncio.run(main())


def test_arguments_are_those_of_the_moment(pool):
    total = sky.compute(sum)

    async def main():
        values, calls = [], []
        for x in range(500):
            values.append(x)
            calls.append(total(values).on(pool))
        values.clear()
        return await asyncio.gather(*calls)

    assert asyncio.run(main()) == [x * (x + 1) // 2 for x in range(500)]


def test_so_is_the_function(pool):
    async def main():
        calls = []
        for step in range(300):
            calls.append(sky.compute(lambda x, step=step: x + step)(1).on(pool))
        return await asyncio.gather(*calls)

    assert asyncio.run(main()) == list(range(1, 301))


def test_what_cannot_travel_raises_at_once_and_alone(pool):
    async def main():
        calls = [double(x).on(pool) for x in range(10)]
        with pytest.raises(sky.SerializationError):
            double(threading.Lock()).on(pool)
        calls += [double(x).on(pool) for x in range(10, 300)]
        return await asyncio.gather(*calls)

    assert asyncio.run(main()) == list(range(0, 600, 2))


def test_large_arguments_and_results_go_alone(pool):
    size = sky.compute(len)
    values = [bytes(100_000 if x % 50 == 7 else x) for x in range(300)]
    assert burst([size(value) for value in values], pool) == [len(value) for value in values]
    copy = sky.compute(bytes)
    assert burst([copy(value) for value in values], pool) == values


def test_a_slow_call_holds_up_no_other(pool, tmp_path):
    inputs = [*range(3000), "slow", "last", *range(500)]
    calls = [wait_at(x, "slow", "last", str(tmp_path)) for x in inputs]
    assert burst(calls, pool) == inputs


def test_slow_calls_are_all_sent(pool, tmp_path):
    """The first ones wait for the last one, which waits for no answer."""

    @sky.compute
    def meet(x):
        (tmp_path / str(x)).touch()
        end = time.monotonic() + 60
        while x < 2 and not (tmp_path / "last").exists() and time.monotonic() < end:
            time.sleep(0.005)  # on a worker
        return x

    async def main():
        answers = asyncio.gather(*[meet(x).on(pool) for x in range(40)])
        await asyncio.to_thread(wait_until, lambda: sum(pool._engine().counts()[1:]) == 40)
        await asyncio.to_thread(wait_until, (tmp_path / "1").exists)
        await asyncio.to_thread(wait_until, lambda: pool._engine().core.task_counts()[1] == 40)
        (tmp_path / "last").touch()
        return await answers

    assert asyncio.run(main()) == list(range(40))


def test_errors_are_those_of_their_calls(pool):
    @sky.compute
    def fail_at(x, *at):
        if x in at:
            raise LookupError(f"no row {x}")
        return x

    calls = [fail_at(x, 5, 1500) for x in range(2000)]
    answers = burst(calls, pool, return_exceptions=True)
    for at in (5, 1500):
        assert isinstance(answers[at], LookupError) and f"no row {at}" in str(answers[at])
    others = [x for x in range(2000) if x not in (5, 1500)]
    assert [answers[x] for x in others] == others


def test_the_death_of_a_worker_is_blamed_on_the_call_that_ran(pool, tmp_path):
    calls = [note(x, 2500, str(tmp_path)) for x in range(3000)]
    answers = burst(calls, pool, return_exceptions=True)
    assert isinstance(answers[2500], sky.ExecutionError)
    assert [answers[x] for x in range(3000) if x != 2500] == [x for x in range(3000) if x != 2500]
    assert set(runs(tmp_path).values()) == {1} and len(runs(tmp_path)) == 3000


def test_a_call_that_is_cancelled_before_it_is_sent_never_runs(pool, tmp_path, monkeypatch):
    # However slow calls are, groups are large, and wait for the end of the turn.
    monkeypatch.setattr("skyward.pool.grouped_calls.GROUP_SECONDS", 3600)

    @sky.compute
    def touch_at(x, at):
        if x == at:
            (tmp_path / "ran").touch()
        return x

    async def main():
        await asyncio.gather(*[touch_at(x, -1).on(pool) for x in range(500)])
        calls = [touch_at(x, -1).on(pool) for x in range(3)]  # the first one leaves at once
        doomed = touch_at(3, 3).on(pool)
        assert doomed.cancel() and doomed.cancelled()
        return await asyncio.gather(*calls, touch_at(4, -1).on(pool))

    assert asyncio.run(main()) == [0, 1, 2, 4]
    wait_until(lambda: not sum(pool._engine().counts()[1:]))
    assert not (tmp_path / "ran").exists()


def test_cancelling_a_call_of_a_group_stops_it_on_its_worker(pool, tmp_path):
    async def main():
        await asyncio.gather(*[stay_at(x, -1, str(tmp_path)).on(pool) for x in range(200)])
        calls = [stay_at(x, 50, str(tmp_path)).on(pool) for x in range(100)]
        await asyncio.to_thread(wait_until, (tmp_path / "began").exists)
        assert calls[50].cancel() and calls[50].cancelled()
        await asyncio.to_thread(wait_until, (tmp_path / "ended").exists)
        del calls[50]
        return await asyncio.gather(*calls)

    assert asyncio.run(main()) == [x for x in range(100) if x != 50]


def test_closing_the_pool_tells_and_cancels_unfinished_calls(tmp_path):
    seen = []

    async def main():
        with sky.ComputePool(concurrency=2, display="quiet") as pool:
            pool.on(sky.Error, lambda event: seen.append(event.message))
            await warm(pool, double)
            calls = [wait_at(x, x, "never", str(tmp_path)).on(pool) for x in range(2)]
            calls += [double(x).on(pool) for x in range(20)]
            assert sum(pool._engine().counts()[1:]) >= 21
        return await asyncio.gather(*calls, return_exceptions=True)

    answers = asyncio.run(main())
    assert all(isinstance(answer, sky.CancelledError) for answer in answers[:2])
    assert any("unfinished call" in message for message in seen)


def test_a_loop_that_ends_leaves_its_calls(pool, tmp_path, caplog):
    async def main():
        wait_at(0, 0, 1, str(tmp_path)).on(pool)
        await asyncio.gather(*[double(x).on(pool) for x in range(200)])

    asyncio.run(main())
    assert burst([wait_at(1, 0, 1, str(tmp_path))], pool) == [1]  # the other one ends
    wait_until(lambda: not sum(pool._engine().counts()[1:]))
    assert burst([double(x) for x in range(500)], pool) == list(range(0, 1000, 2))
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_loop_that_has_ended_keeps_nothing(pool, tmp_path):
    loops = []

    async def main():
        loops.append(weakref.ref(asyncio.get_running_loop()))
        for x in range(2):
            wait_at(x, x, -1, str(tmp_path)).on(pool)
        for x in range(1000):
            double(x).on(pool)

    asyncio.run(main())
    (tmp_path / "go").touch()
    wait_until(lambda: not sum(pool._engine().counts()[1:]))
    asyncio.run(warm(pool, double))
    wait_until(lambda: gc.collect() >= 0 and loops[0]() is None)


def test_calls_are_counted_while_loops_begin(pool):
    ended = threading.Event()

    def begin_loops():
        loops = [asyncio.new_event_loop() for _ in range(100)]
        try:
            for loop in loops:
                loop.run_until_complete(call())
        finally:
            for loop in loops:
                loop.close()

    async def call():
        assert await double(1).on(pool) == 2

    def begin_many():
        try:
            for _ in range(5):
                begin_loops()
        finally:
            ended.set()

    thread = threading.Thread(target=begin_many)
    thread.start()
    while not ended.is_set():
        pool._engine().counts()
    thread.join(60)


def test_the_counts_are_those_of_calls(pool):
    done = pool._engine().counts()[0]
    burst([double(x) for x in range(3000)], pool)
    wait_until(lambda: pool._engine().counts() == (done + 3000, 0, 0))


@pytest.mark.parametrize("error", [RuntimeError("no more threads"), KeyboardInterrupt()])
def test_no_call_gets_the_answer_of_one_that_could_not_be_sent(pool, monkeypatch, error):
    """Calls and arguments are known by their places."""

    def refuse(*_):
        raise error

    negate = sky.compute(lambda x: -x)

    async def main():
        await asyncio.gather(*[negate(x).on(pool) for x in range(200)])
        with monkeypatch.context() as patched:
            patched.setattr(type(pool._engine().answers), "send_draft", refuse)
            lost = negate(1).on(pool) if isinstance(error, RuntimeError) else None
            if lost is None:
                with pytest.raises(KeyboardInterrupt):
                    negate(1).on(pool)
        answers = await asyncio.gather(negate(2).on(pool), negate(3).on(pool), double(4).on(pool))
        if lost is not None:
            with pytest.raises(RuntimeError, match="no more threads"):
                await lost
        return answers

    assert asyncio.run(main()) == [-2, -3, 8]


def test_an_interrupt_between_arguments_and_future_fails_that_turn_alone(pool, monkeypatch):
    from skyward.pool import awaited_calls

    negate = sky.compute(lambda x: -x)

    async def main():
        await asyncio.gather(*[negate(x).on(pool) for x in range(200)])
        first = negate(1).on(pool)
        second = negate(2).on(pool)  # waits for the end of the turn
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(awaited_calls, "_Awaited", interrupted)
            negate(3).on(pool)
        third = negate(4).on(pool)
        return await asyncio.gather(first, second, third, return_exceptions=True)

    def interrupted(loop):
        raise KeyboardInterrupt

    first, second, third = asyncio.run(main())
    assert (first, third) == (-1, -4)
    assert isinstance(second, sky.CancelledError) or second == -2

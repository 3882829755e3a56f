"""Calls and streams inside asyncio."""

import asyncio
import concurrent.futures
import contextlib
import gc
import os
import re
import threading
import time
import weakref
from pathlib import Path

import pytest
from waiting import wait_until

import skyward as sky

square = sky.compute(lambda x: x * x)


@sky.compute
def count(limit):
    yield from range(limit)


def test_calls_in_task_groups_and_tasks(pool):
    async def main():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(square(x).on(pool)) for x in range(5)]
        assert [task.result() for task in tasks] == [0, 1, 4, 9, 16]
        assert await asyncio.create_task(square(6).on(pool)) == 36
        assert await asyncio.create_task((square(2) & square(3)).on(pool)) == (4, 9)
        assert await asyncio.gather(square(2).on(pool), square(3).on(pool)) == [4, 9]
        assert await asyncio.wait_for(square(4).on(pool), 30) == 16
        assert await square(5).on(pool) == 25

    asyncio.run(main())


def test_futures_of_calls_can_be_awaited_and_sky_is_a_pool_too(pool):
    async def main():
        future = square(3) > pool
        assert await future == 9 and future.result() == 9
        assert await asyncio.gather(square(4) > pool, square(5).on(sky)) == [16, 25]
        assert await (square(2) & square(3)).on(sky) == (4, 9)

    asyncio.run(main())


@pytest.mark.parametrize("wrong", [None, 7, "pool"])
def test_what_is_no_pool_is_said(wrong):
    async def main():
        for call in (square(3), square(2) & square(3)):
            with pytest.raises(TypeError, match=rf"\.on\({wrong!r}\): a pool is expected"):
                await call.on(wrong)
        with pytest.raises(TypeError, match=r"has not been called; write await .*\.on\(pool\)"):
            await square.on(wrong)

    asyncio.run(main())


def test_an_error_of_one_cancels_the_group(pool, tmp_path):
    def fail():
        raise ZeroDivisionError

    def wait():
        try:
            (tmp_path / "began").touch()
            time.sleep(600)  # on a worker
        finally:
            (tmp_path / "ended").touch()

    async def main():
        async with asyncio.TaskGroup() as group:
            group.create_task(sky.compute(wait)().on(pool))
            while not (tmp_path / "began").exists():
                await asyncio.sleep(0.01)  # until the worker has begun
            group.create_task(sky.compute(fail)().on(pool))

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(main())
    assert caught.group_contains(ZeroDivisionError)
    wait_until((tmp_path / "ended").exists)


@contextlib.asynccontextmanager
async def ticking(seconds):
    """A task that runs beside the block: how often the loop had time for it, in a list."""
    ticks = [0]

    async def tick():
        while True:
            ticks[0] += 1
            await asyncio.sleep(seconds)  # lets the others run

    task = asyncio.create_task(tick())
    try:
        yield ticks
    finally:
        task.cancel()


def test_streams_are_read_by_async_for(pool):
    async def main():
        async with ticking(0) as ticks:
            found = [x async for x in await count(50).on(pool)]
            both = await asyncio.gather(read(count(5) >> pool), read(count(6) >> pool))
        assert found == list(range(50)) and both == [list(range(5)), list(range(6))]
        assert ticks[0] > 50

    async def read(stream):
        return [x async for x in stream]

    asyncio.run(main())


def reading_threads():
    return [thread for thread in threading.enumerate() if thread.name == "skyward-awaited"]


def test_a_stream_is_read_by_one_thread_which_ends_with_it(pool):
    async def main():
        most = 0
        wait_until(lambda: not reading_threads())  # of other tests
        async for _ in count(300) >> pool:
            most = max(most, len(reading_threads()))
        assert most == 1
        wait_until(lambda: not reading_threads())
        stream = count(300) >> pool
        assert [await anext(stream), await anext(stream)] == [0, 1]
        assert len(reading_threads()) == 1
        del stream
        wait_until(lambda: not reading_threads())
        stream = count(300) >> pool
        assert await anext(stream) == 0
        await stream.aclose()
        assert [x async for x in stream] == []
        wait_until(lambda: not reading_threads())

    asyncio.run(main())


def test_a_reader_that_is_cancelled_ends_the_stream(pool, tmp_path):
    def slowly():
        try:
            yield 1
            time.sleep(600)  # on a worker
            yield 2
        finally:
            (tmp_path / "ended").touch()

    async def main():
        first = asyncio.Event()

        async def read():
            async for _ in sky.compute(slowly)() >> pool:
                first.set()

        reading = asyncio.create_task(read())
        await first.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(main())
    wait_until((tmp_path / "ended").exists)
    assert os.getpid() and threading.active_count()


def test_nobody_takes_a_cancelled_read_for_the_end_of_the_stream(pool):
    def endless():
        while True:
            time.sleep(0.01)  # on a worker
            yield 1

    async def read(stream, begun):
        async for _ in stream:
            begun.set()
        return "ended"

    async def main():
        stream, begun = sky.compute(endless)() >> pool, asyncio.Event()
        readers = [asyncio.create_task(read(stream, begun)) for _ in range(3)]
        await begun.wait()
        readers[0].cancel()
        first, *others = await asyncio.gather(*readers, return_exceptions=True)
        assert type(first) is asyncio.CancelledError
        for error in others:
            assert type(error) is sky.CancelledError and "a read of it" in str(error)
        with pytest.raises(sky.CancelledError):
            next(stream)
        stream = sky.compute(endless)() >> pool
        async with contextlib.aclosing(stream):
            assert await anext(stream) == 1
        assert list(stream) == []

    asyncio.run(main())


def test_a_thread_that_waits_for_an_item_does_not_wake_up_until_it_comes(tmp_path):
    """Signals are looked for in the main thread."""

    @sky.compute
    def quiet(path):
        while not path.exists():
            time.sleep(0.01)  # on a worker
        yield 1

    def wakings(thread):
        status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
        return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.MULTILINE)[1])

    async def main(pool):
        waiting = asyncio.ensure_future(anext(quiet(tmp_path / "go") >> pool))
        await sky.compute(time.sleep)(0.3).on(pool)  # on a worker
        (thread,) = reading_threads()
        before = wakings(thread)
        await sky.compute(time.sleep)(0.7).on(pool)  # on a worker
        assert wakings(thread) - before <= 1
        (tmp_path / "go").touch()
        assert await waiting == 1

    with sky.ComputePool(nodes=2, display="quiet") as pool:
        asyncio.run(main(pool))


def test_events_of_calls_hold_up_neither_answers_nor_the_loop(tmp_path):
    """A receiver that waits for an answer, in the loop, gets it."""

    @sky.compute(retries=1)
    def flaky():
        if not (tmp_path / "tried").exists():
            (tmp_path / "tried").touch()
            raise ValueError("again")
        return "done"

    told, loops = [], []

    def on_event(event):
        if isinstance(event, sky.Error):
            asked = asyncio.run_coroutine_threadsafe(ask(), loops[0])
            told.append((event.message, asked.result(30), threading.current_thread().name))

    async def ask():
        return await square(3).on(pool)

    async def main():
        loops.append(asyncio.get_running_loop())
        assert await flaky().on(pool) == "done"
        pool._live.tell("from the loop")  # as of a module that was edited
        while len(told) < 2:
            await asyncio.sleep(0.01)

    with sky.ComputePool(display="quiet", on_event=on_event) as pool:
        asyncio.run(asyncio.wait_for(main(), 60))
    (retried, nine, name), (from_loop, *_) = told
    assert "attempt 2 of 2" in retried and nine == 9 and name == "skyward-events"
    assert from_loop == "from the loop"


def test_a_pool_is_a_block_of_asyncio_too():
    told = []

    async def main():
        async with (
            ticking(0.001) as ticks,
            sky.ComputePool(display="quiet", on_event=told.append) as pool,
        ):
            begun = ticks[0]
            assert await square(3).on(pool) == 9
            sky.emit(sky.Notice(message="mine", pool="p"))
            assert (square(4) >> sky) == 16
        assert begun > 3 and not pool.is_active

    asyncio.run(main())
    assert "mine" in [event.message for event in told if isinstance(event, sky.Notice)]


def test_several_pools_are_a_block_of_asyncio():
    async def main():
        one, other = pools = [sky.ComputePool(display="quiet") for _ in range(2)]
        async with ticking(0.001) as ticks, sky.MultiPool(*pools) as opened:
            assert ticks[0] > 3 and opened == (one, other)
            assert await asyncio.gather(square(3).on(one), square(4).on(other)) == [9, 16]
        assert not one.is_active and not other.is_active

    asyncio.run(main())


@pytest.mark.parametrize("refused", [1, 2], ids=["always", "at the end"])
def test_without_threads_a_block_of_asyncio_releases_everything(monkeypatch, refused):
    cloud = sky.testing.FakeCloud(speed=0)
    real, seen = threading.Thread.start, []

    def start(thread):
        if thread.name == "skyward-block":
            seen.append(thread)
            if len(seen) >= refused:
                raise RuntimeError("can't start new thread")
        real(thread)

    async def main():
        async with one_pool(cloud):
            assert cloud.running == 1

    monkeypatch.setattr(threading.Thread, "start", start)
    asyncio.run(main())
    assert len(seen) == 2 and nothing_runs(cloud)


def test_pool_with_options_is_a_block_of_asyncio():
    block = sky.pool(nodes=1, display="quiet")

    async def answer(x):
        async with block as pool:  # several tasks at once
            assert sky.compute(id)(1) @ sky == sky.compute(id)(1) @ pool
            return pool, await square(x).on(sky)

    async def main():
        (one, nine), (other, sixteen) = await asyncio.gather(answer(3), answer(4))
        assert (nine, sixteen) == (9, 16) and one is not other
        assert not one.is_active and not other.is_active

    asyncio.run(main())


def test_an_error_in_the_block_ends_it_and_stays():
    async def main():
        async with sky.ComputePool(display="quiet") as pool:
            raise ZeroDivisionError(str(await square(3).on(pool)))

    with pytest.raises(ZeroDivisionError, match="9"):
        asyncio.run(main())


def slow_cloud():
    return sky.testing.FakeCloud(speed=10, launch_delay=6000)


async def block(pool):
    async with pool:
        raise AssertionError("it opened")


def one_pool(cloud):
    return sky.ComputePool(provider=cloud, display="quiet")


def two_pools(cloud):
    return sky.MultiPool(one_pool(cloud), one_pool(cloud))


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("pools, machines", [(one_pool, 1), (two_pools, 2)])
def test_a_task_that_is_cancelled_while_its_pool_opens_releases_everything(pools, machines, times):
    cloud = slow_cloud()

    async def main():
        opening = asyncio.create_task(block(pools(cloud)))
        while cloud.launched < machines:
            await asyncio.sleep(0.01)
        for _ in range(times):
            opening.cancel()
            await asyncio.sleep(0.01)
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert nothing_runs(cloud)

    asyncio.run(asyncio.wait_for(main(), 60))


def nothing_runs(cloud):
    return not cloud.left and not cloud.violations and cloud.running == 0


@pytest.mark.parametrize("steps", range(4))
def test_a_task_that_is_cancelled_before_its_pool_opens_has_none(steps):
    cloud = sky.testing.FakeCloud(speed=0)
    pool = sky.ComputePool(provider=cloud, display="quiet")

    async def main():
        opening = asyncio.create_task(block(pool))
        for _ in range(steps):
            await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert not pool.is_active and nothing_runs(cloud)

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("machines", [1, 2])
def test_a_task_that_is_cancelled_when_its_pools_have_opened_closes_them(machines):
    cloud = sky.testing.FakeCloud(speed=0)
    pool = one_pool(cloud)
    around = pool if machines == 1 else sky.MultiPool(pool, one_pool(cloud))

    async def main():
        opening = asyncio.create_task(block(around))
        await asyncio.sleep(0)
        # The loop does not run: the task does not know it yet.
        wait_until(lambda: pool.is_active and cloud.running == machines)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert not pool.is_active and nothing_runs(cloud)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_pool_that_did_not_open_is_freed_without_a_collection():
    async def main():
        cloud = sky.testing.FakeCloud(speed=0, capacity={"cpu": 0})
        pool = sky.ComputePool(provider=cloud, display="quiet")
        try:
            await block(pool)
        except sky.SkywardError:
            return weakref.ref(pool)

    gc.collect()
    gc.disable()
    try:
        pool = asyncio.run(main())
        wait_until(lambda: pool() is None)
    finally:
        gc.enable()


def test_a_loop_that_ends_while_a_pool_opens_ends_the_opening():
    cloud = slow_cloud()
    tasks = set()

    async def main():
        tasks.add(asyncio.create_task(block(sky.ComputePool(provider=cloud, display="quiet"))))
        while cloud.launched == 0:
            await asyncio.sleep(0.01)

    asyncio.run(main())
    assert nothing_runs(cloud)


def test_callbacks_of_the_context_are_those_of_the_block():
    def received():
        return [name for name in told if name in ("PoolStarted", "PoolStopped")]

    async def inner():
        async with sky.ComputePool(display="quiet"):
            pass

    async def main():
        with sky.use_callback(lambda event: told.append(type(event).__name__)):
            await inner()
            assert received() == ["PoolStarted", "PoolStopped"]
            sky.emit(sky.Notice(message="mine", pool="p"))
            assert told[-1] == "Notice"

    told = []
    asyncio.run(main())


def test_a_pool_with_a_block_of_its_own_has_none_for_asyncio():
    class Own(sky.ComputePool):
        def __enter__(self):
            raise AssertionError

    async def main():
        async with Own(display="quiet"):
            pass

    with pytest.raises(TypeError, match="Own has no form for asyncio"):
        asyncio.run(main())


def test_closing_a_pool_that_another_thread_opens_ends_the_opening():
    cloud = slow_cloud()
    pool = sky.ComputePool(provider=cloud, display="quiet")
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        opening = threads.submit(pool.open)
        wait_until(lambda: cloud.launched > 0)
        pool.close()
        assert not pool.is_active and cloud.running == 0
        with pytest.raises(sky.CancelledError, match="closed while it was opening"):
            opening.result(60)


def closed_at(event, provider):
    """Opens a pool whose receiver of events closes it at that event."""
    pool = sky.ComputePool(
        provider=provider,
        display="quiet",
        on_event=lambda one: pool.close() if isinstance(one, event) else None,
    )
    begin = time.monotonic()
    try:
        pool.open()
    except sky.CancelledError as error:
        assert "closed while it was opening" in str(error)
    wait_until(lambda: not pool.is_active)  # a pool that had opened is closed
    assert time.monotonic() - begin < 9


@pytest.mark.parametrize("event", [sky.InfraCreating, sky.InstanceLaunching, sky.PoolStarted])
def test_a_receiver_of_events_may_close_a_pool_that_opens(event):
    cloud = sky.testing.FakeCloud(speed=0)
    closed_at(event, cloud)
    wait_until(lambda: nothing_runs(cloud))
    closed_at(event, sky.Local())


@pytest.mark.parametrize("event", [sky.InfraCreating, sky.InstanceLaunching])
def test_a_receiver_of_events_may_close_a_pool_that_opens_slowly(event):
    cloud = slow_cloud()
    closed_at(event, cloud)
    assert nothing_runs(cloud)


def test_an_error_that_a_call_returns_is_a_result(pool):
    judge = sky.compute(lambda x: ValueError("odd") if x % 2 else None)

    async def main():
        first, second = await (judge(1) & judge(2)).on(pool)
        assert isinstance(first, ValueError) and not hasattr(first, "__notes__")
        assert second is None

    asyncio.run(main())


@pytest.mark.parametrize("together", [False, True])
def test_a_task_that_is_cancelled_before_it_begins_cancels_its_calls(pool, together):
    wait = sky.compute(lambda: threading.Event().wait())

    async def main():
        calls = [wait() for _ in range(pool.total_slots)]
        answers = [sky.gather(*calls).on(pool)] if together else [call.on(pool) for call in calls]
        for answer in answers:
            task = asyncio.create_task(answer)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await asyncio.wait_for(square(3).on(pool), 60) == 9, "their slots are free again"

    asyncio.run(main())

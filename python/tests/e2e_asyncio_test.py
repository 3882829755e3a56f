"""Calls and streams inside asyncio."""

import asyncio
import os
import threading
import time

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


def test_streams_are_read_by_async_for(pool):
    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)  # lets the others run

        ticking = asyncio.create_task(tick())
        found = [x async for x in await count(50).on(pool)]
        both = await asyncio.gather(read(count(5) >> pool), read(count(6) >> pool))
        ticking.cancel()
        assert found == list(range(50)) and both == [list(range(5)), list(range(6))]
        assert ticks > 50

    async def read(stream):
        return [x async for x in stream]

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

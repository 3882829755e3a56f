"""@sky.pool: a function as the block of a pool."""

import asyncio
import contextlib
import contextvars
import functools
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import skyward as sky


@sky.compute
def where():
    info = sky.instance_info()
    return info.node, info.total_nodes


def test_a_function_is_the_block_of_a_pool():
    seen = []

    @sky.pool(nodes=2, display="quiet")
    def main(x, y=0):
        """Doc."""
        seen.append(where() @ sky)
        return where() >> sky, (where() & where()) >> sky, x + y

    one, both, total = main(1, y=2)
    assert seen == [((0, 2), (1, 2))] and one[1] == 2 and len(both) == 2 and total == 3
    assert main.__name__ == "main" and main.__doc__ == "Doc."
    with pytest.raises(RuntimeError, match="needs an open pool"):
        contextvars.Context().run(lambda: where() >> sky)


def test_an_error_leaves_no_pool_behind():
    @sky.pool(nodes=1, display="quiet")
    def main():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        main()
    with pytest.raises(RuntimeError, match="needs an open pool"):
        contextvars.Context().run(lambda: where() @ sky)


def test_bare_and_asynchronous():
    @sky.pool
    def bare():
        return where() >> sky

    @sky.pool(nodes=1, display="quiet")
    async def later():
        return await asyncio.to_thread(lambda: where() >> sky)

    assert bare() == (0, 1) and asyncio.run(later()) == (0, 1)


def test_a_generator_is_the_block_of_a_pool_until_it_ends():
    opened = []

    @sky.pool(nodes=1, display="quiet", on_event=lambda event: opened.append(type(event)))
    def items():
        for _ in range(2):
            yield where() >> sky

    answers = items()
    assert opened == [] and next(answers) == (0, 1)
    assert sky.PoolStopped not in opened
    assert list(answers) == [(0, 1)] and opened.count(sky.PoolStopped) == 1
    dropped = items()
    assert next(dropped) == (0, 1)
    dropped.close()
    assert opened.count(sky.PoolStopped) == 2
    with pytest.raises(TypeError, match="later is an async generator"):

        @sky.pool
        async def later():
            yield 1


def logged(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


def test_what_would_run_after_the_block_is_refused():
    ran = []

    async def later():
        ran.append("coroutine")

    def items():
        ran.append("generator")
        yield 1

    async def later_items():
        ran.append("async generator")
        yield 1

    for hidden, kind in (
        (logged(later), "a coroutine"),
        (staticmethod(logged(later)), "a coroutine"),
        (logged(items), "a generator"),
        (logged(later_items), "an async generator"),
        (contextlib.contextmanager(items), "a context manager"),
        (contextlib.asynccontextmanager(later_items), "a context manager"),
    ):
        main = sky.pool(nodes=1, display="quiet")(hidden)
        with pytest.raises(TypeError, match=f"returned {kind}, whose body would run after"):
            main()
    assert ran == []


def test_what_a_block_has_made_of_its_answers_may_be_read_later():
    async def where_from_asyncio():
        return await where().on(sky)

    @functools.wraps(where_from_asyncio)
    def run_at_once():
        return asyncio.run(where_from_asyncio())

    assert sky.pool(nodes=1, display="quiet")(run_at_once)() == (0, 1)

    @sky.pool(nodes=2, display="quiet")
    def main():
        answers = where() @ sky
        return (node for node, _ in answers)

    assert list(main()) == [0, 1]


def test_the_innermost_pool_is_meant(pool):
    with sky.ComputePool(nodes=1, display="quiet") as outer:
        assert where() >> sky == (0, 1)
        with sky.ComputePool(nodes=3, display="quiet"):
            assert len(where() @ sky) == 3
        assert where() @ sky == where() @ outer


def test_the_decorator_is_there_before_and_after_the_module():
    program = """
import skyward as sky
assert callable(sky.pool)
sky.ComputePool
assert callable(sky.pool) and sky.pool(nodes=1)(print) is not print
import skyward.pool
assert skyward.pool.ComputePool is sky.ComputePool
try:
    sky.pool(3)
except TypeError as error:
    assert "needs a function" in str(error)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_decorators_name_opens_a_pool_too():
    with sky.pool(nodes=2, display="quiet") as opened:
        assert opened.instance_count == 2
        assert sky.compute(abs)(-1) >> sky == 1
    assert not opened.is_active


def test_each_thread_leaves_the_pool_that_it_has_entered():
    block = sky.pool(nodes=1, display="quiet")
    first_entered, both_entered, first_left = (threading.Event() for _ in range(3))
    inside = []

    def enter_first():
        with block as opened:
            inside.append(sky.ComputePool(display="quiet").open())  # and leaves it open
            first_entered.set()
            assert both_entered.wait(60)
        first_left.set()
        return opened.is_active

    def enter_second():
        assert first_entered.wait(60)
        with block as opened:
            both_entered.set()
            assert first_left.wait(60)
            assert opened.is_active
        return opened.is_active

    with ThreadPoolExecutor(2) as threads:
        left = [threads.submit(enter) for enter in (enter_first, enter_second)]
        assert [one.result(120) for one in left] == [False, False]
    inside[0].close()
    with block as outer, block as inner:
        assert outer is not inner
    assert not outer.is_active and not inner.is_active


def test_generators_that_alternate_keep_their_pools():
    @sky.pool(nodes=1, display="quiet")
    def items(nodes):
        with sky.pool(nodes=nodes, display="quiet"):
            for _ in range(2):
                try:
                    yield where() >> sky
                except KeyError:
                    yield where() @ sky
        return nodes

    def scene():
        one, two = items(1), items(2)
        assert next(one)[1] == 1 and next(two)[1] == 2
        assert (where() >> sky)[1] == 2  # the pool that was entered last
        assert next(one)[1] == 1 and (where() >> sky)[1] == 2
        assert next(two)[1] == 2
        with pytest.raises(StopIteration) as ended:
            next(one)
        assert ended.value.value == 1
        assert len(two.throw(KeyError())) == 2
        two.close()
        with pytest.raises(RuntimeError, match="needs an open pool"):
            where() >> sky

    contextvars.Context().run(scene)


def test_a_generator_with_a_pool_makes_a_context_manager():
    @contextlib.contextmanager
    @sky.pool(nodes=2, display="quiet")
    def opened():
        yield

    def scene():
        with sky.ComputePool(display="quiet"):
            with opened():
                assert (where() >> sky)[1] == 2
            assert (where() >> sky)[1] == 1
            with pytest.raises(KeyError), opened():
                raise KeyError
            assert (where() >> sky)[1] == 1

    contextvars.Context().run(scene)


def test_a_block_is_left_when_the_pools_around_it_are_around_each_other():
    def scene():
        a, b = sky.ComputePool(display="quiet"), sky.ComputePool(display="quiet")
        block = sky.pool(display="quiet")
        opened = []

        def enter():
            opened.append(block.__enter__())

        contextvars.Context().run(enter)
        a.open()
        contextvars.Context().run(a.close)
        b.open()
        a.open()  # inside b, which is inside a
        block.__exit__(None, None, None)
        assert not opened[0].is_active
        a.close()
        b.close()

    contextvars.Context().run(scene)

"""Calls of every kind through a real pool of this machine."""

import asyncio
import functools
import gc
import importlib
import itertools
import os
import sys
import threading
import time
import weakref

import pytest
from quick_calls import wait_at
from waiting import DEADLINE, wait_until

import skyward as sky


@sky.compute
def add(a, b=0):
    return a + b


@sky.compute
def place():
    info = sky.instance_info()
    return info.node, info.worker, os.getpid()


@sky.compute
def meet(folder, name, count):
    """Waits until `count` tasks are here at the same time."""
    open(os.path.join(folder, name), "w").close()
    end = time.monotonic() + 30
    while len(os.listdir(folder)) < count:
        if time.monotonic() > end:
            return False
        time.sleep(0.01)  # on a worker
    return True


@sky.compute
def count_to(n):
    yield from range(n)


def test_one_call(pool):
    assert add(1, b=2) >> pool == 3
    assert pool.run(add([1], [2])) == [1, 2]


def test_broadcast_runs_once_per_worker_in_rank_order(pool):
    places = place() @ pool
    assert isinstance(places, tuple)
    assert [(node, worker) for node, worker, _ in places] == [(0, 0), (1, 0)]


def test_a_broadcast_that_waits_leaves_the_other_slots_free(tmp_path):
    with sky.ComputePool(concurrency=2, display="quiet") as pool:
        engine = pool._engine()
        broadcasts = [
            threading.Thread(target=lambda: wait_at(0, 0, -1, str(tmp_path)) @ pool)
            for _ in range(2)
        ]
        for thread in broadcasts:
            thread.start()
        wait_until(lambda: engine.core.task_counts()[1] == 2)
        try:
            assert (add(1) > pool).result(DEADLINE) == 1
        finally:
            (tmp_path / "go").touch()
            for thread in broadcasts:
                thread.join()


def test_a_future_at_once(pool):
    future = add(1, b=2) > pool
    assert future.result(DEADLINE) == 3


class Scale:
    def __init__(self, factor):
        self.factor = factor

    @sky.compute
    def apply(self, x):
        return self.factor * x


def test_a_method_of_an_object(pool):
    assert Scale(3).apply(4) >> pool == 12
    assert Scale(2).apply(4) @ pool == (8, 8)


def test_chains_and_gather(pool):
    assert (add(1) & add("a", "b") & add(2.5)) >> pool == (1, "ab", 2.5)
    assert sky.gather() >> pool == ()
    assert sky.gather(add(1)) >> pool == (1,)
    assert sky.gather(*[add(i, i) for i in range(300)]) >> pool == tuple(2 * i for i in range(300))


@sky.compute
def wait_for(file):
    """Returns the file's name when it is there."""
    end = time.monotonic() + 30
    while not os.path.exists(file) and time.monotonic() < end:
        time.sleep(0.01)  # on a worker
    return os.path.basename(file)


def test_answers_one_by_one(pool, tmp_path):
    calls = [wait_for(str(tmp_path / name)) for name in "ab"]
    late = sky.gather(*calls, stream=True) >> pool
    early = sky.gather(*calls[:1], add(1), stream=True, ordered=False) >> pool
    assert next(early) == 1
    for name in "ab":
        (tmp_path / name).touch()
    assert list(late) == ["a", "b"] and list(early) == ["a"]
    assert list(sky.gather(stream=True) >> pool) == []


def test_a_stream_of_answers_that_is_dropped_cancels_the_rest(pool, tmp_path):
    endless = [wait_for(str(tmp_path / "never")) for _ in range(pool.total_slots)]
    stream = sky.gather(add(1), *endless, stream=True) >> pool
    assert next(stream) == 1
    stream.close()
    assert add(2) >> pool == 2
    never_read = sky.gather(*endless, stream=True) >> pool
    del never_read
    assert add(3) >> pool == 3


def test_a_stream_of_answers_raises_in_its_place(pool):
    stream = sky.gather(*[sky.compute(lambda x: 1 // x)(x) for x in (1, 0, 1)], stream=True) >> pool
    assert next(stream) == 1
    with pytest.raises(ZeroDivisionError):
        next(stream)
    assert list(stream) == []


def test_different_functions_in_one_batch(pool):
    functions = [sky.compute(lambda x, k=k: x + k) for k in range(5)]
    assert sky.gather(*[f(10) for f in functions]) >> pool == (10, 11, 12, 13, 14)


def test_all_slots_work_at_the_same_time(pool, tmp_path):
    assert pool.total_slots == 4
    calls = [meet(str(tmp_path), str(i), 4) for i in range(4)]
    assert sky.gather(*calls) >> pool == (True,) * 4


def test_any_callable(pool):
    assert sky.compute(functools.partial(divmod, 7))(2) >> pool == (3, 1)
    assert sky.compute(len)("four") >> pool == 4


def test_many_threads_share_a_pool(pool):
    wrong = []

    def work(k):
        for i in range(20):
            if add(k, i) >> pool != k + i:
                wrong.append((k, i))
        if sky.gather(*[add(k, i) for i in range(20)]) >> pool != tuple(range(k, k + 20)):
            wrong.append(k)

    threads = [threading.Thread(target=work, args=(1000 * k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


def test_futures(pool):
    futures = [pool.submit(add(i, 1)) for i in range(20)]
    assert [future.result(DEADLINE) for future in futures] == list(range(1, 21))
    done = threading.Event()
    pool.submit(add(1)).add_done_callback(lambda future: done.set())
    assert done.wait(DEADLINE)


def test_map(pool):
    assert list(pool.map(add, range(50), itertools.count())) == [2 * i for i in range(50)]
    assert list(pool.map(lambda x: x * x, [1, 2, 3])) == [1, 4, 9]
    assert list(pool.map(functools.partial(add, 1), [1, 2])) == [2, 3]
    assert list(pool.map(add, [])) == []
    endless = pool.map(add, itertools.count())
    assert list(itertools.islice(endless, 5)) == [0, 1, 2, 3, 4]
    endless.close()
    with pytest.raises(TypeError):
        pool.map(add)


def test_a_slow_call_holds_back_none_of_the_quick_ones_before_it(tmp_path):
    go = str(tmp_path / "go")

    @sky.compute
    def quick_or_slow(number):
        while number == 300 and not os.path.exists(go):
            time.sleep(0.001)  # on a worker
        return number

    with sky.ComputePool(nodes=1, display="quiet", collect_metrics=False) as pool:
        calls = sky.gather(*[quick_or_slow(i) for i in range(600)], stream=True)
        answers = calls >> pool
        assert [next(answers) for _ in range(300)] == list(range(300))
        open(go, "w").close()
        assert list(answers) == list(range(300, 600))


def test_the_calls_of_a_large_batch_are_cancelled_when_one_cannot_be_sent(pool, tmp_path):
    @sky.compute
    def wait_for(path, _=None):
        while not os.path.exists(path):
            time.sleep(0.001)  # on a worker

    never = [wait_for(str(tmp_path / "never")) for _ in range(1000)]
    with pytest.raises(sky.SerializationError):
        sky.gather(*never, wait_for("", threading.Lock())) >> pool
    assert add(1, 2) >> pool == 3  # the slots are free again


def test_map_stays_a_bounded_way_ahead(pool):
    taken = itertools.count()

    def inputs():
        while True:
            next(taken)
            yield bytes(1 << 20)

    results = pool.map(len, inputs())
    assert next(results) == 1 << 20
    results.close()
    assert next(taken) <= 64 + 2 * pool.total_slots + 1


def test_map_raises_at_the_failing_item(pool):
    results = pool.map(lambda x: 1 // x, [1, 0, 1])
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_map_timeout(pool):
    with pytest.raises(sky.TimeoutError, match="map"):
        list(pool.map(time.sleep, [60], timeout=0.2))
    assert add(1) >> pool == 1


def test_the_timeout_of_a_map_bounds_its_retries_too(pool, tmp_path):
    marker = str(tmp_path / "tried")

    @sky.compute(retries=1)
    def fail_once_and_stay(path):
        if not os.path.exists(path):
            with open(path, "w"):
                raise LookupError
        time.sleep(60)  # on a worker

    with pytest.raises(sky.TimeoutError, match="map"):
        list(pool.map(fail_once_and_stay, [marker], timeout=5))
    assert os.path.exists(marker) and add(1) >> pool == 1


@pytest.mark.parametrize("bad", ["an argument", "an input"])
def test_a_map_gives_what_comes_before_a_bad_call(pool, bad):
    def inputs():
        for number in range(2000):
            if number != 1500:
                yield (number,)
            elif bad == "an input":
                raise LookupError("no more")
            else:
                yield (threading.Lock(),)

    said = {
        "an argument": (sky.SerializationError, "argument 'a': cannot pickle"),
        "an input": (LookupError, "no more"),
    }
    seen = []
    with pytest.raises(said[bad][0], match=said[bad][1]) as caught:
        seen.extend(pool.map(add, (number for (number,) in inputs())))
    assert seen == list(range(1500))
    assert not any(" of " in note for note in getattr(caught.value, "__notes__", ()))


def test_several_threads_read_one_stream(pool):
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            stream, seen, errors = count_to(60) >> pool, [], []

            def read(stream=stream, seen=seen, errors=errors):
                try:
                    for item in stream:
                        seen.append(item)
                except BaseException as error:
                    errors.append(error)

            threads = [threading.Thread(target=read) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(DEADLINE)
            assert errors == [] and sorted(seen) == list(range(60))
    finally:
        sys.setswitchinterval(interval)


def test_a_stream_that_another_thread_closes_ends(pool):
    @sky.compute
    def one_and_wait():
        yield 1
        time.sleep(60)  # on a worker

    ended = []
    stream = one_and_wait() >> pool
    assert next(stream) == 1
    reader = threading.Thread(target=lambda: ended.append(list(stream)))
    reader.start()
    wait_until(stream._lock.locked)
    stream.close()
    reader.join(DEADLINE)
    assert ended == [[]]


class Result:
    pass


@pytest.mark.parametrize("ordered", [False, True])
def test_a_stream_of_answers_keeps_none_of_those_it_gave(pool, ordered):
    calls = [sky.compute(Result)() for _ in range(8)]
    given = []
    for answer in sky.gather(*calls, stream=True, ordered=ordered) >> pool:
        gc.collect()
        assert [seen() for seen in given] == [None] * len(given)
        given.append(weakref.ref(answer))
        del answer
    assert len(given) == 8


def test_asyncio(pool):
    async def main():
        one = await add(1, 2).on(pool)
        several = await asyncio.gather(*[add(i).on(pool) for i in range(5)])
        batch = await (add(1) & add("a", "b")).on(pool)
        return one, several, batch

    assert asyncio.run(main()) == (3, [0, 1, 2, 3, 4], (1, "ab"))


def test_asyncio_batch_error_comes_after_all_have_ended(pool, tmp_path):
    @sky.compute
    def fail_or_write(name):
        if name is None:
            raise ValueError("first")
        open(name, "w").close()

    async def main():
        name = str(tmp_path / "written")
        with pytest.raises(ValueError, match="first"):
            await (fail_or_write(None) & fail_or_write(name)).on(pool)
        assert os.path.exists(name)

    asyncio.run(main())


def test_asyncio_cancel_stops_the_task(pool, tmp_path):
    started, stopped = tmp_path / "started", tmp_path / "stopped"

    async def main():
        task = asyncio.ensure_future(wait_for_interrupt(str(started), str(stopped)).on(pool))
        await wait_until_async(started.exists)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await wait_until_async(stopped.exists)

    asyncio.run(main())
    assert add(1) >> pool == 1


@sky.compute
def wait_for_interrupt(started, stopped):
    try:
        open(started, "w").close()
        time.sleep(600)  # on a worker
    except KeyboardInterrupt:
        open(stopped, "w").close()
        raise


async def wait_until_async(condition):
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def test_a_generator_is_an_iterator(pool):
    items = count_to(5) >> pool
    assert iter(items) is items
    assert list(items) == [0, 1, 2, 3, 4]
    assert list(items) == []
    assert [list(part) for part in count_to(3) @ pool] == [[0, 1, 2], [0, 1, 2]]
    first, second = (count_to(2) & count_to(3)) >> pool
    assert (list(first), list(second)) == ([0, 1], [0, 1, 2])


def test_a_generator_stays_a_bounded_way_ahead_and_stops(pool, tmp_path):
    closed, made = tmp_path / "closed", tmp_path / "made"

    @sky.compute
    def endless(closed, made):
        try:
            for i in itertools.count():
                with open(made, "a") as file:
                    file.write(".")
                yield i
        finally:
            open(closed, "w").close()

    with endless(str(closed), str(made)) >> pool as items:
        assert [next(items) for _ in range(3)] == [0, 1, 2]
    wait_until(closed.exists)
    assert len(made.read_text()) < 100
    assert list(items) == []
    assert add(1) >> pool == 1


def test_a_generator_that_fails_gives_its_items_first(pool):
    @sky.compute
    def broken():
        yield 1
        raise ValueError("after one")

    items = broken() >> pool
    assert next(items) == 1
    with pytest.raises(ValueError, match="after one"):
        next(items)
    assert list(items) == []


def test_place_and_shards(pool):
    @sky.compute
    def part(data):
        info = sky.instance_info()
        return info.total_nodes, info.workers_per_node, info.job_id, sky.shard(data)

    answers = part(list(range(11))) @ pool
    assert [answer[:2] for answer in answers] == [(2, 1), (2, 1)]
    assert len({answer[2] for answer in answers}) == 1 and len(answers[0][2]) == 8
    assert sorted(answers[0][3] + answers[1][3]) == list(range(11))


def test_processes_of_a_worker_have_numbers(tmp_path):
    @sky.compute
    def slot(folder, name):
        assert meet.local(folder, name, 3)
        return sky.instance_info().slot

    with sky.ComputePool(provider=sky.Local(), concurrency=3, display="quiet") as pool:
        calls = [slot(str(tmp_path), str(i)) for i in range(3)]
        assert sorted(sky.gather(*calls) >> pool) == [0, 1, 2]


def test_broadcasts_go_on_while_streams_are_read():
    with sky.ComputePool(nodes=2, concurrency=2, display="quiet") as pool:
        for item in count_to(100) >> pool:  # it waits for its reader
            assert add(item) @ pool == (item, item)
        streams = [count_to(100) >> pool for _ in range(4)]  # all slots
        assert [next(stream) for stream in streams] == [0] * 4


def test_environment():
    image = sky.Image(env={"FROM_IMAGE": "image", "BOTH": "image"})
    names = ["FROM_IMAGE", "BOTH", "FROM_POOL"]
    with sky.ComputePool(
        image=image, env={"BOTH": "pool", "FROM_POOL": "é x"}, display="quiet"
    ) as pool:
        values = sky.compute(lambda: [os.environ.get(name) for name in names])() >> pool
    assert values == ["image", "pool", "é x"]


def write(path, text, at):
    path.write_text(text)
    os.utime(path, (at, at))


def test_all_workers_of_a_pool_hash_strings_alike(monkeypatch):
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    hashed = sky.compute(lambda words: (list(words), hash("word")))
    words = {f"word {at}" for at in range(100)}
    seen = set()
    for _ in range(2):
        with sky.ComputePool(nodes=4, display="quiet") as pool:
            (order, value), *others = hashed(words) @ pool
            assert len(others) == 3 and others == [(order, value)] * 3
            seen.add(value)
    assert len(seen) == 2  # each pool has hashes of its own
    with sky.ComputePool(env={"PYTHONHASHSEED": "7"}, display="quiet") as pool:
        chosen = hashed(words) >> pool
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    with sky.ComputePool(display="quiet") as pool:
        assert hashed(words) >> pool == chosen


def test_a_module_that_is_edited_while_the_pool_is_open(own_folder):
    helper = own_folder / "edited_helper.py"
    write(helper, "def answer():\n    return 1\n", 1)
    module = importlib.import_module("edited_helper")
    seen = []
    pool = sky.ComputePool(display="quiet")
    pool.on(sky.Error, lambda event: seen.append(event.message))
    with pool:
        assert sky.compute(module.answer)() >> pool == 1
        assert seen == []
        for later in (5, 10):
            write(helper, "def answer():\n    return 1\n", time.time() + later)
            for n in range(3):
                assert sky.compute(lambda n=n: n)() >> pool == n
    assert len(seen) == 2, "each change once"
    assert all(text.startswith(f"{helper} changed after this program imported it") for text in seen)
    with pool:
        assert len(seen) == 3 and seen[2] == seen[1], "each pool, as it opens"
        importlib.reload(module)
        assert sky.compute(lambda: 1)() >> pool == 1
    with pool:
        assert sky.compute(lambda: 1)() >> pool == 1
    assert len(seen) == 3


def test_a_reloaded_function_is_never_stale_in_silence(own_folder):
    text = """
import skyward as sky
K = 3
def plain(x): return x * K
@sky.compute
def remote(x): return plain(x)
"""
    path = own_folder / "reloaded_helper.py"
    write(path, text, 1)
    module = importlib.import_module("reloaded_helper")
    seen = []
    with sky.ComputePool(display="quiet") as pool:
        pool.on(sky.Error, lambda event: seen.append(event.message))
        assert module.remote(2) >> pool == 6
        write(path, text.replace("K = 3", "K = 100"), time.time() + 5)
        importlib.reload(module)
        assert module.remote.local(2) == 200
        answer = module.remote(2) >> pool
    assert answer == 200 or len(seen) == 1 and str(path) in seen[0]


def test_a_function_from_before_a_reload_is_named(own_folder, monkeypatch):
    monkeypatch.setattr("skyward.pool.packing.CHECK_SECONDS", 0.0)
    monkeypatch.setattr("skyward.pool.packing.CHECK_REST", 0.0)
    text = "import skyward as sky\n@sky.compute\ndef remote(x): return x + 1\n"
    path = own_folder / "reloaded_by_name.py"
    write(path, text, 1)
    module = importlib.import_module("reloaded_by_name")
    remote, seen = module.remote, []
    with sky.ComputePool(display="quiet") as pool:
        pool.on(sky.Error, lambda event: seen.append(event.message))
        assert remote(2) >> pool == 3 and seen == []
        write(path, text.replace("+ 1", "+ 10"), time.time() + 5)
        importlib.reload(module)
        assert module.remote(2) >> pool == 12
        assert [remote(2) >> pool for _ in range(2)] == [3, 3]
    (said,) = [text for text in seen if "was reloaded" in text]
    assert said == (
        "remote() is from before reloaded_by_name was reloaded: import it again, or call"
        " reloaded_by_name.remote()"
    )


def test_an_edited_module_that_only_tasks_import_is_reported(own_folder):
    helper = own_folder / "helper_of_tasks.py"
    write(helper, "def answer():\n    return 1\n", 1)
    seen = []

    @sky.compute
    def ask():
        import helper_of_tasks

        return helper_of_tasks.answer()

    pool = sky.ComputePool(display="quiet")
    pool.on(sky.Error, lambda event: seen.append(event.message))
    with pool:
        assert ask() >> pool == 1 and seen == []
        write(helper, "def answer():\n    return 2\n", time.time() + 5)
        assert sky.compute(lambda: 2)() >> pool == 2
    assert len(seen) == 1 and seen[0].startswith(f"{helper} changed after the pool opened")


def test_a_module_that_is_imported_after_it_was_written_is_no_news(own_folder):
    seen = []
    with sky.ComputePool(display="quiet") as pool:
        pool.on(sky.Error, lambda event: seen.append(event.message))
        assert sky.compute(abs)(-1) >> pool == 1
        write(own_folder / "late_helper.py", "", time.time() + 5)
        importlib.import_module("late_helper")
        assert sky.compute(lambda: 2)() >> pool == 2
    assert seen == []


def test_a_time_limit_for_all_calls_of_a_pool():
    nap = sky.compute(time.sleep)
    with sky.ComputePool(display="quiet", default_compute_timeout=0.2) as pool:
        with pytest.raises(sky.TimeoutError, match="ran longer than 0.2 s"):
            nap(600) >> pool
        assert nap(0.4).with_timeout(60) >> pool is None


def test_a_single_call_is_pickled_no_more_often_than_one_of_a_batch(pool):
    class Counted:
        """For cloudpickle alone: it is defined here."""

        def __getstate__(self):
            times.append(1)
            return {}

    times = []
    counts = []
    for send in (lambda call: call >> pool, lambda call: sky.gather(call) >> pool):
        times.clear()
        send(sky.compute(lambda value: None)(Counted()))
        counts.append(len(times))
    assert 0 < counts[0] <= counts[1]


@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="this is no virtual environment")
def test_programs_of_the_environment_come_first_on_path():
    @sky.compute
    def programs():
        path = os.environ["PATH"].split(":")
        return path, os.environ["VIRTUAL_ENV"], os.path.join(sys.prefix, "bin")

    env = {"PATH": f"/usr/bin:{sys.prefix}/bin:/bin", "VIRTUAL_ENV": "/another"}
    with sky.ComputePool(display="quiet", env=env) as pool:
        path, activated, own = programs() >> pool
    assert path == [own, "/usr/bin", "/bin"]
    assert activated == os.path.dirname(own)

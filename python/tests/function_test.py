"""Calls written down: no engine needed."""

import abc
import asyncio
import contextvars
import copy
import dataclasses
import functools
import gc
import inspect
import pickle
import sys
import types
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace

import cloudpickle
import numpy
import pytest
from skyward.call.answers import AwaitedCall
from skyward.call.awaited import AwaitedBatch, awaited
from skyward.call.function import is_generator
from skyward.transport import serialize

import skyward as sky
from skyward.call import target


@sky.compute
def add(a: int, b: int = 2) -> int:
    """Adds."""
    return a + b


@sky.compute
def factorial(n: int) -> int:
    return 1 if n < 2 else n * factorial.local(n - 1)


def test_calling_writes_down_and_does_not_run():
    ran = []

    @sky.compute
    def f():
        ran.append(1)

    pending = f()
    assert isinstance(pending, sky.PendingCompute)
    assert ran == []


def test_a_function_keeps_its_face():
    assert add.__name__ == "add"
    assert add.__doc__ == "Adds."
    assert str(inspect.signature(add)) == "(a: int, b: int = 2) -> int"
    assert repr(add) == "ComputeFunction(add)"
    assert add.local(1) == 3


def test_a_function_is_immutable():
    with pytest.raises(AttributeError):
        add._timeout = 3


def test_fields_and_kwargs_that_do_not_hash():
    pending = add(1, b=[2])
    assert (pending.fn, pending.args, pending.kwargs) == (add.local, (1,), {"b": [2]})
    assert (pending.name, pending.timeout) == ("add", None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        pending.args = ()


def test_options():
    slow = sky.compute(timeout=5, retries=2)(add.local)
    pending = slow(1)
    assert (pending.timeout, pending.retries) == (5, 2)
    changed = pending.with_timeout(7)
    assert (changed.timeout, changed.retries, pending.timeout) == (7, 2, 5)
    assert sky.compute(slow)(1).timeout == 5


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": "3"}, {"retries": -1}])
def test_nonsense_options_name_the_value(options):
    with pytest.raises(sky.ConfigurationError, match=str(next(iter(options.values())))):
        sky.compute(**options)


def test_any_callable_can_be_decorated():
    assert sky.compute(functools.partial(divmod, 7))(2).name == "divmod"
    assert sky.compute(len)([1]).fn is len
    with pytest.raises(TypeError, match="@compute needs a function"):
        sky.compute(3)


def test_a_pending_pickles_with_plain_pickle():
    for dumps in (pickle.dumps, cloudpickle.dumps):
        back = pickle.loads(dumps(add(1, b=5)))
        assert back.fn(*back.args, **back.kwargs) == 6
        assert back.name == "add"


def test_a_function_that_refers_to_itself_pickles():
    for dumps in (pickle.dumps, cloudpickle.dumps):
        back = pickle.loads(dumps(factorial))
        assert isinstance(back, sky.ComputeFunction)
        assert back.local(5) == 120


def test_chains_are_flat_whatever_the_side():
    a, b, c, d = (add(i) for i in range(4))
    for batch in (a & b & c & d, a & (b & (c & d)), (a & b) & (c & d), sky.gather(a, b) & c & d):
        assert isinstance(batch, sky.PendingBatch)
        assert batch.items == (a, b, c, d)
    nine = functools.reduce(lambda left, right: left & right, (add(i) for i in range(9)))
    assert len(nine) == 9


def test_gather_takes_any_number():
    assert len(sky.gather()) == 0
    assert len(sky.gather(*(add(i) for i in range(20)))) == 20
    with pytest.raises(TypeError, match="gather\\(\\*calls\\)"):
        sky.gather([add(1)])


def test_a_stream_of_answers_is_written_down():
    stream = sky.gather(add(1), add(2), stream=True, ordered=False)
    assert (list(stream), len(stream), stream.ordered) == ([add(1), add(2)], 2, False)
    assert [item.timeout for item in stream.with_timeout(3)] == [3, 3]
    assert repr(stream) == "PendingStream(add, add)"
    with pytest.raises(sky.ConfigurationError, match="stream=True"):
        sky.gather(add(1), ordered=False)
    with pytest.raises(TypeError, match="unsupported operand"):
        stream >> 3


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda: add >> 3, r"add has not been called; write add\(…\) >> pool"),
        (lambda: add @ 3, r"write add\(…\) @ pool"),
        (lambda: add & add(1), r"write \(add\(…\) & …\) >> pool"),
        (lambda: sky.gather(add), r"argument 0 .*call it: add\(…\)"),
    ],
)
def test_a_forgotten_call_is_named(use, says):
    with pytest.raises(TypeError, match=says):
        use()


def test_calls_are_values():
    assert add(1, b=2) == add(1, b=2) and hash(add(1)) == hash(add(1))
    assert add(1) != add(2) and add(1) != add(1).with_timeout(3) and add(1) != 3
    assert (add(1) & add(2)) == sky.gather(add(1), add(2)) != sky.gather(add(1))
    numpy = pytest.importorskip("numpy")
    array = numpy.zeros(3)
    assert add(array) == add(array) and add(array) != add(numpy.zeros(3))
    match add(1, b=2):
        case sky.PendingCompute(name="add", args=(a,), kwargs={"b": b}):
            assert (a, b) == (1, 2)
        case _:
            pytest.fail("no match")


@pytest.mark.parametrize(
    "join", [lambda: add(1) & 3, lambda: 3 & add(1), lambda: (add(1) & add(2)) & 3]
)
def test_missing_parentheses_are_named(join):
    with pytest.raises(TypeError, match=r"\(f\(\) & g\(\)\) >> pool"):
        join()


def test_a_batch_cannot_be_broadcast():
    with pytest.raises(TypeError, match="broadcast one call"):
        (add(1) & add(2)) @ object()


class Submits:
    """What calls are sent to."""

    def submit_batch(self, batch):
        raise AssertionError("sent")


@pytest.mark.parametrize(
    ("calls", "says"),
    [
        (add(1) & add(2), r"pool\.submit_batch\(.*await gather\(…\)\.on\(pool\)"),
        (sky.gather(add(1)), r"pool\.submit_batch\("),
        (sky.gather(add(1), stream=True), r"stream=True\) >> pool sends all calls"),
    ],
)
def test_what_several_calls_have_in_place_of_one_future_is_named(calls, says):
    with pytest.raises(TypeError, match=f"> pool is for one call; .*{says}"):
        calls > Submits()  # noqa: B015
    with pytest.raises(TypeError, match="not supported between"):
        calls > 3  # noqa: B015


def test_operators_refuse_what_is_no_pool():
    for use in (lambda: add(1) >> 3, lambda: add(1) @ 3, lambda: sky.gather() >> 3):
        with pytest.raises(TypeError, match="unsupported operand"):
            use()


def test_batch_timeout():
    assert [item.timeout for item in (add(1) & add(2)).with_timeout(3)] == [3, 3]


def test_generators_are_known():
    def items():
        yield 1

    class Callable:
        def items(self):
            yield 1

    assert is_generator(items) and is_generator(functools.partial(items))
    assert is_generator(Callable().items)
    assert not is_generator(len) and not is_generator(add.local)


def test_repr_is_short():
    assert repr(add(1, b="x" * 500)).startswith("PendingCompute(add(1, b='xxx")
    assert len(repr(add([1] * 1000))) < 60


class Counter:
    def __init__(self, start: int) -> None:
        self.start = start

    @sky.compute(timeout=7)
    def plus(self, more: int) -> int:
        """Adds."""
        return self.start + more


def test_a_method_takes_its_object_along():
    assert isinstance(Counter.plus, sky.ComputeFunction)
    pending = Counter(3).plus(4)
    assert (pending.name, pending.timeout) == ("plus", 7)
    assert pending.fn(*pending.args) == Counter(3).plus.local(4) == 7
    assert Counter.plus.local(Counter(1), 1) == 2
    assert pending.fn is Counter.plus.local  # one body, whatever the object
    counter = Counter(3)
    assert counter.plus(4) == counter.plus(4) != counter.plus(5)
    assert pickle.loads(pickle.dumps(Counter(3).plus)).local(4) == 7
    assert str(inspect.signature(Counter(3).plus)) == "(more: int) -> int"
    with pytest.raises(TypeError, match=r"plus\(\) missing 1 required positional argument: 'more'"):
        counter.plus()


def test_methods_are_equal_as_those_of_python_are(monkeypatch):
    one, other = Counter(3), Counter(3)
    assert one.plus == one.plus and hash(one.plus) == hash(one.plus)
    assert one.plus != other.plus and one.plus != Counter.plus and one.plus != 1
    assert len({one.plus, one.plus, other.plus, Counter.plus}) == 3
    made = []
    monkeypatch.setattr("skyward.call.function._check_of", made.append)
    for _ in range(3):
        one.plus(1)
    assert made == []  # it was made before, once


def test_a_copy_of_what_does_not_change_is_itself():
    for value in (add, Counter(1).plus, add(1), add(1) & add(2), sky.gather(add(1), stream=True)):
        assert copy.copy(value) is value
    assert copy.deepcopy(add) is add


class Tally:
    def __init__(self):
        self.sum = 1
        self.same = self.plus

    @sky.compute
    def plus(self, more):
        return self.sum + more

    def __call__(self, more):
        return self.sum * more


def test_a_deep_copy_of_a_method_has_an_object_of_its_own():
    counter = Tally()
    method, called = copy.deepcopy(counter.plus), copy.deepcopy(sky.compute(counter))
    other = copy.deepcopy(counter)
    counter.sum = 10
    assert method.local(1) == 2 and called.local(3) == 3
    assert other.same.local(1) == 2 and other.same == other.plus


class Tools:
    @sky.compute
    @staticmethod
    def inner(x):
        return x

    @staticmethod
    @sky.compute
    def outer(x):
        return x

    @classmethod
    @sky.compute
    def named(cls, x):
        return cls.__name__, x

    @sky.compute(timeout=3)
    @classmethod
    def named_above(cls, x):
        return cls.__name__, x

    size = sky.compute(len)


class MoreTools(Tools):
    @sky.compute
    @classmethod
    def named_above(cls, x):
        return super().named_above.local(x)


def test_what_is_no_method_takes_no_object_along():
    for place in (Tools, Tools()):
        for call in (place.inner("a"), place.outer("a"), place.size("a")):
            assert call.args == ("a",) and call.fn(*call.args) in ("a", 1)
        call = place.named("a")
        assert call.fn(*call.args) == ("Tools", "a")


def test_an_abstract_method_stays_abstract():
    class Trainer(abc.ABC):
        @sky.compute
        @abc.abstractmethod
        def train(self, x): ...

        @sky.silent
        @sky.compute
        @abc.abstractmethod
        def quiet(self): ...

    class Own(Trainer):
        @sky.compute
        def train(self, x):
            return super().train.local(x), x

        quiet = sky.compute(len)

    assert Trainer.__abstractmethods__ == {"train", "quiet"}
    with pytest.raises(TypeError, match="abstract"):
        Trainer()
    assert Own().train.local(1) == (None, 1)


def test_an_awaited_call_has_what_its_type_promises():
    async def main():
        call = awaited(Future(), asyncio.get_running_loop())
        assert isinstance(call, AwaitedCall) and not call.done()
        assert call.cancel() and call.cancelled()

    asyncio.run(main())


def test_a_class_method_is_itself_for_map_and_submit():
    plain = types.MethodType(vars(Tools)["named"].__func__, Tools)  # Tools.named since Python 3.13
    for method in (Tools.named, plain, functools.partial(plain)):
        wrapped = sky.compute(method)  # as pool.map() and Executor.submit() do
        call = wrapped("a")
        assert call.fn(*call.args) == wrapped.local("a") == ("Tools", "a")


def test_compute_may_stand_above_classmethod():
    for owner in (Tools, MoreTools):
        for place in (owner, owner()):
            call = place.named_above("a")
            assert call.fn(*call.args) == place.named_above.local("a") == (owner.__name__, "a")
            assert str(inspect.signature(place.named_above)) == "(x)"
            with pytest.raises(TypeError, match="'x'"):
                place.named_above()
    assert Tools.named_above("a").timeout == 3

    async def wait(cls):
        pass

    for kind in (classmethod, staticmethod):
        with pytest.raises(sky.ConfigurationError, match="wait is async"):
            sky.compute(kind(wait))


def test_a_partial_of_a_distributed_function_is_distributed():
    @sky.compute
    @sky.distributed.torch
    def train(rate, epochs):
        return rate, epochs

    call = sky.compute(functools.partial(train, epochs=3))(0.1)
    assert call.fn.__skyward_distributed__ == train(0.1, 3).fn.__skyward_distributed__


def test_a_partial_of_a_compute_function():
    limited = sky.compute(timeout=3, retries=2)(add.local)
    for partial in (
        functools.partial(limited, b=5),
        functools.partial(functools.partial(limited, b=4), b=5),
    ):
        call = sky.compute(partial)(1)
        assert call.fn(*call.args) == 6
        assert (call.name, call.timeout, call.retries) == ("add", 3, 2)
        assert sky.compute(timeout=9)(partial)(1).timeout == 9


def test_async_functions_are_refused():
    async def wait():
        pass

    async def items():
        yield 1

    for function in (wait, items):
        with pytest.raises(sky.ConfigurationError, match=f"{function.__name__} is async") as caught:
            sky.compute(function)
        assert "asyncio.run" in str(caught.value)
        for decorate in (sky.silent, sky.stdout, sky.stderr(only="head"), *DISTRIBUTED):
            with pytest.raises(sky.ConfigurationError, match=f"{function.__name__} is async"):
                decorate(function)


DISTRIBUTED = (sky.distributed.torch, sky.distributed.mpi(ranks_per_node=1))


def test_nothing_is_sent_where_no_loop_runs():
    class Pool:
        def submit(self, call):
            raise AssertionError("sent")

        submit_batch = submit

    for call in (add(1), add(1) & add(2)):
        with pytest.raises(RuntimeError, match=r"needs a running asyncio loop.*>> pool"):
            call.on(Pool())


def test_a_call_that_returns_not_implemented_says_so():
    class Pool:
        def run(self, call):
            return NotImplemented

    with pytest.raises(TypeError, match=r"add\(1\) returned NotImplemented.*pool\.run\(add\(…\)\)"):
        add(1) >> Pool()


@pytest.mark.parametrize("method", ["run", "submit", "broadcast"])
def test_arguments_beside_a_call_are_refused(method):
    send = getattr(sky.ComputePool(), method)
    with pytest.raises(TypeError, match=rf"write pool\.{method}\(sky\.compute\(pow\)\(…\)\)"):
        send(pow, 2, 3)
    with pytest.raises(TypeError, match=rf"write pool\.{method}\(add\(…\)\)"):
        send(add, x=1)
    with pytest.raises(TypeError, match=r"join several with gather"):
        send(add(1), add(2))
    with pytest.raises(TypeError, match=r"run_batch\(gather\(sky\.compute\(pow\)\(…\), …\)\)"):
        sky.ComputePool().run_batch(pow, 2, 3)


def test_results_and_uncalled_functions_are_no_calls():
    pool = sky.ComputePool()
    for text in ("3 >> pool", "3 @ pool"):
        with pytest.raises(TypeError, match="expected a call of a @sky.compute function, got int"):
            eval(text, {"pool": pool})
    for text in ("[add(1), add(2)] >> pool", "(add(k) for k in range(2)) >> pool"):
        with pytest.raises(TypeError, match=r"write gather\(\*calls\) >> pool"):
            eval(text, {"pool": pool, "add": add})
    with pytest.raises(TypeError, match=r"write add\(…\) > pool"):
        add > pool  # noqa: B015
    with pytest.raises(TypeError, match="not supported between"):
        add(1) > 3  # noqa: B015


@sky.compute
def trained(model, /, data, *extra, rate=0.1, **options):
    return model


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            lambda: trained(),
            "trained.. missing 2 required positional arguments: 'model' and 'data'",
        ),
        (lambda: trained(1), "missing 1 required positional argument: 'data'"),
        (lambda: sky.compute(_plain)(1, 2, 3), r"_plain\(\) takes .* 2 .* but 3 were given"),
        (lambda: sky.compute(_plain)(1, z=2), "unexpected keyword argument 'z'"),
        (lambda: sky.compute(functools.partial(_plain, 1))(2, 3), "takes .* but"),
        (lambda: _Model().predict(), "missing 1 required positional argument: 'x'"),
        (lambda: trained(1, 2, rate=trained(2, 3)), r"trained\(2, 3\) as an argument"),
        (
            lambda: trained(1, trained(2, 3)),
            r"trained\(2, 3\) as an argument, a call that was not sent",
        ),
    ],
)
def test_a_wrong_call_is_refused_where_it_is_written(wrong, says):
    with pytest.raises(TypeError, match=says):
        wrong()


def _plain(a, b=None):
    return a, b


class _Model:
    @sky.compute
    def predict(self, x):
        return x


def test_a_right_call_is_not_refused():
    @functools.wraps(_plain)
    def wrapped(*args):
        return _plain(*args)

    for call in (
        trained(1, 2, 3, 4, rate=1, self=2, fn=3, check=4),
        sky.compute(wrapped)(1, 2, 3),
        sky.compute(functools.partial(_plain, 1))(2),
        sky.compute(functools.partial(_plain, a=1))(b=2),
        sky.compute(int)("ff", 16),
        sky.compute(numpy.add)(1, 2),
        _Model().predict(1),
        trained(1, [trained(2, 3)]),
    ):
        assert isinstance(call, sky.PendingCompute)


def test_what_is_written_wrongly_is_told_how_to_write():
    pool = sky.ComputePool()
    with pytest.raises(TypeError, match=r"write pool.submit\(trained\(…\)\)"):
        pool.submit(trained, 1, 2)

    async def later():
        return await trained(1, 2)

    with pytest.raises(TypeError, match=r"write await trained\(…\).on\(pool\)"):
        asyncio.run(later())


def test_a_pool_cannot_travel():
    pool = sky.ComputePool()
    for send in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="return the calls, and send them from"):
            send(pool)
    with pytest.raises(sky.SerializationError) as caught:
        serialize.dumps_arguments(_plain, "_plain", ({"pools": [pool]},), {})
    assert str(caught.value).startswith(
        "argument 'a'['pools'][0]: cannot pickle it: a pool cannot be sent"
    )


def test_representations():
    pool = sky.ComputePool()
    assert repr(sky.MultiPool(pool)) == f"MultiPool({pool!r})"
    assert repr(sky.Executor(pool=pool)) == f"Executor({pool!r}, 0 sent, 0 waiting)"
    assert repr(trained(1, 10**5000)) == "PendingCompute(trained(1, <int>))"


def test_a_pool_that_is_not_known_is_told_apart(monkeypatch):
    def resolve():  # other tests may have a pool open
        with pytest.raises(RuntimeError, match="`>> sky` needs an open pool") as caught:
            target.resolve(sky)
        return str(caught.value)

    def said():
        return contextvars.Context().run(resolve)

    assert "@sky.pool" in said() and "Threads" not in said()
    with ThreadPoolExecutor() as threads:
        assert "name it (`>> pool`)" in threads.submit(said).result()
    monkeypatch.setitem(sys.modules, "_skyward_worker", sys)
    assert "call the function directly, f.local(…)" in said()


def test_pools_that_were_opened_inside_each_other_in_turn_end_the_search():
    first, second = SimpleNamespace(_is_entered=False), SimpleNamespace(_is_entered=False)
    first._around, second._around = second, first
    token = target._innermost.set(first)
    try:
        with pytest.raises(RuntimeError, match="needs an open pool"):
            target.resolve(sky)
    finally:
        target._innermost.reset(token)


def test_a_failed_gather_that_was_awaited_frees_the_other_results_at_once():
    async def main():
        loop = asyncio.get_running_loop()
        futures = [loop.create_future(), loop.create_future()]
        result = set()
        futures[0].set_result(result)
        futures[1].set_exception(ValueError("broken"))
        kept = weakref.ref(result)
        batch = AwaitedBatch(futures, sky.gather(add(1), add(2)).items, return_exceptions=False)
        del result, futures
        try:
            await batch
        except ValueError as error:
            del batch
            await asyncio.sleep(0)  # the turn of the loop that brought them keeps them, too
            return str(error), kept()

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(main()) == ("broken", None)
    finally:
        gc.enable()

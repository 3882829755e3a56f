"""What travels, and what does not."""

import importlib
import pickle
import random
import subprocess
import sys
import threading

import cloudpickle
import numpy
import pytest
from exits_at_first import ExitsAtFirst, loads
from skyward.transport import functions, serialize

import skyward as sky

FACTOR = 2
TABLE = {"a": 1}


@pytest.fixture(autouse=True)
def no_module_goes_by_value(monkeypatch):
    """Other tests of this process may have asked for it."""
    monkeypatch.setattr(cloudpickle, "list_registry_pickle_by_value", set)


class Thing:
    def __init__(self, **parts):
        self.__dict__.update(parts)


class Unshown:
    def __repr__(self):
        raise RuntimeError("it cannot be shown")


class Unreadable(Thing):
    @property
    def local(self):
        raise RuntimeError("it cannot be read")


def double(x):
    return x * FACTOR


def look_up(key):
    return TABLE[key]


def test_a_body_is_pickled_once():
    f = make_function(
        "def f(x):\n    return math.sqrt(x) * SCALE", math=__import__("math"), SCALE=3
    )
    first = functions.dumps_function(f, "f")
    assert functions.dumps_function(f, "f") is first
    f.__globals__["SCALE"] = 4
    second = functions.dumps_function(f, "f")
    assert second is not first
    assert pickle.loads(second)(4) == 8


def test_kept_bodies_have_a_budget_of_bytes(monkeypatch):
    monkeypatch.setattr(functions._Bodies, "LIMIT_BYTES", 2500)
    monkeypatch.setattr(functions, "_bodies", functions._Bodies())
    large = [make_function("def f():\n    return X", X=bytes([k]) * 1000) for k in range(4)]
    bodies = [functions.dumps_function(f, "f") for f in large]
    assert [functions._bodies.get(f) for f in large] == [None, None, None, bodies[3]]
    huge = make_function("def f():\n    return X", X=bytes(9000))
    body = functions.dumps_function(huge, "f")
    assert functions._bodies.get(huge) is body  # the newest stays
    assert functions._bodies.get(large[3]) is None
    small = make_function("def f():\n    return 1")
    kept = functions.dumps_function(small, "f")
    assert functions._bodies.get(huge) is None
    assert functions._bodies.get(small) is kept


def test_a_body_is_pickled_anew_when_modules_go_by_value(monkeypatch):
    f = make_function("def f():\n    return 1")
    first = functions.dumps_function(f, "f")
    monkeypatch.setattr(cloudpickle, "list_registry_pickle_by_value", lambda: {"a_module"})
    assert functions.dumps_function(f, "f") is not first


def test_a_body_with_changeable_parts_is_pickled_each_time():
    table = {"a": 1}
    f = make_function("def f(key):\n    return table[key]", table=table)
    first = functions.dumps_function(f, "f")
    table["a"] = 2
    assert pickle.loads(functions.dumps_function(f, "f"))("a") == 2
    assert pickle.loads(first)("a") == 1


def test_changed_closures_defaults_and_callees_are_seen():
    step = 1

    def increase(x, by=10):
        return x + step + by

    assert pickle.loads(functions.dumps_function(increase, "f"))(0) == 11
    step = 2
    assert pickle.loads(functions.dumps_function(increase, "f"))(0) == 12
    increase.__defaults__ = (20,)
    assert pickle.loads(functions.dumps_function(increase, "f"))(0) == 22

    outer = make_function(
        "def outer(x):\n    return inner(x) + 1", inner=make_function("def inner(x):\n    return x")
    )
    assert pickle.loads(functions.dumps_function(outer, "f"))(1) == 2
    outer.__globals__["inner"] = make_function("def inner(x):\n    return -x")
    assert pickle.loads(functions.dumps_function(outer, "f"))(1) == 0
    outer.__globals__["inner"].rate = 3  # a worker gets it, too
    body = functions.dumps_function(outer, "f")
    assert pickle.loads(body).__globals__["inner"].rate == 3


def test_a_submodule_that_the_program_imports_later_is_sent(tmp_path, monkeypatch):
    package = tmp_path / "package_with_parts"
    (package / "inner").mkdir(parents=True)
    for path in ("__init__", "inner/__init__", "inner/part"):
        (package / f"{path}.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    names = package.name, f"{package.name}.inner", f"{package.name}.inner.part"
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module(names[0])
    f = make_function("def f():\n    return [lib.inner.part for _ in '1']", lib=module)
    bodies = []
    for name in names:
        importlib.import_module(name)
        bodies.append(functions.dumps_function(f, "f"))
        assert functions.is_kept(f) and functions.dumps_function(f, "f") is bodies[-1]
    assert [name.encode() in body for body, name in zip(bodies, names, strict=True)] == [True] * 3
    assert names[2].encode() not in bodies[1]


def test_what_travels_by_name_is_seen_to_be_reloaded(own_folder):
    file = own_folder / "reloaded_parts.py"
    file.write_text("class Part: pass\n\ndef helper():\n    return 1\n")
    module = importlib.import_module("reloaded_parts")
    for name in ("helper", "Part"):
        f = make_function("def f():\n    return part()", part=getattr(module, name))
        body = functions.dumps_function(f, "f")
        assert functions.is_kept(f) and functions.dumps_function(f, "f") is body
        importlib.reload(module)  # another has the name now: this one goes by value
        assert functions.dumps_function(f, "f") == functions.dumps_by_value(f) != body


def test_a_body_is_not_kept_if_what_it_refers_to_changes_while_it_is_pickled(monkeypatch):
    f = make_function("def f():\n    return RATE", RATE=1)

    def dumps(fn):
        """Another thread changes it just then."""
        body = dumps_by_value(fn)
        f.__globals__["RATE"] = 2
        return body

    dumps_by_value = functions.dumps_by_value
    with monkeypatch.context() as during:
        during.setattr(functions, "dumps_by_value", dumps)
        assert pickle.loads(functions.dumps_function(f, "f"))() == 1
    assert pickle.loads(functions.dumps_function(f, "f"))() == 2
    assert functions.is_kept(f)


def make_function(source, **names):
    """A function that nobody can import, so that it goes by value."""
    exec(source, names)
    return names[source[4 : source.index("(")]]


def test_arguments_go_beside_the_stream():
    big, small = numpy.arange(100_000.0), numpy.arange(3)
    stream, buffers = serialize.dumps_arguments(double, "double", (big,), {"s": small})
    assert len(stream) < 1000
    assert [view.nbytes for view in buffers] == [big.nbytes]
    (args, kwargs) = pickle.loads(stream, buffers=[bytearray(view) for view in buffers])
    assert (args[0] == big).all() and (kwargs["s"] == small).all()
    assert args[0].flags.writeable and kwargs["s"].flags.writeable


@pytest.mark.parametrize("dumps", [serialize.dumps_arguments, serialize.dumps_arguments_by_value])
def test_large_bytes_go_beside_the_stream(dumps):
    large, small = bytes(serialize.BESIDE_BYTES), b"small"
    stream, buffers = dumps(double, "double", (large, small, large), {"text": large})
    assert len(stream) < 1000
    assert [view.obj for view in buffers] == [large]
    (args, kwargs) = pickle.loads(stream, buffers=[bytearray(view) for view in buffers])
    assert args == (large, small, large) and kwargs == {"text": large}
    assert type(args[0]) is bytes and args[0] is args[2] is kwargs["text"]


@pytest.mark.parametrize("dumps", [serialize.dumps_arguments, serialize.dumps_arguments_by_value])
def test_large_bytes_that_are_inside_another_argument_too_are_sent_once(dumps):
    large, other = random.randbytes(serialize.BESIDE_BYTES), bytes(serialize.BESIDE_BYTES)
    stream, buffers = dumps(double, "double", (large, [large], other), {"table": {"key": large}})
    sent = len(stream) + sum(view.nbytes for view in buffers)
    assert sent < len(large) + len(other) + 1000
    (args, kwargs) = pickle.loads(stream, buffers=[bytearray(view) for view in buffers])
    assert args == (large, [large], other)
    assert args[0] is args[1][0] is kwargs["table"]["key"]


@pytest.mark.parametrize("dumps", [serialize.dumps_arguments, serialize.dumps_arguments_by_value])
def test_no_more_buffers_are_beside_the_stream_than_a_call_takes(dumps, monkeypatch):
    assert serialize.MOST_BUFFERS == 65_536  # kMaxBuffers
    monkeypatch.setattr(serialize, "MOST_BUFFERS", 4)
    arrays = [numpy.full(serialize.IN_BAND_BYTES, k, numpy.uint8) for k in range(10)]
    stream, buffers = dumps(double, "double", (arrays,), {})
    assert len(buffers) == 3  # and the stream
    ((got,), _) = pickle.loads(stream, buffers=buffers)
    assert [array[-1] for array in got] == list(range(10))


def test_arrays_of_any_layout():
    fortran = numpy.asfortranarray(numpy.arange(200_000.0).reshape(400, 500))
    strided = numpy.arange(200_000.0)[::3]
    stream, buffers = serialize.dumps_arguments(double, "double", (fortran, strided), {})
    (args, _) = pickle.loads(stream, buffers=[bytearray(view) for view in buffers])
    assert (args[0] == fortran).all() and (args[1] == strided).all()


def test_lambdas_and_decorated_functions_are_arguments():
    stream, _ = serialize.dumps_arguments(
        double, "double", (lambda x: x + 1, sky.compute(double)), {}
    )
    (args, _) = pickle.loads(stream)
    assert args[0](1) == 2 and args[1].local(2) == 4


def test_classes_of_the_program_itself_go_by_value(tmp_path):
    out = tmp_path / "stream"
    program = f"""
from skyward.transport import serialize
class Point:
    def __init__(self, x): self.x = x
stream, _ = serialize.dumps_arguments(print, "print", (Point(3),), {{}})
open({str(out)!r}, "wb").write(stream)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    ((point,), _) = pickle.loads(out.read_bytes())
    assert point.x == 3 and type(point).__name__ == "Point"


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (
            lambda lock: {"x": [0, 1, 2, Thing(lock=lock)]},
            r"argument 'data'\['x'\]\[3\]\.lock: cannot pickle",
        ),
        (lambda lock: {Unshown(): 1, "x": lock}, r"argument 'data'\['x'\]: cannot pickle"),
        (lambda lock: {Unshown(): lock}, r"argument 'data'\[<Unshown>\]: cannot pickle"),
        (lambda lock: Unreadable(lock=lock), "argument 'data': cannot pickle"),
        (lambda lock: lock, "argument 'data': cannot pickle '_thread.lock'"),
        (lambda lock: lambda: lock, "argument 'data' variable 'lock': cannot pickle"),
    ],
)
def test_the_way_to_what_does_not_pickle(make, path):
    def train(epochs, data):
        pass

    with pytest.raises(sky.SerializationError, match=path) as caught:
        serialize.dumps_arguments(train, "train", (1,), {"data": make(threading.Lock())})
    assert "train()" in str(caught.value)
    with pytest.raises(sky.SerializationError, match=path):
        serialize.dumps_arguments(train, "train", (1, make(threading.Lock())), {})


def test_the_way_through_a_function():
    f = make_function("def f():\n    return guard", guard=threading.Lock())
    with pytest.raises(sky.SerializationError, match="function 'f' global 'guard': cannot pickle"):
        functions.dumps_function(f, "f")


def test_cycles_end():
    ring = []
    ring.append(ring)
    ring.append(threading.Lock())
    with pytest.raises(sky.SerializationError, match=r"argument 'x'\[1\]"):
        serialize.dumps_arguments(double, "double", (ring,), {})


def test_a_result_that_cannot_be_rebuilt_is_named():
    with pytest.raises(
        sky.SerializationError, match="f\\(\\) returned, but its result cannot be rebuilt"
    ):
        serialize.loads((b"cno_such_module\nName\n.", []), "f()")


def test_an_exit_that_a_signal_asks_for_while_a_result_loads_stays_one():
    loads.clear()
    payload = pickle.dumps(ExitsAtFirst()), []
    with pytest.raises(SystemExit):
        serialize.loads(payload, "f")
    assert serialize.loads(payload, "f") == "loaded"

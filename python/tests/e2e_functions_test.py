"""How functions travel: bodies once, objects of methods as arguments, and from any process."""

import dataclasses
import fractions
import os
import subprocess
import sys
import threading

import pytest
from skyward.transport import functions

import skyward as sky
from skyward.pool import packing

PROGRAM = """
import multiprocessing, sys
import skyward as sky

class Settings:
    def __init__(self, rate):
        self.rate = rate

def helper(settings):
    return settings.rate + 1

@sky.compute
def rate_of(settings):
    return helper(settings)

@sky.compute
def settings_of(rate):
    return Settings(rate)

def child():
    with sky.ComputePool(display="quiet", collect_metrics=False) as pool:
        print(rate_of(Settings(2)) >> pool, (settings_of(5) >> pool).rate)
        print(list(pool.map(helper, [Settings(1)])), flush=True)

if __name__ == "__main__":
    process = multiprocessing.get_context(sys.argv[1]).Process(target=child)
    process.start()
    process.join(60)
    sys.exit(process.exitcode)
"""


class Model:
    def __init__(self):
        self.weights = bytearray(100_000)

    @sky.compute
    def first(self, more):
        return self.weights[0] + more


def test_the_object_of_a_method_is_an_argument(pool):
    model = Model()
    assert model.first(0) >> pool == 0
    before = len(pool._live.packing._functions)
    for value in range(5):
        model.weights[0] = value
        assert model.first(1) >> pool == value + 1
    assert len(pool._live.packing._functions) == before


def test_bodies_have_a_budget_of_bytes(pool, monkeypatch):
    monkeypatch.setattr(packing, "FUNCTION_BYTES_KEPT", 300_000)
    for value in range(6):
        data = bytes([value]) * 100_000
        assert sky.compute(lambda data=data: data[-1])() >> pool == value
        kept = [len(body) for body in pool._live.packing._functions]
        assert sum(kept) <= 300_000 and kept[-1] > 100_000


def test_many_threads_send_functions_of_their_own(pool, monkeypatch):
    call, errors = sky.compute(abs)(-1), []
    monkeypatch.setattr(functions, "dumps_function", lambda fn, name: os.urandom(16))

    def work():
        try:
            for _ in range(3000):
                pool._live.packing.function(call)
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    finally:
        sys.setswitchinterval(interval)
    assert errors == [] and len(pool._live.packing._functions) <= packing.FUNCTIONS_KEPT


@pytest.mark.parametrize("way", ["spawn", "forkserver"])
def test_the_program_itself_travels_from_a_child(tmp_path, way):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program, way],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.stdout == "3 5\n[2]\n", done.stderr


def test_a_function_that_carries_much_is_worth_a_word():
    table = bytearray(9 << 20)

    def look(i):
        return table[i]

    seen = []
    with sky.ComputePool(display="quiet") as pool:
        pool.on(sky.Error, lambda event: seen.append(event.message))
        assert [sky.compute(look)(i) >> pool for i in range(3)] == [0, 0, 0]
    assert len(seen) == 1 and seen[0].startswith("look() carries 9 MiB of data")
    assert "('table')" in seen[0] and "pass it as an argument" in seen[0]


def test_a_function_that_takes_long_to_serialize_is_worth_a_word(monkeypatch):
    table = {at: {"row": at} for at in range(20_000)}

    def look(i):
        return table[i]["row"]

    monkeypatch.setattr(packing, "HEAVY_SECONDS", 1e-3)
    seen = []
    with sky.ComputePool(display="quiet", on_event=seen.append) as pool:
        assert [sky.compute(look)(i) >> pool for i in range(3)] == [0, 1, 2]
    (told,) = [event.message for event in seen if isinstance(event, sky.Error)]
    assert told.startswith("look() carries ") and "KiB of data" in told and "('table')" in told


def test_items_of_a_class_of_the_script_are_reported_once(monkeypatch):
    @dataclasses.dataclass
    class Row:
        number: int

    def score(row):
        return row.number

    monkeypatch.setattr(packing, "BY_VALUE_CALLS", 20)
    seen = []
    with sky.ComputePool(display="quiet", on_event=seen.append) as pool:
        assert list(pool.map(score, map(Row, range(50)))) == list(range(50))
        assert [sky.compute(score)(Row(i)) >> pool for i in range(3)] == [0, 1, 2]
        assert list(pool.map(abs, map(fractions.Fraction, range(50)))) == list(range(50))
    (told,) = [event.message for event in seen if isinstance(event, sky.Error)]
    assert told.startswith("20 arguments were objects of ") and "<locals>.Row, a class" in told
    assert "in a module that your program imports" in told


def test_single_calls_count_objects_of_a_class_of_the_script(monkeypatch):
    class Row:
        pass

    monkeypatch.setattr(packing, "BY_VALUE_CALLS", 3)
    seen = []
    with sky.ComputePool(display="quiet", on_event=seen.append) as pool:
        for _ in range(5):
            sky.compute(id)(Row()) >> pool
    told = [event.message for event in seen if isinstance(event, sky.Error)]
    assert len(told) == 1 and told[0].startswith("3 arguments were objects of ")


def test_a_map_serializes_its_function_once(monkeypatch):
    table = {at: at for at in range(1000)}  # can change: single calls serialize it each time

    def look(i):
        return table[i]

    bodies = []
    real = packing.functions.dumps_function
    monkeypatch.setattr(
        packing.functions, "dumps_function", lambda *args: bodies.append(real(*args)) or bodies[-1]
    )
    with sky.ComputePool(display="quiet") as pool:
        answers = pool.map(look, range(1000))
        assert next(answers) == 0
        table[999] = "changed"  # map() has its function
        assert list(answers) == list(range(1, 1000))
    assert len(bodies) == 1


def test_a_module_of_a_package_that_runs_as_program_hides_no_module(tmp_path):
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "logging.py").write_text("raise ImportError('of the package, not the library')")
    (package / "train.py").write_text(
        "import skyward as sky\n"
        "def there():\n"
        "    import logging, pkg\n"
        "    return logging.getLogger('x').name, pkg.__name__\n"
        "with sky.ComputePool(provider=sky.Local(), display='quiet') as pool:\n"
        "    print(*sky.compute(there)() >> pool)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pkg.train"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "x pkg\n", done.stderr

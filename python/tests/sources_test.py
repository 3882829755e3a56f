"""The source of functions that travel by value, and what is made of it: kernels of Triton."""

import inspect
import linecache
import pickle
import subprocess
import sys
import textwrap
import types

import pytest

import skyward as sky
from skyward.worker import by_value, kernels, sources

CELL = """\
import skyward as sky


def scaled(x):
    # by three
    return (
        x
        * 3
    )


@sky.compute
def show():
    import inspect

    later = lambda y: y + 1
    return [inspect.getsource(one) for one in (scaled, later)], scaled(2)
"""


def run_cell(monkeypatch, text, name):
    """The variables of a cell of a notebook, which keeps its lines in memory alone."""
    lines = text.splitlines(keepends=True)
    monkeypatch.setitem(linecache.cache, name, (len(text), None, lines, name))
    return variables_of(text, name)


def variables_of(text, name):
    variables = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), variables)
    return variables


def test_functions_of_a_notebook_have_their_source_on_the_nodes(monkeypatch):
    cell = run_cell(monkeypatch, CELL, "<cell of sources>")
    with sky.ComputePool(nodes=1, display="quiet") as pool:
        (function, inner), value = cell["show"]() >> pool
    assert function == inspect.getsource(cell["scaled"]) and "# by three" in function
    assert inner.strip() == "later = lambda y: y + 1" and value == 6


READER = """
import inspect, linecache, pickle, sys
second, first = pickle.load(sys.stdin.buffer)
for function in (first, second):
    print(inspect.getsource(function), end="")
print(first(1) + second(1), len(linecache.getlines(first.__code__.co_filename)))
"""


def read_elsewhere(data):
    done = subprocess.run(
        [sys.executable, "-c", READER], input=data, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_lines_keep_their_numbers_where_the_file_is_not(tmp_path):
    text = "\n\ndef first(x):\n    return x\n\n\n# a comment\n\ndef second(x):\n    return 2 * x\n"
    file = tmp_path / "gone.py"
    file.write_text(text)
    variables = variables_of(text, str(file))
    data = by_value.dumps((variables["second"], variables["first"]))
    assert by_value.dumps((variables["second"], variables["first"])) == data  # as sent before
    file.unlink()
    function = "def {}(x):\n    return {}\n"
    both = function.format("first", "x") + function.format("second", "2 * x")
    assert read_elsewhere(data) == f"{both}3 10\n"
    file.write_text("another\n" * 20)  # what is here has the say
    assert "another" in read_elsewhere(data)


def test_functions_without_source_travel_as_before(tmp_path):
    file = tmp_path / "edited.py"
    file.write_text("x = 1\n")  # shorter than it was
    for name in ("<string>", str(file), str(tmp_path / "missing.py")):
        variables = variables_of("\n\n\ndef double(x):\n    return 2 * x\n", name)
        assert sources.lines_of(variables["double"]) == ""
        assert pickle.loads(by_value.dumps(variables["double"]))(2) == 4


def test_an_edited_file_has_the_source_of_no_other_function(tmp_path):
    file = tmp_path / "edited.py"
    text = "def a():\n    return 1\n\ndef b():\n    return 2\n"
    file.write_text("\n\n\n" + text)  # by the time of the first call
    functions = variables_of(text, str(file))
    assert sources.lines_of(functions["a"]) == sources.lines_of(functions["b"]) == ""


def test_a_file_that_is_edited_and_run_again_has_its_new_source(tmp_path):
    file = tmp_path / "edited.py"
    for text in ("def f():\n    return 1\n", "def f():\n    return 1 + 1\n"):
        file.write_text(text)
        assert sources.lines_of(variables_of(text, str(file))["f"]) == text


def test_functions_that_are_equal_but_for_their_text(monkeypatch):
    texts = [f"def f(x={default}):  # {default}\n    return x\n" for default in (1, 2)]
    functions = []
    for text in texts:
        functions.append(run_cell(monkeypatch, text, "<a cell that changes>")["f"])
        assert sources.lines_of(functions[-1]) == text
    assert [sources.lines_of(function) for function in functions] == texts


@pytest.fixture
def reader(monkeypatch):
    """Another process, for what it knows of files."""
    monkeypatch.setattr(sources, "_files", {})
    monkeypatch.setattr(linecache, "cache", {})
    return lambda first, text: sources.make_function("gone.py", first, text, len, ((),))


def test_a_function_that_became_shorter_leaves_no_end(reader):
    reader(1, "def first():\n    pass\n")
    reader(4, "def second():\n    a = 1\n    b = 2\n    return a + b\n")
    reader(5, "def second():\n    return 7\n")
    lines = linecache.getlines("gone.py")
    assert lines[:2] == ["def first():\n", "    pass\n"]
    assert lines[2:] == ["\n", "\n", "def second():\n", "    return 7\n", "\n"]


def test_functions_inside_of_others_change_nothing(reader):
    text = "def outer():\n    def inner():\n        return 1\n    return inner\n"
    reader(2, text)
    reader(3, "".join(text.splitlines(keepends=True)[1:3]))
    reader(2, text)
    assert "".join(linecache.getlines("gone.py")) == "\n" + text


def test_lines_end_where_python_ends_them(reader):
    text = 'def f():\n    """\u2028"""\n    return "\x0c\x1c"\n'
    reader(1, text)
    assert "".join(linecache.getlines("gone.py")) == text
    assert len(linecache.getlines("gone.py")) == 3


def test_what_the_reader_knows_remains(reader):
    linecache.cache["gone.py"] = 9, None, ["known\n", "here\n"], "gone.py"
    reader(1, "def f(): ...\n")
    assert linecache.getlines("gone.py") == ["known\n", "here\n"]


class Kernel:
    """Made as Triton's JITFunction is, of what version 3.6 keeps."""

    def __init__(self, fn, version=None, debug=None, repr=None):
        import threading

        self.fn, self.version, self.debug, self._repr = fn, version, debug, repr
        self.lock = threading.RLock()
        self.text = inspect.getsource(fn)
        self.__name__, self.__qualname__, self.__module__ = (
            fn.__name__,
            fn.__qualname__,
            fn.__module__,
        )


@pytest.fixture
def triton(monkeypatch):
    monkeypatch.setattr(kernels, "_reducers", {})
    module = types.ModuleType("triton.runtime.jit")
    module.JITFunction = Kernel
    monkeypatch.setitem(sys.modules, "triton.runtime.jit", module)


KERNEL = """
def add(pointer):
    return pointer + 1
"""


def test_kernels_of_the_program_are_made_again(triton, monkeypatch):
    cell = run_cell(monkeypatch, textwrap.dedent(KERNEL), "<kernels of sources>")
    kernel = Kernel(cell["add"], version=7, repr=str.upper)
    arrived = pickle.loads(by_value.dumps({"kernel": kernel}))["kernel"]
    assert type(arrived) is Kernel and arrived is not kernel
    assert (arrived.version, arrived.debug, arrived._repr) == (7, None, str.upper)
    assert arrived.fn(1) == 2 and arrived.text == kernel.text


def of_this_module(pointer):
    return pointer


def test_kernels_of_modules_travel_by_name(triton, monkeypatch):
    kernel = Kernel(of_this_module)
    monkeypatch.setattr(sys.modules[__name__], "of_this_module", kernel)
    assert pickle.loads(by_value.dumps([kernel]))[0] is kernel

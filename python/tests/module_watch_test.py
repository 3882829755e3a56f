"""Edits of the program's modules, which every thread that sends calls looks for."""

import importlib
import os
import sys
import threading
import time

from skyward.transport.module_watch import ModuleWatch, newer_version, outdated
from waiting import DEADLINE


def write(path, text, at):
    path.write_text(text)
    os.utime(path, (at, at))


def test_an_edit_before_the_first_pool_is_found(own_folder, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = own_folder / "edited_early.py"
    write(file, "A = 1\n", 1)
    module = importlib.import_module("edited_early")
    assert ModuleWatch().changed() == [] and not outdated([str(file)])
    importlib.reload(module)
    write(file, "A = 2\n", 5)  # nobody has looked since it was loaded
    for _ in range(2):  # every pool hears of it
        watch = ModuleWatch()
        assert watch.changed() == [str(file)] and outdated([str(file)])
        assert watch.changed() == []
    importlib.reload(module)
    assert ModuleWatch().changed() == [] and not outdated([str(file)])
    write(file, "A = 3\n", 10)
    assert watch.changed() == [str(file)] and outdated([str(file)])
    importlib.reload(module)
    assert watch.changed() == [] and not outdated([str(file)])


def test_a_module_that_is_reloaded_while_a_pool_is_open_is_new_to_its_nodes(own_folder):
    file = own_folder / "reloaded_late.py"
    write(file, "A = 1\n", 1)
    module = importlib.import_module("reloaded_late")
    watch = ModuleWatch()
    write(file, "A = 2\n", time.time() + 5)
    importlib.reload(module)
    assert watch.changed() == [str(file)] and not outdated([str(file)])


TWO_OF_ONE_NAME = """
import skyward as sky

@sky.compute
def work(): return 1

first = work

@sky.compute
def work(): return 2
"""


def test_functions_of_earlier_versions_are_told_from_others_of_their_name(own_folder):
    file = own_folder / "with_two.py"
    write(file, TWO_OF_ONE_NAME, 1)
    module = importlib.import_module("with_two")
    first, second = module.first.local, module.work.local
    ModuleWatch()
    assert newer_version(first) is newer_version(second) is newer_version(len) is None
    importlib.reload(module)
    assert newer_version(second) is None, "its code is the same"
    write(file, "\n" + TWO_OF_ONE_NAME.replace("return 2", "return 3"), 5)
    importlib.reload(module)
    ModuleWatch()
    assert newer_version(second) is module.work


def test_byte_code_that_python_has_not_written_says_nothing(own_folder, monkeypatch):
    file = own_folder / "without_bytes.py"
    write(file, "A = 1\n", 1)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    importlib.import_module("without_bytes")
    del sys.modules["without_bytes"]
    write(file, "A = 2\n", 5)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert importlib.import_module("without_bytes").A == 2
    assert ModuleWatch().changed() == []


def test_another_thread_that_sends_may_find_new_modules_meanwhile(own_folder, monkeypatch):
    for name in ("watched_first", "watched_second"):
        (own_folder / f"{name}.py").touch()
    first = importlib.import_module("watched_first").__file__
    watch = ModuleWatch()
    os.utime(first, (5, 5))
    stat, found = os.stat, []

    def other_thread():
        importlib.import_module("watched_second")
        found.extend(watch.changed())

    def stat_while_another_thread_sends(path):
        monkeypatch.setattr(os, "stat", stat)
        thread = threading.Thread(target=other_thread)
        thread.start()
        thread.join(DEADLINE)
        return stat(path)

    monkeypatch.setattr(os, "stat", stat_while_another_thread_sends)
    found += watch.changed()
    assert found == [first], "each change once"
    os.utime(own_folder / "watched_second.py", (5, 5))
    assert watch.changed() == [str(own_folder / "watched_second.py")]


def test_modules_that_only_tasks_import_are_watched(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / "only_there"
    package.mkdir()
    files = [tmp_path / "only_there_alone.py", package / "__init__.py", package / "part.py"]
    for file in (*files, package / "unused.py"):
        file.touch()
    names = {}
    exec(
        "def helper():\n    from only_there import part, attribute\n"
        "def f():\n    import only_there_alone, json\n    return helper()\n",
        names,
    )
    watch = ModuleWatch()
    watch.watch(names["f"])
    watch.watch(names["f"])
    watch.watch(len)
    assert watch.changed() == [] and "only_there" not in sys.modules
    for file in (*files, package / "unused.py", tmp_path / "only_there_alone.py"):
        os.utime(file, (5, 5))
    assert sorted(watch.changed()) == sorted(map(str, files))
    assert watch.changed() == []

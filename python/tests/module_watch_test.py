"""Edits of the program's modules, which every thread that sends calls looks for."""

import importlib
import os
import sys
import threading

from skyward.transport.module_watch import ModuleWatch
from waiting import DEADLINE


def test_another_thread_that_sends_may_find_new_modules_meanwhile(tmp_path, monkeypatch):
    for name in ("watched_first", "watched_second"):
        (tmp_path / f"{name}.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
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
    os.utime(tmp_path / "watched_second.py", (5, 5))
    assert watch.changed() == [str(tmp_path / "watched_second.py")]


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

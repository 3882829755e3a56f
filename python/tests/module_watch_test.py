"""Edits of the program's modules, which every thread that sends calls looks for."""

import importlib
import os
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

"""The tracebacks of tasks, with the lines that only this side has."""

import linecache

from skyward.remote_error import with_sources

TEXT = """Traceback (most recent call last):
  File "<cell 1>", line 2, in work
  File "/there/module.py", line 7, in helper
    return 1 / 0
           ~~^~~
  File "/nowhere.py", line 3, in <module>
ZeroDivisionError: division by zero
"""


def test_lines_of_cells_are_shown(monkeypatch):
    cell = ["def work():\n", "    return helper()\n"]
    monkeypatch.setitem(linecache.cache, "<cell 1>", (len("".join(cell)), None, cell, "<cell 1>"))
    shown = with_sources(TEXT)
    assert '  File "<cell 1>", line 2, in work\n    return helper()\n  File' in shown
    assert shown.replace("    return helper()\n", "") == TEXT
    assert with_sources(shown) == shown


def test_a_traceback_inside_a_group_keeps_its_shape():
    text = (
        '  + Exception Group Traceback\n  |   File "<none>", line 1, in f\n  | ExceptionGroup: x\n'
    )
    assert with_sources(text) == text and with_sources("") == ""

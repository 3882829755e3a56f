"""The tracebacks of tasks, with the lines that only this side has."""

import asyncio
import linecache
import os
import traceback
from pathlib import Path

import pytest
from skyward.transport.remote_error import with_sources

import skyward as sky

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


def test_only_files_are_read(tmp_path):
    """A node may name any path."""
    pipe, script = tmp_path / "pipe", tmp_path / "script.py"
    os.mkfifo(pipe)
    script.write_text("x = 1\n")
    for path, shown in ((pipe, ""), ("/dev/zero", ""), (tmp_path, ""), (script, "    x = 1\n")):
        line = f'  File "{path}", line 1, in f\n'
        assert with_sources(line) == line + shown


def test_lines_of_an_edited_file_are_its_new_ones(tmp_path):
    script = tmp_path / "script.py"
    line = f'  File "{script}", line 1, in f\n'
    for text in ("x = 1\n", "x = 1 + 1\n"):
        script.write_text(text)
        assert with_sources(line) == f"{line}    {text}"


def test_a_traceback_inside_a_group_keeps_its_shape():
    text = (
        '  + Exception Group Traceback\n  |   File "<none>", line 1, in f\n  | ExceptionGroup: x\n'
    )
    assert with_sources(text) == text and with_sources("") == ""


@pytest.fixture(scope="module")
def pool():
    with sky.ComputePool(display="quiet") as opened:
        yield opened


def fails():
    raise KeyError("gone")


def yields():
    yield 1
    raise KeyError("gone")


async def awaited(pool):
    await sky.compute(fails)().on(pool)


@pytest.mark.parametrize(
    "way",
    [
        lambda pool: sky.compute(fails)() >> pool,
        lambda pool: sky.compute(fails)() @ pool,
        lambda pool: sky.gather(sky.compute(fails)()) >> pool,
        lambda pool: pool.submit(sky.compute(fails)()).result(),
        lambda pool: list(pool.map(lambda _: fails(), [1, 2])),
        lambda pool: list(sky.compute(yields)() >> pool),
        lambda pool: list(sky.gather(sky.compute(fails)(), stream=True) >> pool),
        lambda pool: asyncio.run(awaited(pool)),
    ],
    ids=["call", "broadcast", "gather", "future", "map", "generator", "stream", "await"],
)
def test_few_lines_of_ours_stand_before_the_users_own(pool, way):
    with pytest.raises(sky.ExecutionError, match="gone") as caught:
        way(pool)
    package = str(Path(sky.__file__).parent)
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    ours = [frame for frame in frames if frame.f_code.co_filename.startswith(package)]
    assert len(ours) <= 2, [frame.f_code.co_qualname for frame in ours]
    # Notebooks and pytest hide all of these but the last.
    assert all(frame.f_locals.get("__tracebackhide__") for frame in ours)
    last = frames[-1].f_code.co_filename
    assert last.startswith(package) or last == __file__ or "asyncio" in last, last

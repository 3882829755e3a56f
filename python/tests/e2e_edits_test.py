"""What looking for edits of the program's modules costs the calls of a large program."""

import importlib
import os
import types

import pytest
from skyward.transport import module_watch

import skyward as sky
from skyward.pool import packing


@sky.compute
def double(x):
    return 2 * x


@pytest.fixture
def now(monkeypatch):
    """The clock of the checks."""
    seconds = [1000.0]
    clock = types.SimpleNamespace(monotonic=lambda: seconds[0])
    monkeypatch.setattr(packing, "time", clock)
    return seconds


def test_slow_checks_are_rare(own_folder, monkeypatch, now):
    (own_folder / "slowly_read.py").touch()
    importlib.import_module("slowly_read")
    looked, written_at = [], module_watch._written_at

    def slowly(path):
        if path.endswith("slowly_read.py"):
            looked.append(now[0])
            now[0] += 0.01
        return written_at(path)

    with sky.ComputePool(display="quiet") as pool:
        assert double(1) >> pool == 2
        monkeypatch.setattr(module_watch, "_written_at", slowly)
        now[0] += 1
        for _ in range(5):
            assert double(1) >> pool == 2
        assert len(looked) == 1
        now[0] += packing.CHECK_REST * 0.01 - 0.02
        assert double(1) >> pool == 2 and len(looked) == 1
        now[0] += 0.04
        assert double(1) >> pool == 2 and len(looked) == 2


def test_one_thread_checks_at_a_time(monkeypatch):
    with sky.ComputePool(display="quiet") as pool:
        packer, depth = pool._live.packing, []

        def changed():
            depth.append(1)
            packer.report_edits()  # as another thread may meanwhile
            return []

        monkeypatch.setattr(packer._modules, "changed", changed)
        packer.report_edits()
        packer.report_edits()
    assert len(depth) == 2


@pytest.mark.parametrize(("count", "events"), [(3, 3), (200, 1)])
def test_many_files_that_change_at_once_are_reported_together(
    own_folder, monkeypatch, count, events
):
    files = [own_folder / f"pulled_{number}.py" for number in range(count)]
    for file in files:
        file.touch()
        importlib.invalidate_caches()  # some kernels date folders to 4 ms
        importlib.import_module(file.stem)
    walks, walk, seen = [], module_watch._imported_files, []

    def counted():
        walks.append(1)
        return walk()

    with sky.ComputePool(display="quiet") as pool:
        pool.on(sky.Error, lambda event: seen.append(event.message))
        pool._live.packing.report_edits()  # of what was imported only now
        for file in files:
            os.utime(file, (5, 5))
        monkeypatch.setattr(module_watch, "_imported_files", counted)
        pool._live.packing.report_edits()
        assert len(walks) <= 1
        pool._live.packing.report_edits()
    assert len(seen) == events
    assert "pulled_0" in seen[0] and ("200 files" in seen[0]) == (count == 200)

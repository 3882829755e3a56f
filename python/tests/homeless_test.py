"""Where files go of a user without a home directory."""

import os
import pwd
import stat
import tempfile

import pytest

import skyward as sky
from skyward.base import programs


@pytest.fixture(autouse=True)
def no_home(monkeypatch, tmp_path):
    def find(uid):
        raise KeyError(uid)

    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", find)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.mark.parametrize("home", [None, "", "home"])
def test_nothing_is_kept_below_the_working_directory(home, monkeypatch, tmp_path):
    if home is not None:
        for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            monkeypatch.setenv(name, home)
    assert programs.record_root() == ""
    cache = programs.cache_root()
    assert cache == str(tmp_path / "temporary" / f"skyward-{os.getuid()}")
    assert stat.S_IMODE(os.stat(cache).st_mode) == 0o700
    with sky.ComputePool(provider=sky.Local(), display="quiet") as pool:
        assert sky.compute(pow)(2, 3) >> pool == 8
    assert os.listdir(tmp_path / "work") == []


def test_a_temporary_folder_of_somebody_else_is_refused(tmp_path):
    (tmp_path / "temporary" / f"skyward-{os.getuid()}").write_text("")
    with pytest.raises(sky.ConfigurationError, match="set XDG_CACHE_HOME"):
        programs.cache_root()


def test_a_home_is_used(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert programs.record_root() == str(tmp_path / ".local/state/skyward")
    assert programs.cache_root() == str(tmp_path / ".cache")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert programs.record_root() == "/state/skyward"

"""Shared by all tests: a pool of this machine, opened once."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
pytest_plugins = ["held_tests"]


def pytest_configure(config):
    config.addinivalue_line("markers", "e2e: opens real pools of this machine")
    # A thread that dies of an exception fails the test it was in.
    config.addinivalue_line("filterwarnings", "error::pytest.PytestUnhandledThreadExceptionWarning")


def has_engine():
    try:
        from skyward.base.programs import agent_path

        from skyward import _core  # noqa: F401

        agent_path()
    except Exception:
        return False
    return True


def pytest_collection_modifyitems(items):
    for item in items:
        if "e2e" in pathlib.Path(item.fspath).name:
            item.add_marker(pytest.mark.e2e)
            if not has_engine() and not os.environ.get("SKYWARD_TEST_REQUIRE_ENGINE"):
                item.add_marker(pytest.mark.skip(reason="no extension or no agent here"))


@pytest.fixture(scope="session")
def pool():
    """Two nodes with two slots each; tests must leave it usable."""
    import skyward as sky

    with sky.ComputePool(nodes=2, concurrency=2, display="quiet") as opened:
        yield opened


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """A folder of modules that the program can import; after the test it has none of them."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str) and file.startswith(f"{tmp_path}/"):
            del sys.modules[name]

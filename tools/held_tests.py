"""A pytest plugin: Ctrl-C means the same wherever the tests are started, no test outlives its time,
whatever it waits in, and no pool takes its provider from the settings of whoever runs the tests.

A script's background jobs start with SIGINT ignored, which a test and its children would inherit.
pytest-timeout interrupts a test once; where that is swallowed, or a clean-up behind it waits, the
process itself ends here some time later, with the stacks of its threads."""

import faulthandler
import os
import signal

import pytest

GRACE_SECONDS = 60.0
"""How long after its time limit a test may still take."""


_stderr = pytest.StashKey()


def pytest_configure(config):
    # A copy: pytest replaces descriptor 2.
    config.stash[_stderr] = os.fdopen(os.dup(2), "w")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def no_settings(tmp_path_factory):
    """Their provider may rent machines."""
    file = tmp_path_factory.mktemp("settings") / "none.toml"
    file.touch(0o600)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SKYWARD_PROVIDER", raising=False)
        patch.setenv("SKYWARD_CONFIG", str(file))
        yield


def limit_of(item):
    """Seconds, by the test's own mark or the command line, as pytest-timeout reads it; 0: none."""
    mark = item.get_closest_marker("timeout")
    own = (mark.args[0] if mark.args else mark.kwargs.get("timeout")) if mark else None
    return float(own if own is not None else item.config.getoption("timeout", None) or 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    limit = limit_of(item)
    if limit:
        stderr = item.config.stash[_stderr]
        faulthandler.dump_traceback_later(limit + GRACE_SECONDS, exit=True, file=stderr)
    try:
        return (yield)
    finally:
        if limit:
            faulthandler.cancel_dump_traceback_later()


def pytest_unconfigure(config):
    config.stash[_stderr].close()

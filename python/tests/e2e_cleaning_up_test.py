"""What runs when a pool is left gets a moment to clean up: KeyboardInterrupt, `finally`, then the
end."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from waiting import DEADLINE, wait_until

import skyward as sky

GRACE = 2.0


def provider_of(kind):
    if kind == "local":
        return sky.Local()
    return sky.Command([["sh", "-c"]], python=sys.executable)


KINDS = pytest.mark.parametrize("kind", ["local", "command"])


def working(folder, seconds=0.0):
    """A task that says when it began, and then that it has cleaned up, which takes a while."""

    def work():
        import pathlib
        import time

        place = pathlib.Path(folder)
        try:
            (place / "started").write_text(str(os.getpid()))
            time.sleep(600)  # on a worker
        except KeyboardInterrupt:
            (place / "interrupted").touch()
            raise
        finally:
            time.sleep(seconds)  # on a worker
            (place / "cleaned").touch()

    return sky.compute(work)()


def began(folder):
    return (folder / "started").exists() and (folder / "started").read_text()


@KINDS
@pytest.mark.parametrize("how", ["leave", "cancel", "error"])
def test_leaving_the_block_lets_tasks_clean_up(kind, how, tmp_path):
    try:
        with sky.ComputePool(provider=provider_of(kind), display="quiet") as pool:
            future = pool.submit(working(str(tmp_path), 0.05))
            wait_until(lambda: began(tmp_path))
            if how == "cancel":
                future.cancel()
            if how == "error":
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert (tmp_path / "interrupted").exists() and (tmp_path / "cleaned").exists()


def test_what_a_task_says_while_it_cleans_up_is_heard(tmp_path):
    def work():
        try:
            (tmp_path / "started").write_text("x")
            time.sleep(600)  # on a worker
        finally:
            print("saved")

    lines = []
    with sky.ComputePool(display="quiet") as pool:
        pool.on(sky.LogLine, lambda event: lines.append(event.line))
        pool.submit(sky.compute(work)())
        wait_until(lambda: began(tmp_path))
    assert lines == ["saved"]


@KINDS
def test_a_stream_that_is_left_open_cleans_up(kind, tmp_path):
    def items():
        try:
            (tmp_path / "started").write_text("x")
            while True:
                yield 1
        finally:
            (tmp_path / "cleaned").touch()

    with sky.ComputePool(provider=provider_of(kind), display="quiet") as pool:
        stream = sky.compute(items)() >> pool
        assert next(stream) == 1
    assert (tmp_path / "cleaned").exists()
    del stream


def test_a_task_that_goes_on_is_ended(tmp_path):
    def stubborn():
        (tmp_path / "started").write_text("x")
        while True:
            try:
                time.sleep(600)  # on a worker
            except KeyboardInterrupt:
                pass

    with sky.ComputePool(display="quiet") as pool:
        pool.submit(sky.compute(stubborn)())
        wait_until(lambda: began(tmp_path))
        begin = time.monotonic()
    assert GRACE - 0.5 < time.monotonic() - begin < DEADLINE


def test_a_pool_in_which_nothing_runs_closes_at_once():
    def closing():
        with sky.ComputePool(nodes=2, concurrency=2, display="quiet") as pool:
            sky.gather(*[sky.compute(abs)(-i) for i in range(8)]) >> pool
            begin = time.monotonic()
        return time.monotonic() - begin

    assert any(closing() < GRACE for _ in range(3)), "in no quiet moment of the machine"


@KINDS
@pytest.mark.parametrize("group", [False, True])
def test_ctrl_c_lets_tasks_clean_up(kind, group, tmp_path):
    provider = {
        "local": "sky.Local()",
        "command": "sky.Command([['sh', '-c']], python=sys.executable)",
    }[kind]
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(f"""
                import sys, time, pathlib, skyward as sky
                place = pathlib.Path({str(tmp_path)!r})
                @sky.compute
                def work():
                    try:
                        (place / "started").write_text("x")
                        time.sleep(600)  # on a worker
                    finally:
                        time.sleep(0.05)  # on a worker
                        (place / "cleaned").touch()
                with sky.ComputePool(provider={provider}, display="quiet") as pool:
                    work() >> pool
            """),
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    wait_until(lambda: began(tmp_path))
    if group:  # as a terminal does it
        os.killpg(child.pid, signal.SIGINT)
    else:
        child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=DEADLINE)
    assert "KeyboardInterrupt" in err
    assert (tmp_path / "cleaned").exists()

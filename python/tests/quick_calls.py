"""Quick calls, for tests of what sends many of them."""

import collections

import skyward as sky


@sky.compute
def double(x):
    return 2 * x


@sky.compute
def wait_at(x, slow, last, folder):
    import pathlib
    import time

    if x == slow:
        deadline = time.monotonic() + 60
        while not (pathlib.Path(folder) / "go").exists():
            if time.monotonic() > deadline:
                raise TimeoutError("the last call has not run")
            time.sleep(0.005)  # on a worker
    elif x == last:
        (pathlib.Path(folder) / "go").touch()
    return x


@sky.compute
def note(x, at, folder):
    import os

    with open(f"{folder}/{os.getpid()}", "a") as file:
        file.write(f"{x}\n")
    if x == at:
        os._exit(3)
    return x


def runs(folder):
    """How often each number was noted."""
    lines = [line for path in folder.iterdir() for line in path.read_text().split()]
    return collections.Counter(map(int, lines))


def fail_once(name, folder):
    """Two calls: one waits until the other has failed and been retried."""
    import pathlib
    import time

    tried, done = pathlib.Path(folder, "tried"), pathlib.Path(folder, "done")
    if name == "fails once":
        if not tried.exists():
            tried.touch()
            raise LookupError("no row")
        done.touch()
    end = time.monotonic() + 20
    while not done.exists():
        assert time.monotonic() < end, "the retry has not run"
        time.sleep(0.01)  # on a worker
    return name


@sky.compute
def stay_at(x, at, folder):
    import pathlib
    import time

    if x == at:
        try:
            (pathlib.Path(folder) / "began").touch()
            time.sleep(600)  # on a worker
        finally:
            (pathlib.Path(folder) / "ended").touch()
    return x


@sky.compute
def lose_node_at(x, at, folder):
    """Once."""
    import os
    import pathlib
    import signal
    import time

    lost = pathlib.Path(folder) / "lost"
    if x == at and not lost.exists():
        lost.touch()
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)  # on a worker
    return x


class Strange:
    """A result that can be made on a worker alone."""

    def __reduce__(self):
        return (_only_on_workers, ())


def _only_on_workers():
    import os

    if "SKYWARD_MARK" not in os.environ:
        raise RuntimeError("not here")
    return Strange()

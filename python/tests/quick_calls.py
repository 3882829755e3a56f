"""Quick calls, for tests of what sends many of them."""

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

"""A program that ends with its parent: ``python bound_program.py PARENT PROGRAM ARGS…``.

Runs on a node, as a script: it knows nothing of the package."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == int(sys.argv[1]):  # else the parent has ended before the call above
        os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()

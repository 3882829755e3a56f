"""Child processes of the user's functions: whether one may share this one's memory, and its end."""

import os
import sys

from .output import flush_all

forks = 0


def count_fork():
    global forks
    forks += 1


os.register_at_fork(after_in_parent=count_fork)


def has_forked():
    """Whether this process has forked since the last call: a child, or a child's child that nobody
    waits for here, may share the argument maps."""
    global forks
    before, forks = forks, 0
    return before > 0


def has_children():
    """Whether a child process lives (or waits to be reaped): it may share the argument maps."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def end_child(error):
    """Ends a child that has left the function by an exception, as Python ends a program."""
    code = 1
    try:
        if not isinstance(error, SystemExit):
            sys.excepthook(type(error), error, error.__traceback__)
        elif error.code is None:
            code = 0
        elif isinstance(error.code, int):
            code = error.code & 0xFF
        else:
            print(error.code, file=sys.stderr)
        flush_all()
    finally:
        os._exit(code)

"""Whether processes may share this one's memory."""

import os

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

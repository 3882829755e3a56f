"""Standard output and error of the functions."""

import ctypes
import os
import select
import sys

libc = ctypes.CDLL(None)
libc_flush = libc.fflush
c_out, c_err = (ctypes.c_void_p.in_dll(libc, name) for name in ("stdout", "stderr"))
LINES = 1  # _IOLBF of stdio.h


def send_lines() -> None:
    """What Python and C libraries print reaches the pipes line by line."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, **TEXT)
    libc.setvbuf(c_out, None, LINES, 0)


def flush_output() -> None:
    """All that the task wrote reaches the pipes before its result: Python's buffers and C's."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception:
        pass  # closed or replaced by the user
    # Not all streams of the C library: a thread that reads one of them holds its lock.
    libc_flush(c_out)
    libc_flush(c_err)


def flush_all() -> None:
    """flush_output(), and the files that C libraries write, for a process that ends by _exit()."""
    flush_output()
    libc_flush(None)


def settle_output():
    """flush_output() and restore_output(), quicker where the task left the streams as they were."""
    out, err = sys.stdout, sys.stderr
    try:
        out.flush()  # raises when it is closed
        err.flush()
        libc_flush(c_out)
        libc_flush(c_err)
        if out is sys.__stdout__ and err is sys.__stderr__:
            return
    except Exception:
        flush_output()
    restore_output()


def restore_output():
    """For the next task, when this one has closed or replaced the streams."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        own = getattr(sys, f"__{name}__")
        if own is None or own.closed:
            own = open(descriptor, "w", buffering=1, closefd=False, **TEXT)
            setattr(sys, f"__{name}__", own)
        setattr(sys, name, own)


TEXT = {"encoding": "utf-8", "errors": "backslashreplace"}


def write_mark(mark):
    """To both streams."""
    for descriptor in (1, 2):
        try:
            written = os.write(descriptor, mark)
        except OSError:
            written = 0
        if written < len(mark):
            write_all(descriptor, mark[written:])


def write_all(descriptor, data):
    """A mark is one write; the pipe is only ever non-blocking if the user made it so."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
        except OSError:
            return  # the user closed it: there is no output to attribute

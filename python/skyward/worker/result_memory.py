"""Memory of large results. What nobody else has any more is written again: pages that are new to a
process cost several times what copying into them costs."""

import fcntl
import mmap
import os
import time

RECYCLED_BYTES = 8 << 20
"""Smaller results get new memory each time."""
IDLE_SECONDS = 10
"""How long memory is kept that is not used."""
MOST_BYTES = 4 << 30
MOST_FILES = 8
"""Each takes two descriptors."""
STEP_BYTES = 16 << 20
"""Copied at a time, holding the interpreter's lock."""
MADV_POPULATE_WRITE = 23  # the mmap module does not name it


class ResultMemory:
    def __init__(self, limit):
        self.limit = limit
        """Of what is kept, in bytes."""
        self.kept = []  # what was given last comes last
        # A child would keep all of it for as long as it lives.
        os.register_at_fork(after_in_child=lambda: self.drop_unused(0))

    def store(self, size, pieces):
        """The descriptor of a memfd of `size` bytes, for the receiver to have. `pieces`: views by
        offset."""
        kept = self.find(size)
        if kept is not None:
            kept.write(pieces)
            return kept.open_again()
        descriptor = new_file()
        try:
            write(descriptor, pieces)
        except OSError:
            os.close(descriptor)
            raise
        if RECYCLED_BYTES <= size <= self.limit:
            descriptor = self.keep(descriptor, size)
        return descriptor

    def find(self, size):
        for kept in self.kept:
            if kept.size == size and kept.is_free():
                self.kept.remove(kept)
                self.kept.append(kept)
                kept.used = time.monotonic()
                return kept
        return None

    def keep(self, descriptor, size):
        """Keeps the file; returns a descriptor of it that may be given away: the kernel would not
        count who has this first one."""
        kept = None
        try:
            kept = Kept(descriptor, size)
            given = kept.open_again() if kept.is_free() else -1
        except OSError:  # no /proc, or no more descriptors
            given = -1
        if given < 0:
            if kept is not None:
                kept.close()
            return descriptor
        os.close(descriptor)
        self.kept.append(kept)
        while len(self.kept) > MOST_FILES or sum(kept.size for kept in self.kept) > self.limit:
            self.kept.pop(0).close()
        return given

    def drop_unused(self, seconds):
        """Of that long. Whoever has some of it keeps it."""
        now = time.monotonic()
        while self.kept and now - self.kept[0].used >= seconds:
            self.kept.pop(0).close()


class Kept:
    """A file, opened once more for each receiver. Those are all who may see what it holds: they do
    not open it themselves."""

    def __init__(self, descriptor, size):
        os.truncate(descriptor, size)
        self.size = size
        self.descriptor = open_again(descriptor)
        self.identity = identity_of(descriptor)
        self.map = None  # when it is used again
        self.used = time.monotonic()

    def is_open(self):
        """Not if the user has closed it. Its number may be that of another file now."""
        try:
            return identity_of(self.descriptor) == self.identity
        except OSError:
            return False

    def is_free(self):
        """Whether nobody else has it open or mapped, children of receivers included: the kernel
        grants a lease for writing only then."""
        if not self.is_open():
            return False
        try:
            fcntl.fcntl(self.descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            fcntl.fcntl(self.descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError:
            return False
        return True

    def write(self, pieces):
        populates = self.map is None
        if populates:
            try:
                self.map = mmap.mmap(self.descriptor, self.size)
            except OSError:  # no more address space
                return write(self.descriptor, pieces)
        for offset, view in pieces:
            for begin in range(0, len(view), STEP_BYTES):
                some = view[begin : begin + STEP_BYTES]
                populates = populates and populate(self.map, offset + begin, len(some))
                self.map[offset + begin : offset + begin + len(some)] = some

    def open_again(self):
        return open_again(self.descriptor)

    def close(self):
        if self.map is not None:
            self.map.close()
        if self.is_open():
            os.close(self.descriptor)


def new_file():
    # The receiver seals it, so that no child of this process can truncate it.
    return os.memfd_create("skyward-result", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def write(descriptor, pieces):
    """Through the kernel, which neither clears nor maps the pages that it fills."""
    for offset, view in pieces:
        written = 0
        while written < len(view):
            # Linux writes at most 2 GiB a call.
            some = view[written : written + (1 << 30)]
            written += os.pwrite(descriptor, some, offset + written)


def populate(mapped, offset, size):
    """Maps the pages all at once, which takes half the time of as many faults. False if the kernel
    cannot: before Linux 5.14."""
    begin = offset & ~(mmap.PAGESIZE - 1)
    try:
        mapped.madvise(MADV_POPULATE_WRITE, begin, offset + size - begin)
    except OSError:
        return False
    return True


def open_again(descriptor):
    """A description of its own: the kernel counts descriptions, not descriptors."""
    return os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)


def identity_of(descriptor):
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino

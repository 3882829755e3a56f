"""What this process and all below it use."""

import os
import time
from pathlib import Path


def tree() -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, todo = [], [os.getpid()]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += parents.get(pid, [])
    return found


def cpu_clock(pid: int) -> int:
    """The clock of a process's CPU time, as clock_getcpuclockid(3) gives it: in nanoseconds, where
    the ticks of /proc are 10 ms, more than a short burst takes."""
    return (~pid << 3) | 2


def cpu_seconds() -> float:
    """User and system time of this process and everything below it, the reaped ones included."""
    seconds = 0.0
    for pid in tree():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            seconds += time.clock_gettime(cpu_clock(pid))
        except OSError:
            continue
        reaped = int(fields[13]) + int(fields[14])
        seconds += reaped / os.sysconf("SC_CLK_TCK")
    return seconds


def memory_mib() -> float:
    """Proportional set size of everything below this process, without this process."""
    total = 0
    for pid in tree()[1:]:
        try:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
        except OSError:
            continue
    return total / 1024

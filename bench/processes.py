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


def cpu_seconds_of(pid: int) -> float:
    return time.clock_gettime(cpu_clock(pid))


def agent() -> int:
    """The only agent below this process."""
    (pid,) = [
        pid
        for pid in tree()[1:]
        if Path(f"/proc/{pid}/comm").read_text().strip() == "skyward-agent"
    ]
    return pid


def resident_bytes(pid: int | str = "self") -> int:
    return _status(pid, "VmRSS")


def forget_peak(pid: int | str = "self") -> int:
    """From here on, peak_bytes() is that of what follows. Returns what is resident now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return resident_bytes(pid)


def peak_bytes(pid: int | str = "self") -> int:
    return _status(pid, "VmHWM")


def _status(pid: int | str, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/{pid}/status has no {name}")


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

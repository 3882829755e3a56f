"""Holds every #include, every room's DEPS in CMake, and every import of the Python package (see
python_arrows.py) to the tables of docs/architecture.md.

A room may include its own headers, the rooms that the table gives it, the standard library, and
the third-party headers that THIRD_PARTY gives it. A new arrow is a decision page and a new line
here. A suppression names one file, one include and a reason; a suppression that nothing uses any
more fails, so the list only shrinks.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import python_arrows

CLI = frozenset({"base", "spec", "io", "provider", "display"})

# (room, its files, rooms it may include). The first pattern that fits a file wins, so stricter
# lines come first.
ARROWS: list[tuple[str, str, frozenset[str]]] = [
    ("base", "skyward/base/*", frozenset()),
    ("spec", "skyward/spec/*", frozenset({"base"})),
    ("wire", "skyward/wire/*", frozenset({"base", "spec"})),
    ("io", "skyward/io/*", frozenset({"base"})),
    # The program, which is also the worker that runs commands, and the child of distributed calls.
    (
        "agent",
        "skyward/agent/main.cc",
        frozenset({"base", "spec", "wire", "io", "run", "worker", "mpi"}),
    ),
    ("agent", "skyward/agent/core*", frozenset({"base", "spec", "wire"})),
    ("agent", "skyward/agent/effects*", frozenset({"base", "spec", "wire"})),
    ("agent", "skyward/agent/agent_endpoint*", frozenset({"base", "spec", "wire"})),
    ("agent", "skyward/agent/blob_exchange*", frozenset({"base", "spec", "wire"})),
    ("agent", "skyward/agent/*", frozenset({"base", "spec", "wire", "io"})),
    ("run", "skyward/run/*", frozenset({"base", "spec", "wire", "io", "call", "worker"})),
    ("mpi", "skyward/mpi/plan*", frozenset({"base", "spec"})),
    ("mpi", "skyward/mpi/*", frozenset({"base", "spec", "io", "call"})),
    ("provider", "skyward/provider/*_test.cc", frozenset({"base", "spec", "io", "doubles"})),
    ("provider", "skyward/provider/*_fixture.*", frozenset({"base", "spec", "io", "doubles"})),
    ("provider", "skyward/provider/*", frozenset({"base", "spec", "io"})),
    ("engine", "skyward/engine/loop*", frozenset({"base", "spec", "wire", "io", "provider"})),
    ("engine", "skyward/engine/link_policy*", frozenset({"base", "spec", "wire"})),
    ("engine", "skyward/engine/link*", frozenset({"base", "spec", "wire", "io", "provider"})),
    ("engine", "skyward/engine/received_blob*", frozenset({"base", "spec", "wire", "io"})),
    ("engine", "skyward/engine/*", frozenset({"base", "spec", "wire"})),
    ("call", "skyward/call/*", frozenset({"base", "spec", "wire"})),
    ("worker", "skyward/worker/*", frozenset({"base", "spec", "wire", "io", "call"})),
    ("display", "skyward/display/terminal_view.cc", frozenset({"base", "spec", "io"})),
    ("display", "skyward/display/*", frozenset({"base", "spec"})),
    ("pool", "skyward/pool/*", frozenset({"base", "spec", "wire", "engine", "call", "display"})),
    # The face of the fake cloud for tests, which lives here and not behind the engine.
    ("face", "skyward/testing.[hc]*", frozenset({"base", "spec", "provider", "call"})),
    (
        "face",
        "skyward/*_test.cc",
        frozenset({"base", "spec", "engine", "call", "worker", "display", "pool"}),
    ),
    ("face", "skyward/*", frozenset({"base", "spec", "call", "worker", "display", "pool"})),
    ("cli", "skyward/cli/run*", frozenset({*CLI, "wire", "call", "pool", "run"})),
    ("cli", "skyward/cli/*", CLI),
    ("python", "python/src/*", frozenset({"base", "spec", "call", "display", "pool", "face"})),
    ("python", "python/native/*", frozenset({"base"})),
    ("doubles", "doubles/*", frozenset({"base", "spec"})),
    ("examples", "examples/cpp/*", frozenset({"spec", "face"})),
    ("tests", "tests/*", frozenset({"base", "spec", "face"})),
    (
        "sim",
        "sim/*",
        frozenset({"base", "spec", "wire", "io", "call", "agent", "provider", "engine"}),
    ),
    (
        "bench",
        "bench/*",
        frozenset({"base", "spec", "wire", "io", "agent", "provider", "engine", "face"}),
    ),
]

# Single headers that more files may include than their room.
SHARED_HEADERS: list[tuple[str, str]] = [
    ("skyward/call/*", "skyward/io/shared_memory.h"),  # a worker maps the buffers it receives
    ("skyward/pool/*", "skyward/io/shared_memory.h"),  # and a driver fills those it sends
    ("skyward/pool/*", "skyward/io/forks.h"),  # what a forked child may use of its parent's pools
    ("skyward/pool/*.cc", "skyward/io/start_thread.h"),  # threads that get no signals
    ("skyward/pool/executable.cc", "skyward/io/own_process.h"),  # what children may see of this one
    ("skyward/pool/pool_record.h", "skyward/io/file_lock.h"),  # says that the pool is open
    ("skyward/pool/pool_record.h", "skyward/io/appended_file.h"),  # no other program inherits it
    ("skyward/mpi/plan.cc", "skyward/io/tcp_socket.h"),  # addresses as bytes
    ("skyward/*_test.cc", "skyward/io/no_threads_fixture.h"),
    ("doubles/*", "skyward/io/http.h"),  # what a request and a reply are, not how they travel
    ("python/native/*", "skyward/wire/answer_ring.h"),  # where the worker puts its answers
    ("python/src/*", "skyward/wire/payload.h"),  # the binding carries buffers without looking in
]

# A C++ worker is a process with a socket, a pipe and a signal of its own, like its Python twin.
# Its driver looks at its terminal, and ends its pools when a signal ends it.
CPP_WORKER = (
    "skyward/worker/*",
    "python/native/*",
    "skyward/display/terminal_view.cc",
    "skyward/pool/program_end*",
    "skyward/program_end_test.cc",
    "skyward/pool/event_queue_test.cc",
    "bench/cpp_bench.cc",  # what it compares with: two bare processes
)

# Third-party and operating-system headers: pattern of the include, files that may name it. What
# fits no line here and is not in the repository counts as the standard library.
THIRD_PARTY: list[tuple[str, tuple[str, ...]]] = [
    ("boost/*", ()),
    ("asio*", ()),
    ("fmt/*", ("skyward/*", "sim/*", "bench/*", "python/src/*")),
    ("flatbuffers/*", ("skyward/wire/*",)),
    (
        "nlohmann/*",
        (
            "skyward/spec/*.cc",
            "skyward/provider/*.cc",
            "skyward/provider/*_fixture.h",
            "skyward/provider/json_read.h",
            "skyward/engine/*.cc",
            "skyward/cli/*.cc",
            "skyward/call/instance_info.cc",
            "skyward/mpi/*.cc",
            "skyward/mpi/frame.h",
            "skyward/cli/print_json.h",
            "skyward/worker/mpi.cc",
            "sim/*.cc",
            "doubles/*",
        ),
    ),
    ("CLI/*", ("skyward/cli/main.cc", "doubles/main.cc")),
    ("httplib.h", ("doubles/main.cc",)),
    (
        "toml++/*",
        (
            "skyward/provider/settings_file.cc",
            "skyward/provider/secrets.cc",
            "skyward/provider/uv_config.cc",
        ),
    ),
    ("sqlite3.h", ("skyward/provider/ledger*.cc",)),
    ("curl/*", ("skyward/io/*.cc",)),
    ("cereal/*", ("skyward/call/*", "examples/cpp/*", "bench/*")),
    ("nanobind/*", ("python/src/*", "python/native/*")),
    ("Python.h", ("python/src/*",)),
    ("gtest/*", ("*_test.cc", "*_fixture.*")),
    ("gmock/*", ("*_test.cc", "*_fixture.*")),
    ("benchmark/*", ("bench/*",)),
    ("sys/*", ("skyward/io/*", *CPP_WORKER)),
    ("netinet/*", ("skyward/io/*",)),
    ("arpa/*", ("skyward/io/*",)),
    ("linux/*", ("skyward/io/*",)),
    ("unistd.h", ("skyward/io/*", *CPP_WORKER)),
    ("fcntl.h", ("skyward/io/*", *CPP_WORKER)),
    ("poll.h", ("skyward/io/*", "skyward/provider/first_boot_test.cc", *CPP_WORKER)),
    ("signal.h", ("skyward/io/*", "skyward/command_pool_test.cc")),
    ("csignal", ("skyward/io/*", *CPP_WORKER)),
    ("spawn.h", ("skyward/io/*",)),
    ("pthread.h", ("skyward/io/*", *CPP_WORKER)),
]

# Rooms that must stand in CMake.
CMAKE_ROOMS = tuple("base spec wire io agent provider engine call worker display pool face".split())

SUPPRESSIONS_FILE = "tools/suppressed_includes.txt"


@dataclass(frozen=True)
class Include:
    file: str
    line: int
    header: str


INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')


def find_includes(file: str, text: str) -> list[Include]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            found.append(Include(file, number, match.group(1)))
    return found


def fits(path: str, pattern: str) -> bool:
    """`skyward/*` means the files of that folder alone; a deeper pattern covers subfolders."""
    if pattern.startswith("skyward/") and pattern.count("/") == 1:
        return fnmatch(path, pattern) and path.count("/") == 1
    return fnmatch(path, pattern)


def room_of(path: str) -> tuple[str, frozenset[str]] | None:
    for room, pattern, allowed in ARROWS:
        if fits(path, pattern):
            return room, allowed
    return None


def judge(include: Include, repository_headers: frozenset[str]) -> str | None:
    """What is wrong with an include, or None."""
    own = room_of(include.file)
    if own is None:
        return None
    room, allowed = own
    header = include.header
    if header.startswith("skyward/") or header in repository_headers:
        target = room_of(header)
        if target is None:
            return f"{header} lies in no room of the table"
        if target[0] == room:
            return strict_part(include, own[1])
        if target[0] in allowed or shared(include.file, header):
            return None
        may = ", ".join(sorted(allowed)) or "nothing"
        return f"{room} may include {may}; not {target[0]} ({header})"
    for pattern, files in THIRD_PARTY:
        if fnmatch(header, pattern):
            if any(fnmatch(include.file, file) for file in files):
                return None
            return f"<{header}> belongs to {', '.join(files) or 'no file'}"
    return None


def strict_part(include: Include, allowed: frozenset[str]) -> str | None:
    """A strict part of a room (core) may not reach its freer part (loop) either."""
    other = room_of(include.header)
    assert other is not None
    beyond = other[1] - allowed
    if beyond and not include.file.endswith("_test.cc"):
        return f"{include.header} may include {', '.join(sorted(beyond))}, this file may not"
    return None


def shared(file: str, header: str) -> bool:
    return any(fits(file, pattern) and header == one for pattern, one in SHARED_HEADERS)


CMAKE_ROOM = re.compile(r"skyward_room\(\s*(\w+)([^)]*)\)")


def cmake_deps(text: str) -> dict[str, frozenset[str]]:
    """The DEPS of each skyward_room() call."""
    rooms = {}
    for name, rest in CMAKE_ROOM.findall(re.sub(r"#.*", "", text)):
        deps: list[str] = []
        reading = False
        for word in rest.split():
            if word.isupper():
                reading = word == "DEPS"
            elif reading:
                deps.append(word)
        rooms[name] = frozenset(deps)
    return rooms


def judge_cmake(deps: dict[str, frozenset[str]], used: dict[str, frozenset[str]]) -> list[str]:
    """DEPS name only what the table allows, and every room whose headers are included."""
    findings = []
    for room, named in sorted(deps.items()):
        allowed: set[str] = set()
        for table_room, pattern, rooms in ARROWS:
            if table_room == room:
                allowed |= rooms
                allowed |= {
                    room_of(header)[0]  # type: ignore[index]
                    for files, header in SHARED_HEADERS
                    if files == pattern
                }
        for extra in sorted(named - allowed):
            findings.append(f"CMake: DEPS of {room} name {extra}, which the table does not allow")
        for missing in sorted(used.get(room, frozenset()) - named - {room}):
            findings.append(f"CMake: {room} includes {missing} but its DEPS do not name it")
    return findings


def read_suppressions(text: str) -> list[tuple[str, str]]:
    """Lines `file: header: reason`; a line without a reason is refused."""
    entries = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split(":", 2)]
        if len(parts) != 3 or not all(parts):
            raise SystemExit(f"{SUPPRESSIONS_FILE}: expected `file: header: reason`, found: {line}")
        entries.append((parts[0], parts[1]))
    return entries


def check(files: dict[str, str], suppressions: list[tuple[str, str]]) -> list[str]:
    """All findings for a repository given as path → text."""
    headers = frozenset(path for path in files if path.endswith(".h"))
    findings: list[str] = []
    unused = set(suppressions)
    used: dict[str, set[str]] = {}
    for path, text in sorted(files.items()):
        if not path.endswith((".h", ".cc")):
            continue
        own = room_of(path)
        if own is None:
            findings.append(f"{path}: lies in no room of the table")
            continue
        for include in find_includes(path, text):
            target = room_of(include.header)
            if include.header.startswith("skyward/") and target and not path.endswith("_test.cc"):
                used.setdefault(own[0], set()).add(target[0])
            wrong = judge(include, headers)
            if wrong is None:
                continue
            key = (path, include.header)
            if key in suppressions:
                unused.discard(key)
            else:
                findings.append(f"{path}:{include.line}: {wrong}")
    deps: dict[str, frozenset[str]] = {}
    for path, text in files.items():
        if path.endswith("CMakeLists.txt"):
            deps |= cmake_deps(text)
    for room in CMAKE_ROOMS:
        if room not in deps:
            findings.append(f"CMake: no skyward_room({room} …)")
    findings += judge_cmake(deps, {room: frozenset(rooms) for room, rooms in used.items()})
    for file, header in sorted(unused):
        findings.append(f"{SUPPRESSIONS_FILE}: {file} no longer needs {header}: remove the line")
    return findings


def read_repository(root: Path) -> dict[str, str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        + ["*.h", "*.cc", "CMakeLists.txt", "*/CMakeLists.txt", f"{python_arrows.PACKAGE}*.py"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return {path: (root / path).read_text() for path in listed if (root / path).exists()}


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    suppressions_path = root / SUPPRESSIONS_FILE
    suppressions = read_suppressions(suppressions_path.read_text())
    files = read_repository(root)
    findings = check(files, suppressions)
    findings += python_arrows.check({k: v for k, v in files.items() if k.endswith(".py")})
    for finding in findings:
        print(finding)
    if not findings:
        print(f"arrows: {len(files)} files, {len(suppressions)} suppressed includes, all in order")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

"""check_deps.py against planted violations: each rule catches its own and passes its neighbour."""

import check_deps
import pytest

CMAKE = """
skyward_room(base)
skyward_room(spec DEPS base)
skyward_room(wire DEPS base spec)
skyward_room(io DEPS base)
skyward_room(agent DEPS base spec wire io)
skyward_room(provider DEPS base spec io)
skyward_room(engine DEPS base spec wire io provider)
skyward_room(call DEPS base spec wire io)
skyward_room(worker DEPS base spec wire io call)
skyward_room(display DEPS base spec io)
skyward_room(pool DEPS base spec wire io engine call display)
skyward_room(face DEPS base spec call worker display pool)
"""


def findings(
    files: dict[str, str], suppressions: list[tuple[str, str]] | None = None, cmake: str = CMAKE
) -> list[str]:
    return check_deps.check({"skyward/CMakeLists.txt": cmake, **files}, suppressions or [])


def includes(*headers: str) -> str:
    return "".join(
        f'#include "{header}"\n' if "/" in header else f"#include <{header}>\n"
        for header in headers
    )


@pytest.mark.parametrize(
    ("file", "header"),
    [
        ("skyward/base/bytes.h", "skyward/spec/id.h"),
        ("skyward/spec/offer.cc", "skyward/io/channel.h"),
        ("skyward/wire/codec.cc", "skyward/io/channel.h"),
        ("skyward/io/channel.cc", "skyward/spec/limits.h"),
        ("skyward/agent/core.cc", "skyward/io/channel.h"),
        ("skyward/agent/core_task.cc", "skyward/io/event_loop.h"),
        ("skyward/agent/core.h", "skyward/agent/loop.h"),
        ("skyward/agent/loop.cc", "skyward/provider/provider.h"),
        ("skyward/provider/local/local.cc", "skyward/wire/message.h"),
        ("skyward/engine/core.cc", "skyward/provider/provider.h"),
        ("skyward/engine/core.cc", "skyward/io/event_loop.h"),
        ("skyward/engine/core.cc", "skyward/engine/loop.h"),
        ("skyward/engine/loop.cc", "skyward/pool/pool.h"),
        ("skyward/call/pending.h", "skyward/pool/pool.h"),
        ("skyward/worker/worker.cc", "skyward/pool/pool.h"),
        ("skyward/worker/worker.cc", "skyward/engine/loop.h"),
        ("skyward/display/display.cc", "skyward/pool/pool.h"),
        ("skyward/display/display.cc", "skyward/io/event_loop.h"),
        ("skyward/pool/compute_pool.cc", "skyward/worker/worker.h"),
        ("skyward/pool/pool.cc", "skyward/io/channel.h"),
        ("skyward/pool/pool.cc", "skyward/provider/provider.h"),
        ("skyward/init.cc", "skyward/engine/loop.h"),
        ("python/src/pool.cc", "skyward/engine/loop.h"),
        ("python/src/pool.cc", "skyward/wire/message.h"),
        ("examples/cpp/quickstart.cc", "skyward/engine/core.h"),
        ("skyward/io/event_loop.cc", "boost/asio.hpp"),
        ("skyward/pool/pool.cc", "nanobind/nanobind.h"),
        ("skyward/engine/core.cc", "sqlite3.h"),
        ("skyward/spec/id.cc", "unistd.h"),
        ("skyward/spec/id.cc", "gtest/gtest.h"),
    ],
)
def test_forbidden_include_is_found(file: str, header: str) -> None:
    found = findings({file: "\n" + includes(header)})
    assert any(f"{file}:2:" in finding for finding in found), found


@pytest.mark.parametrize(
    ("file", "header"),
    [
        ("skyward/base/bytes.h", "vector"),
        ("skyward/spec/offer.cc", "skyward/base/error.h"),
        ("skyward/io/channel.cc", "sys/socket.h"),
        ("skyward/agent/core.cc", "skyward/agent/effects.h"),
        ("skyward/agent/loop.cc", "skyward/io/channel.h"),
        ("skyward/agent/loop.cc", "skyward/agent/core.h"),
        ("skyward/engine/loop.cc", "skyward/provider/provider.h"),
        ("skyward/provider/ledger.cc", "sqlite3.h"),
        ("skyward/pool/pool.cc", "skyward/io/shared_memory.h"),
        ("skyward/pool/pool.cc", "skyward/engine/loop.h"),
        ("python/src/pool.cc", "skyward/wire/payload.h"),
        ("skyward/init.cc", "skyward/worker/worker.h"),
        ("skyward/program_end_test.cc", "skyward/engine/loop.h"),
        ("skyward/spec/id_test.cc", "gtest/gtest.h"),
        ("sim/storm.cc", "skyward/engine/core.h"),
    ],
)
def test_allowed_include_passes(file: str, header: str) -> None:
    assert findings({file: includes(header)}) == []


def test_file_outside_every_room_is_found() -> None:
    assert findings({"skyward/extra/new.cc": ""}) == [
        "skyward/extra/new.cc: lies in no room of the table"
    ]


def test_suppression_silences_its_own_include_only() -> None:
    files = {"skyward/pool/pool.cc": includes("skyward/io/channel.h", "skyward/io/process.h")}
    found = findings(files, [("skyward/pool/pool.cc", "skyward/io/channel.h")])
    assert len(found) == 1
    assert "skyward/io/process.h" in found[0]


def test_unused_suppression_fails() -> None:
    found = findings({}, [("skyward/pool/pool.cc", "skyward/io/channel.h")])
    assert len(found) == 1
    assert "remove the line" in found[0]


def test_suppression_needs_a_reason() -> None:
    with pytest.raises(SystemExit, match="reason"):
        check_deps.read_suppressions("skyward/pool/pool.cc: skyward/io/channel.h:\n")
    assert check_deps.read_suppressions("# a remark\n\na.cc: b.h: because: it must\n") == [
        ("a.cc", "b.h")
    ]


def test_cmake_deps_beyond_the_table_are_found() -> None:
    cmake = CMAKE.replace("skyward_room(io DEPS base)", "skyward_room(io DEPS base wire)")
    assert findings({}, cmake=cmake) == [
        "CMake: DEPS of io name wire, which the table does not allow"
    ]


def test_include_without_its_cmake_dep_is_found() -> None:
    cmake = CMAKE.replace("skyward_room(wire DEPS base spec)", "skyward_room(wire DEPS base)")
    found = findings({"skyward/wire/codec.cc": includes("skyward/spec/id.h")}, cmake=cmake)
    assert found == ["CMake: wire includes spec but its DEPS do not name it"]


def test_room_missing_from_cmake_is_found() -> None:
    found = findings({}, cmake=CMAKE.replace("skyward_room(base)", ""))
    assert found == ["CMake: no skyward_room(base …)"]


def test_table_itself_has_no_cycle() -> None:
    arrows: dict[str, set[str]] = {}
    for room, _, allowed in check_deps.ARROWS:
        arrows.setdefault(room, set()).update(allowed)
    placed: set[str] = set()
    while len(placed) < len(arrows):
        free = {room for room, to in arrows.items() if room not in placed and to <= placed}
        assert free, f"a cycle among {sorted(set(arrows) - placed)}"
        placed |= free


def test_this_repository_is_in_order() -> None:
    assert check_deps.main() == 0

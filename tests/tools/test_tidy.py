"""tidy.py against planted violations: each rule must catch its own, and pass its neighbour."""

import pytest
import tidy

HEADER = "#pragma once\n\n// What this is about.\n"
UNDONE = "FIX" + "ME"


def rules(file: str, text: str) -> list[str]:
    failures, _, _ = tidy.judge({file: text}, {}, [])
    return [failure.split(": ")[1] for failure in failures]


@pytest.mark.parametrize(
    ("file", "text", "rule"),
    [
        ("skyward/a.h", HEADER + "\n" * 100 + "int a;\n" * 100, "header-lines"),
        ("skyward/a.cc", "int a;\n" * 1001, "source-lines"),
        ("skyward/a.cc", "// " + "x" * 98 + "\n", "long-lines"),
        ("skyward/a.h", HEADER + "// " + "x" * 200 + "\n", "very-long-line"),
        ("skyward/a.cc", "void f() {\n" + "  g();\n" * 70 + "}\n", "function-lines"),
        ("tools/a.py", "def f():\n" + "    g()\n" * 70, "function-lines"),
        ("skyward/engine/core.cc", "auto t = Clock::now();\n", "banned-call"),
        ("skyward/agent/loop.cc", "std::this_thread::sleep_for(1s);\n", "banned-call"),
        ("skyward/spec/a.cc", "int r = rand();\n", "banned-call"),
        ("skyward/spec/a.cc", "std::random_device seed;\n", "banned-call"),
        ("skyward/pool/pool.cc", 'auto* v = std::getenv("X");\n', "banned-call"),
        ("skyward/agent/a.cc", "int s = ::socket(AF_UNIX, SOCK_STREAM, 0);\n", "banned-call"),
        ("skyward/agent/a.cc", "pid_t p = fork();\n", "banned-call"),
        ("skyward/agent/a.cc", 'std::system("ls");\n', "banned-call"),
        ("tests/e2e/test_a.py", "import time\ntime.sleep(1)\n", "sleeping-test"),
        ("skyward/spec/a.cc", "void f() { std::cout << 1; }\n", "printing"),
        ("skyward/spec/task_manager.cc", "", "banned-name"),
        ("skyward/spec/a.h", HEADER + "class PoolHandler;\n", "banned-name"),
        ("skyward/spec/a.h", HEADER + "struct PoolImpl;\n", "banned-name"),
        ("python/skyward/a.py", "class TaskBase:\n    pass\n", "banned-name"),
        ("skyward/spec/a.h", "// What.\n#pragma once\n", "header-opening"),
        ("skyward/spec/a.h", "#pragma once\n\n#include <vector>\n", "header-opening"),
        ("skyward/spec/a.cc", f"// {UNDONE} later\n", "leftover"),
        ("skyward/spec/a.cc", "// TO" + "DO: later\n", "leftover"),
        ("docs/a.md", "<" * 7 + " HEAD\n", "conflict"),
        ("docs/a.md", "x\n" + "=" * 7 + "\n", "conflict"),
        ("skyward/a.cc", "int a; \n", "trailing-space"),
        ("docs/a.md", "see /wo" + "rk/main/x\n", "machine-path"),
        ("docs/a.md", "see /home/" + "ann/x\n", "machine-path"),
        ("docs/a.md", "The nodes are had and prepared.\n", "phrase"),
        ("changes/a.md", "Machines are given\nback.\n", "phrase"),
        ("README.md", "It gives the machines back.\n", "phrase"),
        ("skyward/io/README.md", "its agent is no more\n", "phrase"),
        ("python/skyward/a.py", "# looks whether it is there\n", "phrase"),
        ("sim/a.cc", "// Machines are given\n// back.\n", "phrase"),
        ("skyward/io/a.cc", 'fail("its agent is no more");\n', "phrase"),
        ("docs/a.md", "no end", "final-newline"),
        ("docs/a.md", "end\n\n", "final-newline"),
        ("skyward/io/README.md", "line\n" * 26, "readme-lines"),
    ],
)
def test_violation_is_found(file: str, text: str, rule: str) -> None:
    assert rules(file, text) == [rule]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("skyward/a.h", HEADER + "int a;\n" * 197),
        ("skyward/a.cc", "void f() {\n" + "  g();\n" * 68 + "}\n"),
        ("skyward/a.cc", "namespace n {\n" + "int a;\n" * 100 + "}  // namespace n\n"),
        ("skyward/a.cc", "struct S {\n" + "  int a;\n" * 100 + "};\n"),
        ("skyward/a.cc", "const int table[] = {\n" + "  1,\n" * 100 + "};\n"),
        ("skyward/io/event_loop.cc", "auto t = Clock::now();\n"),
        ("skyward/spec/a.cc", "// ::now() is banned here\n"),
        ("skyward/spec/a.cc", 'auto s = "rand() sleep(1) getenv(x)";\n'),
        ("skyward/spec/a.cc", "int n = operand(1) + pool.socket(2);\n"),
        ("skyward/spec/a_test.cc", "void f() { std::cout << 1; }\n"),
        ("tests/e2e/test_a.py", "import time\ntime.sleep(9)  # on a worker\n"),
        ("skyward/spec/a.h", HEADER + "struct Impl;\n"),
        ("skyward/spec/a.h", HEADER + "struct Database;\n"),
        ("skyward/spec/a.cc", "// TO" + "DO(perf): fewer copies\n"),
        ("docs/a.md", "build/wo" + "rk/log and ~/wo" + "rk/log\n"),
        ("docs/a.md", "spaces mean a break  \nhere\n"),
        ("docs/a.md", "This is no more than a page, and what he had is here.\n"),
        ("docs/a.md", "Release the machines, then go back.\n"),
    ],
)
def test_neighbour_passes(file: str, text: str) -> None:
    assert rules(file, text) == []


def twins_of(files: dict[str, str], allowed: list[dict[str, str]] | None = None) -> list[str]:
    return tidy.judge({file: HEADER + text for file, text in files.items()}, {}, allowed or [])[0]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("skyward/agent/link.h", "class Link {};\n"),
        ("skyward/agent/link.h", "class Link final : private Effects {};\n"),
        ("skyward/provider/aws/link.h", "enum class Link : std::uint8_t { up };\n"),
        ("sim/link.cc", "template <typename T>\nstruct Link {};\n"),
    ],
)
def test_types_of_two_rooms_with_one_name_are_found(file: str, text: str) -> None:
    failures = twins_of({"skyward/engine/link.h": "struct Link {};\n", file: text})
    assert len(failures) == 1
    assert "twin-type" in failures[0]
    entry = {"rule": "twin-type", "file": file, "subject": "Link", "reason": "test"}
    swapped = {**entry, "file": "skyward/engine/link.h"}
    fitting = entry if failures[0].startswith(file) else swapped
    files = {"skyward/engine/link.h": "struct Link {};\n", file: text}
    assert twins_of(files, [fitting]) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("skyward/engine/loop.cc", "struct Link {};\n"),  # the same room
        ("skyward/agent/link_test.cc", "struct Link {};\n"),
        ("skyward/agent/link_fixture.h", "struct Link {};\n"),
        ("skyward/agent/link.h", "class Link;\n"),
        ("skyward/agent/link.cc", "struct Agent::Link {};\n"),
        ("skyward/agent/link.h", "struct Agent {\n  struct Link {};\n};\n"),
        ("skyward/agent/link.h", "struct Link<int> {};\n"),
        ("skyward/agent/link.h", "// struct Link {};\n"),
        ("python/src/link.h", "struct Link {};\n"),
    ],
)
def test_types_that_readers_tell_apart_pass(file: str, text: str) -> None:
    assert twins_of({"skyward/engine/link.h": "struct Link {};\n", file: text}) == []


def test_function_finder_sees_names_and_sizes() -> None:
    text = """#include <a>
namespace skyward {
namespace {
int twice(int a) { return 2 * a; }
}  // namespace
template <typename T>
Result<T> Pool::open(const std::string& name,
                     int count) const {
  for (;;) {
    if (count) { break; }
  }
}
class Handle {
 public:
  bool done() const { return done_; }
 private:
  bool done_{};
};
struct Seen { int count = 0; };
TEST(Name, Case) {
  EXPECT_EQ('{', "}"[0]);
}
}  // namespace skyward
"""
    assert list(tidy.cpp_functions(text)) == [
        ("twice", 4, 4),
        ("Pool::open", 6, 12),
        ("done", 15, 15),
        ("TEST", 20, 22),
    ]


def test_ratchet_allows_its_size_and_no_more() -> None:
    text = "int a;\n" * 1200
    ratchets = {"source-lines": {"skyward/a.cc": 1200}}
    assert tidy.judge({"skyward/a.cc": text}, ratchets, [])[0] == []
    failures = tidy.judge({"skyward/a.cc": text + "int b;\n"}, ratchets, [])[0]
    assert len(failures) == 1
    assert "stands at 1200" in failures[0]


def test_ratchet_of_a_healed_file_fails() -> None:
    ratchets = {"source-lines": {"skyward/a.cc": 1200}}
    failures, _, tight = tidy.judge({"skyward/a.cc": "int a;\n"}, ratchets, [])
    assert "within the limit" in failures[0]
    assert tight == {}


def test_tightening_lowers_a_ratchet() -> None:
    ratchets = {"source-lines": {"skyward/a.cc": 1200}}
    tight = tidy.judge({"skyward/a.cc": "int a;\n" * 1100}, ratchets, [])[2]
    assert tight == {"source-lines": {"skyward/a.cc": 1100}}


def test_allowed_exception_covers_its_subject_only() -> None:
    files = {"skyward/pool/pool.cc": 'auto a = getenv("A");\nauto b = Clock::now();\n'}
    entry = {
        "rule": "banned-call",
        "file": "skyward/pool/pool.cc",
        "subject": "getenv",
        "reason": "test",
    }
    failures = tidy.judge(files, {}, [entry])[0]
    assert len(failures) == 1
    assert "now" in failures[0]


def test_allowed_exception_needs_a_use_and_a_reason() -> None:
    entry = {"rule": "banned-call", "file": "skyward/pool/pool.cc", "subject": "getenv"}
    failures = tidy.judge({}, {}, [entry])[0]
    assert any("has no reason" in failure for failure in failures)
    assert any("remove the entry" in failure for failure in failures)

"""Skyward in another project: installed and found, or added as a folder."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BUILT = ROOT / "build/release"
README = (ROOT / "README.md").read_text()


def run(*command: str | Path) -> str:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=170, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def block(language: str) -> str:
    """The README's block of that language."""
    [found] = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return found


def write_project(folder: Path, more: str = "") -> None:
    (folder / "main.cc").write_text(block("cpp"))
    lists = block("cmake")
    assert lists.count("find_package(skyward REQUIRED)") == 1
    (folder / "CMakeLists.txt").write_text(
        lists.replace("find_package(skyward REQUIRED)", more) if more else lists
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", BUILT, "--component", "cpp", "--prefix", place)
    return place


def test_an_installed_skyward_is_found_and_runs(installed: Path, tmp_path: Path) -> None:
    assert os.access(installed / "libexec/skyward-agent", os.X_OK)
    agent = installed / "libexec/skyward-agent"
    real = agent.rename(installed / "the-agent")
    started = tmp_path / "started"
    agent.write_text(f'#!/bin/sh\n: > "{started}"\nexec "{real}" "$@"\n')
    agent.chmod(0o755)
    write_project(tmp_path)
    build = tmp_path / "build"
    # -Wall: a user's warnings are not ours to cause; -Werror would be for them to choose.
    run("cmake", "-S", tmp_path, "-B", build, f"-DCMAKE_PREFIX_PATH={installed}",
        "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")  # fmt: skip
    run("cmake", "--build", build)
    assert run("env", "-u", "SKYWARD_AGENT", build / "mine") == "49\n0 1 4 9 16 \n"
    assert started.exists(), "the agent of the build folder ran, not the installed one"
    commands = (build / "CMakeFiles/mine.dir/flags.make").read_text()
    assert "-Wconversion" not in commands and str(ROOT) not in commands


def test_an_exception_of_a_shared_library_arrives_as_its_type(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "bad_row.h").write_text("""
#include <stdexcept>
#include "skyward/skyward.h"
struct BadRow : std::runtime_error {
  using std::runtime_error::runtime_error;
};
inline const sky::ThrownType<BadRow> bad_row;
int rows();
""")
    (tmp_path / "rows.cc").write_text("""
#include "bad_row.h"
int rows() { return 3; }
""")
    (tmp_path / "main.cc").write_text("""
#include <iostream>
#include "bad_row.h"
int parse(int row) { throw BadRow("row " + std::to_string(row)); }
inline constexpr auto remote_parse = sky::compute<parse>;
int main(int argc, char** argv) {
  sky::init(argc, argv);
  sky::ComputePool pool({.nodes = 1, .display = sky::Display::quiet});
  try {
    remote_parse(rows()) >> pool;
  } catch (const BadRow& error) {
    std::cout << error.what() << "\\n";
  }
}
""")
    (tmp_path / "CMakeLists.txt").write_text(
        block("cmake")
        + "add_library(rows SHARED rows.cc)\n"
        + "target_link_libraries(rows PRIVATE skyward::skyward)\n"
        + "target_link_libraries(mine PRIVATE rows)\n"
    )
    build = tmp_path / "build"
    run("cmake", "-S", tmp_path, "-B", build, f"-DCMAKE_PREFIX_PATH={installed}")
    run("cmake", "--build", build)
    assert run("env", "-u", "SKYWARD_AGENT", build / "mine") == "row 3\n"


def test_the_program_that_reaps_is_installed_beside_the_agent(installed: Path) -> None:
    assert run(installed / "libexec/skyward", "--version").strip()


def test_without_cli11_a_folder_in_a_project_lacks_the_program_alone(tmp_path: Path) -> None:
    write_project(tmp_path, f"add_subdirectory({ROOT} skyward)")
    build = tmp_path / "build"
    said = run("cmake", "-S", tmp_path, "-B", build, "-DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON")
    assert "there is no CLI11" in said
    targets = run("cmake", "--build", build, "--target", "help")
    assert "skyward-agent" in targets and "skyward-cli" not in targets


def test_a_folder_in_a_project_adds_its_library_alone(tmp_path: Path) -> None:
    write_project(tmp_path, f"add_subdirectory({ROOT} skyward)")
    build = tmp_path / "build"
    run("cmake", "-S", tmp_path, "-B", build, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    targets = run("cmake", "--build", build, "--target", "help")
    assert "skyward_face" in targets and "skyward-agent" in targets and "skyward-cli" in targets
    assert "_test" not in targets and "example" not in targets and "_core" not in targets
    commands = (build / "compile_commands.json").read_text()
    assert "main.cc" in commands
    assert "-Werror" not in commands and "-Wconversion" not in commands
    assert "ccache" not in commands
    order = (build / "CMakeFiles/Makefile2").read_text()
    for program in ("skyward-agent", "skyward-cli"):  # `--target mine` builds what its pools start
        assert re.search(rf"/skyward_face\.dir/all: .*/{program}\.dir/all$", order, re.MULTILINE)


def agent_link(build: Path) -> str:
    return (build / "skyward/skyward/agent/CMakeFiles/skyward-agent.dir/link.txt").read_text()


@pytest.mark.parametrize("first", ["mine", "skyward"])
def test_a_project_and_its_folder_have_an_openssl_each(first: str, tmp_path: Path) -> None:
    lines = ["find_package(OpenSSL REQUIRED)", f"add_subdirectory({ROOT} skyward)"]
    write_project(tmp_path, "\n".join(lines if first == "mine" else lines[::-1]))
    build = tmp_path / "build"
    run("cmake", "-S", tmp_path, "-B", build)
    cache = (build / "CMakeCache.txt").read_text()
    assert re.search(r"^OPENSSL_SSL_LIBRARY:\w+=.*\.so$", cache, re.MULTILINE)
    assert "/libssl.a" in agent_link(build) and "/libssl.so" not in agent_link(build)


def test_a_project_may_use_a_sanitizer(tmp_path: Path) -> None:
    write_project(tmp_path, f"add_subdirectory({ROOT} skyward)")
    build = tmp_path / "build"
    run("cmake", "-S", tmp_path, "-B", build)
    assert "-static" in agent_link(build).split()
    run("cmake", "-S", tmp_path, "-B", build, "-DCMAKE_CXX_FLAGS=-fsanitize=address")
    assert "-static" not in agent_link(build).split()

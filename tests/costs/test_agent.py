"""The agent stays small: what is sent to a node, and what it takes there while nothing happens."""

import platform
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from workloads import agent

MEASURED_ON = ("x86_64", "debian", "12")
SIZES = {"agent_disk": 5.52, "agent_packed": 2.47}
"""In MB, there: other compilers and other versions of OpenSSL make other files."""
GROWTH = 1.02


def this_system():
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        system = {}
    return platform.machine(), system.get("ID"), system.get("VERSION_ID")


@pytest.fixture(scope="module")
def measured():
    return agent.measure(SimpleNamespace(idle_samples=2))


@pytest.mark.parametrize("name", SIZES)
def test_file(measured, name):
    if this_system() != MEASURED_ON:
        pytest.skip(f"the sizes are those of {' '.join(MEASURED_ON)}")
    assert measured[name] <= GROWTH * SIZES[name], (
        "the agent has grown; `nm --size-sort -C` of it, linked without -s, says by what. Write the"
        " new size down if it is worth it"
    )


@pytest.mark.parametrize("name", ["agent_resident", "agent_idle_cpu"])
def test_idle(measured, name):
    (limit,) = agent.TARGETS[name]
    assert measured[name] <= limit, f"{measured[name]} {agent.FIGURES[name][0]}"

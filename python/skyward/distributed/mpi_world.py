"""One MPI world over all workers, for the length of a call.

The agent's program starts MPI and serves the ranks of this worker (skyward/mpi/world.h). Each rank
is mpi_rank.py, which runs the function once."""

import os
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skyward.call.by_value import dumps_by_value
from skyward.distributed.agent_program import ask
from skyward.distributed.meeting import described
from skyward.task.instance_info import InstanceInfo

_RANK = str(Path(__file__).with_name("mpi_rank.py"))


@dataclass(frozen=True)
class World:
    """What ``@distributed.mpi(…)`` asks for."""

    ranks_per_node: int
    implementation: str | None
    secret: bytes

    def __repr__(self) -> str:
        return f"World({self.ranks_per_node}, {self.implementation})"


def run(
    info: InstanceInfo,
    world: World,
    timeout: float,
    name: str,
    call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]],
) -> Any:
    """The result of this worker's rank, or of its ranks, in a list."""
    told = _told(call)
    order = {
        "place": described(info),
        "name": name,
        "timeout": timeout,
        "ranks_per_node": world.ranks_per_node,
        "implementation": world.implementation or "",
        "secret": world.secret.hex(),
        "rank": [sys.executable, "-P", _RANK],
        "streams": [1, 2],
        "bytes": len(told),
    }
    answer, data = ask("mpi", order, told)
    parts, at = [], 0
    for size in answer["sizes"]:
        parts.append(data[at : at + size])
        at += size
    if answer["raised"]:
        raise _error(parts[0])
    answers = [pickle.loads(part) for part in parts]
    return answers if world.ranks_per_node > 1 else answers[0]


def find_launcher(implementation: str | None) -> tuple[str, str]:
    """The MPI of this node, and its version: the one that is asked for, else Open MPI if it is
    there, else MPICH. ConfigurationError: there is none."""
    found, _ = ask("mpi", {"find": implementation or ""})
    return found["kind"], found["version"]


def _told(call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]) -> bytes:
    return pickle.dumps(
        {
            "call": dumps_by_value(call),
            "environment": dict(os.environ),
            "path": list(sys.path),
            "folder": os.getcwd(),
        }
    )


def _error(data: bytes) -> BaseException:
    first, text, pickled = pickle.loads(data)
    error: BaseException = pickle.loads(pickled) if pickled else RuntimeError(first)
    error.add_note(f"in a rank of MPI:\n{text}")
    return error

"""What the agent's program does for a distributed call: ``skyward-agent meet`` and ``mpi``.

It is a child of the call, and ends with it. See skyward/mpi/program.h for what is asked and
answered."""

import json
import os
from collections.abc import Mapping
from typing import Any

from skyward.exceptions import CancelledError, ConfigurationError, TimeoutError
from skyward.task.processes import ChildProgram, end

_ERRORS: dict[str, type[Exception]] = {
    "invalid": ConfigurationError,
    "timeout": TimeoutError,
    "cancelled": CancelledError,
}


def ask(verb: str, order: Mapping[str, Any], told: bytes = b"") -> tuple[dict[str, Any], bytes]:
    """The answer, and the bytes behind it. Raises what the program says. `told`: what follows the
    order."""
    data = json.dumps(order).encode() + b"\n" + told
    program = ChildProgram(f"skyward-agent {verb}", [_program(), verb], told=data, reports=True)
    try:
        line, end_of_line, rest = program.report().partition(b"\n")
        if not end_of_line:
            raise RuntimeError(program.how_it_ended())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            error = answer["error"]
            text = "\n".join(filter(None, (error["text"], error["hint"])))
            raise _ERRORS.get(error["kind"], RuntimeError)(text)
        if len(rest) < sum(answer.get("sizes", ())):  # it was killed while it wrote
            raise RuntimeError(program.how_it_ended())
    finally:
        end([program])
    return answer, rest


def _program() -> str:
    """The agent that has started this worker; tests have none."""
    named = os.environ.get("SKYWARD_AGENT", "")
    # A relative one is the driver's, whose directory this is not.
    return named if os.path.isabs(named) else f"/proc/{os.getppid()}/exe"

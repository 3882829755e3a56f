"""Dask's processes on one node: the call that holds them."""

import json
import os
import sys
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from skyward.engines.survey import look
from skyward.task.processes import ChildProgram, end, hold

PROCESS = str(Path(__file__).with_name("dask_process.py"))
_QUIET = {"DASK_LOGGING__DISTRIBUTED": "warning"}


def serve(
    scheduler: str,
    keys: Mapping[str, str],
    threads: int | None,
    memory: str,
    seconds: float,
) -> Generator[str, None, None]:
    """Holds this node's worker, and on node 0 the scheduler, too. `scheduler`: its "host:port"."""
    here = look(())
    settings: dict[str, Any] = {"keys": dict(keys), "host": here.address, "seconds": seconds}
    started: list[ChildProgram] = []
    with tempfile.TemporaryDirectory(prefix="dask-", dir=os.getcwd()) as directory:
        try:
            if here.node == 0:
                port = int(scheduler.rpartition(":")[2])
                settings.update(role="scheduler", port=port)
                started.append(_start("the Dask scheduler", settings))
                started[0].await_ready(seconds)
            settings.update(
                role="worker",
                scheduler=f"tls://{scheduler}",
                name=f"node-{here.node}",
                threads=threads or here.cpus,
                memory=memory,
                resources={"GPU": here.accelerators} if here.accelerators else {},
                directory=directory,
            )
            started.insert(0, _start(f"the Dask worker of node {here.node}", settings))
            started[0].await_ready(seconds)
            yield from hold(started, here.address)
        finally:
            end(started)


def _start(name: str, settings: dict[str, Any]) -> ChildProgram:
    command = [sys.executable, "-P", PROCESS]
    return ChildProgram(name, command, _QUIET, json.dumps(settings).encode(), reports=True)

"""A Dask scheduler or worker as a process: reads its settings, with the keys of its connections,
from standard input.

Runs on a node, as a script: it knows nothing of the package."""

import asyncio
import json
import logging
import os
import signal
import sys
from typing import Any


def main() -> None:
    settings = json.load(sys.stdin)
    asyncio.run(run(settings))


async def run(settings: dict[str, Any]) -> None:
    import dask
    from distributed import Nanny, Scheduler
    from distributed.security import Security

    # No pages about the cluster: they would be open to every user of this machine.
    dask.config.set(
        {
            "distributed.scheduler.http.routes": [],
            "distributed.worker.http.routes": [],
            "distributed.nanny.environ": {},
        }
    )
    # Connections of strangers, which have no key, are refused without a word.
    logging.getLogger("distributed.comm").setLevel(logging.ERROR)
    security = Security(require_encryption=True, **settings["keys"])
    if settings["role"] == "scheduler":
        server: Any = Scheduler(
            host=settings["host"],
            port=settings["port"],
            protocol="tls",
            security=security,
            dashboard=False,
            dashboard_address="127.0.0.1:0",
        )
    else:
        server = Nanny(
            settings["scheduler"],
            host=settings["host"],
            protocol="tls",
            security=security,
            name=settings["name"],
            nthreads=settings["threads"],
            memory_limit=settings["memory"],
            resources=settings["resources"],
            dashboard_address="127.0.0.1:0",
            local_directory=settings["directory"],
            death_timeout=settings["seconds"],
        )
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with server:
        os.write(int(os.environ["SKYWARD_READY"]), b"\n")
        ending = asyncio.ensure_future(server.finished())
        stopping = asyncio.ensure_future(stopped.wait())
        await asyncio.wait([ending, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not stopped.is_set():
            sys.exit("the scheduler ended this worker" if settings["role"] == "worker" else 1)


if __name__ == "__main__":
    main()

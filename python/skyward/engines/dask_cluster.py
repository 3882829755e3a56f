"""``sky.dask(pool)``: a Dask cluster on the nodes of a pool."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from skyward.call.pending import PendingCompute
from skyward.engines.block import hold_slot, seconds_of
from skyward.engines.dask_node import serve
from skyward.engines.forward import Forward
from skyward.engines.members import NO_LIMIT_SECONDS, Members, ask_nodes
from skyward.engines.survey import look, require_here, require_there
from skyward.exceptions import ConfigurationError, ConnectionError
from skyward.pool.compute_pool import ComputePool

if TYPE_CHECKING:
    from distributed import Client

_VERB = "sky.dask(pool)"
_PACKAGES = ("dask", "distributed")
_KEYS = ("tls_ca_file",) + tuple(
    f"tls_{role}_{part}" for role in ("client", "scheduler", "worker") for part in ("key", "cert")
)


@contextmanager
def dask(
    pool: ComputePool,
    *,
    threads: int | None = None,
    memory: str = "auto",
    timeout: float = 60.0,
) -> "Iterator[Client]":
    """A Dask cluster on the nodes of `pool`, an open pool, for the length of the block; yields a
    ``distributed.Client`` that is connected to it.

        with sky.ComputePool(nodes=3, pip=["dask", "distributed"]) as pool:
            with sky.dask(pool) as client:
                print(client.submit(sum, [1, 2, 3]).result())

    The scheduler runs on node 0, and one worker (with a nanny) on each node. They take one slot of
    each node until the end of the block. Inside the block the client is Dask's default.

    `threads`: of each worker; None: the node's processors. `memory`: limit of each worker, as Dask
    writes it ("4GB"); "auto": the node's memory. `timeout`: how long each step of the start may
    take, in seconds. A node with accelerators has that many of the resource "GPU".

    Connections are encrypted and need a key that is made for this block; `cryptography` must be
    installed for this program. The dashboard is off.

    A lost node is replaced, and a worker is started there; Dask runs its tasks elsewhere meanwhile.
    The loss of node 0 ends the cluster: calls of the client fail, and an Error event says why.

    ConfigurationError: a package is missing here or on a node, versions differ, or the nodes cannot
    reach each other; nothing was started. TimeoutError: no slot of a node became free in time.
    ConnectionError: the scheduler cannot be reached from here."""
    seconds = seconds_of(_VERB, timeout)
    if threads is not None and (isinstance(threads, bool) or threads < 1):
        raise ConfigurationError(f"{_VERB}: threads={threads!r}: a positive number is expected")
    require_here(
        _VERB, ("dask", "distributed", "cryptography"), "distributed' 'cryptography", "as a client"
    )
    from distributed.security import Security

    _check_memory(memory)
    with ExitStack() as block:
        engine = block.enter_context(hold_slot(_VERB, pool))
        asked = PendingCompute(look, (_PACKAGES, 1), name="look")
        facts = ask_nodes(_VERB, engine, pool.nodes, asked, seconds)
        require_there(_VERB, _PACKAGES, "distributed", facts)
        security = Security.temporary()
        keys = {name: getattr(security, name) for name in _KEYS}
        head = facts[0]
        target = f"{head.address}:{head.ports[0]}"
        call: PendingCompute[Any] = PendingCompute(
            serve,
            (target, keys, threads, memory, seconds),
            name="dask",
            timeout=NO_LIMIT_SECONDS,
        )
        members = Members(_VERB, pool, engine, facts, lambda node: call)
        block.callback(members.close)
        members.start(range(1), seconds)
        members.start(range(1, pool.nodes), seconds)
        forward = Forward(engine, 0, head.relay, head.address, head.ports[0])
        block.callback(forward.close)
        forward.check()
        client = _connect(f"tls://{forward.address}", security, seconds, forward)
        block.callback(_close, client)
        client.wait_for_workers(pool.nodes, timeout=seconds)
        yield client


def _check_memory(memory: str) -> None:
    from dask.utils import parse_bytes

    try:
        if memory != "auto":
            parse_bytes(memory)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(
            f"{_VERB}: memory={memory!r}: 'auto' or a size such as '4GB' is expected: {error}"
        ) from None


def _connect(address: str, security: Any, seconds: float, forward: Forward) -> "Client":
    from distributed import Client

    try:
        return Client(address, security=security, timeout=seconds)
    except OSError as error:
        raise ConnectionError(
            f"{_VERB}: the scheduler on node 0 does not answer at {address}:"
            f" {forward.problem or error}"
        ) from error


def _close(client: Any) -> None:
    """Quickly when the scheduler is gone."""
    if sys.is_finalizing():
        return
    try:
        client.close(timeout=2)
    except Exception:  # whatever its loop makes of a lost scheduler: the block ends all the same
        return

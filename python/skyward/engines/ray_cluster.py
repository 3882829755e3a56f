"""``sky.ray(pool)``: a Ray cluster on the nodes of a pool."""

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from skyward.call.pending import PendingCompute
from skyward.distributed.environment import variables
from skyward.engines.block import hold_slot, seconds_of
from skyward.engines.certificates import Authority
from skyward.engines.forward import Forward
from skyward.engines.members import NO_LIMIT_SECONDS, Members, ask_nodes
from skyward.engines.ray_node import RayPlace, secured, serve
from skyward.engines.survey import NodeFacts, look, require_here, require_there, version_of
from skyward.exceptions import ConfigurationError
from skyward.pool.compute_pool import ComputePool
from skyward.task.processes import private_folder

_VERB = "sky.ray(pool)"
_PACKAGES = ("ray",)


@contextmanager
def ray(pool: ComputePool, *, timeout: float = 60.0) -> Iterator[str]:
    """A Ray cluster on the nodes of `pool`, an open pool, for the length of the block; yields the
    address that ``ray.init()`` takes, "ray://127.0.0.1:…".

        with sky.ComputePool(nodes=3, pip=["ray[client]"]) as pool:
            with sky.ray(pool) as address:
                ray.init(address)
                print(ray.get(f.remote(1)))

    The head runs on node 0; every node, that one included, offers its processors and accelerators.
    They take one slot of each node until the end of the block, which disconnects this program
    (``ray.shutdown()``). `timeout`: how long each step of the start may take, in seconds.

    Connections need a certificate and a token that are made for this block; Ray reads them from
    variables (RAY_USE_TLS and its like), which this program has inside the block. So no other Ray
    cluster can be used there. `cryptography` must be installed for this program. The dashboard is
    off.

    A lost node is replaced, and joins again; Ray runs its tasks elsewhere meanwhile, and restarts
    actors as their `max_restarts` says. The loss of node 0 ends the cluster: calls fail, and an
    Error event says why.

    ConfigurationError: a package is missing here or on a node, versions differ, the nodes cannot
    reach each other, or this program is connected to a Ray cluster already; nothing was started.
    TimeoutError: no slot of a node became free in time, or Ray did not start. ConnectionError: the
    head cannot be reached from here."""
    seconds = seconds_of(_VERB, timeout)
    require_here(
        _VERB, ("ray", "grpcio", "cryptography"), "ray[client]' 'cryptography", "as a client"
    )
    _require_tokens()
    _require_disconnected()
    with ExitStack() as block:
        engine = block.enter_context(hold_slot(_VERB, pool))
        asked = PendingCompute(look, (_PACKAGES, 2), name="look")
        facts = ask_nodes(_VERB, engine, pool.nodes, asked, seconds)
        require_there(_VERB, _PACKAGES, "ray[client]", facts)
        authority = Authority(f"skyward {engine.core.job_id}")
        token = secrets.token_hex(32)
        port, client_port = facts[0].ports
        head = f"{_address(facts[0])}:{port}"

        def place(node: NodeFacts) -> RayPlace:
            address = _address(node)
            identity = authority.issue(f"node {node.node}", [address])
            return RayPlace(address, head, client_port, identity, token)

        def call(node: NodeFacts) -> PendingCompute[Any]:
            return PendingCompute(
                serve, (place(node), seconds), name="ray", timeout=NO_LIMIT_SECONDS
            )

        members = Members(_VERB, pool, engine, facts, call)
        block.callback(members.close)
        members.start(range(1), seconds)
        members.start(range(1, pool.nodes), seconds)
        forward = Forward(engine, 0, facts[0].relay, _address(facts[0]), client_port)
        block.callback(forward.close)
        forward.check()
        block.enter_context(_connectable(place(facts[0])))
        yield f"ray://{forward.address}"


def _address(node: NodeFacts) -> str:
    """Ray replaces 127.0.0.1 by an address of this computer that others reach, so nodes that are
    its processes get other loopback addresses, each its own."""
    if not node.address.startswith("127."):
        return node.address
    return f"127.1.{node.node // 250}.{node.node % 250 + 1}"


@contextmanager
def _connectable(place: RayPlace) -> Iterator[None]:
    """Inside, Ray in this program has the keys of the block; it is disconnected at the end."""
    try:
        with private_folder("sky-ray-") as folder, variables(secured(place, folder)):
            _read_settings_again()
            try:
                yield
            finally:
                _disconnect()
    finally:
        _read_settings_again()


def _read_settings_again() -> None:
    """Ray keeps the mode and the token that it read first."""
    from ray._raylet import AuthenticationTokenLoader, Config

    if os.environ.get("RAY_AUTH_MODE") == "token":
        AuthenticationTokenLoader.instance().reset_cache()
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def _require_tokens() -> None:
    """An older Ray ignores the token: whoever reaches its ports could run programs there."""
    try:
        from ray._raylet import AuthenticationTokenLoader  # noqa: F401
    except ImportError:
        raise ConfigurationError(
            f"{_VERB}: Ray {version_of('ray')} does not support tokens, so anyone who can reach the"
            " nodes could use it; nothing was started.\n"
            "Install Ray 2.52 or newer, here and on the nodes."
        ) from None


def _require_disconnected() -> None:
    module = sys.modules.get("ray")
    if module is not None and module.is_initialized():
        raise ConfigurationError(
            f"{_VERB}: this program is connected to a Ray cluster already.\n"
            "It can use one at a time; nothing was started.\n"
            "Call ray.shutdown() first."
        )


def _disconnect() -> None:
    module = sys.modules.get("ray")
    if module is not None and module.is_initialized():
        module.shutdown()

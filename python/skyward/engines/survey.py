"""What the nodes have, before an engine starts on them. Nodes import this: nothing of the pool."""

import itertools
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from skyward.distributed.environment import nodes_share_an_address, own_address
from skyward.distributed.meeting import can_listen_at, free_port
from skyward.distributed.mpi_world import find_launcher
from skyward.exceptions import ConfigurationError
from skyward.task.instance_info import instance_info

RELAY = str(Path(__file__).with_name("relay.py"))


@dataclass(frozen=True)
class NodeFacts:
    """One node, in its own words."""

    node: int
    address: str
    """At which the other nodes reach it."""
    python: str
    executable: str
    versions: dict[str, str | None]
    """Of the packages that were asked for; None: it is not installed there."""
    cpus: int
    """Processors for this node; nodes of one machine share them."""
    accelerators: int
    """Those that this process sees: CUDA_VISIBLE_DEVICES may hide some of the node's."""
    memory: int = 0
    """Bytes, where several nodes share a machine; 0: all of the machine's."""
    ports: tuple[int, ...] = ()
    missing_network: str = ""
    has_address: bool = True
    """Whether it can listen at `address`; where a router has that one, it cannot."""
    relay: tuple[str, ...] = field(default=())
    """The command line of relay.py there."""


def look(packages: Sequence[str], ports: int = 0) -> NodeFacts:
    """Runs on a node. `ports`: how many free ports to find."""
    info = instance_info()
    address = own_address(info) or "127.0.0.1"
    sharing = info.total_nodes if nodes_share_an_address(info) else 1
    return NodeFacts(
        node=info.node,
        address=address,
        python=python_version(),
        executable=sys.executable,
        versions={package: version_of(package) for package in packages},
        cpus=max(1, _usable_processors() // sharing),
        accelerators=_count_visible(len(info.accelerators)),
        memory=_usable_memory() // sharing if sharing > 1 else 0,
        ports=_free_ports(address, ports),
        missing_network=str(info.network.get("missing") or ""),
        has_address=can_listen_at(address),
        relay=(sys.executable, "-P", RELAY),
    )


def look_for_mpi(implementation: str | None) -> tuple[NodeFacts, tuple[str, str], str]:
    """Runs on a node: what it has, which MPI and its version, and what is wrong with that."""
    facts = look(("mpi4py",))
    try:
        return facts, find_launcher(implementation), ""
    except ConfigurationError as error:
        return facts, ("", ""), str(error)


def _count_visible(devices: int) -> int:
    """As CUDA does, it ignores what stands behind the first word that names no device."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shown is None:
        return devices
    words = [word.strip() for word in shown.split(",")]
    named = itertools.takewhile(lambda word: word.isdigit() or word[:4] in ("GPU-", "MIG-"), words)
    return min(devices, len(list(named)))


def _usable_processors() -> int:
    """The agent's number respects the quota of a container, which an affinity does not show."""
    allowed = len(os.sched_getaffinity(0))
    return min(allowed, int(os.environ.get("SKYWARD_CPUS", allowed)))


def _usable_memory() -> int:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(os.environ.get("SKYWARD_MEMORY", machine))


def _free_ports(address: str, count: int) -> tuple[int, ...]:
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port(address))
    return tuple(found)


def python_version() -> str:
    return ".".join(map(str, sys.version_info[:3]))


def version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def require_here(verb: str, packages: Sequence[str], install: str, why: str) -> None:
    """ConfigurationError when this program lacks one of the packages. `install`: what to give pip;
    `why`: what the driver needs it for."""
    missing = [package for package in packages if version_of(package) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise ConfigurationError(
            f"{verb}: {' and '.join(missing)} {are} not installed for this program"
            f" ({sys.executable}).\n"
            f"The driver needs it {why}; nothing was started.\n"
            f"Run: {sys.executable} -m pip install '{install}'\n"
            "The nodes need the same version: ComputePool(pip=[…]) installs it there."
        )


def require_there(
    verb: str, packages: Sequence[str], install: str, facts: Sequence[NodeFacts]
) -> None:
    """ConfigurationError when a node lacks a package, has another version than this program, or
    cannot be reached by the others."""
    require_network(verb, facts)
    _require_own_addresses(verb, facts)
    here = python_version().rpartition(".")[0]
    for node in facts:
        if node.python.rpartition(".")[0] != here:
            _refuse(verb, node, "Python", node.python, python_version(), f"Image(python='{here}')")
        for package in packages:
            there, mine = node.versions[package], version_of(package)
            if there is None:
                raise ConfigurationError(
                    f"{verb}: {package} is not installed on node {node.node} ({node.executable}).\n"
                    f"This program has {package} {mine}; nothing was started.\n"
                    f"Open the pool with pip=['{_pinned(install, package, mine)}'], or with an"
                    " image that has it."
                )
            if there != mine:
                pinned = f"pip=['{_pinned(install, package, mine)}']"
                _refuse(verb, node, package, there, str(mine), f"ComputePool({pinned})")


def require_network(verb: str, facts: Sequence[NodeFacts]) -> None:
    """ConfigurationError where several nodes cannot reach each other."""
    if len(facts) > 1 and facts[0].missing_network:
        raise ConfigurationError(
            f"{verb}: the {len(facts)} nodes of this pool cannot reach each other, since"
            f" {facts[0].missing_network} gives them no network of their own.\n"
            "The processes of an engine talk to each other; nothing was started.\n"
            "Use one node, or a provider whose nodes share a network, such as AWS, SSH or the"
            " local one; sky.Command takes addresses=."
        )


def _require_own_addresses(verb: str, facts: Sequence[NodeFacts]) -> None:
    """ConfigurationError where a node cannot listen at the address that the pool has for it."""
    for node in facts:
        if not node.has_address:
            raise ConfigurationError(
                f"{verb}: node {node.node} cannot listen at {node.address}, its address in this"
                " pool: none of its network interfaces has it.\n"
                "The nodes connect to each other at these addresses; nothing was started.\n"
                "Give each node an address that it has itself ('ip address' there shows them):"
                " sky.Command(addresses=[…])."
            )


def _pinned(install: str, package: str, version: str | None) -> str:
    """`install` ("ray[client]") at this version, if it is a form of the package."""
    return f"{install if install.partition('[')[0] == package else package}=={version}"


def _refuse(verb: str, node: NodeFacts, what: str, there: str, here: str, fix: str) -> None:
    raise ConfigurationError(
        f"{verb}: node {node.node} has {what} {there}, but this program has {what} {here}.\n"
        "One may not be able to unpickle what the other sends; nothing was started.\n"
        f"Use the same version on both sides: {fix} here, or {what} {there} for this program."
    )

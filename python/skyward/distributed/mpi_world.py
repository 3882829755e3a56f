"""One MPI world over all workers, for the length of a call.

Worker 0 runs MPI's own launcher (``mpirun``). Where that would run ssh, it runs mpi_agent.py, which
notes the command line. Worker 0 tells the others that line when they meet, and each starts MPI's
daemon for its node as a child. The daemon starts the ranks; each runs the function once and hands
its result to its worker.

The line comes over the nodes' own network, so it is signed with a secret that came to the workers
with the function, and nothing but a daemon of MPI is started."""

import array
import contextlib
import hashlib
import hmac
import ipaddress
import os
import pickle
import re
import select
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skyward.distributed.environment import nodes_share_an_address, own_address
from skyward.distributed.meeting import meet
from skyward.exceptions import CancelledError, ConfigurationError
from skyward.task.instance_info import InstanceInfo
from skyward.task.processes import ChildProgram, end, private_folder

_HERE = Path(__file__).parent
_HEAD = struct.Struct("<Q")
_END_SECONDS = 10.0
"""How long MPI may take to end after the last result."""
_POLL_SECONDS = 0.02
_START = (
    'LD_LIBRARY_PATH="$SKYWARD_MPI_LIBRARIES${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"'
    ' exec "$SKYWARD_MPI_PYTHON" -P "$SKYWARD_MPI_RANK"'
)
"""What a rank runs: the same line on every node, whose paths may differ."""
_DAEMONS = {"openmpi": "orted", "mpich": "hydra_pmi_proxy"}
_NUMBER = {"openmpi": r"(ess_base_vpid )(\d+)", "mpich": r"(--proxy-id )(\d+)()"}
"""What differs between the lines for the hosts."""


@dataclass(frozen=True)
class Launcher:
    """An MPI that is installed on a node."""

    kind: str
    """"openmpi" or "mpich"."""
    program: str
    version: str

    @property
    def daemon(self) -> str:
        return _DAEMONS[self.kind]


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
    _require_one_worker_per_host(info, name)
    launcher = find_launcher(world.implementation)
    call_name = f"{name}() of mpi"
    found = meet(info, call_name, timeout, [launcher.kind, launcher.version])
    _require_one_mpi(name, found)
    programs: list[ChildProgram] = []
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(private_folder("sky-mpi-"))
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(folder / "ranks"))
        listener.listen(world.ranks_per_node)
        stack.callback(end, programs)
        variables = {
            "SKYWARD_MPI_SOCKET": str(folder / "ranks"),
            "SKYWARD_MPI_PYTHON": sys.executable,
            "SKYWARD_MPI_RANK": str(_HERE / "mpi_rank.py"),
            **_library(launcher, folder),
        }
        told: Any = None
        if info.global_worker_index == 0:
            told = _launch(info, world, launcher, folder, timeout, variables, programs)
        lines = meet(info, f"{call_name}, launched", timeout, told)[0]
        if command := _own_command(info, world, launcher, lines):
            variables.update(_own_files(folder, "daemon"))
            log = folder / "daemon.log"
            daemon = ChildProgram(f"MPI's {launcher.daemon}", command, variables, log=log)
            programs.insert(0, daemon)
        answers = _serve(listener, _told(info, world, launcher, call), world, programs, timeout)
        _await_end(programs)
    return answers if world.ranks_per_node > 1 else answers[0]


def find_launcher(implementation: str | None) -> Launcher:
    """The MPI of this node: the one that is asked for, else Open MPI if it is there, else MPICH.
    ConfigurationError: there is none."""
    for kind, names in (
        ("openmpi", ("mpirun.openmpi", "mpirun", "mpiexec")),
        ("mpich", ("mpiexec.hydra", "mpiexec.mpich", "mpiexec")),
    ):
        if implementation not in (None, kind) or not shutil.which(_DAEMONS[kind]):
            continue
        for name in names:
            if (program := shutil.which(name)) and (version := _version(program, kind)):
                return Launcher(kind, program, version)
    package = {"openmpi": "openmpi-bin", "mpich": "mpich"}.get(implementation or "openmpi")
    raise ConfigurationError(
        f"{implementation or 'Open MPI or MPICH'} is not installed on this node: there is no"
        f" mpirun with its {' or '.join(_DAEMONS.values())}.\n"
        f"Use an image that has it: Image(apt=['{package}'], pip=['mpi4py'])."
    )


def _version(program: str, kind: str) -> str:
    """ "4.1.4"; empty where the program belongs to another MPI."""
    done = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=20, check=False
    )
    pattern = {"openmpi": r"\(Open MPI\) (\S+)", "mpich": r"HYDRA.*?Version:\s+(\S+)"}[kind]
    match = re.search(pattern, done.stdout, re.DOTALL)
    return match[1] if match else ""


def _library(launcher: Launcher, folder: Path) -> dict[str, str]:
    """Variables by which mpi4py's wheels, which come without an MPI, load that of the launcher."""
    import ctypes.util

    if launcher.kind == "mpich" and (library := ctypes.util.find_library("mpich")):
        # Debian's has another name than the one that wheels look for.
        (folder / "libmpi.so.12").symlink_to(_path_of(library))
    return {"MPI4PY_MPIABI": launcher.kind, "SKYWARD_MPI_LIBRARIES": str(folder)}


def _path_of(library: str) -> str:
    """Where the loader finds a library."""
    import ctypes

    ctypes.CDLL(library)
    with open("/proc/self/maps") as maps:
        return next(line.split()[-1] for line in maps if f"/{library}" in line)


def _require_one_mpi(name: str, found: Sequence[Any]) -> None:
    for rank, other in enumerate(found):
        if other != found[0]:
            raise ConfigurationError(
                f"{name}: worker 0 has {' '.join(found[0])}, but worker {rank} has"
                f" {' '.join(other)}.\n"
                "The ranks of one MPI world need the same MPI; nothing was started.\n"
                "Use one image for all nodes, or name an implementation that all have:"
                " distributed.mpi(implementation=…)."
            )


def _launch(
    info: InstanceInfo,
    world: World,
    launcher: Launcher,
    folder: Path,
    timeout: float,
    variables: Mapping[str, str],
    programs: list[ChildProgram],
) -> dict[str, Any]:
    """Starts mpirun, and returns what it wants to run on the hosts, signed."""
    hosts = _hosts(info)
    (folder / "hosts").write_text(
        "".join(
            f"{host}{' slots=' if launcher.kind == 'openmpi' else ':'}{world.ranks_per_node}\n"
            for host in hosts
        )
    )
    agent = folder / "agent"
    script = shlex.join([sys.executable, "-P", str(_HERE / "mpi_agent.py"), str(folder)])
    agent.write_text(f'#!/bin/sh\nexec {script} "$@"\n')
    agent.chmod(0o700)
    count = info.total_workers * world.ranks_per_node
    options, environment = _options(info, launcher, folder)
    environment.update(variables)  # for the ranks that it starts itself
    environment.update(_own_files(folder, "launcher"))
    # The folder of this node is not on the others; each rank goes to its worker's.
    options += ["-wdir", "/", "-n", str(count)]
    command = [launcher.program, *options, "/bin/sh", "-c", _START]
    log = folder / "mpirun.log"
    program = ChildProgram(
        f"mpirun ({launcher.kind} {launcher.version})", command, environment, log=log
    )
    programs.append(program)
    limit = time.monotonic() + timeout
    # On its own host, which it knows by the address, mpirun needs no daemon.
    is_host = not nodes_share_an_address(info)
    paths = [folder / f"{host}.line" for host in (hosts[1:] if is_host else hosts)]
    while not all(path.exists() for path in paths):
        if program.process.poll() is not None:
            return {"problem": program.how_it_ended()}
        if time.monotonic() > limit:
            return {"problem": f"{program.name} started nothing in {timeout:g} s{program.tail()}"}
        time.sleep(_POLL_SECONDS)
    return _signed(world, launcher, [_read(path) for path in paths], is_host)


def _read(path: Path) -> str:
    import json

    return str(json.loads(path.read_text()))


def _hosts(info: InstanceInfo) -> list[str]:
    """A host of MPI for each worker: its address, or a name of its own where nodes are processes of
    one machine."""
    if nodes_share_an_address(info):
        return [f"127.2.{rank // 250}.{rank % 250 + 1}" for rank in range(info.total_workers)]
    return [str(peer["private_ip"]) for peer in info.peers]


def _require_one_worker_per_host(info: InstanceInfo, name: str) -> None:
    """ConfigurationError where MPI would not know the workers apart."""
    addresses = {peer.get("private_ip") for peer in info.peers}
    if info.workers_per_node > 1:
        why = f"each node has {info.workers_per_node} workers"
    elif 1 < len(addresses) < info.total_nodes:
        why = f"{info.total_nodes} nodes share {len(addresses)} addresses"
    else:
        return
    raise ConfigurationError(
        f"{name}: {why}, and an MPI world needs a host for each worker.\n"
        "Nothing was started. Use nodes with one worker and one address each; ranks_per_node= puts"
        " several ranks on a worker."
    )


def _options(
    info: InstanceInfo, launcher: Launcher, folder: Path
) -> tuple[list[str], dict[str, str]]:
    """What mpirun is told, on its command line and by variables; what the user has set stays."""
    agent, hosts = str(folder / "agent"), str(folder / "hosts")
    address = own_address(info) or "127.0.0.1"
    loopback = address.startswith("127.")
    if launcher.kind == "mpich":
        options = ["-launcher", "ssh", "-launcher-exec", agent, "-f", hosts]
        options += ["-localhost", address, "-genvnone"]  # each rank takes its worker's variables
        return options, {"FI_TCP_IFACE": "lo", "FI_SOCKETS_IFACE": "lo"} if loopback else {}
    network = "lo" if loopback else _network(info)
    defaults = {
        "OMPI_MCA_plm": "rsh",
        "OMPI_MCA_plm_rsh_agent": agent,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_btl_tcp_if_include": network,
        "OMPI_MCA_oob_tcp_if_include": network,
        # Shared memory is for processes of one machine under one daemon of MPI.
        "OMPI_MCA_btl": "self,tcp" if nodes_share_an_address(info) else "self,vader,tcp",
        "OMPI_MCA_pml": "ob1",
    }
    options = ["--hostfile", hosts, "--map-by", "slot", "--bind-to", "none", "--noprefix"]
    if os.geteuid() == 0:
        options.append("--allow-run-as-root")
    return options, {name: os.environ.get(name, text) for name, text in defaults.items()}


def _network(info: InstanceInfo) -> str:
    """The smallest network that has the addresses of all nodes: that of their private network, and
    of no container on them."""
    addresses = [ipaddress.ip_address(str(peer["private_ip"])) for peer in info.peers]
    network = ipaddress.ip_network(addresses[0])
    while not all(address in network for address in addresses):
        network = network.supernet()
    return str(network)


def _signed(
    world: World, launcher: Launcher, lines: Sequence[str], is_host: bool
) -> dict[str, Any]:
    """The lines, as one pattern and a number for each host: a large pool's would be long.
    `is_host`: worker 0 has none."""
    pattern, numbers = "", [-1] if is_host else []
    for line in lines:
        match = re.search(_NUMBER[launcher.kind], line)
        if match is None:
            return {"problem": f"mpirun wants to run something unknown: {line[:200]}"}
        numbers.append(int(match[2]))
        own = line[: match.start(2)] + "NUMBER" + line[match.end(2) :]
        if pattern not in ("", own):
            return {"problem": "mpirun wants to run different things on different hosts"}
        pattern = own
    return {"pattern": pattern, "numbers": numbers, "mac": _mac(world, pattern, numbers)}


def _mac(world: World, pattern: str, numbers: Sequence[int]) -> str:
    text = f"{pattern}\0{list(numbers)}".encode()
    return hmac.new(world.secret, text, hashlib.sha256).hexdigest()


def _own_files(folder: Path, name: str) -> dict[str, str]:
    """A folder for what an MPI program keeps in files: several on one machine share names."""
    own = folder / name
    own.mkdir()
    return {"TMPDIR": str(own)}


def _own_command(
    info: InstanceInfo, world: World, launcher: Launcher, told: Mapping[str, Any]
) -> list[str]:
    """The command line of this node's daemon; empty where mpirun itself is. RuntimeError: mpirun
    failed, or the line is not from worker 0."""
    if "problem" in told:
        raise RuntimeError(str(told["problem"]))
    pattern, numbers = str(told["pattern"]), [int(number) for number in told["numbers"]]
    if not hmac.compare_digest(_mac(world, pattern, numbers), str(told["mac"])):
        raise RuntimeError("what MPI should run on this node does not come from worker 0")
    number = numbers[info.global_worker_index]
    if number < 0:
        return []
    line = pattern.replace("NUMBER", str(number), 1)
    words = [word for word in shlex.split(line) if word != "--daemonize"]
    for at, word in enumerate(words[:-1]):
        if word == "plm_rsh_agent":  # it starts nothing, but wants a program that is there
            words[at + 1] = "/bin/sh"
    daemon = launcher.daemon
    if not words or os.path.basename(words[0]) != daemon:
        raise RuntimeError(f"MPI should run {words[:1]} on this node instead of {daemon}")
    path = shutil.which(daemon)
    if path is None:
        raise RuntimeError(f"{daemon} is not on this node")
    return [path, *words[1:]]


def _told(
    info: InstanceInfo,
    world: World,
    launcher: Launcher,
    call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]],
) -> bytes:
    import cloudpickle

    return pickle.dumps(
        {
            "call": cloudpickle.dumps(call),
            "environment": dict(os.environ),
            "path": list(sys.path),
            "folder": os.getcwd(),
            "size": info.total_workers * world.ranks_per_node,
            "launcher": f"{launcher.program} ({launcher.kind} {launcher.version})",
        }
    )


def _serve(
    listener: socket.socket,
    told: bytes,
    world: World,
    programs: Sequence[ChildProgram],
    timeout: float,
) -> list[Any]:
    """Hands the call to the ranks of this node; their results, by rank. Raises what one raises."""
    ranks = _Ranks(listener, told)
    limit = time.monotonic() + timeout
    with contextlib.closing(ranks), _descriptors(programs) as ends:
        while len(ranks.answers) < world.ranks_per_node:
            places: list[Any] = [*ranks.readable(), *ends]
            ready = select.select(places, [], [], _left(ranks, world, limit))[0]
            for place in ready:
                if place in ends:
                    continue
                ranks.read(place)
            if ended := [ends[place] for place in ready if place in ends]:
                ranks.read_rest()
                if len(ranks.answers) < world.ranks_per_node:
                    # Not the reason: the driver shows another worker's failure, if there is one.
                    raise CancelledError(
                        "the MPI world ended before this node had its result:"
                        f" {ended[0].how_it_ended()}"
                    )
            if not ready and ranks.seen < world.ranks_per_node:
                raise TimeoutError(
                    f"{world.ranks_per_node - ranks.seen} of {world.ranks_per_node} ranks of this"
                    f" node did not start in {timeout:g} s"
                )
    return [result for _, result in sorted(ranks.answers, key=lambda answer: answer[0])]


def _left(ranks: "_Ranks", world: World, limit: float) -> float | None:
    """Ranks must start in time; how long they run is up to them."""
    if ranks.seen == world.ranks_per_node:
        return None
    return max(0.0, limit - time.monotonic())


class _Ranks:
    """The connections of this node's ranks."""

    def __init__(self, listener: socket.socket, told: bytes) -> None:
        self._listener = listener
        self._told = told
        self._open: dict[socket.socket, bytearray] = {}
        self.answers: list[tuple[int, Any]] = []
        self.seen = 0

    def readable(self) -> list[socket.socket]:
        return [self._listener, *self._open]

    def read(self, place: Any) -> None:
        if place is self._listener:
            rank, _ = self._listener.accept()
            self.seen += 1
            streams = array.array("i", [1, 2])
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)]
            rank.sendmsg([_HEAD.pack(len(self._told))], rights)
            rank.sendall(self._told)
            self._open[rank] = bytearray()
            return
        data = place.recv(1 << 20)
        held = self._open[place]
        held += data
        if len(held) >= _HEAD.size and len(held) - _HEAD.size >= _HEAD.unpack_from(held)[0]:
            self._close(place)
            self._take(bytes(held[_HEAD.size :]))
        elif not data:
            self._close(place)

    def read_rest(self) -> None:
        """What has arrived already; MPI has ended."""
        for place in list(self._open):
            place.settimeout(1.0)
            while place in self._open:
                try:
                    self.read(place)
                except OSError:
                    self._close(place)

    def close(self) -> None:
        for place in list(self._open):
            self._close(place)

    def _close(self, place: socket.socket) -> None:
        self._open.pop(place, None)
        place.close()

    def _take(self, data: bytes) -> None:
        kind, first, second = pickle.loads(data)
        if kind == "ok":
            self.answers.append((first, second))
            return
        text, pickled = second
        error = pickle.loads(pickled) if pickled else RuntimeError(first)
        error.add_note(f"in a rank of MPI:\n{text}")
        raise error


@contextlib.contextmanager
def _descriptors(programs: Sequence[ChildProgram]) -> Iterator[dict[int, ChildProgram]]:
    """Descriptors that become readable when the programs end."""
    with contextlib.ExitStack() as stack:
        found = {}
        for program in programs:
            descriptor = os.pidfd_open(program.process.pid)
            stack.callback(os.close, descriptor)
            found[descriptor] = program
        yield found


def _await_end(programs: Sequence[ChildProgram]) -> None:
    """All ranks have their result: MPI ends by itself, or is ended."""
    limit = time.monotonic() + _END_SECONDS
    for program in programs:
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.process.wait(max(0.0, limit - time.monotonic()))

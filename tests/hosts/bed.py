"""Hosts of the tests' own making: each has its own network, root file system, processes and sshd.

A Bed is a star of network namespaces: a router in the middle, around it the hosts and the driver's
place ("desk"). Addresses are 10.77.0.x, known only inside; the machine that runs the tests gets no
address, route or rule. A host is an unshare(1) with mount, PID, UTS and IPC namespaces: its /usr
and /etc are this machine's, copy on write, the rest is empty and its own. sshd is its first
process, so that killing one process from outside is a power cut.

All names carry the id of the testing process, so that several beds can stand side by side. A guard
beside each bed removes it when the testing process ends, however it ends. Needs root, iproute2,
util-linux and OpenSSH: why_not() tells what is missing.
"""

import ctypes
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

HERE = Path(__file__).parent
DESK = "desk"
GATEWAY = "169.254.1.1"  # an address that exists nowhere: each host has one fixed neighbour
START_SECONDS = 20.0
POLL = threading.Event()  # never set: waiting for it is a pause

SSHD_CONFIG = """\
HostKey /etc/ssh/bed_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PidFile none
MaxSessions 200
MaxStartups 200
"""


def skip_all(items: list[pytest.Item], folder: Path, reason: str | None) -> None:
    """Skips the tests in the folder for that reason, if there is one."""
    for item in items if reason is not None else ():
        if item.path.is_relative_to(folder):
            item.add_marker(pytest.mark.skip(reason=reason))


def why_not() -> str | None:
    """Why no bed can be made here; None when one can."""
    if os.geteuid() != 0:
        return "needs root to make network namespaces"
    missing = [
        program
        for program in ("ip", "unshare", "nsenter", "ssh", "ssh-keygen", "/usr/sbin/sshd")
        if shutil.which(program) is None
    ]
    if missing:
        return f"needs {', '.join(missing)}; install iproute2, openssh-client and openssh-server"
    try:
        place_for_disks()
    except RuntimeError as error:
        return f"this machine allows no namespaces with overlays: {error}"
    return None


@functools.cache
def place_for_disks() -> str:
    """A folder whose file system can be the writable side of an overlay. Raises RuntimeError."""
    problem = ""
    for place in (tempfile.gettempdir(), "/dev/shm"):
        folder = tempfile.mkdtemp(prefix="skyward-bed-trial-", dir=place)
        try:
            for name in ("upper", "work", "root"):
                os.mkdir(f"{folder}/{name}")
            layers = f"lowerdir=/usr,upperdir={folder}/upper,workdir={folder}/work"
            mount = ["mount", "-t", "overlay", "trial", "-o", layers, f"{folder}/root"]
            run("unshare", "--net", "--mount", "--pid", "--fork", *mount)
            return place
        except RuntimeError as error:
            problem = str(error)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    raise RuntimeError(problem)


def just_booted() -> list[str]:
    """Options of unshare(1) for a host whose clock of its running time begins now, like that of a
    machine; none where the kernel has no such clocks, and the host then seems to be as old as the
    computer."""
    if not Path("/proc/self/ns/time").exists():
        return []
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return ["--time", "--boottime", str(-int(uptime))]


def run(*command: str, timeout: float = 20.0) -> str:
    """Runs a program of this machine; its output. Raises with its own words when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


@dataclass
class Host:
    """One machine of a bed. `home` is its directory on the testing machine."""

    bed: "Bed"
    name: str
    address: str
    home: Path
    holder: subprocess.Popen[bytes] | None = None
    first: int = 0  # sshd's process id, as this machine sees it
    down: list[tuple[str, ...]] = field(default_factory=list)  # rules that cut it off
    refusing: bool = False

    @property
    def namespace(self) -> str:
        return self.bed.namespace(self.name)

    @property
    def public_key(self) -> str:
        """The key that the host shows, as "ssh-ed25519 AAAA…"."""
        text = (self.home / "upper/etc/ssh/bed_key.pub").read_text()
        return " ".join(text.split()[:2])

    def run(self, command: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Runs a shell line as root inside the host, past sshd."""
        return subprocess.run(
            ["nsenter", "-t", str(self.first), "-m", "-u", "-i", "-n", "-p", "-r", "-w"]
            + ["env", "-i", "HOME=/root", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"]
            + ["sh", "-c", command],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def processes(self) -> dict[int, str]:
        """Process id (as this machine sees it) → command line, of all that runs in the host beside
        its sshd and the sessions of that."""
        found = {}
        for pid in _processes_in(os.readlink(f"/proc/{self.first}/ns/pid")):
            with suppress(OSError):
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                if line and not line.startswith(("/usr/sbin/sshd", "sshd:")):
                    found[pid] = line.strip()
        return found

    def sessions(self) -> list[int]:
        """The sshd processes that serve connections."""
        return [
            pid
            for pid in _processes_in(os.readlink(f"/proc/{self.first}/ns/pid"))
            if pid != self.first and _command_line(pid).startswith("sshd:")
        ]

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Makes a file inside the running host."""
        done = subprocess.run(
            ["nsenter", "-t", str(self.first), "-m", "-r", "-w", "sh", "-c"]
            + [f"mkdir -p {os.path.dirname(path)} && cat >{path} && chmod {mode:o} {path}"],
            input=text,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        """Boots the host, with the disk that it has. Returns when sshd answers."""
        log = open(self.home / "log", "ab")
        with log:
            self.holder = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{self.namespace}"]
                + ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", *just_booted()]
                + ["--kill-child=KILL", "sh", str(HERE / "host_init.sh"), self.name]
                + [str(self.home)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.holder.poll() is not None:
                break
            if b"Server listening" in (self.home / "log").read_bytes().rpartition(b"-- boot\n")[2]:
                children = Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children")
                # The kernel may miss one while others come and go.
                if found := children.read_text().split():
                    self.first = int(found[0])
                    return
            POLL.wait(0.01)
        raise RuntimeError(
            f"host {self.name} did not start: {(self.home / 'log').read_text()[-2000:]}"
        )

    def kill(self) -> None:
        """Ends every process of the host at once, while its network still works."""
        if self.holder is None:
            return
        # The kernel ends the rest of a PID namespace before its first process can be reaped, which
        # unshare(1) does.
        if self.holder.poll() is None:
            with suppress(OSError):
                os.kill(self.first or self.holder.pid, signal.SIGKILL)
        self.holder.wait(10)
        self.holder, self.first = None, 0
        with (self.home / "log").open("ab") as log:
            log.write(b"-- boot\n")

    def cut(self) -> None:
        """Everything to and from the host vanishes, silently."""
        self._rule("iif", f"p-{self.name}")
        self._rule("to", f"{self.address}/32")

    def cut_answers(self) -> None:
        """What the host sends vanishes; what is sent to it arrives: a half-open connection."""
        self._rule("iif", f"p-{self.name}")

    def lose_way(self) -> None:
        """The router says that it has no way to the host's network."""
        self._rule("to", f"{self.address}/32", what="unreachable")

    def refuse(self) -> None:
        """Somebody answers at the host's address and refuses connections, as while sshd starts."""
        place = ("local", f"{self.address}/32", "dev", "lo")
        run("ip", "-n", self.bed.namespace("r"), "route", "add", *place)
        self.refusing = True

    def heal(self) -> None:
        if self.refusing:
            self.refusing = False
            run("ip", "-n", self.bed.namespace("r"), "route", "del", "local", f"{self.address}/32")
        for rule in self.down:
            run("ip", "-n", self.bed.namespace("r"), "rule", "del", *rule)
        self.down.clear()

    def _rule(self, *match: str, what: str = "blackhole") -> None:
        rule = (*match, what, "priority", "10")
        run("ip", "-n", self.bed.namespace("r"), "rule", "add", *rule)
        self.down.append(rule)

    def bytes_received(self) -> int:
        """By its network card, since it was plugged in."""
        return self.bed.card_bytes(self.name, "rx")

    def listening_ports(self) -> list[int]:
        """What the host listens at beside its sshd."""
        shown = self.run("cat /proc/net/tcp").stdout
        ports = re.findall(r"^ *\d+: [0-9A-F]{8}:([0-9A-F]{4}) \S+ 0A ", shown, re.MULTILINE)
        return [int(port, 16) for port in ports if int(port, 16) != 22]

    def new_key(self) -> None:
        """Gives the host another key, as an impostor at its address would have. While it is off."""
        for suffix in ("", ".pub"):
            (self.home / f"upper/etc/ssh/bed_key{suffix}").unlink(missing_ok=True)
        key = self.home / "upper/etc/ssh/bed_key"
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", str(key))


class Bed:
    """The hosts of one test module. `close()` leaves nothing."""

    _made = 0

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="skyward-bed-", dir=place_for_disks()))
        Bed._made += 1
        self.prefix = f"sky{os.getpid()}.{Bed._made}"
        self.guard = subprocess.Popen(
            ["sh", str(HERE / "bed_guard.sh"), self.prefix, str(self.directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C is not for it
        )
        self.hosts: dict[str, Host] = {}
        self._places: dict[str, str] = {}  # name → address
        run("ip", "netns", "add", self.namespace("r"))
        router = self.namespace("r")
        self.in_namespace("r", "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
        run("ip", "-n", router, "link", "set", "lo", "up")
        # An address that nobody has, or has no more, is silence, as in a cloud.
        run("ip", "-n", router, "route", "add", "blackhole", "default")
        self._add_place(DESK, "10.77.0.1")
        (self.directory / "desk/.ssh").mkdir(parents=True, mode=0o700)
        self.key = self.directory / "desk/.ssh/id_ed25519"
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "driver", "-f", str(self.key))

    def namespace(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    @property
    def desk_home(self) -> Path:
        """The driver's home directory: ssh keys, known hosts, caches."""
        return self.directory / "desk"

    def add(self, *names: str, shared: Mapping[str, str] | None = None) -> list[Host]:
        """New hosts, booted, with the driver's key let in for root and for the user "plain".
        `shared`: directories of this machine that they see, read-only, and where."""
        made = [self.put(name, shared) for name in names]
        for host in made:
            host.start()
        return made

    def put(self, name: str, shared: Mapping[str, str] | None = None) -> Host:
        """The same for one host that is switched off: its disk is still to be changed."""
        address = f"10.77.0.{10 + len(self.hosts)}"
        host = Host(self, name, address, self.directory / name)
        self._furnish(host)
        lines = [f"{outside} {inside}\n" for outside, inside in (shared or {}).items()]
        (host.home / "shared").write_text("".join(lines))
        self._add_place(name, address)
        self.hosts[name] = host
        return host

    def shape(self, megabits: int) -> None:
        """Every cable, the desk's too, carries so much a second in each direction from now on."""
        rate = f"root tbf rate {megabits}mbit burst 128kb latency 50ms"
        for name in self._places:
            run("tc", "-n", self.namespace(name), *f"qdisc replace dev eth0 {rate}".split())
            card = f"qdisc replace dev p-{name} {rate}"
            run("tc", "-n", self.namespace("r"), *card.split())

    def unshape(self) -> None:
        for name in self._places:
            run("tc", "-n", self.namespace(name), *"qdisc del dev eth0 root".split())
            run("tc", "-n", self.namespace("r"), *f"qdisc del dev p-{name} root".split())

    def card_bytes(self, name: str, way: str) -> int:
        """What has gone over a place's cable: "tx" is what the place has sent."""
        shown = run("ip", "-n", self.namespace(name), "-j", "-s", "link", "show", "eth0")
        return int(json.loads(shown)[0]["stats64"][way]["bytes"])

    def known_hosts(self, *hosts: Host) -> str:
        """Lines of a known_hosts file, of these hosts or all."""
        return "".join(
            f"{host.address} {host.public_key}\n" for host in hosts or self.hosts.values()
        )

    def in_namespace(self, name: str, *command: str, timeout: float = 60.0) -> str:
        return run("nsenter", f"--net=/run/netns/{self.namespace(name)}", *command, timeout=timeout)

    def router(self, *command: str) -> None:
        """An ip(8) command in the middle of the star."""
        run("ip", "-n", self.namespace("r"), *command)

    def desk(self, command: Sequence[str]) -> list[str]:
        """The command line that runs a command at the driver's place."""
        return ["nsenter", f"--net=/run/netns/{self.namespace(DESK)}", *command]

    def unplug_desk(self) -> None:
        """The driver's place has no way out; its kernel says so at once."""
        run("ip", "-n", self.namespace(DESK), "route", "del", "default")

    def plug_desk_in(self) -> None:
        way = f"route add default via {GATEWAY} dev eth0 onlink"
        run("ip", "-n", self.namespace(DESK), *way.split())

    def close(self) -> None:
        """Ends all hosts and removes every trace."""
        for host in self.hosts.values():
            host.kill()
        assert self.guard.stdin is not None
        self.guard.stdin.close()
        self.guard.wait(30)

    def _furnish(self, host: Host) -> None:
        etc = host.home / "upper/etc"
        (etc / "ssh").mkdir(parents=True)
        (host.home / "root").mkdir()
        host.new_key()
        (etc / "ssh/sshd_bed").write_text(SSHD_CONFIG)
        (etc / "hostname").write_text(host.name + "\n")
        # As Debian writes it: the host's name is no address at which others reach it.
        (etc / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {host.name}\n")
        (etc / "resolv.conf").write_text("nameserver 127.0.0.1\n")  # refuses at once
        passwd = Path("/etc/passwd").read_text()
        (etc / "passwd").write_text(passwd + "plain:x:4177:4177::/home/plain:/bin/bash\n")
        (etc / "shadow").write_text(Path("/etc/shadow").read_text() + "plain:*:19000:0:::::\n")
        (etc / "shadow").chmod(0o600)
        (etc / "group").write_text(Path("/etc/group").read_text() + "plain:x:4177:\n")
        public = self.key.with_suffix(".pub").read_text()
        for home, owner in (("root", 0), ("home/plain", 4177)):
            folder = host.home / "root" / home
            (folder / ".ssh").mkdir(parents=True)
            (folder / ".ssh/authorized_keys").write_text(public)
            for path in (folder, folder / ".ssh", folder / ".ssh/authorized_keys"):
                os.chown(path, owner, owner)
                path.chmod(0o600 if path.is_file() else 0o700)

    def _add_place(self, name: str, address: str) -> None:
        """A namespace with one cable to the router. Fixed neighbours: an address that comes back
        for another host meets no stale entry."""
        space, router = self.namespace(name), self.namespace("r")
        last = int(address.rpartition(".")[2])
        own, far = f"02:00:00:00:00:{last:02x}", f"02:01:00:00:00:{last:02x}"
        run("ip", "netns", "add", space)
        self._places[name] = address
        for line in (
            "link set lo up",
            f"link add eth0 address {own} type veth peer name p-{name} address {far} netns"
            f" {router}",
            f"addr add {address}/32 dev eth0",
            "link set eth0 up",
            f"neigh add {GATEWAY} lladdr {far} dev eth0 nud permanent",
            f"route add default via {GATEWAY} dev eth0 onlink",
        ):
            run("ip", "-n", space, *line.split())
        for line in (
            f"link set p-{name} up",
            f"neigh add {address} lladdr {own} dev p-{name} nud permanent",
            f"route add {address}/32 dev p-{name}",
        ):
            run("ip", "-n", router, *line.split())


def _processes_in(namespace: str) -> list[int]:
    """All processes of a PID namespace, given as its link in /proc."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                if os.readlink(f"/proc/{entry.name}/ns/pid") == namespace:
                    found.append(int(entry.name))
    return found


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def end_with_parent() -> None:
    """For preexec_fn: the program ends when the test does, however that ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def until(true: Callable[[], object], seconds: float, what: str) -> None:
    """Waits until `true()` says so; fails with `what` after that many seconds."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        POLL.wait(0.02)


def beds() -> Iterator[Bed]:
    """The body of a fixture."""
    bed = Bed()
    try:
        yield bed
    finally:
        bed.close()

"""A podman of the tests' own, in a mount and a network namespace, with storage, networks and
settings of its own: nothing of this machine's podman is seen or changed. And programs that open
pools in its containers."""

import os
import re
import shutil
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import driving
from bed import end_with_parent, place_for_disks, until

IMAGE = "localhost/node:1"
NETWORK = "lab"
DOCKER = shutil.which("docker")
# What a node needs of a system: sh, bash, what a bootstrap runs, and Python.
PACKAGES = (
    *("base-files", "bash", "coreutils", "dash", "findutils", "grep", "gzip", "libc-bin"),
    *("procps", "python3", "sed", "tar", "util-linux"),
)

# Some machines let nobody raise limits, and mount version 2 of control groups beside version 1.
CONTAINERS_CONF = """\
[containers]
default_ulimits = ["nofile=1024:20000", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
[network]
network_config_dir = "{folder}/networks"
"""
STORAGE_CONF = """\
[storage]
driver = "overlay"
graphroot = "{folder}/images"
runroot = "{folder}/run"
"""
HOLDER = """\
mount -t tmpfs tmpfs /var/lib/cni 2>/dev/null
if mountpoint -q /sys/fs/cgroup/unified; then umount /sys/fs/cgroup/unified; fi
ip link set lo up
echo ready
exec sleep infinity
"""
PROGRAM = """\
#!/bin/sh
export CONTAINERS_CONF={folder}/containers.conf CONTAINERS_STORAGE_CONF={folder}/storage.conf
exec nsenter --mount --net --target {holder} {podman} "$@"
"""
# docker's own client reads the words, and finds no daemon; then podman does as they say.
AS_DOCKER = """\
#!/bin/sh
said=$({docker} --host unix:///nonexistent.sock "$@" 2>&1)
case $said in *"annot connect to the Docker daemon"* | *"failed to connect to the docker API"*) ;;
*) echo "docker refuses: $* ($said)" | tee -a {folder}/refused >&2; exit 125 ;;
esac
for word; do
  shift
  case $word in
  "--format=skyward-host={{{{.Name}}}}|{{{{.NCPU}}}}|"*) word='--format=skyward-host={info}' ;;
  esac
  set -- "$@" "$word"
done
exec {folder}/bin/podman "$@"
"""
INFO = "{{.Host.Hostname}}|{{.Host.CPUs}}|{{.Host.MemTotal}}|{{.Host.Arch}}|{{.Store.GraphRoot}}|id"
# The last word is a line for a shell over there, as for sshd.
AS_SSH = """\
#!/bin/sh
for line; do :; done
exec sh -c "$line"
"""

# A registry that never ends to send.
SLOW_PULL = """\
#!/bin/sh
[ "$1" != pull ] || exec sleep 1000
exec {folder}/bin/podman "$@"
"""

START = """\
import json, os, sys, time
import skyward as sky

def tell(**facts):
    print("FACTS " + json.dumps(facts), flush=True)

def pool(nodes, **options):
    given = {"image": os.environ["IMAGE"], **options.pop("provider", {})}
    options.setdefault("display", "quiet")
    options.setdefault("timeout", 600)
    return sky.ComputePool(sky.Container(**given), nodes=nodes, **options)

@sky.compute
def where():
    import socket
    return socket.gethostname()
"""


def _packages() -> list[str]:
    """PACKAGES with all that they depend on."""
    listed = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package}\t${Provides}\t${Pre-Depends},${Depends}\n"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    needs: dict[str, list[list[str]]] = {}
    providers: dict[str, str] = {}
    for line in listed.splitlines():
        name, provided, depends = line.split("\t")
        needs[name] = [
            [re.split(r"[ :(]", one.strip())[0] for one in group.split("|")]
            for group in depends.split(",")
            if group.strip()
        ]
        for one in provided.split(","):
            providers.setdefault(one.strip().split(" ")[0], name)
    found: set[str] = set()
    wanted = list(PACKAGES)
    while wanted:
        name = wanted.pop()
        name = name if name in needs else providers.get(name, "")
        if name in found or not name:
            continue
        found.add(name)
        for group in needs[name]:
            wanted += [one for one in group if one in needs or one in providers][:1]
    return sorted(found)


def make_image(folder: Path) -> Path:
    """A root file system of this machine's own packages, without their documentation."""
    files = subprocess.run(
        ["dpkg-query", "-L", *_packages()], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    kept = {"/etc/passwd", "/etc/group"}
    kept |= {f"/{name}" for name in ("bin", "sbin", "lib", "lib64") if os.path.islink(f"/{name}")}
    for file in files:
        is_page = "/share/" in file and "python" not in file
        if not is_page and (os.path.islink(file) or os.path.isfile(file)):
            kept.add(os.path.join(os.path.realpath(os.path.dirname(file)), os.path.basename(file)))
    # What no package brings.
    kept |= {
        f"/{place}" for place in ("root", "run", "tmp", "var/tmp") if os.path.isdir(f"/{place}")
    }
    names = folder / "names"
    names.write_text("".join(f"{file[1:]}\n" for file in sorted(kept)))
    archive = folder / "image.tar"
    command = ["tar", "-C", "/", "--no-recursion", "-T", str(names), "-cf", str(archive)]
    subprocess.run(command, check=True, timeout=60)
    return archive


class Engine:
    def __init__(self, folder: Path, disks: Path) -> None:
        self.folder = folder
        self.disks = disks
        self.drivers: list[subprocess.Popen[str]] = []
        podman = shutil.which("podman")
        assert podman is not None
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--net", "--propagation", "private", "sh", "-c", HOLDER],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=end_with_parent,
        )
        assert self.holder.stdout is not None
        assert self.holder.stdout.readline() == "ready\n"
        (disks / "networks").mkdir()
        (disks / "containers.conf").write_text(CONTAINERS_CONF.format(folder=disks))
        (disks / "storage.conf").write_text(STORAGE_CONF.format(folder=disks))
        self.bin = disks / "bin"
        self._install("podman", PROGRAM.format(folder=disks, holder=self.holder.pid, podman=podman))
        archive = make_image(disks)
        self.podman("import", str(archive), IMAGE)
        archive.unlink()
        self.podman("network", "create", NETWORK)

    def _install(self, name: str, text: str, folder: Path | None = None) -> Path:
        program = (folder or self.bin) / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
        return program

    def use_docker(self, folder: Path) -> Path:
        """A folder for PATH whose docker podman answers for."""
        text = AS_DOCKER.format(docker=DOCKER, folder=self.disks, info=INFO)
        return self._install("docker", text, folder).parent

    def use_ssh(self, folder: Path) -> Path:
        return self._install("ssh", AS_SSH, folder).parent

    def use_slow_pull(self, folder: Path) -> Path:
        return self._install("podman", SLOW_PULL.format(folder=self.disks), folder).parent

    def podman(self, *words: str) -> str:
        done = subprocess.run(
            [str(self.bin / "podman"), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"podman {' '.join(words)}: {done.stderr}"
        return done.stdout.strip()

    def containers(self) -> list[str]:
        return self.podman("ps", "--all", "--format", "{{.Names}}").split()

    def volumes(self) -> list[str]:
        return self.podman("volume", "ls", "--quiet").split()

    def container_of(self, host: str) -> str:
        """The name of the container that calls itself so: by the first digits of its id."""
        return self.podman("container", "inspect", host, "--format", "{{.Name}}")

    def nothing_is_left(self, seconds: float = 15) -> None:
        until(lambda: not self.containers(), seconds, f"containers left: {self.containers()}")
        assert not self.volumes()

    def forget(self) -> None:
        """Ends what a test that failed may have left."""
        for driver in self.drivers:
            driver.kill()
            driver.wait(10)
        self.drivers.clear()
        left = self.containers()
        if left:
            self.podman("rm", "--force", "--volumes", "--time", "0", *left)

    def close(self) -> None:
        self.forget()
        with suppress(AssertionError):
            self.podman("rmi", "--force", IMAGE)
        self.holder.kill()
        self.holder.wait(10)


@contextmanager
def running(folder: Path) -> Iterator[Engine]:
    """podman's storage needs a file system that overlays can lie on."""
    disks = Path(place_for_disks()) / f"skyward-engine-{os.getpid()}"
    disks.mkdir()
    try:
        engine = Engine(folder, disks)
        try:
            yield engine
        finally:
            engine.close()
    finally:
        shutil.rmtree(disks, ignore_errors=True)


def begin(
    engine: Engine, program: str, folder: Path, *programs: Path, **env: str
) -> "subprocess.Popen[str]":
    """Starts a program on this computer. `programs`: folders that come first in its PATH."""
    places = [str(place) for place in (*programs, engine.bin)]
    known = {
        k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_", "XDG_", "DOCKER_"))
    }
    variables = {
        **known,
        "HOME": str(engine.folder / "home"),
        "XDG_CACHE_HOME": str(engine.folder / "cache"),
        "XDG_STATE_HOME": str(engine.folder / "state"),
        "PATH": ":".join([*places, os.environ["PATH"]]),
        "IMAGE": IMAGE,
        **env,
    }
    driver = driving.start(START + textwrap.dedent(program), folder, variables)
    engine.drivers.append(driver)
    return driver


def drive(
    engine: Engine, program: str, folder: Path, *programs: Path, limit: float = 60.0
) -> driving.Told:
    """Runs a program that must end well, and leave nothing; its facts."""
    told = driving.succeed(begin(engine, program, folder, *programs), limit)
    engine.nothing_is_left()
    return told

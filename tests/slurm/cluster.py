"""A Slurm cluster of a bed's hosts, and programs that open pools there."""

import os
import shutil
import subprocess
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import Any

import driving
from bed import Bed, Host, until

USER = "plain"  # of every host of a bed
NODES = ("s1", "s2", "s3")

SLURM_CONF = """\
ClusterName=bed
SlurmctldHost=ctl({ctl})
SlurmUser=root
AuthType=auth/munge
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
ProctrackType=proctrack/{tracking}
TaskPlugin=task/{task}
MpiDefault=none
ReturnToService=2
SlurmctldTimeout=10
SlurmdTimeout=10
InactiveLimit=0
KillWait=2
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=low Nodes=s[1-3] Default=YES MaxTime=8:00:00 PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes=s[1-3] MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF
PartitionName=closed Nodes=s[1-3] MaxTime=8:00:00 PreemptMode=OFF AllowAccounts=physics
"""

CGROUP_CONF = """\
CgroupPlugin=cgroup/v1
CgroupAutomount=no
ConstrainRAMSpace=yes
ConstrainCores=no
ConstrainDevices=no
"""
# Slurm 22.05 follows a job's processes with these where the kernel has them, as most sites do, and
# limits their memory. Else it follows parents, and a daemon escapes.
GROUPS = ("freezer", "memory", "systemd")
HAS_GROUPS = all(Path("/sys/fs/cgroup", name).is_dir() for name in GROUPS[:2])

START = """\
import json, os, sys, time
import skyward as sky

def tell(**facts):
    print("FACTS " + json.dumps(facts), flush=True)

def pool(nodes, **options):
    given = options.pop("provider", {})
    changes = {"login": os.environ["LOGIN"], "partition": "low", **given}
    options.setdefault("display", "quiet")
    options.setdefault("timeout", 600)
    return sky.ComputePool(sky.Slurm(**changes), nodes=nodes, **options)

@sky.compute
def where():
    import os, socket
    return socket.gethostname(), os.environ.get("SLURM_JOB_ID")
"""


def _mounts() -> str:
    """slurmd looks for the last group even where nothing uses it."""
    lines = ["if ! mountpoint -q /sys/fs/cgroup; then mount -t tmpfs tmpfs /sys/fs/cgroup"]
    for name in GROUPS if HAS_GROUPS else GROUPS[2:]:
        options = "none,name=systemd" if name == "systemd" else name
        place = f"/sys/fs/cgroup/{name}"
        lines.append(f"mkdir {place}; mount -t cgroup -o {options} cgroup {place}")
    return "; ".join(lines) + "; fi\n"


def remove_groups() -> None:
    """What Slurm leaves in the kernel's tables when its daemons are killed."""
    for name in NODES:
        for group in GROUPS:
            place = Path("/sys/fs/cgroup", group, f"slurm_{name}")
            for folder, _, _ in os.walk(place, topdown=False):
                with suppress(OSError):
                    os.rmdir(folder)


class Cluster:
    """`ctl` is its controller and login node. Every node has two GPUs, which are null devices."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.drivers: list[subprocess.Popen[str]] = []
        self.hosts = {name: bed.put(name) for name in ("ctl", *NODES)}
        for host in self.hosts.values():
            self._furnish(host)
            host.start()
        for name in self.hosts:
            self._serve(name)
        self.heal()

    @property
    def ctl(self) -> Host:
        return self.hosts["ctl"]

    def _furnish(self, host: Host) -> None:
        etc = host.home / "upper/etc"
        nodes = "\n".join(
            f"NodeName={name} NodeAddr={self.hosts[name].address} CPUs=8 RealMemory=8000"
            " Gres=gpu:h100:2"
            for name in NODES
        )
        slurm = etc / "slurm"
        slurm.mkdir(parents=True)
        (slurm / "slurm.conf").write_text(
            SLURM_CONF.format(
                ctl=self.hosts["ctl"].address,
                nodes=nodes,
                tracking="cgroup" if HAS_GROUPS else "linuxproc",
                task="cgroup" if HAS_GROUPS else "none",
            )
        )
        (slurm / "cgroup.conf").write_text(CGROUP_CONF)
        (slurm / "gres.conf").write_text(
            "NodeName=s[1-3] Name=gpu Type=h100 File=/dev/fakegpu[0-1]\n"
        )
        names = "".join(f"{one.address} {one.name}\n" for one in self.hosts.values())
        (etc / "hosts").write_text("127.0.0.1 localhost\n" + names)

    def _serve(self, name: str) -> None:
        """Starts munge and the host's half of Slurm."""
        host = self.hosts[name]
        started = host.run(
            "set -e; mkdir -p /run/munge /var/log/munge /var/lib/munge /var/spool/slurmctld"
            " /var/spool/slurmd; chown munge:munge /run/munge /var/log/munge /var/lib/munge\n"
            + _mounts()
            + "for i in 0 1; do [ -e /dev/fakegpu$i ] || mknod -m 666 /dev/fakegpu$i c 1 3; done\n"
            "setsid setpriv --reuid=munge --regid=munge --clear-groups munged"
            " </dev/null >/var/log/munged.out 2>&1\n" + self._daemon(name)
        )
        logs = host.run("cat /var/log/*.out /var/log/slurm*.log").stdout
        assert started.returncode == 0, started.stderr + started.stdout + logs

    @staticmethod
    def _daemon(name: str) -> str:
        program = "slurmctld" if name == "ctl" else f"slurmd -N {name}"
        return f"setsid {program} </dev/null >/var/log/slurm.out 2>&1"

    def run(self, command: str, user: str = USER) -> str:
        """Runs a line on the login node; what it printed."""
        line = command if user == "root" else f"runuser -u {user} -- sh -c '{command}'"
        done = self.ctl.run(line)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout.strip()

    def restart_controller(self) -> None:
        self.ctl.run("pkill -x slurmctld; while pgrep -x slurmctld; do sleep 0.1; done")
        started = self.ctl.run(self._daemon("ctl"))
        assert started.returncode == 0, started.stderr

    def heal(self) -> None:
        """All nodes run and are idle."""
        for name in NODES:
            host = self.hosts[name]
            host.heal()
            if host.holder is None:
                host.start()
                self._serve(name)

        def idle() -> bool:
            self.ctl.run("scontrol update NodeName=s[1-3] State=RESUME")
            states = self.ctl.run("sinfo -h -N -p low -o %t").stdout.split()
            return states == ["idle"] * len(NODES)

        until(idle, 40, "all nodes idle")

    def forget(self) -> None:
        """Ends what a test that failed may have left."""
        for driver in self.drivers:
            driver.kill()
            driver.wait(10)
        self.drivers.clear()
        self.ctl.run("scancel --full -u plain; scancel -u root")
        until(lambda: not self.queue("-u plain,root"), 40, "an empty queue")

    def queue(self, options: str = f"-u {USER}") -> list[str]:
        """The jobs that wait or run: number, state and nodes of each."""
        shown = self.run(f'squeue -h {options} -o "%i %T %N"', user="root")
        return [line for line in shown.splitlines() if "COMPLETING" not in line]

    def leftovers(self) -> list[str]:
        """Our processes on the nodes."""
        found = []
        for name in NODES:
            if self.hosts[name].first:
                lines = self.hosts[name].processes().values()
                found += [f"{name}: {line}" for line in lines if "skyward" in line]
        return found

    def nothing_is_left(self, seconds: float = 20) -> None:
        until(lambda: not self.queue(), seconds, f"an empty queue: {self.queue()}")
        until(lambda: not self.leftovers(), seconds, f"processes left: {self.leftovers()}")


def begin(cluster: Cluster, program: str, folder: Path, **env: str) -> "subprocess.Popen[str]":
    """Starts a program at the desk, which reaches the login node by ssh."""
    bed = cluster.bed
    known_hosts, config = folder / "known_hosts", folder / "ssh_config"
    known_hosts.write_text(bed.known_hosts())
    config.write_text(f"IdentityFile {bed.key}\nUserKnownHostsFile {known_hosts}\n")
    # OpenSSH looks for the user's files where the system says, whatever HOME is.
    wrapper = folder / "bin/ssh"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
    wrapper.chmod(0o755)
    state = bed.directory / "driver"
    variables = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_", "XDG_"))},
        "HOME": str(bed.desk_home),
        "XDG_CACHE_HOME": str(state / "cache"),
        "XDG_STATE_HOME": str(state / "state"),
        "PATH": f"{wrapper.parent}:{os.environ['PATH']}",
        "LOGIN": f"{USER}@{cluster.ctl.address}",
        **env,
    }
    driver = driving.start(START + textwrap.dedent(program), folder, variables, bed.desk)
    cluster.drivers.append(driver)
    return driver


def drive(cluster: Cluster, program: str, folder: Path, **options: Any) -> driving.Told:
    """Runs a program that must end well, and leave nothing; its facts."""
    told = driving.succeed(begin(cluster, program, folder), options.pop("limit", 120.0))
    cluster.nothing_is_left()
    return told

"""The kubelets of a cluster for tests: a pod that the double has scheduled becomes a host of a bed,
whose first process is the pod's container; no sshd runs there."""

import asyncio
import os
import shlex
import signal
import subprocess
import threading
import time
from contextlib import suppress
from typing import Any

import requests
from bed import HERE, START_SECONDS, Bed, Host, just_booted

LOOK_SECONDS = 0.1
PATH = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


class Pod:
    def __init__(self, name: str, node: str, host: Host, env: dict[str, str]) -> None:
        self.name = name
        self.node = node
        self.host = host
        self.env = env
        self.kill_at: float | None = None

    def inside(self, command: list[str]) -> list[str]:
        """The command line that runs a command in the pod's container."""
        variables = [PATH, "HOME=/root", *(f"{name}={value}" for name, value in self.env.items())]
        return [
            *("nsenter", "-t", str(self.host.first), "-m", "-u", "-i", "-n", "-p", "-r", "-w"),
            *("env", "-i", *variables),
            *command,
        ]


class Kubelets:
    """Looks at the double from a thread of its own until close()."""

    def __init__(self, bed: Bed, double: str) -> None:
        self.bed = bed
        self.double = double
        self.pods: dict[str, Pod] = {}
        self.off: set[str] = set()  # nodes that do not answer
        self.broken: list[str] = []
        self.made = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()

    def close(self) -> None:
        self.over.set()
        self.thread.join(20)
        for pod in self.pods.values():
            pod.host.kill()

    async def run(self, name: str, command: list[str]) -> asyncio.subprocess.Process:
        """What `exec` starts. It outlives its connection."""
        return await asyncio.create_subprocess_exec(
            *self.pods[name].inside(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def turn_off(self, node: str) -> None:
        """A power cut: its pods are gone, and nobody tells the cluster."""
        self.off.add(node)
        for pod in self.pods.values():
            if pod.node == node:
                pod.host.kill()

    def _watch(self) -> None:
        while not self.over.wait(LOOK_SECONDS):
            try:
                reply = requests.get(f"{self.double}/api/v1/pods", timeout=20)
                if reply.status_code != 200:
                    continue  # a test lets requests fail
                items = reply.json()["items"]
                there = {one["metadata"]["name"] for one in items}
                for one in items:
                    self._look(one)
                for name in set(self.pods) - there:
                    self.pods.pop(name).host.kill()
            except Exception as error:
                self.broken.append(repr(error))
                return

    def _look(self, item: dict[str, Any]) -> None:
        name, node = item["metadata"]["name"], item["spec"].get("nodeName")
        pod = self.pods.get(name)
        phase = item["status"]["phase"]
        if node is None or node in self.off:
            return
        is_deleted = "deletionTimestamp" in item["metadata"]
        if pod is None:
            if is_deleted:
                return self._act(name, "vanish")
            waiting = item["status"]["containerStatuses"][0]["state"].get("waiting", {})
            if phase == "Pending" and waiting.get("reason") == "ContainerCreating":
                self._start(name, node, item["spec"]["containers"][0])
            return
        if is_deleted:
            self._end(pod, item["metadata"]["deletionGracePeriodSeconds"])
        elif phase in ("Failed", "Succeeded"):
            pod.host.kill()
        elif phase == "Running" and pod.host.holder and pod.host.holder.poll() is not None:
            self._act(name, "off" if pod.host.holder.returncode == 0 else "fail")

    def _act(self, name: str, act: str, **facts: str) -> None:
        requests.post(
            f"{self.double}/_double/machines/{name}", json={"act": act, **facts}, timeout=20
        ).raise_for_status()

    def _start(self, name: str, node: str, container: dict[str, Any]) -> None:
        self.made += 1
        host = self.bed.put(f"k{self.made}")
        (host.home / "container").write_text(shlex.join(container["command"]))
        env = {one["name"]: one["value"] for one in container.get("env", [])}
        start_container(host)
        self.pods[name] = Pod(name, node, host, env)
        self._act(name, "run", private_address=host.address)

    def _end(self, pod: Pod, grace: float) -> None:
        holder = pod.host.holder
        if holder is None or holder.poll() is not None:
            self._act(pod.name, "vanish")
        elif pod.kill_at is None:
            pod.kill_at = time.monotonic() + grace
            with suppress(ProcessLookupError):
                os.kill(pod.host.first, signal.SIGTERM)
        elif time.monotonic() >= pod.kill_at:
            pod.host.kill()


def start_container(host: Host) -> None:
    """As Host.start(), with the container's command as the first process."""
    with (host.home / "log").open("ab") as log:
        host.holder = subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{host.namespace}"]
            + ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", *just_booted()]
            + ["--kill-child=KILL", "sh", str(HERE / "host_init.sh"), host.name, str(host.home)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_SECONDS
    children = f"/proc/{host.holder.pid}/task/{host.holder.pid}/children"
    pause = threading.Event()
    while time.monotonic() < deadline and host.holder.poll() is None:
        with suppress(OSError, IndexError):
            with open(children) as file:
                first = int(file.read().split()[0])
            with open(f"/proc/{first}/cmdline", "rb") as file:
                if b"host_init.sh" not in file.read():
                    host.first = first
                    return
        pause.wait(0.01)
    raise RuntimeError(f"{host.name} did not start: {(host.home / 'log').read_text()[-2000:]}")

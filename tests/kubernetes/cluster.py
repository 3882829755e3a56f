"""A Kubernetes cluster for tests, and programs that open pools there: the double behind HTTPS, and
kubelets whose pods are hosts of a bed."""

import base64
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import driving
import requests
import running_double
import specification
from api_server import ApiServer
from bed import Bed, until
from kubelet import Kubelets

ROOT = Path(__file__).resolve().parents[2]
KUBECTL = os.environ.get("SKYWARD_KUBECTL") or shutil.which("kubectl")
# The package and what its tests need are in the environment of the build.
PYTHON = os.environ.get("SKYWARD_TEST_PYTHON", sys.executable)
PODS = "api/v1/namespaces/team/pods"
NODES = {
    "n1": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
    "n2": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
    "n3": {"disktype": "ssd"},
}

START = """\
import json, os, sys, time
import skyward as sky

def tell(**facts):
    print("FACTS " + json.dumps(facts), flush=True)

def pool(nodes, **options):
    given = options.pop("provider", {})
    options.setdefault("display", "quiet")
    options.setdefault("timeout", 600)
    options.setdefault("vcpus", 1)
    options.setdefault("memory_gb", 1)
    return sky.ComputePool(sky.Kubernetes(**given), nodes=nodes, **options)

@sky.compute
def where():
    import os, socket
    return socket.gethostname(), sky.instance_info().node
"""


class Cluster:
    def __init__(self, bed: Bed, double: running_double.Double, folder: Path) -> None:
        self.bed = bed
        self.double = double
        self.folder = folder
        self.drivers: list[subprocess.Popen[str]] = []
        # Kubelets say when pods run, and when they are gone.
        double.turn(boot=3600, ending=3600)
        self.kubelets = Kubelets(bed, double.url)
        self.specification = specification.read()
        self.api = ApiServer(folder, double.url, self.kubelets.run, self.specification)
        self.ask("POST", "api/v1/namespaces", {"metadata": {"name": "team"}})
        for name in NODES:
            self.add_node(name)
        self.kubeconfig = folder / "kubeconfig"
        self.logins = folder / "logins"  # a line for each command
        self._write_kubeconfig()

    def close(self) -> None:
        for driver in self.drivers:
            driver.kill()
            driver.wait(10)
        self.api.close()
        self.kubelets.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """As the cluster's administrator, past HTTPS."""
        reply = requests.request(method, f"{self.double.url}/{path}", json=body, timeout=20)
        reply.raise_for_status()
        return reply.json()

    def add_node(self, name: str) -> None:
        labels = {**NODES[name], "kubernetes.io/arch": "amd64"}
        allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        if "nvidia.com/gpu.product" in labels:
            allocatable["nvidia.com/gpu"] = "2"
        self.ask(
            "POST",
            "api/v1/nodes",
            {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}},
        )

    def forbid(self, *rights: str) -> None:
        self.api.forbidden = set(rights)
        self.double.control("POST", "cluster", {"forbidden": rights})

    def _write_kubeconfig(self) -> None:
        """Whose user logs in by a plugin, as at most clouds."""
        plugin = self.folder / "login"
        self.logins.touch()
        credential = {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "kind": "ExecCredential",
            "status": {"token": "secret"},
        }
        plugin.write_text(
            f"#!/bin/sh\necho >>{self.logins}\ncat <<'END'\n{json.dumps(credential)}\nEND\n"
        )
        plugin.chmod(0o755)
        authority = base64.b64encode((self.folder / "cert.pem").read_bytes()).decode()
        login = {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": str(plugin),
            "interactiveMode": "Never",
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "bed",
                    "cluster": {"server": self.api.url, "certificate-authority-data": authority},
                }
            ],
            "users": [{"name": "jane", "user": {"exec": login}}],
            "contexts": [
                {"name": name, "context": {"cluster": "bed", "user": "jane", "namespace": space}}
                for name, space in (("lab", "team"), ("elsewhere", "nosuch"))
            ],
            "current-context": "lab",
        }
        self.kubeconfig.write_text(json.dumps(config))

    def environment(self) -> dict[str, str]:
        state = self.folder / "driver"
        known = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_", "XDG_"))}
        assert KUBECTL is not None
        return {
            **known,
            "HOME": str(state / "home"),
            "XDG_CACHE_HOME": str(state / "cache"),
            "XDG_STATE_HOME": str(state / "state"),
            "KUBECONFIG": str(self.kubeconfig),
            "PATH": f"{Path(KUBECTL).parent}:{os.environ['PATH']}",
        }

    def kubectl(self, *words: str, input: str | None = None) -> subprocess.CompletedProcess[str]:
        assert KUBECTL is not None
        return subprocess.run(
            [KUBECTL, *words],
            env=self.environment(),
            input=input,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def pods(self) -> list[str]:
        return [one["metadata"]["name"] for one in self.ask("GET", PODS)["items"]]

    def pod_of(self, host: str) -> str:
        return next(pod.name for pod in self.kubelets.pods.values() if pod.host.name == host)

    def leftovers(self) -> list[str]:
        """Our processes on hosts whose pods are gone."""
        found = []
        for host in self.bed.hosts.values():
            if host.first and host.holder and host.holder.poll() is None:
                found.append(host.name)
        return found

    def nothing_is_left(self, seconds: float = 20) -> None:
        until(lambda: not self.pods(), seconds, f"pods left: {self.pods()}")
        until(lambda: not self.leftovers(), seconds, f"containers left: {self.leftovers()}")


@contextmanager
def running(bed: Bed, folder: Path) -> Iterator[Cluster]:
    with running_double.running("kubernetes") as double:
        cluster = Cluster(bed, double, folder)
        try:
            yield cluster
            assert not cluster.kubelets.broken, cluster.kubelets.broken
            assert not cluster.api.broken, cluster.api.broken
            assert not double.violations(), double.violations()
            if cluster.specification is not None:
                assert not cluster.specification.problems, cluster.specification.problems[:5]
        finally:
            cluster.close()


def begin(cluster: Cluster, program: str, folder: Path) -> "subprocess.Popen[str]":
    """Starts a program on this computer, whose kubectl is set up for the cluster."""
    driver = driving.start(
        START + textwrap.dedent(program), folder, cluster.environment(), python=PYTHON
    )
    cluster.drivers.append(driver)
    return driver


def drive(cluster: Cluster, program: str, folder: Path, limit: float = 60.0) -> driving.Told:
    """Runs a program that must end well, and leave nothing; its facts."""
    told = driving.succeed(begin(cluster, program, folder), limit)
    cluster.nothing_is_left()
    return told

"""The cluster for tests, by clients that others wrote: the real kubectl, and the official one for
Python. Every request and reply is held to the published specification, where it is at hand."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from bed import until
from cluster import PODS, Cluster
from kubernetes import client, config
from kubernetes.stream import stream


def manifest(name: str, **resources: str) -> dict[str, Any]:
    container = {
        "name": "node",
        "image": "any",
        "command": ["sh", "-c", "trap exit TERM; while :; do sleep 0.1; done"],
        "resources": {"requests": resources, "limits": resources},
    }
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def run_pod(cluster: Cluster, name: str) -> None:
    made = cluster.kubectl(
        "create", "--validate=false", "-f", "-", input=json.dumps(manifest(name))
    )
    assert made.returncode == 0, made.stderr
    until(
        lambda: "Running" in cluster.kubectl("get", "pod", name, "-o", "json").stdout,
        20,
        f"{name} runs",
    )


def test_exec_carries_bytes_and_the_exit_code(cluster: Cluster) -> None:
    run_pod(cluster, "a")
    way = ("exec", "-i", "a", "-c", "node", "--", "sh", "-c")
    done = cluster.kubectl(*way, "cat; echo said >&2; exit 7", input="x" * 300_000)
    assert done.stdout == "x" * 300_000
    assert "said" in done.stderr
    assert done.returncode == 7, done.stderr
    assert cluster.api.ways <= {"spdy", "websocket"}
    left = cluster.kubectl(*way, "setsid sleep 60 </dev/null >/dev/null 2>&1 & echo $!")
    pid = left.stdout.strip()
    alive = cluster.kubectl(*way, f"kill -0 {pid} && echo alive")
    assert alive.stdout == "alive\n", "what exec starts outlives it"


def test_the_official_client_for_python_meets_the_same_cluster(cluster: Cluster) -> None:
    run_pod(cluster, "b")
    api = client.CoreV1Api(config.new_client_from_config(str(cluster.kubeconfig)))
    (pod,) = api.list_namespaced_pod("team").items
    assert pod.status.pod_ip == cluster.kubelets.pods["b"].host.address
    assert {node.metadata.name for node in api.list_node().items} == {"n1", "n2", "n3"}
    said = stream(
        api.connect_get_namespaced_pod_exec,
        "b",
        "team",
        container="node",
        command=["sh", "-c", "echo over websocket"],
        stdout=True,
        stderr=True,
        stdin=False,
        tty=False,
    )
    assert said == "over websocket\n"
    assert "websocket" in cluster.api.ways
    robot = manifest("r")
    robot["spec"]["serviceAccountName"] = "nosuch"
    with pytest.raises(client.ApiException) as refused:
        api.create_namespaced_pod("team", robot)
    assert json.loads(refused.value.body)["reason"] == "Forbidden"


def test_a_pod_that_is_deleted_hears_it_and_has_its_grace(cluster: Cluster) -> None:
    run_pod(cluster, "c")
    assert cluster.kubectl("delete", "pod", "c", "--wait=false").returncode == 0
    until(lambda: "c" not in cluster.pods(), 10, "it ends at its SIGTERM")


def test_all_of_it_follows_the_published_specification(cluster: Cluster) -> None:
    """The fixture looks at all requests and replies of all tests in the end."""
    if cluster.specification is None:
        pytest.skip("the specification is not here; $SKYWARD_API_SPECS names the folder")
    before = cluster.specification.checked
    run_pod(cluster, "d")
    assert cluster.specification.checked > before + 2
    assert not cluster.specification.problems
    wrong = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}, "spec": {"container": 1}}
    assert cluster.specification.request("POST", f"/{PODS}", wrong)
    cluster.specification.problems.clear()


def test_kubectl_says_what_the_imitation_for_unit_tests_says(cluster: Cluster) -> None:
    for step in json.loads((Path(__file__).parent / "kubectl_says.json").read_text()):
        cluster.forbid(*step.get("forbidden", []))
        cluster.double.turn(**step.get("dials", {}))
        sent = json.dumps(step["input"]) if "input" in step else None
        said = cluster.kubectl(*step["words"], input=sent)
        cluster.double.turn(fail=0)
        assert said.returncode == step.get("code", 0), (step["words"], said.stderr)
        if "err" not in step or step.get("out"):
            assert said.stdout.splitlines() == step.get("out", []), step["words"]
        lines = [
            line.replace('error when creating "STDIN": ', "")
            for line in said.stderr.splitlines()
            if not re.match(r"[EWI]\d{4} ", line)  # its log
        ]
        assert lines == step.get("err", []), step["words"]

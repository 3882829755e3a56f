"""Pools in pods, by the user's own kubectl."""

import json
import re
from functools import partial
from pathlib import Path

from bed import until
from cluster import ROOT, Cluster, begin, drive
from driving import die_in_a_pool, finish, ready, sweep


def test_a_pool_of_three_pods_that_meet(cluster: Cluster, tmp_path: Path) -> None:
    told = drive(
        cluster,
        """
        @sky.compute
        def head():
            import socket
            return sky.instance_info().head_addr

        with pool(3) as p:
            tell(where=where() @ p, head=head() @ p, big=list(p.map(len, [bytes(3_000_000)] * 3)))
        """,
        tmp_path,
    )
    names = [name for name, _ in told.facts["where"]]
    assert len(set(names)) == 3
    assert told.facts["big"] == [3_000_000] * 3
    addresses = {cluster.bed.hosts[name].address for name in names}
    assert len(set(told.facts["head"])) == 1
    assert told.facts["head"][0] in addresses


def test_pods_with_gpus_are_where_the_gpus_are(cluster: Cluster, tmp_path: Path) -> None:
    told = drive(
        cluster,
        """
        with pool(2, accelerator=sky.accelerators.H100(count=2), provider={"context": "lab"}) as p:
            tell(where=where() @ p, pods=os.popen("kubectl get pods -o json").read())
        """,
        tmp_path,
    )
    pods = json.loads(told.facts["pods"])["items"]
    assert {pod["spec"]["nodeName"] for pod in pods} == {"n1", "n2"}
    for pod in pods:
        assert pod["spec"]["nodeSelector"] == {
            "kubernetes.io/arch": "amd64",
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        }
        assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"
        assert pod["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "skyward"


def test_an_evicted_pod_is_announced_and_replaced(cluster: Cluster, tmp_path: Path) -> None:
    driver = begin(
        cluster,
        """
        heard = []
        def hear(event):
            if isinstance(event, sky.events.InstancePreempted):
                heard.append(event.reason)

        @sky.compute
        def work(seconds):
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                time.sleep(0.05)  # on a worker
            return True

        with pool(2, on_event=hear) as p:
            before = where() @ p
            print("READY", json.dumps(before), flush=True)
            has_heard = False
            while not has_heard:
                has_heard = bool(heard)
                results = work(1) @ p
            tell(before=before, results=results, after=where() @ p, heard=heard)
        """,
        tmp_path,
    )
    (victim, _), _ = ready(driver)
    name = cluster.pod_of(victim)
    cluster.ask("POST", f"api/v1/namespaces/team/pods/{name}/eviction", {})
    told = finish(driver, 60)
    assert told.code == 0, f"{told.out}\n{told.err}"
    assert told.facts["heard"] == ["the cluster ends this pod"], told.facts
    assert victim not in {name for name, _ in told.facts["after"]}
    assert told.facts["results"] == [True, True]
    cluster.nothing_is_left()


def test_a_lost_node_and_a_broken_connection(cluster: Cluster, tmp_path: Path) -> None:
    driver = begin(
        cluster,
        """
        with pool(2, heartbeat_timeout=5, reconnect_timeout=5) as p:
            before = where() @ p
            print("READY", json.dumps(before), flush=True)
            pause = __import__("threading").Event()
            while os.path.exists("waits"):
                pause.wait(0.05)
            tell(after=where() @ p)
        """,
        tmp_path,
    )
    (tmp_path / "waits").touch()
    (first, _), (second, _) = ready(driver)
    cluster.api.cut()
    cluster.kubelets.pods[cluster.pod_of(second)].host.kill()  # the container dies
    (tmp_path / "waits").unlink()
    told = finish(driver, 60)
    assert told.code == 0, f"{told.out}\n{told.err}"
    after = {name for name, _ in told.facts["after"]}
    assert first in after
    assert second not in after
    cluster.nothing_is_left()


def test_pods_outlive_an_api_server_that_restarts(cluster: Cluster, tmp_path: Path) -> None:
    driver = begin(
        cluster,
        """
        with pool(2, heartbeat_timeout=1) as p:
            before = where() @ p
            print("READY", json.dumps(before), flush=True)
            pause = __import__("threading").Event()
            while os.path.exists("waits"):
                pause.wait(0.05)
            tell(before=before, after=where() @ p)
        """,
        tmp_path,
    )
    (tmp_path / "waits").touch()
    ready(driver)
    cluster.api.refuse()
    begun = cluster.logins.read_text().count("\n")

    def has_been_refused() -> bool:
        """For longer than the heartbeat_timeout, after which a machine would be lost."""
        return cluster.logins.read_text().count("\n") >= begun + 14

    until(has_been_refused, 60, "attempts to reconnect")
    cluster.api.listen()
    (tmp_path / "waits").unlink()
    told = finish(driver, 60)
    assert told.code == 0, f"{told.out}\n{told.err}"
    assert told.facts["after"] == told.facts["before"]
    cluster.nothing_is_left()


def test_a_killed_driver_leaves_pods_that_gc_deletes(cluster: Cluster, tmp_path: Path) -> None:
    die_in_a_pool(partial(begin, cluster), tmp_path)
    assert len(cluster.pods()) == 2
    config = json.loads(cluster.kubeconfig.read_text())
    cluster.kubeconfig.write_text(json.dumps({**config, "current-context": "elsewhere"}))
    try:
        sweep(partial(begin, cluster), tmp_path / "gc", "kubernetes")
    finally:
        cluster.kubeconfig.write_text(json.dumps(config))
    cluster.nothing_is_left()


def test_what_the_cluster_refuses_is_explained(cluster: Cluster, tmp_path: Path) -> None:
    cluster.double.control("POST", "cluster", {"unpullable": {"nosuch:1": "nosuch:1: not found"}})
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "3"}}}
    cluster.ask("POST", "api/v1/namespaces/team/resourcequotas", quota)
    program = """
        def refused(nodes=1, **options):
            began = time.monotonic()
            try:
                with pool(nodes, **options):
                    return "it opened"
            except sky.SkywardError as error:
                return f"{str(error)}\\n{time.monotonic() - began:.1f} s"

        tell(
            context=refused(provider={"context": "nosuch"}),
            namespace=refused(provider={"namespace": "nosuch"}),
            image=refused(provider={"image": "nosuch:1"}),
            gpu=refused(accelerator=sky.accelerators.A100()),
            quota=refused(4),
            node=refused(provider={"node_selector": {"disktype": "tape"}}),
        )
        """
    told = drive(cluster, program, tmp_path)
    print(json.dumps(told.facts, indent=1))
    quota["spec"] = {"hard": {"pods": "100"}}
    cluster.ask("POST", "api/v1/namespaces/team/resourcequotas", quota)
    for name, error in told.facts.items():
        assert "hint: " in error, (name, error)
        *lines, took = error.splitlines()
        assert len(lines) <= 6, (name, error)
        assert float(took.removesuffix(" s")) < 40, (name, error)
    assert "nosuch" in told.facts["context"]
    assert 'namespaces "nosuch" not found' in told.facts["namespace"]
    assert "nosuch:1: not found" in told.facts["image"]
    assert "A100" in told.facts["gpu"]
    assert "exceeded quota: few" in told.facts["quota"]
    assert "node_selector" in told.facts["node"]
    cluster.forbid("create pods/exec")
    rights = drive(cluster, FORBIDDEN, tmp_path)
    assert "you may not create pods/exec" in rights.facts["error"], rights.facts


FORBIDDEN = """
try:
    with pool(1):
        pass
except sky.SkywardError as error:
    tell(error=str(error))
"""


def test_without_kubectl_it_says_so(cluster: Cluster, tmp_path: Path) -> None:
    told = drive(cluster, 'os.environ["PATH"] = "/nowhere"\n' + FORBIDDEN, tmp_path)
    assert "kubectl" in told.facts["error"]
    assert "install kubectl" in told.facts["error"]


def test_the_command_line_knows_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    def say(folder: str, *words: str) -> str:
        (tmp_path / folder).mkdir()
        line = f"os.execvp(sys.executable, [sys.executable, '-m', 'skyward', *{list(words)}])"
        told = finish(begin(cluster, line, tmp_path / folder), 30)
        assert told.code == 0, told.out + told.err
        return told.out

    checked = say("check", "providers", "check", "kubernetes")
    assert "lab, namespace team" in checked
    page = (ROOT / "docs/guide/kubernetes.md").read_text()
    role = json.loads(page.partition("```json\n")[2].partition("```")[0])
    granted = {
        f"{verb} {resource}"
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    asked = set(re.findall(r"(?:create|get|list|delete|watch) pods[/a-z]*", checked))
    assert "create pods/exec" in asked
    assert asked <= granted, "the page's role allows what is asked for"
    offers = say("offers", "offers", "list", "--provider=kubernetes", "--accelerator=H100")
    assert "h100" in offers.lower(), offers
    until(lambda: not cluster.pods(), 5, "no pods")

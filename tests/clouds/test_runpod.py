"""The double of RunPod: its client, its specification, and what its clients ask by GraphQL."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import graphql
import pytest
import requests
import runpod
from machines_behind import MachinesBehind
from running_double import Double, running
from specification import Specification, read, watching
from test_pools import PYTHON, Computer

CARD = "NVIDIA GeForce RTX 4090"


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    with running("runpod") as one:
        monkeypatch.setenv("RUNPOD_API_BASE_URL", one.url)
        monkeypatch.setattr(runpod, "api_key", one.environment["RUNPOD_API_KEY"])
        yield one


@pytest.fixture
def schema() -> graphql.GraphQLSchema:
    """What others derived from public clients, since RunPod publishes none, and what its client of
    today asks beyond that."""
    derived = graphql.build_schema(read("runpod/graphql-derived.graphql"))
    return graphql.extend_schema(
        derived,
        graphql.parse(
            "extend type Pod { dockerId: String port: Int }"
            "extend type GpuType { oneWeekPrice: Float }"
        ),
    )


def asked_by_graphql(double: Double) -> list[dict[str, Any]]:
    heard = double.control("GET", "requests")
    return [one["body"] for one in heard if one["path"] == "/graphql"]


def test_the_vendors_client_lives_a_whole_life(
    double: Double, schema: graphql.GraphQLSchema
) -> None:
    assert runpod.get_user()["id"] == "user_first"
    assert CARD in [one["id"] for one in runpod.get_gpus()]
    assert runpod.get_gpu(CARD)["lowestPrice"]["minimumBidPrice"] > 0
    made = runpod.create_pod(
        "one", "ubuntu", CARD, gpu_count=2, ports="22/tcp", env={"A": "1"}, volume_in_gb=20
    )
    assert runpod.get_pod(made["id"])["runtime"] is None
    double.advance(60)
    pod = runpod.get_pod(made["id"])
    assert (pod["desiredStatus"], pod["gpuCount"], pod["env"]) == ("RUNNING", 2, ["A=1"])
    (port,) = pod["runtime"]["ports"]
    assert port["privatePort"] == 22 and port["publicPort"] > 1024
    runpod.stop_pod(made["id"])
    assert [one["desiredStatus"] for one in runpod.get_pods()] == ["EXITED"]
    runpod.resume_pod(made["id"], 2)
    double.advance(60)
    runpod.terminate_pod(made["id"])
    double.advance(60)
    assert runpod.get_pods() == []
    assert double.violations() == []
    assert double.leftovers() == []
    for body in asked_by_graphql(double):
        assert graphql.validate(schema, graphql.parse(body["query"])) == []


def test_the_vendors_client_sees_the_doubles_refusals(double: Double) -> None:
    double.turn(capacity={"*": 0})
    with pytest.raises(runpod.error.QueryError, match="no instances"):
        runpod.create_pod("one", "ubuntu", CARD)
    assert double.leftovers() == []
    runpod.api_key = "nobody"
    with pytest.raises(runpod.error.AuthenticationError):
        runpod.get_pods()


def test_every_request_and_reply_is_as_published(double: Double) -> None:
    specification = Specification(read("runpod/rest-v2-openapi.json"), double.url)
    double.turn(rate_limits=False)
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {double.environment['RUNPOD_API_KEY']}"

    def ask(method: str, path: str, body: Any = None, status: int = 200) -> Any:
        reply = session.request(method, f"{double.url}/v2/{path}", json=body, timeout=20)
        assert reply.status_code == status, reply.text
        return reply.json() if reply.content else None

    with watching(specification):
        sold = ask("GET", "catalog/gpus?include=AVAILABILITY&product=POD&count=2&cloud=SECURE")
        (card,) = [one for one in sold["gpus"] if one["id"] == CARD]
        ask("GET", "catalog/gpus")
        ask("GET", "catalog/cpus?include=AVAILABILITY&product=POD")
        ask("GET", "catalog/datacenters?globalNetwork=true")
        place = card["dataCenters"][0]["id"]
        ask("GET", "account/ssh-keys")
        volume = ask(
            "POST", "network-volumes", {"name": "data", "size": 10, "dataCenter": place}, 201
        )
        ask("GET", "network-volumes")
        ask("GET", f"network-volumes/{volume['id']}")
        ask("GET", "registries")
        wish = {
            "name": "one",
            "image": "ubuntu",
            "args": "bash -c 'sleep infinity'",
            "gpu": {"id": CARD, "count": 2},
            "cloud": "SECURE",
            "dataCenterIds": [place],
            "disk": 20,
            "ports": ["22/tcp"],
            "env": {"A": "1"},
            "mounts": {"network": [{"volumeId": volume["id"], "path": "/data"}]},
            "globalNetworking": True,
        }
        pod = ask("POST", "pods", wish, 201)
        cpu = {"id": "cpu3c", "vcpuCount": 2}
        small = ask("POST", "pods", {"name": "small", "image": "ubuntu", "cpu": cpu}, 201)
        double.advance(60)
        assert ask("GET", f"pods/{pod['id']}")["status"] == "RUNNING"
        assert len(ask("GET", "pods")["pods"]) == 2
        ask("POST", f"pods/{small['id']}/action", {"action": "stop"})
        ask("POST", f"pods/{small['id']}/action", {"action": "restart"}, 409)
        ask("DELETE", f"pods/{small['id']}", status=204)
        ask("DELETE", f"pods/{pod['id']}", status=204)
        double.advance(60)
        deleted = session.get(f"{double.url}/v2/pods/{pod['id']}", timeout=20)
        assert deleted.status_code == 404 or deleted.json()["status"] == "TERMINATED"
        ask("DELETE", f"network-volumes/{volume['id']}", status=204)
        assert double.violations() == []
        ask("POST", "pods", {**wish, "bogus": 1}, 422)
        assert double.violations() == ["a pod: nobody knows the field bogus"]
        session.headers["Authorization"] = "Bearer nobody"
        ask("GET", "pods", status=401)
    assert specification.checked > 18


BID = """
import skyward as sky

with sky.ComputePool(provider=sky.RunPod(), accelerator="RTX-4090", spot="always"):
    pass
"""


def test_what_skyward_asks_by_graphql_fits_the_schema(
    double: Double, schema: graphql.GraphQLSchema, tmp_path: Path
) -> None:
    computer = Computer("runpod", double, MachinesBehind(double, tmp_path, 0), tmp_path)
    computer.skyward("offers", "list", "--provider", "runpod", "--accelerator", "H100", "--spot")
    double.turn(balance="0")
    (tmp_path / "bid.py").write_text(BID)
    assert computer.start(PYTHON, str(tmp_path / "bid.py")).wait(50) == 1
    assert "Insufficient balance" in (tmp_path / "stderr").read_text()
    asked = asked_by_graphql(double)
    assert any("podRentInterruptable" in body["query"] for body in asked)
    for body in asked:
        operation = graphql.parse(body["query"])
        assert graphql.validate(schema, operation) == []
        (definition,) = operation.definitions
        assert isinstance(definition, graphql.OperationDefinitionNode)
        values = graphql.execution.values.get_variable_values(
            schema, definition.variable_definitions or (), body["variables"]
        )
        assert not isinstance(values, list), values  # of errors
    assert double.violations() == []
    assert double.leftovers() == []

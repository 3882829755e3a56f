"""The double of DigitalOcean: its specification, its client, its recorded answers."""

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import SansIOHTTPPolicy
from openapi_core.exceptions import OpenAPIError
from pydo import Client
from running_double import Double, running
from specification import Specification, lacking, read, watching

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGx0YWxsb2Zv me"
DROPLET = {
    "region": "tor1",
    "size": "gpu-h100x1-80gb",
    "image": "gpu-h100x1-base",
    "tags": ["pool-one"],
}


class WithoutEncryption(SansIOHTTPPolicy):  # type: ignore[type-arg]
    """pydo sends its token to https:// alone; the double is on this machine."""

    def on_request(self, request: Any) -> None:
        request.context.options["enforce_https"] = False


@pytest.fixture
def double() -> Iterator[Double]:
    with running("digitalocean") as one:
        yield one


@pytest.fixture
def specification(double: Double) -> Iterator[Specification]:
    content = read("digitalocean/openapi.json")
    # Called read-only, what names a key could stand in no path.
    for name in ("ssh_key_id", "ssh_key_fingerprint"):
        content["components"]["schemas"][name]["readOnly"] = False
    # The published list of regions is older than Richmond, where B300 are sold.
    content["components"]["schemas"]["region_slug"]["enum"].append("ric1")
    with watching(Specification(content, double.url)) as one:
        yield one


def client_of(double: Double) -> Any:
    return Client(
        token=double.environment["DIGITALOCEAN_TOKEN"],
        endpoint=double.url,
        per_call_policies=[WithoutEncryption()],
        retry_total=0,
    )


def session_of(double: Double) -> requests.Session:
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {double.environment['DIGITALOCEAN_TOKEN']}"
    return session


def live(double: Double) -> None:
    """A whole life by the vendor's own client."""
    client = client_of(double)
    account = client.account.get()["account"]
    assert account["status"] == "active"
    assert client.balance.get()["month_to_date_usage"]
    sizes = client.sizes.list(per_page=200)["sizes"]
    fast = [one for one in sizes if one.get("gpu_info", {}).get("model") == "nvidia_h100"]
    assert DROPLET["size"] in {one["slug"] for one in fast}
    assert client.regions.list()["regions"] and client.images.list()["images"]

    key = client.ssh_keys.create(body={"name": "k", "public_key": KEY})["ssh_key"]
    made = client.droplets.create(
        body={**DROPLET, "names": ["one", "two"], "ssh_keys": [key["id"]], "user_data": "#!/bin/sh"}
    )
    ids = [one["id"] for one in made["droplets"]]
    client.tags.create(body={"name": "pool-one"})
    firewall = client.firewalls.create(
        body={
            "name": "fw",
            "tags": ["pool-one"],
            "inbound_rules": [
                {"protocol": "tcp", "ports": "22", "sources": {"addresses": ["203.0.113.7"]}}
            ],
        }
    )["firewall"]
    action = made["links"]["actions"][0]["id"]
    assert client.actions.get(action_id=action)["action"]["status"] == "in-progress"
    double.advance(40)
    assert client.actions.get(action_id=action)["action"]["status"] == "completed"
    assert {one["id"] for one in client.droplets.list(type="gpus")["droplets"]} == set(ids)
    assert client.droplets.list(tag_name="pool-one")["droplets"] == []
    droplet = client.droplets.get(droplet_id=ids[0])["droplet"]
    assert droplet["status"] == "active"
    assert {one["type"] for one in droplet["networks"]["v4"]} == {"public", "private"}
    client.droplet_actions.post(droplet_id=ids[0], body={"type": "power_off"})
    double.advance(5)
    assert client.droplets.get(droplet_id=ids[0])["droplet"]["status"] == "off"

    client.droplets.destroy(droplet_id=ids[0])
    client.droplets.destroy_by_tag(tag_name="pool-one")
    double.advance(5)
    assert client.droplets.list(type="gpus")["droplets"] == []
    client.firewalls.delete(firewall_id=firewall["id"])
    client.tags.delete(tag_id="pool-one")
    client.ssh_keys.delete(ssh_key_identifier=str(key["id"]))


def test_the_vendors_client_lives_a_whole_life(double: Double) -> None:
    live(double)
    assert double.violations() == []
    assert double.leftovers() == []
    assert double.control("GET", "invoice")["total"] == pytest.approx(2 * 3.39 / 60, rel=0.05)


def test_every_request_and_reply_of_a_life_is_as_published(
    double: Double, specification: Specification
) -> None:
    live(double)
    assert specification.checked > 20


def test_every_path_of_the_double_answers_as_published(
    double: Double, specification: Specification
) -> None:
    session = session_of(double)

    def ask(method: str, path: str, status: int, body: Any = None) -> Any:
        reply = session.request(method, double.url + path, json=body, timeout=20)
        assert reply.status_code == status, reply.text
        return reply.json() if reply.text else None

    one = {**DROPLET, "name": "one"}
    id_ = ask("POST", "/v2/droplets", 202, one)["droplet"]["id"]
    double.advance(40)
    ask("GET", f"/v2/droplets/{id_}/actions", 200)
    ask("POST", "/v2/tags", 201, {"name": "other"})
    ask("GET", "/v2/tags/other", 200)
    tagged = {"resources": [{"resource_id": str(id_), "resource_type": "droplet"}]}
    ask("POST", "/v2/tags/other/resources", 204, tagged)
    for path in ("account/keys", "tags", "firewalls", "droplets?per_page=1&type=gpus"):
        ask("GET", f"/v2/{path}", 200)
    key = ask("POST", "/v2/account/keys", 201, {"name": "k", "public_key": KEY})["ssh_key"]
    ask("GET", f"/v2/account/keys/{key['fingerprint']}", 200)
    ask("POST", "/v2/account/keys", 422, {"name": "k", "public_key": KEY})
    ask("GET", "/v2/droplets/1", 404)
    ask("POST", "/v2/droplets", 422, {**one, "name": "two", "size": "none"})
    assert double.violations() == []
    ask("POST", "/v2/droplets", 422, {**one, "name": "two", "nobody": "knows"})
    assert double.violations() == ["a droplet: nobody knows the field nobody"]
    double.turn(throttle=1)
    ask("GET", "/v2/account", 429)
    double.advance(10)
    double.turn(throttle=0, fail=1)
    ask("GET", "/v2/account", 500)
    double.turn(fail=0)
    session.headers["Authorization"] = "Bearer nobody"
    ask("GET", "/v2/account", 401)


def test_what_is_not_as_published_is_noticed(double: Double, specification: Specification) -> None:
    reply = session_of(double).get(f"{double.url}/v2/account", timeout=20)
    specification.check(reply.request, reply)
    for part in (b'"email":', b'"droplet_limit":'):
        wrong = requests.Response()
        wrong.status_code, wrong.headers = reply.status_code, reply.headers
        wrong._content = reply.content.replace(part, b'"else":')
        with pytest.raises(OpenAPIError):
            specification.check(reply.request, wrong)


def test_answers_carry_what_recorded_ones_do(double: Double) -> None:
    session = session_of(double)
    session.post(f"{double.url}/v2/account/keys", json={"name": "k", "public_key": KEY}, timeout=20)
    plain = {"region": "nyc1", "size": "s-1vcpu-1gb", "image": "ubuntu-24-04-x64"}
    session.post(f"{double.url}/v2/droplets", json={**plain, "name": "one"}, timeout=20)
    double.advance(40)
    for name, path in (
        ("list_nodes", "droplets"),
        ("list_sizes", "sizes"),
        ("list_locations", "regions"),
        ("list_images", "images"),
        ("list_key_pairs", "account/keys"),
    ):
        ours = session.get(f"{double.url}/v2/{path}", timeout=20).json()
        assert lacking(read(f"digitalocean/test-data/{name}.json"), ours) == [], name
    session.headers["Authorization"] = "Bearer nobody"
    refused = session.get(f"{double.url}/v2/account", timeout=20).json()
    assert lacking(read("digitalocean/test-data/error.json"), refused) == []


def test_the_vendors_client_sees_the_doubles_faults(double: Double) -> None:
    client = client_of(double)
    double.turn(capacity={"*": 0})
    with pytest.raises(HttpResponseError, match="not available in this region") as refused:
        client.droplets.create(body={**DROPLET, "name": "one"})
    assert refused.value.status_code == 422
    double.turn(capacity={}, lose_reply=1)
    with pytest.raises(Exception, match=r"(?i)connection|incomplete"):
        client.droplets.create(body={**DROPLET, "name": "one"})
    double.turn(lose_reply=0)
    double.advance(40)
    (one,) = client.droplets.list(type="gpus")["droplets"]
    assert one["name"] == "one"
    client.droplets.create(body={**DROPLET, "name": "one"})
    assert double.violations() == [f"a second machine one beside {one['id']}"]

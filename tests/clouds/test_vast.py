"""The double of Vast.ai: its client and its specification."""

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from running_double import Double, running
from specification import Specification, read, watching
from vastai import VastAI

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGx0YWxsb2Zv me"
CHEAP = {"gpu_name": {"in": ["RTX 3090", "RTX 4090"]}, "reliability": {"gt": 0.9}}


@pytest.fixture
def double() -> Iterator[Double]:
    # Its limit of one request in 1.5 s is then one in 25 ms.
    with running("vast", "--speed", "60") as one:
        yield one


@pytest.fixture
def specification(double: Double) -> Iterator[Specification]:
    content = read("vast/openapi-full.yaml")
    # What clients of the vendor's own do and get otherwise than it says.
    paths = content["paths"]
    filters = paths["/api/v0/bundles"]["post"]["requestBody"]["content"]["application/json"]
    filters["schema"]["properties"]["type"]["enum"].append("on-demand")
    del filters["schema"]["properties"]["order"]["maxItems"]
    del filters["schema"]["properties"]["order"]["minItems"]
    taken = paths["/api/v0/asks/{id}"]["put"]["requestBody"]["content"]["application/json"]
    taken["schema"]["properties"]["env"] = {"type": "object"}
    content["components"]["schemas"]["Instance"]["properties"]["ports"] = {
        "type": ["object", "null"]
    }
    content["paths"] = {path.rstrip("/") + "/": one for path, one in paths.items()}
    with watching(Specification(content, double.url)) as one:
        yield one


def client_of(double: Double) -> Any:
    return VastAI(double.environment["VAST_API_KEY"], double.url)


def test_the_vendors_client_lives_a_whole_life(double: Double) -> None:
    client = client_of(double)
    assert client.show_user()["balance"] == 100
    client.create_ssh_key(KEY)
    offers = client.search_offers(
        query="gpu_name in [RTX_3090,RTX_4090] reliability>0.9", order="dph_total", limit=5
    )
    assert offers == sorted(offers, key=lambda one: one["dph_total"]) and len(offers) == 5
    made = client.create_instance(
        offers[0]["id"], image="ubuntu", disk=20, label="one", ssh=True, direct=True
    )
    id_ = made["new_contract"]
    assert client.show_instance(id_)["actual_status"] in (None, "loading")
    double.advance(60)
    one = client.show_instance(id_)
    assert (one["actual_status"], one["label"]) == ("running", "one")
    assert one["ports"]["22/tcp"][0]["HostPort"].isdigit()

    (offer,) = client.search_offers(query="num_gpus=1", type="bid", order="dph_total", limit=1)
    bid = client.create_instance(
        offer["id"], image="ubuntu", disk=20, label="bid", price=offer["min_bid"] * 1.1
    )["new_contract"]
    assert {each["id"] for each in client.show_instances()} == {id_, bid}
    client.change_bid(bid, price=offer["min_bid"] * 2)
    client.stop_instance(id_)
    assert client.show_instance(id_)["cur_state"] == "stopped"
    client.start_instance(id_)
    for each in (id_, bid):
        assert client.destroy_instance(each)["success"]
    double.advance(60)
    assert client.show_instances() == []
    (key,) = client.show_ssh_keys()
    client.delete_ssh_key(key["id"])
    assert double.violations() == []
    assert double.leftovers() == []


def test_every_request_and_reply_is_as_published(
    double: Double, specification: Specification
) -> None:
    double.turn(rate_limits=False)
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {double.environment['VAST_API_KEY']}"

    def ask(method: str, path: str, body: Any = None, status: int = 200) -> Any:
        reply = session.request(method, f"{double.url}/api/{path}/", json=body, timeout=20)
        assert reply.status_code == status, reply.text
        return reply.json()

    ask("GET", "v0/users/current")
    ask("POST", "v0/ssh", {"ssh_key": KEY})
    offer, other = ask("POST", "v0/bundles", {**CHEAP, "limit": 2, "type": "on-demand"})["offers"]
    wish = {"image": "ubuntu", "disk": 20, "label": "one", "runtype": "ssh_direct"}
    id_ = ask("PUT", f"v0/asks/{offer['id']}", wish)["new_contract"]
    double.advance(60)
    assert ask("GET", f"v0/instances/{id_}")["instances"]["actual_status"] == "running"
    (one,) = ask("GET", "v1/instances")["instances"]
    assert one["id"] == id_
    low = ask("PUT", f"v0/asks/{other['id']}", {**wish, "label": "low", "price": 0.001}, 400)
    ask("PUT", f"v0/instances/bid_price/{low['new_contract']}", {"client_id": "me", "price": 1})
    ask("POST", f"v0/instances/{id_}/ssh", {"ssh_key": "ssh-ed25519 BBBB"})
    ask("PUT", f"v0/instances/{id_}", {"state": "stopped"})
    ask("DELETE", f"v0/instances/{id_}")
    ask("DELETE", f"v0/instances/{low['new_contract']}")
    double.advance(60)
    ask("DELETE", f"v0/instances/{id_}", status=404)
    assert double.violations() == []
    ask("PUT", f"v0/asks/{offer['id']}", {**wish, "hostname": "one"}, 400)
    assert double.violations() == ["an instance: nobody knows the field hostname"]
    session.headers["Authorization"] = "Bearer nobody"
    ask("GET", "v1/instances", status=401)
    assert specification.checked > 12


def test_the_vendors_client_sees_the_doubles_faults(double: Double) -> None:
    client = client_of(double)
    (offer,) = client.search_offers(query="num_gpus=1", type="bid", limit=1)
    wish = {"image": "ubuntu", "disk": 20}
    with pytest.raises(requests.HTTPError) as refused:
        client.create_instance(offer["id"], label="low", price=0.001, **wish)
    assert refused.value.response.json()["error"] == "invalid_price"
    (one,) = double.control("GET", "machines")
    assert str(refused.value.response.json()["new_contract"]) == one["id"]
    assert double.leftovers() == [f"machine {one['id']} low"]
    double.turn(capacity={"*": 0})
    (other,) = client.search_offers(query="num_gpus=1", limit=1)
    told = set()
    for _ in range(12):
        try:
            told.add(client.create_instance(other["id"], label="none", **wish)["success"])
        except requests.HTTPError as error:
            told.add(error.response.status_code)
    assert told == {False, 404, 410}

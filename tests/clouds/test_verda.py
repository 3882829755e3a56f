"""The double of Verda: its client, and the answers that its clients' own tests expect.

No specification of the vendor's is published.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from running_double import Double, running
from specification import lacking, read
from verda import VerdaClient
from verda.exceptions import APIException
from verda.instances import OSVolume

WISH = {
    "instance_type": "1H100.80S.30V",
    "image": "ubuntu-24.04",
    "description": "a test",
    "location": "FIN-01",
    "wait_for_status": None,
}


@pytest.fixture
def double() -> Iterator[Double]:
    with running("verda") as one:
        one.turn(quote_ids=0, trash_keeps=False)  # which Verda's own client cannot read
        yield one


def client_of(double: Double) -> Any:
    return VerdaClient(
        double.environment["VERDA_CLIENT_ID"],
        double.environment["VERDA_CLIENT_SECRET"],
        base_url=double.environment["VERDA_BASE_URL"],
    )


def test_the_vendors_client_lives_a_whole_life(double: Double) -> None:
    client = client_of(double)
    assert client.balance.get().amount == 100
    assert "FIN-01" in {one["code"] for one in client.locations.get()}
    (offer,) = [one for one in client.instance_types.get() if one.instance_type == "1H100.80S.30V"]
    assert (offer.price_per_hour, offer.spot_price_per_hour) == (2.29, 0.8015)
    assert client.instances.is_available("1H100.80S.30V", is_spot=True, location_code="FIN-01")
    assert not client.instances.is_available("8B200.240V")
    assert client.instances.get_availabilities(is_spot=True)
    assert "ubuntu-24.04" in {one.image_type for one in client.images.get("1H100.80S.30V")}

    key = client.ssh_keys.create("k", "ssh-ed25519 AAAA")
    assert client.ssh_keys.get_by_id(key.id).public_key == "ssh-ed25519 AAAA"
    script = client.startup_scripts.create("s", "#!/bin/sh")
    assert client.startup_scripts.get_by_id(script.id).script == "#!/bin/sh"
    one = client.instances.create(
        **WISH,
        hostname="one",
        ssh_key_ids=[key.id],
        startup_script_id=script.id,
        is_spot=True,
        contract="SPOT",
        os_volume=OSVolume("os", 60, "delete_permanently"),
    )
    assert one.status == "ordered"
    with pytest.raises(APIException, match="provisioning"):
        for _ in range(20):  # half of the refusals come as 207, which this client takes for success
            client.instances.action(one.id, "delete")
    double.advance(40)
    one = client.instances.get_by_id(one.id)
    assert one.status == "running" and one.ip and one.price_per_hour == 0.8015
    assert [each.id for each in client.instances.get(status="running")] == [one.id]
    (volume,) = client.volumes.get()
    assert (volume.id, volume.size, volume.instance_id) == (one.os_volume_id, 60, one.id)

    double.advance(3600)  # the client notices that its token has expired by its own clock alone
    client._http_client._auth_service.refresh()
    client.instances.action(one.id, "delete", [volume.id], delete_permanently=True)
    double.advance(5)
    assert client.instances.get() == []
    assert client.volumes.get() == [] and client.volumes.get_in_trash() == []
    client.startup_scripts.delete_by_id(script.id)
    client.ssh_keys.delete([key.id])
    assert double.violations() == []
    assert double.leftovers() == []


def test_volumes_that_stay_are_removed_one_by_one(double: Double) -> None:
    client = client_of(double)
    ids = [client.instances.create(**WISH, hostname=name).id for name in ("one", "two")]
    double.advance(40)
    client.instances.action(ids[0], "delete")
    client.instances.action(ids[1], "delete", [])
    (detached,) = client.volumes.get(status="detached")
    (trashed,) = client.volumes.get_in_trash()
    client.volumes.delete(detached.id, is_permanent=True)
    client.volumes.delete_by_id(trashed.id, is_permanent=True)
    assert double.leftovers() == []
    assert double.violations() == []


def test_the_vendors_client_sees_the_doubles_faults(double: Double) -> None:
    with pytest.raises(APIException, match="Invalid client"):
        VerdaClient("id", "secret", base_url=double.environment["VERDA_BASE_URL"])
    client = client_of(double)
    for dials, code in (({"balance": "0"}, "insufficient_funds"), ({}, "service_unavailable")):
        double.turn(**{"balance": "100", "capacity": {"*": 0}, **dials})
        with pytest.raises(APIException) as refused:
            client.instances.create(**WISH, hostname="one")
        assert refused.value.code == code
    double.turn(capacity={}, fail_create=1)
    one = client.instances.create(**WISH, hostname="one")
    double.advance(40)
    assert client.instances.get_by_id(one.id).status == "no_capacity"


def test_answers_carry_what_the_clients_tests_expect(double: Double) -> None:
    samples = read("verda/samples.json")
    client = client_of(double)
    client.ssh_keys.create("k", "ssh-ed25519 AAAA")
    one = client.instances.create(**WISH, hostname="one")
    double.advance(40)
    session = requests.Session()
    session.headers["Authorization"] = client._http_client._generate_bearer_header()

    def ask(path: str) -> Any:
        return session.get(double.environment["VERDA_BASE_URL"] + path, timeout=20).json()

    for name, path in (
        ("GET /instances/{id}", f"/instances/{one.id}"),
        ("GET /images", "/images"),
        ("GET /locations", "/locations"),
        ("GET /ssh-keys", "/ssh-keys"),
        ("GET /instance-availability?is_spot=true", "/instance-availability?is_spot=true"),
        ("error body", "/instances/none"),
    ):
        assert lacking(samples[name], ask(path)) == [], name
    (recorded,) = samples["GET /instance-types?currency=usd"]
    for ours in ask("/instance-types?currency=usd"):
        wrong = [one for one in lacking(recorded, ours) if "price" not in one or ":" not in one]
        assert wrong == []  # but for prices, which come as text or as numbers
    login = {
        "grant_type": "client_credentials",
        "client_id": double.environment["VERDA_CLIENT_ID"],
        "client_secret": double.environment["VERDA_CLIENT_SECRET"],
    }
    told = session.post(
        double.environment["VERDA_BASE_URL"] + "/oauth2/token", json=login, timeout=20
    ).json()
    assert lacking(samples["POST /oauth2/token response"], told) == []

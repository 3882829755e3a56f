"""Whole lives of pools on machines that are real computers: user data run at the first boot, the
machine's own metadata service, the user that Canonical's images have, networks that end."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bed import until
from buckets import Buckets
from cloud import ADDRESS, ON_DEMAND, SPOT, Cloud, Faults, Place, Request
from programs import begin, drive, finish, hear, skyward
from rented_hosts import Rented, RentedHosts, rented_hosts, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

NOTHING = {"instances": 0, "groups": 0, "volumes": 0}
USER = '"username": None'  # the image's own, who is not root


@pytest.fixture(scope="module")
def rented(
    running_cloud: Cloud, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RentedHosts, Place]]:
    directory = tmp_path_factory.mktemp("rented")
    with rented_hosts(running_cloud.front, directory) as hosts_and_place:
        yield hosts_and_place


@pytest.fixture
def hosts(cloud: Cloud, rented: tuple[RentedHosts, Place]) -> Iterator[RentedHosts]:
    """The cloud, with machines that are hosts."""
    hosts, place = rented
    cloud.computers, cloud.place = hosts, place
    yield hosts
    broken = list(hosts.broken)
    hosts.stop_all()
    cloud.computers, cloud.place = cloud.machines, Place(cloud.url)
    assert broken == []


def nothing_is_left(cloud: Cloud, home: Path) -> None:
    assert cloud.leftovers() == NOTHING
    assert cloud.client("ec2").describe_key_pairs()["KeyPairs"] == []
    assert skyward(cloud, home, "pool", "list", "--json").out == ""


def fewer_spot_machines(request: Request) -> tuple[str, int] | None:
    """Amazon has two spot machines, and not four."""
    spot = "InstanceMarketOptions.MarketType" in request.parameters
    many = request.parameters.get("MinCount") not in ("1", "2")
    return ("InsufficientInstanceCapacity", 500) if spot and many else None


LIFE = f"""
import dataclasses, threading

@sky.compute
def where():
    info = sky.instance_info()
    return info.node, info.peers[info.node]["private_ip"], os.getuid()

@sky.compute
def train(doomed):
    import threading
    warned, left = threading.Event(), []
    def on_warning(seconds_left):
        left.append(seconds_left)
        warned.set()
    sky.on_preemption(on_warning)
    info = sky.instance_info()
    if info.node == doomed:
        warned.wait(60)
    return info.node, left

events = []
replaced = threading.Event()
def note(event):
    events.append(event)
    if isinstance(event, sky.InstanceReplaced):
        replaced.set()

with pool(provider={{{USER}}}, accelerator="A100", nodes=4, spot=0.5, on_event=note) as p:
    bought = [event for event in events if isinstance(event, sky.InstanceProvisioned)]
    doomed = next(event for event in bought if event.spot)
    tell(first=where() @ p)
    tell(doomed=[doomed.instance_id, doomed.node])
    tell(trained=train(doomed.node) @ p)
    assert replaced.wait(60)
    tell(second=where() @ p)
    threading.Event().wait(max(0, 75 - (time.monotonic() - began)))  # longer than the least bill
tell(events=[[type(event).__name__, dataclasses.asdict(event)] for event in events
             if not isinstance(event, (sky.Metrics, sky.LogLine))])
"""


def test_a_pool_with_a_machine_that_is_taken_back(
    cloud: Cloud, hosts: RentedHosts, tmp_path: Path
) -> None:
    cloud.faults = Faults(refuse=fewer_spot_machines)
    driver = begin(cloud, tmp_path, "began = time.monotonic()\n" + LIFE)
    heard = hear(driver, "doomed")
    doomed, rank = heard.facts["doomed"]
    hosts.take_back(doomed, seconds=100)
    told = finish(driver, heard.out)
    assert told.code == 0, told.err
    facts = told.facts
    addresses = {one.id: one.host.address for one in hosts.machines.values()}

    # Every rank stood on a machine of its own, told by the address that the cloud tells.
    first, second = facts["first"], facts["second"]
    assert [node for node, _, _ in first] == [node for node, _, _ in second] == [0, 1, 2, 3]
    assert {user for _, _, user in first + second} == {4178}, "the image's user"
    assert len({address for _, address, _ in first}) == 4
    changed = [node for node in range(4) if first[node] != second[node]]
    assert changed == [rank], "the replacement has the same rank"
    assert first[rank][1] == addresses[doomed]
    (warning,) = dict(facts["trained"])[rank]
    assert 60 < warning <= 100
    assert [node for node, left in facts["trained"] if left] == [rank]

    check_events(facts["events"], doomed, rank, addresses)
    # A released machine is terminated and also shuts itself down, whichever is first. The doomed
    # one was left to Amazon, but the pool closed before that took it.
    ends = hosts.ends()
    assert ends.keys() == addresses.keys()
    assert set(ends.values()) <= {"TerminateInstances", "Client.InstanceInitiatedShutdown"}
    assert ends[doomed] == "TerminateInstances"
    assert "GET 200 /latest/meta-data/spot/instance-action" in hosts.asked_of_metadata(doomed)
    nothing_is_left(cloud, tmp_path)

    def price(machine: Rented) -> float:
        return (SPOT if machine.spot else ON_DEMAND)["p4d.24xlarge"] + ADDRESS

    assert sum(one.spot for one in hosts.machines.values()) == 3
    bill = hosts.bill(price)
    (cost,) = skyward(cloud, tmp_path, "cost", "--json").rows()
    final = dict(facts["events"])["CostFinal"]
    print("bill", bill, "receipt", cost["dollars"], "event", final["total_cost"])
    assert cost["complete"] and cost["machines"] == 5
    # From the request to the confirmed end: a second or two of each machine more than Amazon bills,
    # and on a computer that compiles meanwhile eight were seen.
    requests = 15 * sum(map(price, hosts.machines.values())) / 3600
    for told_dollars in (cost["dollars"], final["total_cost"]):
        assert 0.99 * bill <= told_dollars <= 1.01 * bill + requests


def check_events(
    events: list[tuple[str, dict[str, Any]]], doomed: str, rank: int, addresses: dict[str, str]
) -> None:
    """Order and fields of a recorded life."""
    names = [name for name, _ in events]
    print(json.dumps(names))
    milestones = [
        "InfraCreating",
        "InfraCreated",
        "InstanceLaunching",
        "InstanceProvisioned",
        "ProvisioningCompleted",
        "BootstrapStarting",
        "BootstrapCompleted",
        "TaskPoolInitCompleted",
        "ClusterSetupCompleted",
        "PoolStarted",
        "InstancePreempted",
        "InstanceReplaced",
        "PoolStopping",
        "CostFinal",
        "PoolStopped",
    ]
    places = [names.index(name) for name in milestones]
    assert places == sorted(places), names
    assert names[-2:] == ["CostFinal", "PoolStopped"]
    assert len({values.pop("pool") for _, values in events}) == 1
    of: dict[str, list[dict[str, Any]]] = {}
    for name, values in events:
        of.setdefault(name, []).append(values)
    assert of["InfraCreated"] == [{"region": "us-east-1"}]
    assert of["InstanceLaunching"][0] == {
        "count": 4,
        "instance_type": "p4d.24xlarge",
        "provider": "AWS",
    }
    bought = of["InstanceProvisioned"]
    assert [one["node"] for one in bought[:4]] == [0, 1, 2, 3]
    assert len(bought) == 5 and bought[4]["node"] == rank
    for one in bought:
        assert one["provider"] == "AWS" and one["instance_type"] == "p4d.24xlarge"
        assert one["ip"] == addresses[one["instance_id"]]
        assert one["price_on_demand"] == pytest.approx(ON_DEMAND["p4d.24xlarge"] + ADDRESS)
        if one["spot"]:
            assert one["price_spot"] == pytest.approx(SPOT["p4d.24xlarge"] + ADDRESS)
    (completed,) = of["ProvisioningCompleted"]
    assert (completed["spot"], completed["on_demand"]) == (2, 2)
    assert completed["instances"] == [one["instance_id"] for one in bought[:4]]
    for name in ("BootstrapStarting", "BootstrapCompleted"):
        assert {one["instance_id"] for one in of[name]} == set(addresses), name
    stopped = [one["instance_id"] for one in of["InstanceStopping"]]
    assert sorted(stopped) == sorted(addresses) and stopped[0] == doomed
    assert of["ClusterSetupCompleted"][0]["instance_count"] == 4
    (preempted,) = of["InstancePreempted"]
    assert (preempted["instance_id"], preempted["node"]) == (doomed, rank)
    assert preempted["reason"] == "EC2 will terminate this machine"
    (replaced,) = of["InstanceReplaced"]
    assert replaced["old_instance_id"] == doomed and replaced["node"] == rank
    assert replaced["new_instance_id"] == bought[4]["instance_id"]
    (final,) = of["CostFinal"]
    assert (final["spot_count"], final["ondemand_count"]) == (3, 2)
    assert final["savings_vs_ondemand"] > 0
    assert not of.get("Error"), "\n".join(one["message"] for one in of["Error"])


def test_a_machine_in_its_first_hour_is_left_to_amazon(
    cloud: Cloud, hosts: RentedHosts, tmp_path: Path
) -> None:
    """It costs nothing then. Its node has another machine meanwhile."""
    gone = tmp_path / "gone"
    driver = begin(
        cloud,
        tmp_path,
        f"""
        import threading

        bought, errors, replaced = [], [], threading.Event()
        def note(event):
            if isinstance(event, sky.InstanceProvisioned):
                bought.append(event.instance_id)
            if isinstance(event, sky.InstanceReplaced):
                replaced.set()
            if isinstance(event, sky.Error):
                errors.append(event.message)

        with pool(provider={{{USER}}}, machine="m5.large", on_event=note) as p:
            tell(doomed=bought[0])
            assert replaced.wait(60)
            tell(replaced=True)
            while not os.path.exists({str(gone)!r}):
                threading.Event().wait(0.1)
        tell(errors=errors)
        """,
    )
    opened = hear(driver, "doomed")
    doomed = opened.facts["doomed"]
    hosts.take_back(doomed, seconds=45)
    heard = hear(driver, "replaced")
    assert doomed not in hosts.ends()
    until(lambda: doomed in hosts.ends(), 60, "Amazon takes it back")
    gone.touch()
    told = finish(driver, opened.out + heard.out)
    assert told.code == 0, told.err
    assert told.facts["errors"] == []
    assert hosts.ends()[doomed] == "Server.SpotInstanceTermination"
    nothing_is_left(cloud, tmp_path)


def test_who_does_not_heed_the_notice_loses_the_machine(
    cloud: Cloud, hosts: RentedHosts, tmp_path: Path
) -> None:
    """Its task begins again on the other machine, with the same rank."""
    driver = begin(
        cloud,
        tmp_path,
        f"""
        @sky.compute
        def stubborn():
            info = sky.instance_info()
            mine = info.peers[info.node]["private_ip"]
            if mine == first:
                time.sleep(60)  # on a worker
            return info.node, mine

        @sky.compute
        def where():
            info = sky.instance_info()
            return info.peers[info.node]["private_ip"]

        events = []
        with pool(provider={{{USER}}}, machine="m5.large", on_event=events.append) as p:
            first = where() >> p
            bought = [event for event in events if isinstance(event, sky.InstanceProvisioned)]
            tell(doomed=bought[0].instance_id, first=first)
            tell(answer=stubborn() >> p)
        tell(lost=[event.message for event in events if isinstance(event, sky.Error)],
             replaced=[event.node for event in events if isinstance(event, sky.InstanceReplaced)])
        """,
    )
    heard = hear(driver, "doomed")
    doomed = heard.facts["doomed"]
    hosts.take_back(doomed, seconds=14)
    told = finish(driver, heard.out)
    assert told.code == 0, told.err
    rank, address = told.facts["answer"]
    assert rank == 0 and address != told.facts["first"]
    assert told.facts["replaced"] == [0]
    assert hosts.ends()[doomed] == "Server.SpotInstanceTermination"
    assert len(hosts.machines) == 2
    nothing_is_left(cloud, tmp_path)


def test_the_end_timer_needs_no_network(cloud: Cloud, hosts: RentedHosts, tmp_path: Path) -> None:
    """The driver dies, and the machines are cut off: they end themselves, and so what they cost."""
    driver = begin(
        cloud,
        tmp_path,
        f"""
        with pool(provider={{{USER}}}, nodes=2, machine="m5.large", lease=6) as p:
            tell(ready=True)
            sky.compute(time.sleep)(100) @ p
        """,
    )
    hear(driver, "ready")
    driver.kill()
    driver.wait(10)
    for one in list(hosts.machines.values()):
        one.host.cut()
    until(lambda: len(hosts.ends()) == 2, 90, f"the machines end themselves: {hosts.ends()}")
    assert set(hosts.ends().values()) == {"Client.InstanceInitiatedShutdown"}
    told = skyward(cloud, tmp_path, "gc", "--region", "us-east-1", "--json")
    assert told.code == 0, told.err
    nothing_is_left(cloud, tmp_path)


VOLUMES = """
@sky.compute
def use():
    words = [open(f"/proc/{pid}/cmdline").read() for pid in os.listdir("/proc") if pid.isdigit()]
    kept = [name for name in os.listdir("/dev/shm") if name.startswith("skyward-s3")]
    try:
        open("/data/new.txt", "w")
        writing = "allowed"
    except OSError as error:
        writing = error.strerror
    with open("/out/answer.txt", "w") as file:
        file.write("42")
    return open("/data/a.txt").read(), writing, kept, os.getuid(), words

def mounted(provider):
    volumes = [sky.S3Volume("/data", "models", "small/"),
               sky.S3Volume("/out", "results", read_only=False)]
    return pool(provider=provider, machine="m5.large", volume=volumes)

"""


@pytest.fixture
def buckets(cloud: Cloud, hosts: RentedHosts) -> Iterator[Buckets]:
    if shutil.which("s3fs") is None or not Path("/dev/fuse").exists():
        pytest.skip("needs s3fs and /dev/fuse")
    buckets = Buckets(cloud, {"models": {"small/a.txt": "hello"}, "results": {}})
    yield buckets
    buckets.close()


@pytest.mark.parametrize("way", ["keys", "session", "role", "session and role"])
def test_buckets_are_directories(
    cloud: Cloud, hosts: RentedHosts, buckets: Buckets, tmp_path: Path, way: str
) -> None:
    """With keys of the driver, with or without a token, or by the machine's own role, which is for
    longer than a token. The user is not root."""
    settings = USER
    secrets: list[str] = []
    if "role" in way:
        settings += f', "instance_profile_arn": {buckets.profile.arn!r}'
        hosts.role = buckets.role_of_a_machine()
        secrets = [hosts.role["SecretAccessKey"], hosts.role["Token"]]
    if way == "role":
        # Its own keys, from a file, are not for the machines.
        env = dict.fromkeys(cloud.keys, "")
        (tmp_path / ".aws").mkdir()
        (tmp_path / ".aws/credentials").write_text(
            "[default]\n" + "".join(f"{name.lower()} = {key}\n" for name, key in cloud.keys.items())
        )
    else:
        env = buckets.keys if way == "keys" else buckets.session_keys()
        secrets += [key for name, key in env.items() if name != "AWS_ACCESS_KEY_ID"]
    told = drive(
        cloud,
        tmp_path,
        VOLUMES + f"with mounted({{{settings}}}) as p: tell(seen=use() >> p)\n",
        env,
    )
    assert told.code == 0, told.err
    text, writing, kept, user, words = told.facts["seen"]
    assert (text, writing, kept, user) == ("hello", "Read-only file system", [], 4178)
    assert not [line for line in words if any(secret in line for secret in secrets)]
    assert buckets.text("results", "answer.txt") == "42"
    for machine in hosts.machines.values():
        for path in (machine.host.home / "root").rglob("*"):
            if path.is_file() and not path.is_symlink():
                assert not any(secret.encode() in path.read_bytes() for secret in secrets), path
    nothing_is_left(cloud, tmp_path)


def test_refused_keys_are_told_with_bucket_and_endpoint(
    cloud: Cloud, hosts: RentedHosts, buckets: Buckets, tmp_path: Path
) -> None:
    """The driver's may rent machines, and not read there."""
    told = drive(
        cloud,
        tmp_path,
        VOLUMES
        + f"""
try:
    with mounted({{{USER}}}) as p:
        tell(text="opened")
except sky.ProvisioningError as error:
    tell(text=str(error))
""",
    )
    text = told.facts["text"]
    assert "failed in step 'volumes'" in text, text
    assert f"the bucket models:/small at {cloud.place.url} cannot be mounted at /data" in text, text
    assert "the store refuses the keys in AWS_ACCESS_KEY_ID" in text, text
    nothing_is_left(cloud, tmp_path)


def test_root_may_log_in_where_that_is_asked_for(
    cloud: Cloud, hosts: RentedHosts, tmp_path: Path
) -> None:
    told = drive(
        cloud,
        tmp_path,
        """
        with pool(machine="m5.large") as p:
            tell(user=sky.compute(os.getuid)() >> p)
        """,
    )
    assert told.facts["user"] == 0, told.err
    nothing_is_left(cloud, tmp_path)

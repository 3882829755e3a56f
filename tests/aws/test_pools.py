"""Whole pools: launch, boot, SSH, tasks, teardown; and what is left when something goes wrong."""

import time
from pathlib import Path

import pytest
from cloud import ADDRESS, Cloud, Faults, Request
from machines import read_user_data, why_not
from moto.ec2.models.amis import Ami
from programs import Told, begin, drive, skyward

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

NOTHING = {"instances": 0, "groups": 0, "volumes": 0}

WORK = """
@sky.compute
def square(x):
    return x * x

with pool(nodes=2, machine="m5.large") as p:
    tell(answers=list(sky.gather(square(2), square(3)) >> p))
"""


@pytest.fixture
def real(cloud: Cloud) -> Cloud:
    """Machines that run something."""
    cloud.machines.running = True
    return cloud


def test_a_pool_lives_and_leaves_nothing(real: Cloud, tmp_path: Path) -> None:
    told = drive(real, tmp_path, WORK)
    assert told.facts["answers"] == [4, 9], told.err
    assert real.leftovers() == NOTHING
    assert skyward(real, tmp_path, "pool", "list", "--json").out == ""
    cost = skyward(real, tmp_path, "cost", "--json").rows()
    assert len(cost) == 1 and cost[0]["machines"] == 2 and cost[0]["complete"]
    assert cost[0]["dollars"] == pytest.approx(2 * 0.096 / 60, rel=0.5)


def test_a_life_is_told_in_order(real: Cloud, tmp_path: Path) -> None:
    told = drive(
        real,
        tmp_path,
        """
        events = []
        with pool(nodes=2, machine="m5.large", on_event=events.append) as p:
            while not any(isinstance(event, sky.CostUpdate) for event in events):
                sky.compute(abs)(-1) >> p
        names = [type(event).__name__ for event in events]
        bought = [event for event in events if isinstance(event, sky.InstanceProvisioned)]
        total = next(event for event in events if isinstance(event, sky.CostFinal))
        tell(names=names, types=[event.instance_type for event in bought], total=total.total_cost,
             prices=[event.price_on_demand for event in bought], machines=total.ondemand_count)
        """,
    )
    names = told.facts["names"]
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
        "PoolStopping",
        "InstanceStopping",
        "CostFinal",
        "PoolStopped",
    ]
    places = [names.index(name) for name in milestones]
    assert places == sorted(places), names
    cost = names.index("CostUpdate")  # comes during a slow boot, too
    assert names.index("InstanceProvisioned") < cost < names.index("PoolStopping")
    assert names.count("InstanceProvisioned") == names.count("InstanceStopping") == 2
    assert names[-2:] == ["CostFinal", "PoolStopped"]
    assert told.facts["types"] == ["m5.large"] * 2
    assert told.facts["prices"] == [pytest.approx(0.096 + ADDRESS)] * 2
    # A minute each, at least.
    assert told.facts["total"] == pytest.approx(2 * 0.096 / 60, rel=0.5)
    assert told.facts["machines"] == 2


def test_the_launch_says_what_keeps_machines_from_leaking(real: Cloud, tmp_path: Path) -> None:
    drive(real, tmp_path, WORK)
    (launch,) = [one.parameters for one in real.requests if one.action == "RunInstances"]
    assert launch["MinCount"] == launch["MaxCount"] == "2"
    assert launch["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert launch["MetadataOptions.HttpTokens"] == "required"
    assert launch["BlockDeviceMapping.1.Ebs.DeleteOnTermination"] == "true"
    assert launch["ClientToken"].startswith("aws-")
    tags = {
        launch[name]: launch[name.replace(".Key", ".Value")]
        for name in launch
        if name.startswith("TagSpecification.1.Tag.") and name.endswith(".Key")
    }
    assert tags["skyward:managed"] == "true"
    assert tags["skyward:pool"].startswith("aws-")
    assert tags["skyward:owner"].endswith(":user/skyward-test")
    assert tags["skyward:nodes"] == "0-1"
    assert int(tags["skyward:expires"]) - time.time() < 2 * 3600
    boot = read_user_data(launch["UserData"])
    assert list(boot)[0] == "bootcmd", "the timer is armed before anything else"
    assert "skyward-watch" in boot["bootcmd"][0][2]
    assert real.keys["AWS_SECRET_ACCESS_KEY"] not in str(boot)


def test_every_disk_of_an_image_goes_with_its_machine(
    real: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Ami.block_device_mappings.fget
    assert root is not None
    disk = {"VolumeSize": 40, "VolumeType": "gp3", "DeleteOnTermination": False}
    data = {"DeviceName": "/dev/sdb", "Ebs": disk}
    monkeypatch.setattr(Ami, "block_device_mappings", property(lambda ami: [*root(ami), data]))
    told = drive(real, tmp_path, WORK)
    assert told.facts["answers"] == [4, 9], told.err
    (launch,) = [one.parameters for one in real.requests if one.action == "RunInstances"]
    assert launch["BlockDeviceMapping.2.DeviceName"] == "/dev/sdb"
    assert launch["BlockDeviceMapping.2.Ebs.DeleteOnTermination"] == "true"
    assert real.leftovers() == NOTHING


def test_only_the_caller_is_let_in(real: Cloud, tmp_path: Path) -> None:
    drive(real, tmp_path, WORK)
    rules = [
        one.parameters for one in real.requests if one.action == "AuthorizeSecurityGroupIngress"
    ]
    assert [rule.get("IpPermissions.1.IpRanges.1.CidrIp") for rule in rules] == [
        "127.0.0.1/32",
        None,
    ]
    assert rules[0]["IpPermissions.1.ToPort"] == "22"
    assert rules[1]["IpPermissions.1.Groups.1.GroupId"] == rules[1]["GroupId"]


def test_after_a_change_of_network_the_new_address_is_let_in(real: Cloud, tmp_path: Path) -> None:
    """Before the node, which is well, is taken for lost."""

    def move(request: Request) -> None:
        if request.action == "RunInstances":
            real.faults.caller = "192.0.2.7"

    real.faults = Faults(after=move)
    told = drive(
        real,
        tmp_path,
        """
        def connections():
            me = str(os.getpid())
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    name, rest = open(f"/proc/{pid}/stat").read().rsplit(")", 1)
                except OSError:
                    continue
                if name.endswith("(ssh") and rest.split()[1] == me:
                    yield int(pid)

        with pool(nodes=1, machine="m5.large") as p:
            worker = sky.compute(os.getpid)() >> p
            for pid in connections():
                os.kill(pid, 9)
            tell(same=(sky.compute(os.getpid)() >> p) == worker)
        """,
    )
    assert told.facts["same"], told.err
    rules = [
        one.parameters.get("IpPermissions.1.IpRanges.1.CidrIp")
        for one in real.requests
        if one.action == "AuthorizeSecurityGroupIngress"
    ]
    assert rules.count("127.0.0.1/32") == rules.count("192.0.2.7/32") == 1
    assert real.leftovers() == NOTHING


def image_of(cloud: Cloud) -> str:
    """One that there is in the region."""
    image: str = next(one.id for one in cloud.backend().describe_images() if "ubuntu" in one.name)
    return image


def failing(cloud: Cloud, home: Path, options: str) -> Told:
    return drive(
        cloud,
        home,
        f"""
        ami = {image_of(cloud)!r}
        try:
            with pool({options}) as p:
                tell(opened=True)
        except sky.SkywardError as error:
            names = "requested got region regions_checked offers".split()
            fields = dict((name, getattr(error, name)) for name in names if hasattr(error, name))
            tell(opened=False, error=type(error).__name__, text=str(error), **fields)
        """,
    )


@pytest.mark.parametrize(
    ("action", "code", "words"),
    [
        ("RunInstances", "VcpuLimitExceeded", "Service Quotas"),
        ("RunInstances", "UnauthorizedOperation", "providers check aws"),
        ("CreateSecurityGroup", "SecurityGroupLimitExceeded", "Service Quotas"),
        ("AuthorizeSecurityGroupIngress", "UnauthorizedOperation", "providers check aws"),
        ("GetCallerIdentity", "ExpiredToken", "renew the credentials"),
        ("DescribeVpcs", "OptInRequired", "AWS console"),
    ],
)
def test_a_refusal_leaves_nothing(
    real: Cloud, tmp_path: Path, action: str, code: str, words: str
) -> None:
    real.faults = Faults(refuse=lambda one: (code, 400) if one.action == action else None)
    told = failing(real, tmp_path, 'nodes=2, machine="m5.large"')
    assert not told.facts["opened"]
    assert code in told.facts["text"] and words in told.facts["text"], told.facts["text"]
    assert real.leftovers() == NOTHING
    assert skyward(real, tmp_path, "pool", "list", "--json").out == ""


def test_without_capacity_the_next_zone_is_asked(real: Cloud, tmp_path: Path) -> None:
    asked: list[str] = []

    def refuse(one: Request) -> tuple[str, int] | None:
        if one.action != "RunInstances":
            return None
        asked.append(one.parameters["NetworkInterface.1.SubnetId"])
        return ("InsufficientInstanceCapacity", 500) if len(asked) < 3 else None

    real.faults = Faults(refuse=refuse)
    told = drive(real, tmp_path, WORK)
    assert told.facts["answers"] == [4, 9], told.err
    assert len(asked) == len(set(asked)) == 3
    assert real.leftovers() == NOTHING


def test_spot_machines_that_are_not_to_be_had(real: Cloud, tmp_path: Path) -> None:
    def refuse(one: Request) -> tuple[str, int] | None:
        spot = "InstanceMarketOptions.MarketType" in one.parameters
        return ("InsufficientInstanceCapacity", 500) if spot else None

    real.faults = Faults(refuse=refuse)
    told = failing(
        real, tmp_path, 'machine="m5.large", spot=sky.Spot.Always(retries=2, interval=0.1)'
    )
    assert not told.facts["opened"]
    assert told.facts["error"] == "SpotCapacityError"
    assert (told.facts["requested"], told.facts["got"]) == (1, 0)
    assert told.facts["region"] == "us-east-1"
    assert len(told.facts["regions_checked"]) == 4, "other regions were asked"
    assert told.facts["offers"] == ["m5.large in us-east-1, $0.1010 on demand"]
    assert "no capacity for 1 spot machine" in told.facts["text"]
    assert "InsufficientInstanceCapacity" in told.facts["text"]
    asked = [
        one.parameters["NetworkInterface.1.SubnetId"]
        for one in real.requests
        if one.action == "RunInstances" and one.region == "us-east-1"
    ]
    assert len(set(asked)) > 1 and len(asked) == 2 * len(set(asked)), "two rounds over all zones"

    real.requests.clear()
    told = failing(
        real, tmp_path, 'machine="m5.large", spot=sky.Spot.IfAvailable(retries=1, interval=0.1)'
    )
    assert told.facts["opened"]
    assert real.leftovers() == NOTHING


def test_a_share_of_spot_machines_that_is_not_met(real: Cloud, tmp_path: Path) -> None:
    def refuse(one: Request) -> tuple[str, int] | None:
        spot = "InstanceMarketOptions.MarketType" in one.parameters
        return ("InsufficientInstanceCapacity", 500) if spot else None

    real.faults = Faults(refuse=refuse)
    told = failing(real, tmp_path, 'nodes=3, machine="m5.large", spot=0.5, provider={"ami": ami}')
    assert told.facts["error"] == "SpotMinimumNotMetError", told.facts["text"]
    assert (told.facts["requested"], told.facts["got"]) == (2, 0)
    assert told.facts["regions_checked"] == ["us-east-1"], "an image binds a pool to its region"
    assert real.leftovers() == NOTHING


def test_without_capacity_the_next_region_is_asked(real: Cloud, tmp_path: Path) -> None:
    def refuse(one: Request) -> tuple[str, int] | None:
        elsewhere = one.action == "RunInstances" and one.region != "us-west-2"
        return ("InsufficientInstanceCapacity", 500) if elsewhere else None

    real.faults = Faults(refuse=refuse)
    told = drive(
        real,
        tmp_path,
        """
        @sky.compute
        def square(x):
            return x * x

        events = []
        with pool(machine="m5.large", on_event=events.append) as p:
            answer = square(3) >> p
        moved = [event for event in events if isinstance(event, sky.RegionAutoSelected)]
        tell(answer=answer, regions=[event.selected_region for event in moved])
        """,
    )
    assert told.facts["answer"] == 9, told.err
    assert told.facts["regions"][-1] == "us-west-2"
    for region in ("us-east-1", "us-west-2"):
        assert real.leftovers(region) == NOTHING


def test_another_provider_stands_in(real: Cloud, tmp_path: Path) -> None:
    real.faults = Faults(
        refuse=lambda one: ("VcpuLimitExceeded", 400) if one.action == "RunInstances" else None
    )
    told = drive(
        real,
        tmp_path,
        """
        @sky.compute
        def square(x):
            return x * x

        aws = sky.AWS(username="root")
        events = []
        with sky.ComputePool(
            provider=[aws, sky.Local()], cpu=1, spot="never", display="quiet",
            on_event=events.append,
        ) as p:
            tell(answer=square(3) >> p, provider=p.provider.name)
        stopped = [event for event in events if isinstance(event, sky.PoolStopped)]
        tell(stopped=len(stopped))
        """,
    )
    assert told.facts == {"answer": 9, "provider": "local", "stopped": 1}, told.err
    assert real.leftovers() == NOTHING


@pytest.mark.parametrize("action", ["CreateSecurityGroup", "RunInstances", "TerminateInstances"])
def test_a_lost_reply_launches_nothing_twice(real: Cloud, tmp_path: Path, action: str) -> None:
    lost: list[Request] = []

    def lose(one: Request) -> bool:
        if one.action != action or lost:
            return False
        lost.append(one)
        return True

    real.faults = Faults(lose_reply=lose)
    told = drive(real, tmp_path, WORK)
    assert told.facts["answers"] == [4, 9], told.err
    assert lost
    assert real.leftovers() == NOTHING


def test_gc_leaves_a_pool_at_work_alone(real: Cloud, tmp_path: Path) -> None:
    driver = begin(
        real,
        tmp_path,
        """
        with pool(machine="m5.large") as p:
            tell(ready=True)
            time.sleep(600)  # on a worker
        """,
    )
    try:
        assert driver.stdout is not None
        assert "ready" in driver.stdout.readline()
        told = skyward(real, tmp_path, "gc", "--region", "us-east-1", "--json")
        assert told.code == 0, told.err
        assert {row["action"] for row in told.rows()} == {"kept"}
        assert len(real.standing()) == 1
        pools = skyward(real, tmp_path, "pool", "list", "--json").rows()
        assert [(one["state"], one["machines"]) for one in pools] == [("open", 1)]
        told = skyward(real, tmp_path, "pool", "delete", pools[0]["pool"])
        assert told.code == 1 and len(real.standing()) == 1
        driver.kill()
        driver.wait(10)
        pools = skyward(real, tmp_path, "pool", "list", "--json").rows()
        assert [one["state"] for one in pools] == ["left behind"]
        told = skyward(real, tmp_path, "gc", "--region", "us-east-1", "--json")
        assert told.code == 0, told.err
        assert real.leftovers() == NOTHING
        assert skyward(real, tmp_path, "pool", "list", "--json").out == ""
    finally:
        driver.kill()
        driver.wait(10)

"""The program `skyward` against the emulated cloud."""

import json
import sqlite3
import time
from pathlib import Path

import pytest
from cloud import ADDRESS, ON_DEMAND, REGION, Cloud, Faults
from programs import skyward


def test_offers_are_the_cheapest_first(cloud: Cloud, tmp_path: Path) -> None:
    own = {"XDG_CACHE_HOME": str(tmp_path)}
    told = skyward(cloud, tmp_path, "offers", "list", "--region", REGION, "--json", env=own)
    assert told.code == 0, told.err
    rows = told.rows()
    assert rows[0]["instance_type"] == "t3.small"
    assert rows[0]["price_on_demand"] == pytest.approx(ON_DEMAND["t3.small"] + ADDRESS)
    known = [row["price_on_demand"] for row in rows if row["price_on_demand"] is not None]
    assert known == sorted(known)
    assert cloud.counts()["DescribeInstanceTypes"] >= 1


def test_offers_come_from_the_cache_the_second_time(cloud: Cloud, tmp_path: Path) -> None:
    own = {"XDG_CACHE_HOME": str(tmp_path)}
    first = skyward(cloud, tmp_path, "offers", "list", "--json", env=own)
    before = len(cloud.requests)
    assert before > 0
    assert skyward(cloud, tmp_path, "offers", "list", "--json", env=own).out == first.out
    assert len(cloud.requests) == before


def test_a_cloud_that_does_not_answer_is_told_beside_the_offers(
    cloud: Cloud, tmp_path: Path
) -> None:
    other = {"DIGITALOCEAN_TOKEN": "x", "DIGITALOCEAN_API_URL": "http://127.0.0.1:1"}
    told = skyward(cloud, tmp_path, "offers", "list", "--timeout", "20", "--json", env=other)
    assert told.code == 0 and {row["provider"] for row in told.rows()} >= {"aws"}
    assert "nothing from digital_ocean: " in told.err and "  hint: " in told.err


def test_an_accelerator_finds_its_machines(cloud: Cloud, tmp_path: Path) -> None:
    told = skyward(cloud, tmp_path, "offers", "list", "--accelerator", "A100", "--spot", "--json")
    assert told.code == 0, told.err
    names = [row["instance_type"] for row in told.rows()]
    assert "p4d.24xlarge" in names
    row = told.rows()[names.index("p4d.24xlarge")]
    assert row["accelerator"] == "A100" and row["accelerator_count"] == 8
    assert row["price_spot"] > 0


@pytest.mark.parametrize("architecture", ["x86_64", "arm64"])
def test_an_architecture_finds_its_machines(
    cloud: Cloud, tmp_path: Path, architecture: str
) -> None:
    words = ["--provider", "aws", "--architecture", architecture, "--json"]
    told = skyward(cloud, tmp_path, "offers", "list", *words)
    assert told.code == 0, told.err
    assert {row["architecture"] for row in told.rows()} == {architecture}


def test_what_nobody_has_is_told_with_what_is_near(cloud: Cloud, tmp_path: Path) -> None:
    words = ["--provider", "aws", "--accelerator", "A100", "--count", "64"]
    told = skyward(cloud, tmp_path, "offers", "list", *words)
    assert told.code == 2
    assert "no machine has 64 A100" in told.err and "offered with 8 devices" in told.err
    assert told.out == ""


def test_the_shipped_prices_stand_in_for_a_price_list_that_refuses(
    cloud: Cloud, tmp_path: Path
) -> None:
    cloud.faults = Faults(
        refuse=lambda request: (
            ("AccessDeniedException", 403) if request.service == "pricing" else None
        )
    )
    own = {"XDG_CACHE_HOME": str(tmp_path)}
    told = skyward(cloud, tmp_path, "offers", "list", "--machine", "c5.large", "--json", env=own)
    assert told.rows()[0]["price_on_demand"] == pytest.approx(0.085 + ADDRESS)


def test_check_tells_the_source_of_the_credentials_and_no_secret(
    cloud: Cloud, tmp_path: Path
) -> None:
    told = skyward(cloud, tmp_path, "providers", "check", "aws", "--json")
    assert told.code == 0, told.out + told.err
    rows = {row["what"]: row for row in told.rows()}
    assert "environment" in rows["credentials"]["detail"]
    assert rows["account"]["detail"].endswith(":user/skyward-test")
    assert rows["ec2:RunInstances"]["good"]
    assert cloud.keys["AWS_SECRET_ACCESS_KEY"] not in told.out + told.err
    assert cloud.standing() == []


def test_check_with_wrong_keys_fails_by_its_exit_code(cloud: Cloud, tmp_path: Path) -> None:
    wrong = {"AWS_SECRET_ACCESS_KEY": "wrong"}
    told = skyward(cloud, tmp_path, "providers", "check", "aws", env=wrong)
    assert told.code == 77
    assert "MISSING  account" in told.out and "SignatureDoesNotMatch" in told.out
    told = skyward(cloud, tmp_path, "gc", env=wrong)
    assert told.code == 77 and "STS GetCallerIdentity" in told.err


def test_without_credentials_every_place_is_named(cloud: Cloud, tmp_path: Path) -> None:
    nobody = dict.fromkeys(cloud.keys, "")
    told = skyward(cloud, tmp_path, "gc", "--provider", "aws", env=nobody)
    assert told.code == 77
    assert "AWS_ACCESS_KEY_ID" in told.err


def test_gc_of_an_empty_account(cloud: Cloud, tmp_path: Path) -> None:
    told = skyward(cloud, tmp_path, "gc", "--region", REGION)
    assert (told.code, told.out) == (0, "")
    assert "0 removed, 0 kept, 0 failed" in told.err


def marked(cloud: Cloud, pool: str, owner: str, expires: int, region: str = REGION) -> str:
    """A machine with our marks, as some computer may have left it."""
    image = cloud.client("ec2", region).describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    tags = {
        "skyward:managed": "true",
        "skyward:pool": pool,
        "skyward:owner": owner,
        "skyward:expires": str(expires),
    }
    made = cloud.client("ec2", region).run_instances(
        ImageId=image,
        InstanceType="t3.small",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[
            {
                "ResourceType": "instance",
                "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
            }
        ],
    )
    instance: str = made["Instances"][0]["InstanceId"]
    return instance


def test_gc_removes_by_marks_what_is_over_and_ours_alone(cloud: Cloud, tmp_path: Path) -> None:
    """On a computer that has never seen the pools."""
    owner = "arn:aws:iam::123456789012:user/skyward-test"
    over = marked(cloud, "aws-00000001", owner, 1000)
    over_elsewhere = marked(cloud, "aws-00000002", owner, 1000, "us-west-2")
    at_work = marked(cloud, "aws-00000003", owner, 4_000_000_000)
    others = marked(cloud, "aws-00000004", "arn:aws:iam::123456789012:user/her", 1000)
    unmarked = marked(cloud, "", owner, 1000)

    both = ("--region", REGION, "--region", "us-west-2")
    dry = skyward(cloud, tmp_path, "gc", "--dry-run", "--json", *both)
    assert dry.code == 1 and "not everything was removed" in dry.err
    assert {row["id"]: row["action"] for row in dry.rows() if "id" in row} == {
        over: "would remove",
        over_elsewhere: "would remove",
        at_work: "kept",
        others: "kept",
    }
    assert len(cloud.standing()) == 4
    why = {row["id"]: row["why"] for row in dry.rows() if "id" in row}
    assert "'skyward pool delete aws-00000003' terminates it now" in why[at_work]
    assert "it may cost money; run gc with its owner's credentials" in why[others]

    told = skyward(cloud, tmp_path, "gc", "--json", *both)
    assert told.code == 1, told.err
    assert {row["id"]: row["action"] for row in told.rows() if "id" in row} == {
        over: "removed",
        over_elsewhere: "removed",
        at_work: "kept",
        others: "kept",
    }
    assert {one.id for one in cloud.standing()} == {at_work, others, unmarked}
    assert cloud.standing("us-west-2") == []

    told = skyward(cloud, tmp_path, "pool", "delete", "aws-00000003", "--region", REGION)
    assert told.code == 0, told.err
    assert {one.id for one in cloud.standing()} == {others, unmarked}


def test_a_missing_right_is_named(cloud: Cloud, tmp_path: Path) -> None:
    cloud.faults = Faults(
        refuse=lambda request: (
            ("UnauthorizedOperation", 403) if request.action == "DescribeVolumes" else None
        )
    )
    told = skyward(cloud, tmp_path, "providers", "check", "aws")
    assert told.code == 77
    assert "MISSING  ec2:DescribeVolumes" in told.out
    told = skyward(cloud, tmp_path, "gc", "--region", REGION)
    assert told.code == 77 and "EC2 DescribeVolumes in us-east-1" in told.err


@pytest.mark.parametrize("words", [["offers"], ["nonsense"], ["pool", "get"], ["gc", "--what"]])
def test_a_wrong_command_line_is_a_usage_error(
    cloud: Cloud, tmp_path: Path, words: list[str]
) -> None:
    told = skyward(cloud, tmp_path, *words)
    assert told.code == 2 and told.out == "" and told.err


def test_settings_tell_their_origin(cloud: Cloud, tmp_path: Path) -> None:
    told = skyward(
        cloud, tmp_path, "config", "show", "--origin", "--json", env={"AWS_REGION": "eu-west-1"}
    )
    rows = {row["name"]: row for row in told.rows()}
    assert rows["state"] == {
        "name": "state",
        "value": f"{tmp_path}/state/skyward",
        "origin": "$XDG_STATE_HOME",
    }
    assert rows["aws.region"]["value"] == "eu-west-1"
    assert rows["aws.region"]["origin"] == "$AWS_REGION"
    assert rows["aws.use_ssm"]["origin"] == "default"


def test_help_and_version(cloud: Cloud, tmp_path: Path) -> None:
    assert "offers" in skyward(cloud, tmp_path, "--help").out
    assert skyward(cloud, tmp_path, "--version").out.startswith("skyward ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["frobnicate"], "skyward: there is no command 'skyward frobnicate'"),
        (["ofers"], "did you mean offers?"),
        (["offers", "lsit"], "did you mean list?"),
        (["pool", "frobnicate"], "skyward pool knows list, get, logs, delete"),
        (["offers"], "'skyward offers' needs a subcommand"),
        (["gc", "--frob"], "'skyward gc' has no option --frob"),
        (["gc", "--dry-rum"], "did you mean --dry-run?"),
        (["gc", "--timeout", "0"], "0 is not a number above 0"),
        (["offers", "list", "--count", "-1"], "-1 is not a number above 0"),
        (["offers", "list", "--cpu", "-5"], "-5 is not a non-negative number"),
        (["gc", "--provider", "nope"], 'there is no provider named "nope"'),
    ],
)
def test_what_is_no_command_is_named(
    cloud: Cloud, tmp_path: Path, words: list[str], says: str
) -> None:
    told = skyward(cloud, tmp_path, *words)
    assert told.code == 2
    assert says in told.err and not told.out, told.err


def test_a_pool_that_nobody_knows_is_a_wrong_request(cloud: Cloud, tmp_path: Path) -> None:
    told = skyward(cloud, tmp_path, "pool", "delete", "aws-cccccccc", "--region", REGION)
    assert told.code == 2 and told.out == ""
    assert 'there is no pool "aws-cccccccc"' in told.err


def test_a_pool_of_another_account_is_told_with_the_way_there(cloud: Cloud, tmp_path: Path) -> None:
    assert skyward(cloud, tmp_path, "gc", "--region", REGION).code == 0  # there is a ledger now
    settings = json.dumps({"account": "999999999999", "host": "x", "profile": "work"})
    with sqlite3.connect(tmp_path / "state/skyward/ledger.db") as ledger:
        ledger.execute(
            "INSERT INTO pool (id, provider, region, settings, opened_s) VALUES (?,?,?,?,?)",
            ("aws-bbbbbbbb", "aws", REGION, settings, 1_700_000_000),
        )
    ledger.close()
    told = skyward(cloud, tmp_path, "gc", "--region", REGION)
    assert told.code == 0
    assert "skipped pool aws-bbbbbbbb in us-east-1: it is in the account 999999999999" in told.out
    assert "AWS_PROFILE=work skyward gc" in told.out
    assert "0 removed, 0 kept, 0 failed, 1 not checked" in told.err
    before = len(cloud.requests)
    told = skyward(cloud, tmp_path, "pool", "delete", "aws-bbbbbbbb")
    assert told.code == 1 and "AWS_PROFILE=work" in told.out
    assert len(cloud.requests) == before + 1, "nobody else's regions are asked for it"


def test_a_region_that_may_not_be_looked_in_is_told_and_no_failure(
    cloud: Cloud, tmp_path: Path
) -> None:
    over = marked(cloud, "aws-00000001", "arn:aws:iam::123456789012:user/skyward-test", 1000)
    cloud.faults = Faults(
        refuse=lambda request: (
            ("UnauthorizedOperation", 403)
            if request.region == "ap-south-1" and request.action == "DescribeInstances"
            else None
        )
    )
    told = skyward(cloud, tmp_path, "gc", "--provider", "aws", "--json")
    assert told.code == 0, told.err
    assert {row["id"]: row["action"] for row in told.rows()} == {
        over: "removed",
        "ap-south-1": "skipped",
    }


def test_deleting_a_pool_is_well_when_nothing_of_it_is_left(cloud: Cloud, tmp_path: Path) -> None:
    assert skyward(cloud, tmp_path, "gc", "--region", REGION).code == 0  # there is a ledger now
    now = int(time.time())
    settings = json.dumps({"account": "123456789012", "host": "x", "job": "1a2b3c4d"})
    with sqlite3.connect(tmp_path / "state/skyward/ledger.db") as ledger:
        ledger.execute(
            "INSERT INTO pool (id, provider, region, settings, opened_s) VALUES (?,?,?,?,?)",
            ("aws-bbbbbbbb", "aws", REGION, settings, now),
        )
        ledger.execute(
            "INSERT INTO entry (key, pool, kind, id, count, spot, instance_type, "
            "hourly_micro_dollars, asked_s) VALUES ('t', 'aws-bbbbbbbb', 'instance', "
            "'i-0123456789abcdef0', 1, 0, 't3.small', 0, ?)",
            (now,),
        )
    ledger.close()
    elsewhere = skyward(cloud, tmp_path, "pool", "delete", "aws-bbbbbbbb", "--region", "us-west-2")
    assert elsewhere.code == 2 and f"is in {REGION}: nothing of it was removed" in elsewhere.err
    told = skyward(cloud, tmp_path, "pool", "delete", "1a2b3c4d")
    assert told.code == 1, told.err
    assert "still lists instance i-0123456789abcdef0: the cloud has not confirmed" in told.err
    with sqlite3.connect(tmp_path / "state/skyward/ledger.db") as ledger:
        ledger.execute("UPDATE entry SET asked_s = ?", (now - 3600,))
    ledger.close()
    for _ in range(2):
        told = skyward(cloud, tmp_path, "pool", "delete", "1a2b3c4d")
        assert told.code == 0, told.err
        assert told.err.endswith("nothing is left of the pool aws-bbbbbbbb\n")

"""The program `skyward` where it needs no cloud: what it reads of this computer's own ledger, and
what it says of a wrong command line."""

import json
import pathlib
import socket
import sqlite3
import subprocess
import time

import pytest

import skyward as sky

PROGRAM = pathlib.Path(sky.__file__).parent / "bin" / "skyward"
MONTH = 30 * 86400


@pytest.fixture
def state(tmp_path, monkeypatch):
    """The place of the ledger, in a home of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "SKYWARD_PROVIDER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/none")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/none")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    folder = tmp_path / "state" / "skyward"
    folder.mkdir(parents=True, mode=0o700)
    return folder


def skyward(*words, prefix=(), stdout=subprocess.PIPE):
    done = subprocess.run(
        [*prefix, str(PROGRAM), *words],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def rows(*words, **options):
    code, out, err = skyward(*words, "--json", **options)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def left_behind(state, **columns):
    """A pool of a month ago whose driver was killed, with two machines at $4 an hour; as the first
    version wrote it, unless columns are added."""
    opened = int(time.time()) - MONTH
    settings = json.dumps({"account": "1", "owner": "me", "host": socket.gethostname()})
    with sqlite3.connect(state / "ledger.db") as ledger:
        ledger.execute("PRAGMA journal_mode=WAL")
        ledger.execute(
            "CREATE TABLE pool (id TEXT PRIMARY KEY, provider TEXT NOT NULL, region TEXT NOT NULL, "
            "settings TEXT NOT NULL, opened_s INTEGER NOT NULL, closed_s INTEGER)"
        )
        ledger.execute(
            "CREATE TABLE entry (key TEXT NOT NULL, pool TEXT NOT NULL, kind TEXT NOT NULL, "
            "id TEXT NOT NULL, count INTEGER NOT NULL, spot INTEGER NOT NULL, "
            "instance_type TEXT NOT NULL, hourly_micro_dollars INTEGER NOT NULL, "
            "asked_s INTEGER NOT NULL, gone_s INTEGER, "
            "PRIMARY KEY (pool, key, id))"
        )
        ledger.execute(
            "INSERT INTO pool VALUES ('aws-11111111', 'aws', 'us-east-1', ?, ?, NULL)",
            (settings, opened),
        )
        for name, value in columns.items():
            ledger.execute(f"ALTER TABLE pool ADD COLUMN {name} INTEGER NOT NULL DEFAULT {value}")
        for machine in ("i-0", "i-1"):
            ledger.execute(
                "INSERT INTO entry VALUES ('t1', 'aws-11111111', 'instance', ?, 1, 1, 'p4d', "
                "4000000, ?, NULL)",
                (machine, opened),
            )
    ledger.close()


def test_a_killed_pool_costs_no_more_than_its_machines_can_have_stood(state):
    left_behind(state, expires_s=int(time.time()) - MONTH + 3600)
    (cost,) = rows("cost")
    assert cost["at_most"] and cost["complete"]
    assert cost["dollars"] == pytest.approx(8 * (3600 + 120) / 3600, abs=0.05)
    assert cost["hourly_dollars"] == 0
    code, out, err = skyward("cost")
    assert code == 0 and "at most $8.2" in out
    assert "at most $8.2" in err and "'skyward gc' asks the cloud" in err


def test_without_that_time_nobody_knows_more_than_at_most(state):
    left_behind(state)
    (cost,) = rows("cost")
    assert cost["at_most"] and cost["dollars"] == pytest.approx(8 * MONTH / 3600, abs=1)


def test_a_request_that_nobody_answered_may_have_cost(state):
    left_behind(state, expires_s=1)
    with sqlite3.connect(state / "ledger.db") as ledger:
        ledger.execute("UPDATE entry SET id = '' WHERE id = 'i-0'")
    (cost,) = rows("cost")
    assert not cost["complete"]


def test_what_was_bought_is_read_from_a_disk_that_cannot_be_written_to(state):
    left_behind(state)
    only_read = (
        "unshare",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"',
        str(state),
    )
    if subprocess.run([*only_read, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no namespaces of mounts here")
    assert subprocess.run([*only_read, "touch", state / "x"], check=False).returncode != 0
    assert [row["pool"] for row in rows("cost", prefix=only_read)] == ["aws-11111111"]
    assert [row["state"] for row in rows("pool", "list", prefix=only_read)] == ["left behind"]


def test_a_list_of_pools_has_one_shape(state):
    left_behind(state)
    (state / "20240131-235900-1a2b3c4d").mkdir()
    cloud, recorded = rows("pool", "list", "--all")
    assert cloud.keys() == recorded.keys()
    assert (cloud["pool"], cloud["provider"], cloud["machines"]) == ("aws-11111111", "aws", 2)
    assert recorded == {
        "pool": "1a2b3c4d",
        "provider": None,
        "region": None,
        "state": "recorded",
        "machines": 0,
        "opened": 1706745540,
        "record": "20240131-235900-1a2b3c4d",
    }
    assert "2024-01-31T23:59:00Z" in skyward("pool", "list", "--all")[1]


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["frobnicate"], "there is no command 'skyward frobnicate'", "skyward knows offers"),
        (["pool", "lsit"], "there is no command 'skyward pool lsit'", "did you mean list?"),
        (["pool"], "'skyward pool' needs another word", "list, get, logs, delete"),
        (["gc", "--dry-rum"], "'skyward gc' has no option --dry-rum", "did you mean --dry-run?"),
        (["gc", "--timeout", "0"], "0 is not a number above 0", "'skyward gc --help'"),
        (["offers", "list", "--count", "-1"], "-1 is not a number above 0", "--help"),
        (["offers", "list", "--cpu", "-5"], "-5 is not a number from 0 on", "--help"),
        (["pool", "get"], "pool is required", "--help"),
        (["gc", "--provider", "nope"], 'there is no provider named "nope"', '"aws"'),
        (["gc", "--provider", "local"], 'pools of "local" leave nothing behind', "providers list"),
    ],
)
def test_a_wrong_command_line_is_told_with_what_to_say(state, words, message, hint):
    code, out, err = skyward(*words)
    assert code == 2 and out == "", err
    assert err.startswith("skyward: ") and message in err and hint in err
    assert '"fake"' not in err
    code, out, err = skyward(*words, "--json")
    told = json.loads(err)
    assert code == 2 and out == "" and told["error"] == "invalid"
    assert message in told["message"] and hint in told["hint"]


def test_what_cannot_be_written_is_told(state):
    left_behind(state)
    with open("/dev/full", "w") as full:
        code, _, err = skyward("cost", stdout=full)
    assert code == 1
    assert "skyward: not all could be written to the standard output" in err


def test_settings_of_providers_that_are_not_supported_yet_are_told_when_asked_for(state):
    def names(*options):
        return {row["name"].split(".")[0] for row in rows("config", "show", *options)}

    assert "aws" in names() and "runpod" not in names()
    assert "runpod" in names("--all")

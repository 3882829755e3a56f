"""The program `skyward` where it needs no cloud: what it reads of this computer's own ledger, and
what it says of a wrong command line."""

import fcntl
import hashlib
import json
import os
import pathlib
import pwd
import re
import socket
import sqlite3
import subprocess
import sys
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
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
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


def left_at_an_unknown_provider(state):
    """The same, where only another version of Skyward could remove it."""
    left_behind(state)
    with sqlite3.connect(state / "ledger.db") as ledger:
        ledger.execute("UPDATE pool SET provider = 'nimbus'")
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


def test_the_least_that_a_cloud_charges_counts(state):
    left_behind(state, expires_s=int(time.time()) - MONTH + 3600)
    with sqlite3.connect(state / "ledger.db") as ledger:
        (settings,) = ledger.execute("SELECT settings FROM pool").fetchone()
        settings = json.dumps(json.loads(settings) | {"least_micro_dollars": "30000000"})
        ledger.execute("UPDATE pool SET settings = ?", (settings,))
    ledger.close()
    (cost,) = rows("cost")
    assert cost["dollars"] == pytest.approx(60)


@pytest.mark.parametrize(("minimum", "billed_s"), [({}, 60), ({"minimum_seconds": "0"}, 18)])
def test_a_cloud_without_a_minimum_bills_seconds(state, minimum, billed_s):
    left_behind(state)
    with sqlite3.connect(state / "ledger.db") as ledger:
        (settings,) = ledger.execute("SELECT settings FROM pool").fetchone()
        settings = json.dumps(json.loads(settings) | minimum)
        ledger.execute("UPDATE pool SET settings = ?", (settings,))
        ledger.execute("UPDATE entry SET gone_s = asked_s + 18")
    ledger.close()
    (cost,) = rows("cost")
    assert cost["dollars"] == pytest.approx(8 * billed_s / 3600, abs=0.0001)


def test_a_machine_that_the_cloud_took_back_early_costs_nothing(state):
    left_behind(state)
    with sqlite3.connect(state / "ledger.db") as ledger:
        ledger.execute("UPDATE entry SET gone_s = asked_s + 1800")
        ledger.execute("UPDATE entry SET hourly_micro_dollars = -1 WHERE id = 'i-0'")
    ledger.close()
    (cost,) = rows("cost")
    assert cost["dollars"] == pytest.approx(2) and cost["machines"] == 2
    assert cost["complete"] and not cost["at_most"]


def test_the_costs_of_pools_add_up_to_the_sum(state):
    left_behind(state)
    with sqlite3.connect(state / "ledger.db") as ledger:
        ledger.execute("DELETE FROM entry")
        for pool in ("aws-11111111", "aws-22222222", "aws-33333333"):
            ledger.execute(
                "INSERT OR IGNORE INTO pool VALUES (?, 'aws', 'us-east-1', '{}', 1, 9)", (pool,)
            )
            ledger.execute(  # a minute, $0.000150
                "INSERT INTO entry VALUES ('t', ?, 'instance', 'i-0', 1, 1, 'm', 9000, 1, 9)",
                (pool,),
            )
    ledger.close()
    assert [row["dollars"] for row in rows("cost")] == [0.00015] * 3
    _, out, err = skyward("cost")
    costs = [float(cell[1:]) for cell in out.split() if cell.startswith("$0.000")]
    assert sorted(costs) == [0, 0, 0, 0.0001, 0.0002, 0.0002]  # three are for an hour
    assert err.startswith("$0.0005 for machines")


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


@pytest.mark.parametrize("provider", ["container", "kubernetes", "slurm"])
def test_machines_that_no_cloud_bills_cost_nothing_for_certain(state, provider):
    """Of a killed program: one launch had no answer, and nobody saw the machine go."""
    left_behind(state, expires_s=int(time.time()) + 3600)
    with sqlite3.connect(state / "ledger.db") as ledger:
        ledger.execute("UPDATE pool SET provider = ?", (provider,))
        ledger.execute("UPDATE entry SET hourly_micro_dollars = 0")
        ledger.execute("UPDATE entry SET id = '' WHERE id = 'i-0'")
    ledger.close()
    (cost,) = rows("cost")
    assert (cost["machines"], cost["dollars"], cost["hourly_dollars"]) == (1, 0, 0)
    assert cost["complete"] and not cost["at_most"]
    _, out, err = skyward("cost")
    assert not any(bound in out + err for bound in ("about", "at least", "at most"))
    with sqlite3.connect(state / "ledger.db") as ledger:
        ledger.execute("UPDATE pool SET provider = 'aws'")
    ledger.close()
    assert not rows("cost")[0]["complete"], "a cloud has a price, which is not known"


def test_what_was_launched_is_read_from_a_disk_that_cannot_be_written_to(state):
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


def test_a_pool_of_which_only_a_security_group_is_left_has_ended(state):
    left_behind(state)
    with sqlite3.connect(state / "ledger.db") as ledger:
        ledger.execute(
            "INSERT INTO entry VALUES "
            "('t2', 'aws-11111111', 'security_group', 'sg-1', 1, 0, '', 0, 1, NULL)"
        )
    assert [row["state"] for row in rows("pool", "list")] == ["left behind"]
    with sqlite3.connect(state / "ledger.db") as ledger:
        ledger.execute("UPDATE entry SET gone_s = asked_s + 9 WHERE kind = 'instance'")
    (row,) = rows("pool", "list")
    assert (row["state"], row["machines"]) == ("ended", 0)


def test_a_list_of_pools_has_one_shape(state):
    left_behind(state)
    (state / "20240131-235900-1a2b3c4d").mkdir()
    cloud, recorded = rows("pool", "list", "--all")
    assert cloud.keys() == recorded.keys()
    assert (cloud["pool"], cloud["provider"], cloud["machines"]) == ("aws-11111111", "aws", 2)
    assert recorded == {
        "pool": "1a2b3c4d",
        "job": "1a2b3c4d",
        "provider": None,
        "region": None,
        "state": "recorded",
        "machines": None,
        "opened": 1706745540,
        "record": str(state / "20240131-235900-1a2b3c4d"),
        "trouble": None,
    }
    assert "2024-01-31T23:59:00Z" in skyward("pool", "list", "--all")[1]


def test_what_is_not_known_is_null(state):
    left_behind(state)
    with sqlite3.connect(state / "ledger.db") as ledger:
        ledger.execute("UPDATE pool SET region = ''")
        ledger.execute("UPDATE entry SET id = '', hourly_micro_dollars = 0 WHERE id = 'i-0'")
        ledger.execute(
            "INSERT INTO entry VALUES "
            "('t2', 'aws-11111111', 'security_group', 'sg-1', 1, 0, '', 0, 0, NULL)"
        )
    ledger.close()
    (pool,) = rows("pool", "get", "aws-11111111")
    group, unanswered, machine = pool["things"]
    assert pool["region"] is None and pool["record"] is None
    assert (group["instance_type"], group["hourly_dollars"], group["asked"]) == (None, None, None)
    assert (unanswered["id"], unanswered["hourly_dollars"]) == (None, None)
    assert (machine["id"], machine["hourly_dollars"], machine["gone"]) == ("i-1", 4.0, None)
    assert rows("pool", "list")[0]["region"] is None and rows("cost")[0]["region"] is None
    shown = skyward("pool", "get", "aws-11111111")[1]
    assert "1970" not in shown and "AN HOUR" in shown and " $4.0000 " in shown


@pytest.mark.parametrize(("line", "name"), [("AWS", "aws"), ("Vast.ai", "vastai"), ("x", "x")])
def test_a_provider_has_one_name(state, line, name):
    job = recorded(state, line)
    assert [row["provider"] for row in rows("pool", "list", "--all")] == [name]
    assert rows("pool", "get", job)[0]["provider"] == name


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["frobnicate"], "there is no command 'skyward frobnicate'", "skyward knows offers"),
        (["pool", "lsit"], "there is no command 'skyward pool lsit'", "did you mean list?"),
        (["pool"], "'skyward pool' needs a subcommand", "list, get, logs, delete"),
        (["gc", "--dry-rum"], "'skyward gc' has no option --dry-rum", "did you mean --dry-run?"),
        (["gc", "--timeout", "0"], "0 is not a number above 0", "'skyward gc --help'"),
        (["offers", "list", "--count", "-1"], "-1 is not a number above 0", "--help"),
        (["offers", "list", "--cpu", "-5"], "-5 is not a non-negative number", "--help"),
        (["offers", "list", "--architecture", "sparc"], "sparc not in {", "--help"),
        (["pool", "get"], "pool is required", "--help"),
        (["-x"], "'skyward' has no option -x", "'skyward --help'"),
        (["gc", "-x"], "'skyward gc' has no option -x", "'skyward gc --help'"),
        (["cost", "--timeout", "3"], "'skyward cost' has no option --timeout", "--help"),
        (["offers", "list", "--limit", "-3"], "-3 is not a non-negative number", "--help"),
        (
            ["offers", "list", "--count", "2"],
            "--count: there is no --accelerator to count",
            "--accelerator A100 --count 2",
        ),
        (["offers", "list", "--memory", "5"], '--memory="5" has no unit', '"5GB"'),
        (["offers", "list", "--provider", "local"], 'is rented from "local"', "providers list"),
        (["offers", "list", "--provider", "ssh"], 'is rented from "ssh"', "providers list"),
        (
            ["offers", "list", "--provider", "fake"],
            "the program that tests with it",
            "providers list",
        ),
        (["gc", "--provider", "asw"], 'there is no provider named "asw"', "did you mean aws?"),
        (
            ["providers", "check", "digitalocean"],
            'there is no provider named "digitalocean"',
            "did you mean digital_ocean?",
        ),
        (["gc", "--provider", "nope"], 'there is no provider named "nope"', '"aws"'),
        (["gc", "--provider", "local"], 'nothing is rented from "local"', "providers list"),
    ],
)
def test_a_wrong_command_line_is_told_with_what_to_say(state, words, message, hint):
    code, out, err = skyward(*words)
    assert code == 2 and out == "", err
    assert err.startswith("skyward: ") and message in err and hint in err
    assert '"fake"' not in err.partition("hint:")[2]
    code, out, err = skyward(*words, "--json")
    told = json.loads(out)
    assert code == 2 and told["error"] == "invalid" and message in err
    assert message in told["message"] and hint in told["hint"]


def test_what_cannot_be_written_is_told(state):
    left_behind(state)
    with open("/dev/full", "w") as full:
        code, _, err = skyward("cost", stdout=full)
    assert code == 1
    assert "skyward: could not write everything to standard output" in err


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["config", "show", "--help"]])
def test_help_that_cannot_be_written_is_told(state, words):
    with open("/dev/full", "w") as full:
        code, _, err = skyward(*words, stdout=full)
    assert code == 1
    assert "skyward: could not write everything to standard output" in err


def test_hidden_commands_are_not_offered(state):
    _, _, err = skyward("frobnicate")
    assert "skyward knows offers" in err and "reap" not in err
    code, _, err = skyward("reap", "--frob")
    assert code == 2 and "'skyward reap' has no option --frob" in err


def test_a_reaper_that_could_not_reach_its_cloud_does_not_start(state, monkeypatch):
    for library in ("libcurl.so.4", "libcurl-gnutls.so.4"):
        (state / library).touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(state))
    order = {
        "provider": "digital_ocean",
        "settings": {"token": "x"},
        "pool": "digital_ocean-1a2b3c4d",
        "region": "ams3",
        "expires": int(time.time()) + 3600,
    }
    done = subprocess.run(
        [str(PROGRAM), "reap"],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0 and "this machine has no libcurl.so.4" in done.stderr


def with_job(state, job):
    """The pool that was left behind was that of the job."""
    with sqlite3.connect(state / "ledger.db") as ledger:
        (settings,) = ledger.execute("SELECT settings FROM pool").fetchone()
        settings = json.dumps(json.loads(settings) | {"job": job})
        ledger.execute("UPDATE pool SET settings = ?", (settings,))
    ledger.close()
    folder = state / f"20240131-235900-{job}"
    folder.mkdir()
    (folder / "pool.log").write_text("what happened\n")


@pytest.mark.parametrize("job", ["11111111", "1a2b3c4d"])
def test_a_pool_answers_to_the_id_that_its_program_tells(state, job):
    left_behind(state)
    with_job(state, job)
    (row,) = rows("pool", "list", "--all")
    assert (row["pool"], row["job"]) == ("aws-11111111", job)
    assert row["record"] == str(state / f"20240131-235900-{job}")
    assert rows("pool", "get", job)[0]["record"] == row["record"]
    for name in (job, "aws-11111111", f"20240131-235900-{job}", row["record"]):
        assert skyward("pool", "logs", name)[1] == "what happened\n", name
        assert rows("pool", "get", name)[0]["pool"] == "aws-11111111"
        assert rows("cost", name)[0]["pool"] == "aws-11111111"
    assert ("(1a2b3c4d)" in skyward("pool", "list")[1]) == (job == "1a2b3c4d")


def test_one_pool_is_shown_with_the_trouble_of_its_reaper(state):
    left_behind(state)
    assert rows("pool", "get", "aws-11111111")[0]["trouble"] is None
    folder = state / "clouds" / "aws-11111111"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "gave-up").write_text("no credentials")
    assert rows("pool", "get", "aws-11111111")[0]["trouble"] == "no credentials"
    assert "trouble   no credentials\n" in skyward("pool", "get", "aws-11111111")[1]


def test_a_pool_may_outlive_its_log_files(state):
    left_behind(state)
    for name in ("11111111", "aws-11111111"):
        code, out, err = skyward("pool", "logs", name)
        assert (code, out) == (2, "")
        assert f"the log files of the pool {name} are gone" in err and "newest hundred local" in err


def test_a_local_pool_is_open_while_its_program_has_it_open(state):
    with sky.ComputePool(display="quiet") as pool:
        (row,) = rows("pool", "list")
        assert (row["state"], row["provider"]) == ("open", "local")
        assert rows("pool", "get", row["pool"])[0]["state"] == "open"
        assert " local " in skyward("pool", "list")[1]
        code, out, err = skyward("pool", "delete", row["pool"])
        assert code != 0 and out == "" and f"the process {os.getpid()}" in err
        assert f"'kill {os.getpid()}'" in err
        code, out, _ = skyward("pool", "delete", row["pool"], "--json")
        assert code != 0 and json.loads(out)["error"] == "unsupported"
        assert sky.compute(abs)(-1) >> pool == 1
    assert rows("pool", "list") == []
    (row,) = rows("pool", "list", "--all")
    assert (row["state"], row["provider"]) == ("recorded", "local")


def test_an_open_pool_closes_as_the_message_says(state):
    """A notebook's kernel ignores SIGINT while no cell runs."""
    program = (
        "import signal, threading, skyward as sky\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "pool = sky.ComputePool(display='quiet').open()\n"
        "print('open', flush=True)\n"
        "threading.Event().wait()\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "open\n"
            (row,) = rows("pool", "list")
            code, _, err = skyward("pool", "delete", row["pool"])
            assert code == 1
            advice = re.search(r"'(kill [^']*)'", err)[1]
            subprocess.run(["sh", "-c", advice], check=True, timeout=20)
            child.wait(60)
        finally:
            child.kill()
    assert rows("pool", "list") == []
    assert "closed after" in skyward("pool", "logs", row["pool"])[1]


def test_a_pool_whose_program_was_killed_is_not_open(state):
    program = (
        "import os, signal, skyward as sky\n"
        "with sky.ComputePool(display='quiet'):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program], timeout=60, check=False)
    assert rows("pool", "list") == []
    (row,) = rows("pool", "list", "--all")
    assert row["state"] == "recorded"


def test_a_local_pool_answers_to_the_id_that_its_program_tells(state):
    told = []
    with sky.ComputePool(display="quiet", on_event=told.append):
        pass
    (job,) = {event.pool for event in told if isinstance(event, sky.InfraCreating)}
    (machine,) = [event for event in told if isinstance(event, sky.InstanceProvisioned)]
    assert machine.instance_id == f"local-{job}-0"
    for name in (job, f"local-{job}"):
        assert f"opening {job}" in skyward("pool", "logs", name)[1]
        assert rows("pool", "get", name)[0]["pool"] == job
        code, out, err = skyward("pool", "delete", name)
        assert (code, out) == (0, "") and "nothing was launched for it" in err
        (kept,) = rows("pool", "delete", name)
        assert (kept["action"], kept["kind"]) == ("kept", "pool") and "end with" in kept["why"]
        lines = rows("pool", "logs", name)
        assert lines[0]["file"] == "pool.log" and f"opening {job}" in lines[0]["line"]
        assert "nothing was launched" in skyward("cost", name)[2]


def test_a_pool_is_not_deleted_where_it_is_not(state):
    left_behind(state)
    code, out, err = skyward("pool", "delete", "aws-11111111", "--region", "eu-west-1")
    assert code == 2 and out == ""
    assert "the pool aws-11111111 is in us-east-1: nothing of it was removed" in err


def test_an_open_pool_is_told_with_its_program(state):
    left_behind(state)
    folder = state / "clouds" / "aws-11111111"
    folder.mkdir(parents=True, mode=0o700)
    with open(folder / "lock", "w") as lock:
        lock.write("4242")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, out, err = skyward("pool", "delete", "aws-11111111")
    assert code == 1 and out == ""
    assert "the process 4242 on this computer uses it" in err and "'kill 4242'" in err
    with open(folder / "lock", "w") as lock:
        lock.write("1 2\n")  # of another container
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        for words in (["delete"], ["forget", "--yes"]):
            code, out, err = skyward("pool", *words, "aws-11111111")
            assert code == 1 and "a program on this computer uses it" in err and "kill" not in err
    assert rows("pool", "list") != []


def test_a_forgotten_pool_is_closed_and_costs_no_more(state):
    left_behind(state)
    folder = state / "clouds" / "aws-11111111"
    folder.mkdir(parents=True, mode=0o700)
    code, out, err = skyward("pool", "forget", "11111111")
    assert (
        code == 1 and "nothing was changed" in err and "'skyward pool forget 11111111 --yes'" in err
    )
    told = "of pool aws-11111111 in us-east-1 may still exist and cost $4.0000 an hour"
    assert out == f"instance i-0 {told}\ninstance i-1 {told}\n"
    (before,) = rows("cost")
    assert (rows("pool", "list")[0]["state"], before["hourly_dollars"]) == ("left behind", 8)
    listed = rows("pool", "forget", "aws-11111111", "--yes")
    assert [(one["id"], one["hourly_dollars"]) for one in listed] == [("i-0", 4), ("i-1", 4)]
    assert rows("pool", "list") == [] and not folder.exists()
    (after,) = rows("cost")
    assert after["hourly_dollars"] == 0 and after["at_most"]
    assert after["dollars"] >= before["dollars"] > 0
    code, out, err = skyward("pool", "forget", "aws-11111111", "--yes")
    assert (code, out) == (0, "") and "nothing is left of the pool" in err
    code, _, err = skyward("pool", "forget", "aws-22222222", "--yes")
    assert code == 2 and 'there is no pool "aws-22222222" here' in err


def test_a_forgotten_pool_costs_until_its_machines_have_terminated_themselves(state):
    opened = int(time.time()) - MONTH
    left_behind(state, expires_s=opened + 3600)
    before = rows("cost")[0]["dollars"]
    assert skyward("pool", "forget", "aws-11111111", "--yes")[0] == 0
    assert rows("cost")[0]["dollars"] == before


def test_a_pool_of_another_computer_is_elsewhere(state):
    """They share a home. Whether its lock is seen here depends on the file system."""
    left_behind(state, expires_s=int(time.time()) + 3600)
    with sqlite3.connect(state / "ledger.db") as ledger:
        settings = json.dumps({"account": "1", "owner": "me", "host": "login-b"})
        ledger.execute("UPDATE pool SET settings = ?", (settings,))
    ledger.close()

    def states():
        (listed,) = rows("pool", "list")
        (got,) = rows("pool", "get", "aws-11111111")
        return {listed["state"], got["state"]}

    folder = state / "clouds" / "aws-11111111"
    folder.mkdir(parents=True, mode=0o700)
    with open(folder / "lock", "w") as lock:
        assert states() == {"elsewhere"}
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert states() == {"elsewhere"}
        assert "computer  login-b\n" in skyward("pool", "get", "aws-11111111")[1]
        code, _, err = skyward("pool", "delete", "aws-11111111")
        assert code == 1 and "a program on login-b uses it" in err and "kill" not in err
    with sqlite3.connect(state / "ledger.db") as ledger:
        ledger.execute("UPDATE pool SET expires_s = opened_s")
    ledger.close()
    assert states() == {"left behind"}, "its time is over"


def test_a_broken_settings_file_keeps_no_machine_alive(state, tmp_path, monkeypatch):
    (tmp_path / "skyward.toml").write_text("this is no TOML")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # no podman, no kubectl
    code, _, err = skyward("gc", "--provider", "aws")
    assert "skyward: warning: " in err and "continuing without it" in err
    assert code == 77 and "credentials" in err, "it went on to the cloud"
    code, _, err = skyward("gc")
    assert code == 77 and "no credentials for AWS, DigitalOcean, " in err


def test_a_broken_ledger_has_an_exit_code_of_its_own(state):
    (state / "ledger.db").write_bytes(b"no ledger at all" * 100)
    for words in (["pool", "list"], ["pool", "get", "x"], ["cost"]):
        code, out, err = skyward(*words)
        assert code == 74 and out == "" and "'skyward pool delete ID' terminates" in err


def test_no_command_uses_the_ledger_of_a_newer_version(state):
    left_behind(state)
    with sqlite3.connect(state / "ledger.db") as ledger:
        ledger.execute("PRAGMA user_version=1000")
    for words in (["pool", "list"], ["pool", "get", "aws-11111111"], ["cost"]):
        code, out, err = skyward(*words)
        assert code == 74 and out == "" and "a newer version of skyward" in err, words
    code, _, err = skyward("gc", "--provider", "aws")
    assert code != 0 and "0 removed" not in err


def test_gc_says_that_it_has_no_ledger(state, monkeypatch):
    podman = state.parent / "podman"  # that works and has nothing, whatever this computer has
    podman.write_text(
        "#!/bin/sh\n[ $1 != info ] || echo 'skyward-host=host|4|8000000000|amd64|/var'\n"
    )
    podman.chmod(0o755)
    monkeypatch.setenv("PATH", f"{state.parent}:/usr/bin:/bin")
    state.rmdir()
    state.write_text("in the way")
    for words in (["gc"], ["gc", "--provider", "container"], ["pool", "delete", "1a2b3c4d"]):
        code, _, err = skyward(*words)
        assert code == 74 and f"{state}/ledger.db cannot be" in err, (words, err)


def test_gc_says_that_it_has_no_place_for_a_ledger(state, monkeypatch):
    containers = docker_that_has(state, monkeypatch, "00000001")
    monkeypatch.setenv("HOME", "")
    monkeypatch.delenv("XDG_STATE_HOME")
    code, _, err = skyward("gc")
    assert code == 74 and "there is no place for the ledger" in err and "XDG_STATE_HOME" in err
    assert list(containers.iterdir()) == [], "its pool's time was over"


@pytest.mark.skipif(not os.path.isabs(pwd.getpwuid(os.geteuid()).pw_dir), reason="has no home")
def test_without_a_variable_the_home_is_that_of_the_user_database(state, monkeypatch):
    monkeypatch.setenv("SKYWARD_CONFIG", "~/no-such-settings.toml")
    monkeypatch.delenv("HOME")
    code, _, err = skyward("config", "show")
    home = pwd.getpwuid(os.geteuid()).pw_dir
    assert code != 0 and f"{home}/no-such-settings.toml" in err, err


def test_gc_tells_of_pools_at_a_provider_that_only_another_version_knows(state, monkeypatch):
    left_at_an_unknown_provider(state)
    docker_that_is_empty(state, monkeypatch)
    code, out, err = skyward("gc")
    assert code == 1 and "0 removed" in err and "1 not checked" in err
    assert out.startswith("skipped pool aws-11111111")
    assert "this version of Skyward does not know the provider nimbus" in out
    assert "'skyward gc' from the environment that opened the pool" in out
    code, out, _ = skyward("gc", "--provider", "container")
    assert code == 0 and out == ""


def recorded(state, provider, job="174f6ce4"):
    """A pool of which the ledger has nothing (any more)."""
    folder = state / f"20240131-235900-{job}"
    folder.mkdir()
    (folder / "providers").write_text(f"{provider}\n")
    return job


@pytest.mark.parametrize("provider", ["container", "AWS"])
def test_a_pool_whose_ledger_is_lost_is_looked_for_where_it_was(state, monkeypatch, provider):
    job = recorded(state, provider)
    monkeypatch.setenv("PATH", str(state))  # no podman
    for words in ([job], [job, "--dry-run"], [f"{provider.lower()}-{job}"]):
        code, out, err = skyward("pool", "delete", *words)
        assert code != 0 and out == "", "it could not be looked for"
        assert "nothing was launched" not in err


def docker_that_is_empty(state, monkeypatch):
    """Answers, has nothing, and notes what it is asked."""
    program = state / "docker"
    told = "skyward-host=box|2|4000000000|x86_64|/var/lib/docker|AAAA"
    program.write_text(
        f"#!/bin/sh\necho \"$@\" >>{state}/asked\ncase $1 in info) echo '{told}' ;; esac\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(state))  # no other runtime


def docker_that_has(state, monkeypatch, *pools):
    """Docker with a container of each of these pools, whose time is over. They have ended. Gives
    the folder that has a file for each."""
    docker_that_is_empty(state, monkeypatch)
    owner = hashlib.sha256(b"docker at box:/var/lib/docker, AAAA").hexdigest()[:8]
    containers = state / "containers"
    containers.mkdir()
    for pool in pools:
        (containers / f"skyward-{pool}-{owner}-3e8-0").touch()
    program = state / "docker"
    program.write_text(
        program.read_text()
        + f"""cd {containers}
case $1 in
ps) for one in skyward-*; do [ ! -e $one ] || echo $one; done ;;
container) shift 3; for one; do [ ! -e $one ] || echo "/$one|exited|0|false|bridge|"; done ;;
rm) shift 3; for one; do /bin/rm $one && echo $one; done ;;
esac
"""
    )
    return containers


@pytest.mark.parametrize("words", [["gc"], ["pool", "delete", "container-00000001"]])
def test_a_reader_that_leaves_keeps_no_machine_alive(state, monkeypatch, words):
    pools = ("00000001", "00000002") if words == ["gc"] else ("00000001",)
    containers = docker_that_has(state, monkeypatch, *pools)
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as nobody:
        code, _, err = skyward(*words, stdout=nobody)
    assert list(containers.iterdir()) == []
    assert code == 1 and "could not write everything to standard output" in err


@pytest.mark.parametrize(
    "words", [["gc", "--provider", "container"], ["pool", "delete", "container-00000001"]]
)
def test_a_region_where_there_are_none_is_refused(state, monkeypatch, words):
    containers = docker_that_has(state, monkeypatch, "00000001")
    code, out, err = skyward(*words, "--region", "box")
    assert code == 2 and out == "" and len(list(containers.iterdir())) == 1
    assert "--region does not apply to Containers: nothing was searched" in err


def test_where_a_ledger_is_broken_is_searched_all_the_same(state, monkeypatch):
    docker_that_is_empty(state, monkeypatch)
    job = recorded(state, "container")
    (state / "ledger.db").write_bytes(b"no ledger at all" * 100)
    for words in (["pool", "delete", job], ["gc"], ["gc", "--provider", "container"]):
        (state / "asked").write_text("")
        code, out, err = skyward(*words)
        assert code == 74 and "not a database" in err, words
        assert "nothing" not in out + err and "ps " in (state / "asked").read_text(), words


def test_a_record_that_does_not_say_where_its_pool_was_proves_nothing(state, monkeypatch):
    monkeypatch.setenv("PATH", str(state))  # no podman
    for job, providers in (("00000001", "aws"), ("00000002", ""), ("00000003", "AWS\nlocal\n")):
        folder = state / f"20240131-235900-{job}"
        folder.mkdir()
        (folder / "providers").write_text(providers)
        code, out, err = skyward("pool", "delete", job)
        assert code != 0 and out == "" and "nothing was launched" not in err
    recorded(state, "local", "00000004")
    code, _, err = skyward("pool", "delete", "aws-00000004")
    assert code != 0 and "nothing was launched" not in err
    assert skyward("pool", "delete", "local-00000004")[0] == 0


def test_a_lost_ledger_leaves_a_doubt(state, monkeypatch):
    """Docker answers, and has nothing with that tag. The pool may have got another one."""
    docker_that_is_empty(state, monkeypatch)
    code, _, err = skyward("pool", "delete", recorded(state, "container"))
    assert code == 1 and "nothing carries the tag 174f6ce4 at Containers" in err
    assert "'skyward gc --dry-run --provider container'" in err


def test_each_cloud_that_has_no_offers_to_show_says_why(state, monkeypatch):
    monkeypatch.setenv("PATH", str(state))  # no podman, no kubectl
    monkeypatch.setenv("DIGITALOCEAN_TOKEN", "x")
    monkeypatch.setenv("DIGITALOCEAN_API_URL", closed_port())
    words = ("offers", "list", "--accelerator", "A100", "--timeout", "5")
    code, out, err = skyward(*words)
    assert code == 69 and out == "" and "cannot be reached" in err and "nothing from" not in err
    assert "no credentials for AWS, RunPod, " in err
    monkeypatch.setenv("RUNPOD_API_KEY", "x")
    monkeypatch.setenv("RUNPOD_API_BASE_URL", closed_port())
    code, out, err = skyward(*words, "--json")
    told = [json.loads(line)["message"] for line in out.splitlines()]
    assert code == 69 and len(told) == 2
    for cloud, message in zip(("digital_ocean", "runpod"), told, strict=True):
        assert message.startswith(f"nothing from {cloud}: ") and message in err


def test_offers_of_this_computers_containers_are_listed_when_they_are_named(state, monkeypatch):
    docker_that_is_empty(state, monkeypatch)
    code, out, err = skyward("offers", "list", "--accelerator", "A100")
    assert code == 77 and out == "", err
    assert "no credentials for AWS, DigitalOcean, " in err and "nvidia-smi" not in err
    (offer,) = rows("offers", "list", "--provider", "container")
    assert offer["provider"] == "container" and offer["price_on_demand"] == 0


def test_gc_without_credentials_alerts_where_docker_is_installed(state, monkeypatch):
    docker_that_is_empty(state, monkeypatch)
    for words in (["gc"], ["gc", "--dry-run"]):
        code, out, err = skyward(*words)
        assert code == 77 and out == "", err
        assert "this computer has no credentials for AWS, DigitalOcean, " in err
        assert "ps " in (state / "asked").read_text(), "it searched what it could"
    assert skyward("gc", "--provider", "container")[0] == 0


def test_gc_needs_no_cloud_where_containers_are_used(state, monkeypatch):
    docker_that_is_empty(state, monkeypatch)
    left_behind(state)
    with sqlite3.connect(state / "ledger.db") as ledger:
        ledger.execute("UPDATE pool SET provider = 'container', closed_s = opened_s + 60")
        ledger.execute("UPDATE entry SET gone_s = asked_s + 60")
    ledger.close()
    assert skyward("gc")[0] == 0


def test_a_pool_that_is_not_found_says_which_clouds_were_not_searched(state, monkeypatch):
    docker_that_is_empty(state, monkeypatch)
    code, out, err = skyward("pool", "delete", "1a2b3c4d")
    assert code == 77 and out == "" and "ps " in (state / "asked").read_text()
    assert 'the pool "1a2b3c4d" was not found' in err and "not at AWS, DigitalOcean, " in err
    code, _, err = skyward("pool", "delete", "container-1a2b3c4d")
    assert code == 2 and 'there is no pool "container-1a2b3c4d"' in err


def closed_port():
    """The URL of a server that is off."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return f"http://127.0.0.1:{closed.getsockname()[1]}"


def test_what_cannot_be_reached_is_not_missing(state, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", closed_port())
    code, out, err = skyward("providers", "check", "aws", "--timeout", "5")
    assert code == 69 and "account could not be checked: " in err
    assert "ok       credentials" in out and "MISSING" not in out
    code, out, _ = skyward("providers", "check", "aws", "--timeout", "5", "--json")
    assert code == 69 and json.loads(out.splitlines()[-1])["error"] == "unavailable"


def test_nothing_was_searched_if_no_provider_answers(state, monkeypatch):
    program = state / "docker"
    program.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(state))  # no other runtime
    code, out, err = skyward("gc")
    assert code == 69 and "skipped provider container" in out and "nothing was searched" in err


def test_nothing_was_searched_if_a_provider_lets_one_in_and_lists_nothing(state, monkeypatch):
    docker_that_is_empty(state, monkeypatch)
    program = state / "docker"
    broken = "case $1 in ps) echo 'Cannot connect to the Docker daemon' >&2; exit 1 ;; esac\n"
    program.write_text(program.read_text() + broken)
    code, out, err = skyward("gc")
    assert code == 69 and "skipped provider container in box" in out
    assert "nothing was searched" in err and "0 removed" not in err


def test_a_pool_does_not_answer_to_the_name_of_another_cloud(state):
    left_behind(state)
    with_job(state, "1a2b3c4d")
    for words in (["cost"], ["pool", "get"], ["pool", "logs"]):
        for name in ("verda-1a2b3c4d", "x-1a2b3c4d"):
            code, out, err = skyward(*words, name)
            assert code == 2 and out == "" and f'no pool "{name}"' in err, words


def test_json_says_anything_that_a_command_line_may_hold(state):
    for words in (["pool", "get"], ["pool", "logs"], ["cost"], ["gc", "--provider"], ["offers"]):
        done = subprocess.run(
            [PROGRAM, *words, b"a\xff", "--json"], capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 2, done.stderr
        assert "a\N{REPLACEMENT CHARACTER}" in json.loads(done.stdout)["message"]


def test_times_are_utc_wherever_the_computer_is(state, monkeypatch):
    program = "import skyward as sky\nwith sky.ComputePool(display='quiet'): pass\n"
    before = int(time.time())
    monkeypatch.setenv("TZ", "Somewhere-9")
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)
    (row,) = rows("pool", "list", "--all")
    assert before <= row["opened"] <= time.time()
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(row["opened"]))
    assert row["record"].startswith(f"{state}/{moment}")
    assert (
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(row["opened"]))
        in skyward("pool", "list", "--all")[1]
    )
    first = (state / row["record"] / "pool.log").read_text().split()[0]
    assert first[:13] == time.strftime("%Y-%m-%dT%H", time.gmtime(row["opened"]))


def test_a_variable_that_nobody_reads_is_told(state, monkeypatch):
    monkeypatch.setenv("SKYWARD_AWS_REGOIN", "eu-west-1")
    monkeypatch.setenv("SKYWARD_AWS_REGION", "eu-west-1")
    code, _, err = skyward("config", "show")
    assert code == 0 and "unknown variable SKYWARD_AWS_REGOIN" in err
    assert "did you mean SKYWARD_AWS_REGION?" in err and err.count("warning") == 1


def test_json_is_taken_anywhere(state):
    left_behind(state)
    (row,) = rows("pool", "list")
    for words in (["--json", "pool", "list"], ["pool", "--json", "list"]):
        assert json.loads(skyward(*words)[1]) == row


def test_help_and_version_are_words_too(state):
    assert skyward("help") == skyward("--help")
    assert skyward("help", "pool") == skyward("pool", "--help")
    assert skyward("version") == skyward("-V") == skyward("--version")


def last_object(*words):
    """What the last line says, and the exit code."""
    code, out, _ = skyward(*words, "--json")
    return code, json.loads(out.splitlines()[-1])


def test_the_last_object_of_a_command_that_failed_is_its_error(state, monkeypatch):
    left_at_an_unknown_provider(state)
    docker_that_is_empty(state, monkeypatch)
    code, error = last_object("gc")
    assert (code, error["error"]) == (1, "unsupported") and "1 not checked" in error["message"]
    code, error = last_object("providers", "check", "aws")
    assert (code, error["error"]) == (77, "denied")
    # AWS fails. Docker, which is asked after it, is skipped.
    (state / "docker").write_text(
        "#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2; exit 1\n"
    )
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", closed_port())
    code, out, _ = skyward("pool", "delete", "1a2b3c4d", "--timeout", "5", "--json")
    skipped, error = (json.loads(line) for line in out.splitlines())
    assert code == 69 and skipped["action"] == "skipped" and error["error"] == "unavailable"
    assert skipped["pool"] is None and skipped["owner"] is None and skipped["expires"] is None


@pytest.mark.parametrize("words", [["gc"], ["offers", "list"]])
def test_a_time_limit_is_one_for_all_clouds(state, monkeypatch, words):
    monkeypatch.setenv("PATH", str(state))  # no podman, no kubectl
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("DIGITALOCEAN_TOKEN", "x")
    limit = 4
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        monkeypatch.setenv("DIGITALOCEAN_API_URL", url)
        monkeypatch.setenv("RUNPOD_API_KEY", "x")
        monkeypatch.setenv("RUNPOD_API_BASE_URL", url)
        begun = time.monotonic()
        code, out, _ = skyward(*words, "--timeout", str(limit), "--json")
    assert code != 0 and len(out.splitlines()) == 3, "an error of each"
    assert time.monotonic() - begun < 3 * limit - 1


def test_a_cloud_that_does_not_answer_leaves_time_for_the_next(state, monkeypatch):
    docker_that_is_empty(state, monkeypatch)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")

        def asks_docker(words):
            (state / "asked").write_text("")
            code, _, _ = skyward(*words, "--timeout", "6")
            return code != 0 and "ps " in (state / "asked").read_text()

        for words in (["gc"], ["pool", "delete", "1a2b3c4d"]):
            # A machine that stands still for long leaves no time.
            assert any(asks_docker(words) for _ in range(3)), words


def test_an_error_of_gc_is_one_document_and_says_nothing_else(state, monkeypatch):
    monkeypatch.setenv("PATH", str(state))  # no podman, no kubectl
    code, out, err = skyward("gc", "--json")
    assert code == 77 and json.loads(out)["error"] == "denied"
    assert "removed" not in err


def test_a_reader_that_goes_away_is_no_error(state):
    program = [sys.executable, "-m", "skyward", "providers", "list"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as told:
        told.stdout.close()
        assert told.stderr.read() == b""
        told.wait(60)

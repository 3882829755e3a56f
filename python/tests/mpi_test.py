"""distributed.mpi without an MPI; `./dev engines` runs worlds."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from skyward.distributed import mpi_world
from skyward.distributed.mpi_world import Launcher, World
from skyward.task.instance_info import InstanceInfo

import skyward as sky

WORLD = World(2, None, b"secret")
ORTED = Launcher("openmpi", "/usr/bin/mpirun", "4.1.4")
LINE = (
    'orted --daemonize -mca ess_base_vpid {} --mca plm_rsh_agent "/tmp/a"'
    ' -mca orte_hnp_uri "1.0;tcp://10.0.0.1:7"'
)


def place(rank, addresses):
    peers = [{"node": node, "private_ip": at} for node, at in enumerate(addresses)]
    return InstanceInfo(rank, len(addresses), head_addr=addresses[0], peers=peers)


@pytest.fixture
def orted(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")


def signed(lines, is_host=False):
    return json.loads(
        json.dumps(mpi_world._signed(WORLD, ORTED, lines, is_host))
    )  # it travels as JSON


def test_each_worker_gets_its_own_line(orted):
    told = signed([LINE.format(number) for number in (1, 2, 3)])
    for rank in range(3):
        info = place(rank, ["10.0.0.1", "10.0.0.2", "10.0.0.3"])
        words = mpi_world._own_command(info, WORLD, ORTED, told)
        assert words[0] == "/usr/bin/orted"
        assert words[words.index("ess_base_vpid") + 1] == str(rank + 1)
        assert words[words.index("plm_rsh_agent") + 1] == "/bin/sh", "not a file of worker 0"
        assert "--daemonize" not in words, "it is a child of the worker"
        assert words[-1] == "1.0;tcp://10.0.0.1:7"


@pytest.mark.parametrize(
    "change",
    [
        {"pattern": LINE.replace("{}", "NUMBER") + " -mca plm_rsh_agent evil"},
        {"numbers": [2, 1, 3]},
        {"mac": "00"},
    ],
)
def test_a_line_that_somebody_else_sent_is_not_run(orted, change):
    told = signed([LINE.format(number) for number in (1, 2, 3)]) | change
    with pytest.raises(RuntimeError, match="does not come from worker 0"):
        mpi_world._own_command(place(0, ["10.0.0.1"] * 3), WORLD, ORTED, told)
    other = replace(WORLD, secret=b"other")
    told = signed([LINE.format(number) for number in (1, 2, 3)])
    with pytest.raises(RuntimeError, match="does not come from worker 0"):
        mpi_world._own_command(place(0, ["10.0.0.1"] * 3), other, ORTED, told)


def test_nothing_but_a_daemon_of_mpi_is_run(orted):
    told = signed([f"sh -c 'ess_base_vpid {number}'" for number in (1, 2)])
    with pytest.raises(RuntimeError, match="instead of orted"):
        mpi_world._own_command(place(1, ["10.0.0.1"] * 2), WORLD, ORTED, told)


def test_what_worker_0_could_not_start_is_raised_everywhere():
    with pytest.raises(RuntimeError, match="mpirun ended"):
        mpi_world._own_command(place(1, ["a", "b"]), WORLD, ORTED, {"problem": "mpirun ended"})


def test_lines_that_differ_in_more_than_the_number_are_refused():
    assert "different things" in signed([LINE.format(1), LINE.format(2) + " x"])["problem"]
    assert "something unknown" in signed(["reboot"])["problem"]


def test_the_secret_is_not_shown():
    assert "secret" not in repr(WORLD)


def test_the_network_is_the_smallest_that_has_all_nodes():
    assert (
        mpi_world._network(place(0, ["10.77.0.10", "10.77.0.11", "10.77.0.12"])) == "10.77.0.8/29"
    )
    assert mpi_world._network(place(0, ["10.0.0.1", "10.128.0.1"])) == "10.0.0.0/8"


def test_nodes_of_one_machine_are_hosts_of_their_own():
    assert mpi_world._hosts(place(0, ["127.0.0.1"] * 2)) == ["127.2.0.1", "127.2.0.2"]
    assert mpi_world._hosts(place(0, ["10.0.0.1", "10.0.0.2"])) == ["10.0.0.1", "10.0.0.2"]


def test_mpirun_needs_no_daemon_on_its_own_host(orted):
    told = signed([LINE.format(1)], is_host=True)
    addresses = ["10.0.0.1", "10.0.0.2"]
    assert mpi_world._own_command(place(0, addresses), WORLD, ORTED, told) == []
    assert mpi_world._own_command(place(1, addresses), WORLD, ORTED, told)[0] == "/usr/bin/orted"


def test_workers_that_mpi_cannot_tell_apart_are_refused():
    mpi_world._require_one_worker_per_host(place(0, ["127.0.0.1"] * 3), "f")
    mpi_world._require_one_worker_per_host(place(0, ["10.0.0.1", "10.0.0.2"]), "f")
    with pytest.raises(sky.ConfigurationError, match="3 nodes share 2 addresses"):
        mpi_world._require_one_worker_per_host(place(0, ["a", "a", "b"]), "f")
    with pytest.raises(sky.ConfigurationError, match="2 workers"):
        mpi_world._require_one_worker_per_host(replace(place(0, ["a"]), workers_per_node=2), "f")


def test_workers_with_different_mpis_are_refused():
    mpi_world._require_one_mpi("f", [["mpich", "4.0"]] * 2)
    with pytest.raises(sky.ConfigurationError, match=r"worker 1 has mpich 4\.1"):
        mpi_world._require_one_mpi("f", [["mpich", "4.0"], ["mpich", "4.1"]])


def test_a_node_without_an_mpi_says_what_to_install(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(sky.ConfigurationError, match=r"apt=\['mpich'\]"):
        mpi_world.find_launcher("mpich")


def test_the_agent_notes_the_line_for_its_host(tmp_path):
    agent = str(mpi_world._HERE / "mpi_agent.py")
    words = [sys.executable, agent, str(tmp_path), "-x", "host-1", "orted", '-mca x "1 2"']
    subprocess.run(words, check=True, timeout=30)
    assert [path.name for path in tmp_path.iterdir()] == ["host-1.line"]
    assert mpi_world._read(tmp_path / "host-1.line") == 'orted -mca x "1 2"'


def test_bad_parameters_are_refused_where_they_are_written():
    for options, text in (
        ({"ranks_per_node": 0}, "from 1 to"),
        ({"implementation": "lam"}, "'openmpi', 'mpich'"),
        ({"timeout": -1}, "positive number"),
    ):
        with pytest.raises(sky.ConfigurationError, match=text):
            sky.distributed.mpi(**options)
    with pytest.raises(TypeError, match="needs a function, not int"):
        sky.distributed.mpi(3)
    with pytest.raises(sky.ConfigurationError, match="is a generator"):

        @sky.distributed.mpi
        def items():
            yield 1


def test_outside_a_pool_the_function_just_runs():
    @sky.distributed.mpi
    def double(x):
        return 2 * x

    assert double(4) == 8

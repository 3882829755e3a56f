"""Pools at a real Slurm: its nodes, its queue, and what happens to its jobs."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from bed import until
from cluster import HAS_GROUPS, NODES, Cluster, begin, drive
from driving import WORKS, Told, die_in_a_pool, finish, ready, sweep


def test_a_pool_is_a_job_whose_nodes_meet(cluster: Cluster, tmp_path: Path) -> None:
    told = drive(
        cluster,
        """
        @sky.compute
        def gpus():
            return os.environ.get("CUDA_VISIBLE_DEVICES")

        @sky.compute
        def head():
            import socket
            return socket.gethostbyname(sky.instance_info().head_addr)

        with pool(3, accelerator=sky.accelerators.H100(count=2), vcpus=2, memory_gb=1) as p:
            tell(where=where() @ p, gpus=gpus() @ p, head=head() @ p)
        """,
        tmp_path,
    )
    names, jobs = zip(*told.facts["where"], strict=True)
    assert sorted(names) == ["s1", "s2", "s3"]
    assert len(set(jobs)) == 1
    assert told.facts["gpus"] == ["0,1"] * 3
    assert told.facts["head"] == [cluster.hosts[names[0]].address] * 3


def test_large_data_leaves_the_driver_once(cluster: Cluster, tmp_path: Path) -> None:
    """The nodes pass it on, and find each other by name."""
    told = drive(
        cluster,
        """
        import pickle

        @sky.compute
        def size_of(data):
            return len(data)

        def sent():
            with open("/proc/net/dev") as cards:
                return next(int(line.split()[9]) for line in cards if line.split()[0] == "eth0:")

        with pool(3) as p:
            size_of(b"warm") @ p
            data = pickle.PickleBuffer(os.urandom(50 << 20))
            before = sent()
            sizes = list(size_of(data) @ p)
            tell(sizes=sizes, upload=sent() - before)
        """,
        tmp_path,
    )
    assert told.facts["sizes"] == [50 << 20] * 3
    assert told.facts["upload"] < 1.3 * (50 << 20)


def test_a_task_is_no_rank_that_srun_started(cluster: Cluster, tmp_path: Path) -> None:
    """Open MPI and Lightning would take it for one."""
    told = drive(
        cluster,
        """
        @sky.compute
        def variables():
            return sorted(os.environ)

        with pool(2) as p:
            tell(names=variables() >> p)
        """,
        tmp_path,
    )
    names = told.facts["names"]
    assert "SLURM_JOB_ID" in names
    ours = ("PMI", "SLURM_STEP", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_TASKS", "SLURM_NODELIST")
    assert [name for name in names if name.startswith(ours)] == []


def test_a_job_that_waits_tells_why_and_starts(cluster: Cluster, tmp_path: Path) -> None:
    cluster.run("sbatch -N3 --exclusive -p low --wrap 'sleep 600'", user="root")
    until(lambda: "RUNNING" in str(cluster.queue("-u root")), 20, "the other job runs")
    driver = begin(
        cluster,
        """
        def hear(event):
            if isinstance(event, sky.events.Notice) and "queue" in event.message:
                print("HEARD", event.message, flush=True)

        with pool(1, on_event=hear) as p:
            tell(where=where() >> p)
        """,
        tmp_path,
    )
    assert driver.stdout is not None
    # Before the scheduler has looked at it, a job has another reason, or none.
    heard = iter(driver.stdout.readline, "")
    assert any("1 node waits in the queue: Resources" in line for line in heard)
    assert len(cluster.queue()) == 1
    cluster.restart_controller()  # a job keeps its place
    cluster.run("scancel -u root", user="root")
    told = finish(driver)
    assert told.code == 0, told.err
    assert told.facts["where"][0] in NODES
    cluster.nothing_is_left()


def test_a_pool_that_may_not_wait_leaves_nothing_in_the_queue(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.run("sbatch -N3 --exclusive -p low --wrap 'sleep 600'", user="root")
    until(lambda: "RUNNING" in str(cluster.queue("-u root")), 20, "the other job runs")
    told = drive(
        cluster,
        """
        try:
            with pool(2, timeout=3):
                pass
        except sky.TimeoutError as error:
            tell(error=str(error))
        """,
        tmp_path,
    )
    assert "timeout of 3 s has expired while it opened" in told.facts["error"]


def replaced(cluster: Cluster, folder: Path, happen: Callable[[list[list[str]]], None]) -> Told:
    """A pool of two nodes to which something happens while both work; they end on two nodes."""
    driver = begin(cluster, WORKS.replace("SECONDS", "3"), folder)
    happen(ready(driver))
    (folder / "go").touch()
    told = finish(driver, 80)
    assert told.code == 0, f"{told.out}\n{told.err}"
    assert len({name for name, _ in told.facts["after"]}) == 2
    cluster.nothing_is_left()
    return told


def wait_for_the_end(cluster: Cluster, jobs: set[str]) -> None:
    """Until nothing of them runs any more: queue() leaves out those that are being ended."""

    def have_ended() -> bool:
        return jobs.isdisjoint(cluster.run("squeue -h -o %i", user="root").split())

    until(have_ended, 20, f"the end of {jobs}")


def test_a_cancelled_job_is_replaced(cluster: Cluster, tmp_path: Path) -> None:
    def cancel(before: list[list[str]]) -> None:
        job = before[0][1]
        cluster.run(f"scancel {job}", user="root")
        wait_for_the_end(cluster, {job})

    told = replaced(cluster, tmp_path, cancel)
    jobs = {job for _, job in told.facts["after"]}
    assert told.facts["before"][0][1] not in jobs


def test_a_preempted_job_is_replaced(cluster: Cluster, tmp_path: Path) -> None:
    """By a partition of higher priority, on all nodes; the new jobs wait until that has ended."""

    def preempt(before: list[list[str]]) -> None:
        cluster.run("sbatch -N3 --exclusive -p high --wrap 'sleep 8'", user="root")
        wait_for_the_end(cluster, {job for _, job in before})

    told = replaced(cluster, tmp_path, preempt)
    assert {job for _, job in told.facts["after"]}.isdisjoint(
        {job for _, job in told.facts["before"]}
    )


def test_a_lost_node_is_replaced_and_the_other_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    told = replaced(cluster, tmp_path, lambda before: cluster.hosts[before[1][0]].kill())
    (_, kept), (_, new) = told.facts["after"]
    assert kept == told.facts["before"][0][1]
    assert new != kept


def test_a_killed_driver_leaves_jobs_that_gc_cancels(cluster: Cluster, tmp_path: Path) -> None:
    die_in_a_pool(partial(begin, cluster), tmp_path)
    assert len(cluster.queue()) == 1
    sweep(partial(begin, cluster), tmp_path / "gc", "slurm")
    cluster.nothing_is_left()


def test_what_slurm_refuses_is_said_in_its_words(cluster: Cluster, tmp_path: Path) -> None:
    told = drive(
        cluster,
        """
        def refused(nodes=1, **options):
            try:
                with pool(nodes, **options):
                    return "it opened"
            except sky.SkywardError as error:
                return str(error)

        tell(
            partition=refused(provider={"partition": "nosuch"}),
            account=refused(provider={"partition": "closed"}),
            other_account=refused(provider={"partition": "closed", "account": "biology"}),
            nodes=refused(4),
            gpus=refused(accelerator=sky.accelerators.A100()),
            gres=refused(provider={"gres": "gpu:a100:1"}),
            time=refused(timeout=9 * 3600),
            extra=refused(provider={"extra": ["--constraint=nosuch"]}),
            login=refused(provider={"login": "plain@10.77.0.99"}),
        )
        """,
        tmp_path,
    )
    for name, error in told.facts.items():
        assert "hint: " in error, (name, error)
    print(json.dumps(told.facts, indent=1))
    assert 'no partition "nosuch"' in told.facts["partition"]
    for name in ("account", "other_account"):
        assert "so it can't use this partition (closed allows physics)" in told.facts[name]
        assert "hint: name an account=" in told.facts[name]
    assert "more than 3" in told.facts["nodes"]
    assert "node configuration is not available" in told.facts["gres"]
    assert 'gres="gpu:NAME:1"' in told.facts["gpus"]
    assert "at most 8 h" in told.facts["time"]


@pytest.mark.skipif(not HAS_GROUPS, reason="needs version 1 of control groups to limit memory")
def test_a_task_that_takes_too_much_memory_says_so(cluster: Cluster, tmp_path: Path) -> None:
    told = drive(
        cluster,
        """
        @sky.compute
        def take(mib):
            return len(b"x" * (mib << 20))

        with pool(1, memory_gb=0.25) as p:
            try:
                take(600) >> p
            except sky.SkywardError as error:
                tell(error=str(error))
            tell(after=take(1) >> p)
        """,
        tmp_path,
    )
    assert "memory" in told.facts["error"], told.facts
    assert told.facts["after"] == 1 << 20

"""Engines over hosts that share nothing but a network: the driver reaches them by ssh alone."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from bed import Bed, Host
from driving import drive, nothing_is_left_on

NODES = 3
ENGINES = Path(__file__).resolve().parents[2] / ".venv-engines/bin/python"
SEEN_AT = "/opt/engines"


def packages_with_engines() -> str:
    """The directory of an environment for engines of this very Python; skips without one."""
    if not ENGINES.exists():
        pytest.skip("needs Dask and Ray for the hosts: `./dev engines` makes an environment")
    asked = (
        "import sys, ray, pathlib;"
        "print(sys.version_info[:2], pathlib.Path(ray.__file__).parents[1])"
    )
    done = subprocess.run(
        [ENGINES, "-c", asked], capture_output=True, text=True, timeout=120, check=False
    )
    version, _, place = done.stdout.strip().rpartition(" ")
    if done.returncode != 0 or version != str(tuple(sys.version_info[:2])):
        pytest.skip(f"the environment for engines does not fit: {version} {done.stderr[-200:]}")
    return place


@pytest.fixture(scope="module")
def engines() -> str:
    return packages_with_engines()


@pytest.fixture(scope="module")
def hosts(bed: Bed, engines: str) -> list[Host]:
    return bed.add(*(f"e{i}" for i in range(NODES + 1)), shared={engines: SEEN_AT})


START = f"""
sys.path.append(os.environ["ENGINES"])
env = {{"PYTHONPATH": "{SEEN_AT}"}}

@sky.compute
def name():
    import socket
    return socket.gethostname()

@sky.compute
def lose_node():
    import signal
    yield from range(40)  # more than it may be ahead: a stream that was read is not retried
    os.kill(os.getppid(), signal.SIGKILL)
"""


def test_a_dask_cluster_over_three_hosts(
    bed: Bed, hosts: list[Host], engines: str, tmp_path: Path
) -> None:
    told = drive(
        bed,
        START
        + dedent(f"""
        with pool({NODES}, env=env, concurrency=2) as p, sky.dask(p) as client:
            workers = client.scheduler_info(n_workers=-1)["workers"]
            tell(addresses=sorted(workers), client=client.scheduler.address)
            squares = client.map(lambda x: x * x, range(100))
            tell(total=client.submit(sum, squares).result(), names=name() @ p)
        """),
        hosts,
        tmp_path,
        env={"ENGINES": engines},
        limit=120,
    )
    assert told.facts["total"] == sum(x * x for x in range(100))
    assert told.facts["names"] == [host.name for host in hosts[:NODES]]
    used = {address.removeprefix("tls://").partition(":")[0] for address in told.facts["addresses"]}
    assert used == {host.address for host in hosts[:NODES]}
    assert told.facts["client"].startswith("tls://127.0.0.1:"), "through ssh"
    nothing_is_left_on(hosts)


def test_ray_over_three_hosts_one_of_which_is_killed(
    bed: Bed, hosts: list[Host], engines: str, tmp_path: Path
) -> None:
    told = drive(
        bed,
        START
        + dedent(f"""
        import ray, threading

        @ray.remote(scheduling_strategy="SPREAD", max_retries=-1)
        def where(x):
            import socket
            return x * x, socket.gethostname()

        def living():
            return sorted(n["NodeManagerAddress"] for n in ray.nodes() if n["Alive"])

        with pool({NODES}, env=env, concurrency=2) as p, sky.ray(p) as address:
            ray.init(address, logging_level="error")
            tell(before=living(), squares=ray.get([where.remote(x) for x in range(20)]))
            lost = p._engine().send_to(lose_node(), 1)
            for _ in range(40):
                lost.next()
            limit = time.monotonic() + 90
            while {hosts[-1].address!r} not in living():
                assert time.monotonic() < limit, living()
                threading.Event().wait(0.2)
            tell(after=living(), again=ray.get([where.remote(x) for x in range(20)]))
        """),
        hosts,
        tmp_path,
        env={"ENGINES": engines},
        limit=170,
    )
    squares = [x * x for x in range(20)]
    assert [square for square, _ in told.facts["squares"]] == squares
    assert [square for square, _ in told.facts["again"]] == squares
    assert told.facts["before"] == [host.address for host in hosts[:NODES]]
    assert hosts[-1].address in told.facts["after"]


@pytest.mark.parametrize("kind", ["openmpi", "mpich"])
def test_an_mpi_world_over_three_hosts(
    bed: Bed, hosts: list[Host], engines: str, tmp_path: Path, kind: str
) -> None:
    told = drive(
        bed,
        START
        + dedent(f"""
        def work():
            import socket
            from mpi4py import MPI
            world = MPI.COMM_WORLD
            return world.Get_rank(), world.allreduce(world.Get_rank()), socket.gethostname()

        options = dict(ranks_per_node=2, implementation="{kind}")
        with pool({NODES}, env=env) as p, sky.mpi(p, **options) as ranks:
            tell(ranks=ranks.run(work))
        """),
        hosts,
        tmp_path,
        env={"ENGINES": engines},
    )
    assert told.facts["ranks"] == [[rank, 15, hosts[rank // 2].name] for rank in range(2 * NODES)]
    nothing_is_left_on(hosts)

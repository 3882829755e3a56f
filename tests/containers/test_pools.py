"""Pools in containers of a real podman: their limits, their networks, and what happens to them."""

import json
from functools import partial
from pathlib import Path

import pytest
from driving import WORKS, die_in_a_pool, finish, ready, sweep
from engine import DOCKER, NETWORK, Engine, begin, drive

# Of each container, where there are control groups for them.
LIMITS = (
    {"memory_gb": 0.25, "vcpus": 1}
    if any(
        Path("/sys/fs/cgroup", name).exists()
        for name in ("memory", "memory.stat", "cgroup.controllers")
    )
    else {}
)


def test_a_pool_is_containers_that_meet_within_limits(engine: Engine, tmp_path: Path) -> None:
    told = drive(
        engine,
        f"""
        @sky.compute
        def size(data):
            import socket
            return len(data), socket.gethostbyname(sky.instance_info().head_addr)

        @sky.compute
        def take(mib):
            return len(b"x" * (mib << 20))

        limits = {LIMITS!r}
        with pool(2, provider={{"network": "{NETWORK}"}}, **limits) as p:
            before = where() @ p
            tell(where=before, sizes=size(bytes(8 << 20)) @ p)
            try:
                limits and take(600) >> p
            except sky.SkywardError as error:
                tell(error=str(error))
            tell(after=take(1) >> p, same=sorted(where() @ p) == sorted(before))
        """,
        tmp_path,
    )
    assert len(set(told.facts["where"])) == 2
    sizes, heads = zip(*told.facts["sizes"], strict=True)
    assert set(sizes) == {8 << 20}
    assert len(set(heads)) == 1
    assert heads[0].startswith("10.")
    assert told.facts["after"] == 1 << 20
    assert told.facts["same"], "the containers live on"
    if not LIMITS:
        pytest.skip("needs control groups to limit memory")
    assert "memory" in told.facts["error"], told.facts


def test_a_killed_container_is_replaced(engine: Engine, tmp_path: Path) -> None:
    driver = begin(engine, WORKS.replace("SECONDS", "2"), tmp_path)
    victim = ready(driver)[1]
    engine.podman("kill", engine.container_of(victim))
    (tmp_path / "go").touch()
    told = finish(driver, 60)
    assert told.code == 0, f"{told.out}\n{told.err}"
    assert told.facts["results"] == [True, True]
    assert victim not in told.facts["after"]
    assert told.facts["before"][0] in told.facts["after"]
    engine.nothing_is_left()


def test_a_killed_driver_leaves_containers_that_gc_removes(engine: Engine, tmp_path: Path) -> None:
    die_in_a_pool(partial(begin, engine), tmp_path)
    assert len(engine.containers()) == 2
    said = sweep(partial(begin, engine), tmp_path / "gc", "container")
    assert said.count("removed") >= 2, said
    engine.nothing_is_left()


def test_what_podman_refuses_is_said_in_its_words(engine: Engine, tmp_path: Path) -> None:
    told = drive(
        engine,
        """
        def refused(nodes=1, **options):
            try:
                with pool(nodes, **options):
                    return "it opened"
            except sky.SkywardError as error:
                return str(error)

        tell(
            image=refused(provider={"image": "localhost/nosuch:1"}),
            network=refused(provider={"network": "nosuch"}),
            gpus=refused(accelerator=sky.accelerators.A100()),
            memory=refused(2, memory_gb=5000),
            docker=refused(provider={"runtime": "docker", "host": "-x"}),
        )
        """,
        tmp_path,
    )
    print(json.dumps(told.facts, indent=1))
    for name, error in told.facts.items():
        assert "hint: " in error, (name, error)
    assert "the image localhost/nosuch:1 cannot be pulled" in told.facts["image"]
    assert "network not found" in told.facts["network"]
    assert "A100" in told.facts["gpus"]


def test_a_pull_that_takes_too_long_is_told_and_stopped(engine: Engine, tmp_path: Path) -> None:
    told = drive(
        engine,
        """
        heard = []
        def hear(event):
            if isinstance(event, sky.events.Notice):
                heard.append(event.message)

        begun = time.monotonic()
        try:
            with pool(1, timeout=8, on_event=hear, provider={"image": "localhost/large:1"}):
                pass
        except sky.TimeoutError as error:
            tell(error=str(error), took=time.monotonic() - begun, heard=heard)
        """,
        tmp_path,
        engine.use_slow_pull(tmp_path / "bin"),
    )
    assert "timeout of 8 s has expired while it opened" in told.facts["error"]
    assert "pulling the image localhost/large:1" in str(told.facts["heard"])
    assert told.facts["took"] < 40


@pytest.mark.skipif(DOCKER is None, reason="needs the docker client; install docker-cli")
def test_a_docker_without_its_daemon_is_an_error_at_once(engine: Engine, tmp_path: Path) -> None:
    told = drive(
        engine,
        """
        begun = time.monotonic()
        os.environ["DOCKER_HOST"] = "unix:///nonexistent.sock"
        try:
            with pool(1, provider={"runtime": "docker"}):
                pass
        except sky.SkywardError as error:
            tell(error=str(error), took=time.monotonic() - begun)
        """,
        tmp_path,
    )
    assert "systemctl start docker" in told.facts["error"], told.facts
    assert told.facts["took"] < 20


def test_dockers_own_client_understands_all_words_at_another_host(
    engine: Engine, tmp_path: Path
) -> None:
    """An ssh that runs the line here: sshd gives it to a shell in the same way."""
    programs = engine.use_ssh(tmp_path / "bin")
    if DOCKER is not None:
        engine.use_docker(programs)
    told = drive(
        engine,
        f"""
        given = {{"network": "{NETWORK}", "host": "me@workstation"}}
        given["runtime"] = "{"podman" if DOCKER is None else "docker"}"
        with pool(2, provider=given, memory_gb=0.5, vcpus=0.5) as p:
            tell(where=where() @ p)
        """,
        tmp_path,
        programs,
    )
    assert len(set(told.facts["where"])) == 2
    assert not (engine.disks / "refused").exists()
    if DOCKER is None:
        pytest.skip("needs the docker client; install docker-cli")

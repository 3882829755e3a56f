"""Pools over hosts that share nothing: calls, keys, users, jumps, modules, secrets, times."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bed import DESK, HERE, Bed, Host, end_with_parent, until
from driving import RUN, Told, begin, drive, finish, nothing_is_left_on

HOSTS = 8


@pytest.fixture(scope="module")
def hosts(bed: Bed) -> list[Host]:
    return bed.add(*(f"w{i}" for i in range(HOSTS)))


def test_eight_hosts_run_calls_and_keep_nothing(
    bed: Bed, hosts: list[Host], tmp_path: Path
) -> None:
    told = drive(
        bed,
        """
        import socket

        @sky.compute
        def where():
            info = sky.instance_info()
            print("hello from", socket.gethostname())
            return info.node, socket.gethostname(), info.peers[info.node]["private_ip"]

        @sky.compute
        def square(x):
            return x * x

        lines = []
        def note(event):
            if isinstance(event, sky.LogLine):
                lines.append((event.node, event.line))

        with pool(8, on_event=note) as p:
            places = where() @ p
            squares = list(sky.gather(*[square(i) for i in range(500)]) >> p)
            big = square(3) >> p
        tell(places=places, good=squares == [i * i for i in range(500)], big=big, lines=lines)
        """,
        hosts,
        tmp_path,
    )
    assert told.facts["good"] and told.facts["big"] == 9
    assert sorted(told.facts["places"]) == [[i, f"w{i}", hosts[i].address] for i in range(HOSTS)]
    assert [0, "hello from w0"] in told.facts["lines"]
    nothing_is_left_on(hosts)


def opening(bed: Bed, hosts: list[Host], folder: Path, **options: object) -> Told:
    """Opens a pool of one node and tells how that ended."""
    return drive(
        bed,
        f"""
        began = time.monotonic()
        try:
            with pool(1, provider={options.pop("changes", {})!r}) as p:
                tell(opened=True, user=sky.compute(os.getuid)() >> p)
        except sky.SkywardError as error:
            tell(opened=False, error=type(error).__name__, text=str(error))
        tell(seconds=time.monotonic() - began)
        """,
        hosts,
        folder,
        **options,
    )


def test_a_changed_key_stops_with_file_and_line(
    bed: Bed, hosts: list[Host], tmp_path: Path
) -> None:
    """Somebody else at the address: another key, everything else the same."""
    known = f"{hosts[0].address} {hosts[1].public_key}\n"
    facts = opening(bed, hosts[:1], tmp_path, known=known).facts
    assert not facts["opened"] and facts["seconds"] < 15
    assert f"the host key of root@{hosts[0].address} has changed" in facts["text"]
    assert f"{tmp_path}/known_hosts:1" in facts["text"]
    assert "HOST IDENTIFICATION HAS CHANGED" in facts["text"], "ssh's own words"


def test_a_machine_in_the_middle_gets_nothing(bed: Bed, tmp_path: Path) -> None:
    """A second sshd with its own key takes over the address of a host."""
    (victim,) = bed.add("victim")
    known = bed.known_hosts()
    assert opening(bed, [victim], tmp_path, known=known).facts["opened"]
    nothing_is_left_on([victim])
    victim.kill()
    before = set(Path(victim.home / "root/root").rglob("*"))
    victim.new_key()
    victim.start()
    facts = opening(bed, [victim], tmp_path, known=known).facts
    assert not facts["opened"]
    assert "has changed" in facts["text"]
    assert set(Path(victim.home / "root/root").rglob("*")) == before, "nothing was sent to it"
    assert "Accepted publickey" not in (victim.home / "log").read_text().rpartition("-- boot")[2]


def test_an_unknown_key_and_a_wrong_user_are_explained(
    bed: Bed, hosts: list[Host], tmp_path: Path
) -> None:
    facts = opening(bed, hosts[:1], tmp_path, known="").facts
    assert (
        "is unknown, so Skyward cannot verify" in facts["text"] and "ssh-keyscan" in facts["text"]
    )
    facts = opening(bed, hosts[:1], tmp_path, changes={"user": "nobody1"}).facts
    assert "Permission denied" in facts["text"] and "user=" in facts["text"]
    facts = opening(bed, hosts[:1], tmp_path, changes={"port": 23}, known=None).facts
    assert not facts["opened"]


def test_a_user_who_is_not_root(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    facts = opening(bed, hosts[1:2], tmp_path, changes={"user": "plain"}).facts
    assert facts["opened"], facts
    assert facts["user"] == 4177
    nothing_is_left_on(hosts[1:2])


def test_where_tmp_is_memory_tasks_run_on_a_disk(
    bed: Bed, hosts: list[Host], tmp_path: Path
) -> None:
    """As on Debian 13, Ubuntu 24.10 and Amazon Linux 2023: checkpoints would fill the memory."""
    program = "with pool(1) as p: tell(folder=sky.compute(os.getcwd)() >> p)"
    assert drive(bed, program, hosts[:1], tmp_path).facts["folder"].startswith("/tmp/skyward-")
    nothing_is_left_on(hosts[:1])
    hosts[0].run("mount -t tmpfs -o mode=1777 memory /tmp")
    try:
        folder = drive(bed, program, hosts[:1], tmp_path).facts["folder"]
        assert folder.startswith("/var/tmp/skyward-")
        nothing_is_left_on(hosts[:1])
        assert hosts[0].run("find /var/tmp/skyward-0/nodes").stdout == "/var/tmp/skyward-0/nodes\n"
    finally:
        hosts[0].run("umount /tmp")


def test_pinned_keys_by_host(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    keys = {hosts[0].address: hosts[0].public_key}
    assert opening(bed, hosts[:1], tmp_path, changes={"host_keys": keys}, known="").facts["opened"]
    keys = {hosts[0].address: hosts[1].public_key}
    facts = opening(bed, hosts[:1], tmp_path, changes={"host_keys": keys}, known="").facts
    assert "has changed" in facts["text"]


def test_by_way_of_a_jump_host(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    """The node's address is silent from the desk; only the jump host reaches it."""
    gate, far = hosts[0], hosts[1]
    rule = ("iif", "p-desk", "to", f"{far.address}/32", "blackhole", "priority", "9")
    bed.router("rule", "add", *rule)
    try:
        facts = opening(bed, [far], tmp_path, changes={"jump": f"root@{gate.address}"}).facts
        assert facts["opened"], facts
        facts = opening(
            bed,
            [far],
            tmp_path,
            changes={"jump": f"root@{gate.address}"},
            known=bed.known_hosts(far),
        ).facts
        assert f"the host key of root@{gate.address} is unknown" in facts["text"]
    finally:
        bed.router("rule", "del", *rule)


def test_own_modules_travel(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    (tmp_path / "shapes").mkdir()
    (tmp_path / "shapes/__init__.py").write_text("from shapes.area import surface\n")
    (tmp_path / "shapes/area.py").write_text(
        "class Square:\n    def __init__(self, side):\n        self.side = side\n"
        "def surface(square):\n    import factor\n    return factor.unit * square.side ** 2\n"
    )
    (tmp_path / "factor.py").write_text("unit = 10\n")
    program = """
        import shapes, shapes.area

        @sky.compute
        def measure(square):
            import factor
            return shapes.surface(square), factor.__file__

        with pool(2) as p:
            tell(answers=measure(shapes.area.Square(3)) @ p)
    """
    told = drive(bed, program, hosts[:2], tmp_path)
    assert [answer for answer, _ in told.facts["answers"]] == [90, 90]
    assert "/skyward/archives/" in told.facts["answers"][0][1]
    (tmp_path / "factor.py").write_text("unit = 20\n")
    assert drive(bed, program, hosts[:2], tmp_path).facts["answers"][0][0] == 180


def test_secrets_are_nowhere_but_in_environments(
    bed: Bed, hosts: list[Host], tmp_path: Path
) -> None:
    """Canaries in every place for secrets; then each file and each command line is searched."""
    host = hosts[2]
    told = drive(
        bed,
        """
        @sky.compute
        def secret():
            time.sleep(0.5)  # on a worker
            lines = [open(f"/proc/{pid}/cmdline").read()
                     for pid in os.listdir("/proc") if pid.isdigit()]
            return os.environ["TOKEN"], [line for line in lines if "CANARY" in line]

        image = sky.Image(env={"TOKEN": "CANARY-" + "one"},
                          pip_extra_index_url="https://u:CANARY-" + "two@127.0.0.1:9/simple")
        with pool(1, image=image, env={"UV_INDEX_X_PASSWORD": "CANARY-" + "three"}) as p:
            tell(seen=secret() >> p)
        """,
        [host],
        tmp_path,
        env={"HTTPS_PROXY": "http://u:CANARY-four@10.77.0.1:9"},
    )
    assert told.facts["seen"] == ["CANARY-one", []]
    nothing_is_left_on([host])
    assert files_with([b"CANARY"], bed, [host]) == []


def files_with(secrets: list[bytes], bed: Bed, hosts: list[Host]) -> list[str]:
    """The files of driver and running hosts that hold one of them: disks, memory disks, logs."""
    roots = [bed.directory / "driver", bed.desk_home]
    for host in hosts:
        seen = Path(f"/proc/{host.first}/root")  # with all that is mounted there
        roots += [host.home, seen / "run", seen / "dev/shm", seen / "tmp", seen / "var"]
    return [
        str(path)
        for root in roots
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and has_one_of(secrets, path)
    ]


def processes_with(secrets: list[bytes]) -> list[str]:
    """The command lines and environments of this machine, with its hosts, that hold one of them."""
    places = [
        entry / name
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit()
        for name in ("cmdline", "environ")
    ]
    return [str(place) for place in places if has_one_of(secrets, place)]


def has_one_of(secrets: list[bytes], path: Path) -> bool:
    try:
        data = path.read_bytes()
    except OSError:  # it has gone meanwhile
        return False
    return any(secret in data for secret in secrets)


SPY = """#!/bin/sh
# ssh, and a copy of all that goes into it.
tee "$SPIED/$$" | {ssh} "$@"
"""


def test_the_pools_own_secret_is_only_in_memory(
    bed: Bed, hosts: list[Host], tmp_path: Path
) -> None:
    """What the agents of a pool prove to each other goes to them inside ssh, and nowhere else."""
    pair = hosts[5:7]
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (tmp_path / "bin").mkdir()
    (tmp_path / "spied").mkdir()
    (tmp_path / "bin/ssh").write_text(SPY.format(ssh=shutil.which("ssh")))
    (tmp_path / "bin/ssh").chmod(0o755)
    driver = begin(
        bed,
        """
        with pool(2) as p:
            sizes = sky.compute(len)(os.urandom(4 << 20)) @ p
            print("GO", flush=True)
            open("gate").read(1)
        tell(sizes=sizes)
        """,
        pair,
        tmp_path,
        env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "SPIED": str(tmp_path / "spied")},
    )
    opener = os.open(gate, os.O_RDWR)
    try:
        assert driver.stdout is not None
        assert any(line == "GO\n" for line in driver.stdout), finish(driver).err
        # In the frames a text stands behind its length and before a zero.
        said = [
            re.findall(rb"\x40\0\0\0([0-9a-f]{64})\0", spied.read_bytes())
            for spied in (tmp_path / "spied").iterdir()
        ]
        first, second = (found for found in said if found)  # ssh is asked for its version, too
        assert first == second and len(first) == 1
        (secret,) = first
        assert opens_the_door(secret, bed, pair[0])
        forms = [secret, bytes.fromhex(secret.decode())]
        assert processes_with(forms) == []
        assert files_with(forms, bed, pair) == []
        # What is there is found.
        assert processes_with([b"connect\0--pool"])
        assert files_with([pair[0].public_key.encode()], bed, pair)
    finally:
        os.write(opener, b"x")
        told = finish(driver)
        os.close(opener)
    assert told.code == 0, told.err
    assert told.facts["sizes"] == [4 << 20] * 2
    assert secret.decode() not in told.out + told.err
    nothing_is_left_on(pair)
    assert files_with(forms, bed, pair) == []


def opens_the_door(secret: bytes, bed: Bed, host: Host) -> bool:
    """An agent takes whoever knows it: this is the secret."""
    (line,) = {line for line in host.processes().values() if " connect --pool " in line}
    words = line.split()
    answer = bed.in_namespace(
        DESK,
        *("sh", "-c", 'openssl s_client "$@" </dev/null 2>&1 || true', "sh"),
        *("-connect", f"{host.address}:{host.listening_ports()[0]}", "-tls1_3"),
        *("-psk_identity", words[words.index("--pool") + 1], "-psk", secret.hex()),
    )
    return "Reused, TLSv1.3" in answer


def test_a_package_that_is_not_there_names_step_command_and_node(
    bed: Bed, hosts: list[Host], tmp_path: Path
) -> None:
    told = drive(
        bed,
        """
        try:
            with pool(1, pip=["no-such-package-anywhere"]) as p:
                tell(opened=True)
        except sky.ProvisioningError as error:
            tell(text=str(error))
        """,
        hosts[3:4],
        tmp_path,
        env={
            "UV_OFFLINE": "1",
            "UV_INDEX_URL": "http://127.0.0.1:9/simple",
            "UV_HTTP_TIMEOUT": "1",
        },
    )
    text = told.facts["text"]
    assert "deps" in text and "exit code 1" in text and "node 0" in text, text
    assert "no-such-package-anywhere" in text, text
    nothing_is_left_on(hosts[3:4])


@pytest.fixture
def mirror(bed: Bed) -> "Iterator[subprocess.Popen[str]]":
    """A package index at the desk. Hosts reach it, and nothing beyond the bed."""
    server = subprocess.Popen(
        bed.desk([sys.executable, str(HERE / "package_mirror.py"), "10.77.0.1"]),
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=end_with_parent,
    )
    yield server
    server.kill()
    server.communicate(timeout=10)


@pytest.mark.parametrize("way", ["PIP_INDEX_URL", "UV_INDEX_URL", "HTTP_PROXY"])
def test_nodes_that_reach_only_a_mirror(
    bed: Bed, hosts: list[Host], tmp_path: Path, mirror: "subprocess.Popen[str]", way: str
) -> None:
    """Index and proxy are the client's own settings; nothing else is said to the pool."""
    assert mirror.stdout is not None
    address = f"http://10.77.0.1:{int(mirror.stdout.readline())}"
    env = {way: f"{address}/simple"}
    if way == "HTTP_PROXY":
        env = {way: address, "PIP_INDEX_URL": "http://packages.invalid/simple"}
    host = hosts[4]
    host.run("rm -rf $HOME/.cache/skyward/environments $HOME/.cache/uv")
    told = drive(
        bed,
        """
        @sky.compute
        def version():
            import skyward_bed_marker
            return skyward_bed_marker.VERSION

        with pool(1, image=sky.Image(pip=["skyward-bed-marker"])) as p:
            tell(version=version() >> p)
        """,
        [host],
        tmp_path,
        env=env,
    )
    assert told.facts["version"] == "1.4"
    mirror.kill()
    asked = mirror.communicate(timeout=10)[0].splitlines()
    start = "http://packages.invalid" if way == "HTTP_PROXY" else ""
    assert f"{start}/simple/skyward-bed-marker/" in asked, asked
    nothing_is_left_on([host])


def test_times_of_a_bare_and_of_a_warm_host(bed: Bed, tmp_path: Path) -> None:
    (bare,) = bed.add("bare")
    plain = [time_of_login(bed, bare) for _ in range(3)]
    program = """
        began = time.monotonic()
        with pool(1, display="log") as p:
            ready = time.monotonic() - began
            sky.compute(os.getpid)() >> p
            tell(ready=ready, first=time.monotonic() - began)
    """
    cold = drive(bed, program, [bare], tmp_path)
    nothing_is_left_on([bare])
    warm = min(
        (drive(bed, program, [bare], tmp_path) for _ in range(3)),
        key=lambda told: told.facts["ready"],
    )
    # A login takes 0.4 s on a quiet machine; on a busy one everything takes that much longer.
    busy = max(1.0, min(plain) / 0.4)
    print("bare", cold.facts, "warm", warm.facts, "login", plain)
    print(warm.err)
    assert warm.facts["ready"] <= 1.5 * busy
    assert cold.facts["ready"] <= 10 * busy
    table = warm.out + warm.err
    for phase in ("connect", "agent", "environment", "workers"):
        assert re.search(rf"{phase} +\d[\d.]* m?s", table), table
    assert re.search(r"first call \d", table), table


def time_of_login(bed: Bed, host: Host) -> float:
    """Seconds that OpenSSH takes for a command that does nothing."""
    options = ["-F", "none", "-i", str(bed.key), "-o", "BatchMode=yes"]
    for option in ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"):
        options += ["-o", option]
    began = time.monotonic()
    subprocess.run(
        bed.desk(["ssh", *options, f"root@{host.address}", "true"]), check=True, timeout=60
    )
    return time.monotonic() - began


def test_the_driver_leaves_log_files(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    told = drive(
        bed,
        """
        @sky.compute
        def speak():
            print("a line to keep")
        with pool(1) as p:
            speak() >> p
        """,
        hosts[:1],
        tmp_path,
    )
    assert told.code == 0
    kept = [
        path
        for path in (bed.directory / "driver/state/skyward").rglob("*.log")
        if "a line to keep" in path.read_text()
    ]
    assert kept
    until(lambda: kept, 1, "the line")


def test_a_script_runs_on_hosts_and_brings_back_what_it_wrote(
    bed: Bed, hosts: list[Host], tmp_path: Path
) -> None:
    (tmp_path / "rank.py").write_text(
        "import os, socket\n"
        "open('out/rank', 'w').write(os.environ['RANK'])\n"
        "print(socket.gethostname(), os.environ['MASTER_ADDR'])\n"
    )
    told = drive(
        bed,
        RUN
        + """
import pathlib

done = run("--nodes", "2", "--output", "out", "rank.py")
ranks = [path.read_text() for path in sorted(pathlib.Path("out").glob("*/rank"))]
tell(code=done.returncode, lines=sorted(done.stdout.splitlines()), ranks=ranks, err=done.stderr)
""",
        hosts[:2],
        tmp_path,
    )
    assert told.facts["code"] == 0, told.facts["err"]
    head = hosts[0].address
    assert told.facts["lines"] == [f"node 0: w0 {head}", f"node 1: w1 {head}"]
    assert told.facts["ranks"] == ["0", "1"]
    nothing_is_left_on(hosts[:2])

"""Buckets as directories of the nodes, from a real S3 server that only the bed knows."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bed import HERE, Bed, Host, end_with_parent, until
from driving import agent_of, begin, drive, finish, nothing_is_left_on

MISSING = [
    what
    for what, there in (
        ("s3fs", shutil.which("s3fs")),
        ("/dev/fuse", os.path.exists("/dev/fuse")),
        ("the package moto[server]", importlib.util.find_spec("moto")),
    )
    if not there
]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")

PORT = 9000
ENDPOINT = f"http://10.77.0.1:{PORT}"
KEYS = {
    "AWS_ACCESS_KEY_ID": "CANARY-id",
    "AWS_SECRET_ACCESS_KEY": "CANARY-secret",
    "AWS_ENDPOINT_URL_S3": ENDPOINT,
}
STORE = """
import boto3, json, sys
s3 = boto3.client("s3", endpoint_url=sys.argv[1], region_name="us-east-1",
                  aws_access_key_id="a", aws_secret_access_key="b")
for bucket, objects in json.loads(sys.argv[2]).items():
    s3.create_bucket(Bucket=bucket)
    for key, text in objects.items():
        s3.put_object(Bucket=bucket, Key=key, Body=text.encode())
found = {}
for bucket in s3.list_buckets()["Buckets"]:
    for entry in s3.list_objects_v2(Bucket=bucket["Name"]).get("Contents", []):
        body = s3.get_object(Bucket=bucket["Name"], Key=entry["Key"])["Body"].read()
        found[f"{bucket['Name']}/{entry['Key']}"] = body.decode()
print(json.dumps(found))
"""


class Store:
    """The S3 server at the desk."""

    def __init__(self, bed: Bed, folder: Path) -> None:
        self.bed = bed
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        self.env |= {"RES_OPTIONS": "timeout:1 attempts:1", "AWS_EC2_METADATA_DISABLED": "true"}
        self.log = folder / "store.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                bed.desk([sys.executable, "-m", "moto.server", "-H", "10.77.0.1", "-p", str(PORT)]),
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent,
            )
        until(lambda: b"Running on" in self.log.read_bytes(), 60, "the S3 server is up")

    def exchange(self, buckets: dict[str, dict[str, str]] | None = None) -> dict[str, str]:
        """Makes buckets with objects; all objects that there are then, by "bucket/key"."""
        done = subprocess.run(
            self.bed.desk([sys.executable, "-c", STORE, ENDPOINT, json.dumps(buckets or {})]),
            env=self.env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, str] = json.loads(done.stdout)
        return found


@pytest.fixture(scope="module")
def store(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store(bed, tmp_path_factory.mktemp("store"))
    store.exchange({"models": {"small/a.txt": "hello", "large/b.txt": "world"}, "results": {}})
    yield store
    store.process.kill()
    store.process.wait(10)


@pytest.fixture(scope="module")
def hosts(bed: Bed) -> list[Host]:
    return bed.add("v0", "v1", "v2")


def mounts(host: Host) -> str:
    return host.run("grep -E ' fuse\\.| /own ' /proc/mounts").stdout


PROGRAM = """
class Own:
    mount_path = "/own"
    def install_commands(self):
        return ["true"]
    def mount_commands(self):
        return ["mount -t tmpfs own /own", "echo mine >/own/file"]

@sky.compute
def look():
    try:
        open("/data/new.txt", "w")
        writing = "allowed"
    except OSError as error:
        writing = error.strerror
    seen = [open(f"/proc/{pid}/cmdline").read() for pid in os.listdir("/proc") if pid.isdigit()]
    seen += [name for name in os.listdir("/dev/shm") if name.startswith("skyward-s3")]
    return (os.listdir("/data"), open("/data/a.txt").read(), writing, open("/own/file").read(),
            [line for line in seen if "CANARY" in line or line.startswith("skyward-s3")])

@sky.compute
def save(text):
    with open(f"/out/{sky.instance_info().node}.txt", "w") as file:
        file.write(text)

steps = []
def note(event):
    if isinstance(event, sky.BootstrapProgress):
        steps.append(event.step)

volumes = [sky.S3Volume("/data", "models", "small/"),
           sky.S3Volume("/out", "results", read_only=False), Own()]
with pool(2, volume=volumes, on_event=note) as p:
    tell(first=look() @ p)
    save("saved") @ p
    tell(later=look() @ p, steps=steps)
"""


def test_buckets_are_directories_for_the_life_of_the_pool(
    bed: Bed, hosts: list[Host], store: Store, tmp_path: Path
) -> None:
    facts = drive(bed, PROGRAM, hosts[:2], tmp_path, env=KEYS).facts
    seen = [["a.txt"], "hello", "Read-only file system", "mine\n", []]
    assert facts["first"] == [seen, seen]
    assert facts["later"] == [seen, seen]
    assert facts["steps"].count("volumes") == 2
    nothing_is_left_on(hosts)
    assert [mounts(host) for host in hosts] == ["", "", ""]
    found = store.exchange()
    assert found["results/0.txt"] == found["results/1.txt"] == "saved"
    assert "models/small/new.txt" not in found
    for host in hosts:
        for root in (host.home / "root", host.home / "upper"):
            for path in root.rglob("*"):
                if path.is_file() and not path.is_symlink():
                    assert b"CANARY" not in path.read_bytes(), path


OWN = """
class Own:
    def __init__(self, mount_path, *commands):
        self.mount_path, self.commands = mount_path, list(commands)
    def install_commands(self):
        return []
    def mount_commands(self):
        return self.commands
"""
REFUSED = """
def refused(**options):
    try:
        with pool(1, **options):
            return "it opened"
    except sky.ProvisioningError as error:
        return str(error)
"""


def refused(bed: Bed, host: Host, folder: Path, options: str) -> str:
    """Why a pool with these options does not open on the host."""
    program = f"{OWN}{REFUSED}tell(text=refused({options}))"
    text: str = drive(bed, program, [host], folder, env=KEYS).facts["text"]
    return text


def test_a_bucket_that_is_not_there_is_named_with_its_endpoint(
    bed: Bed, hosts: list[Host], store: Store, tmp_path: Path
) -> None:
    text = refused(bed, hosts[0], tmp_path, 'volume={"/data": "s3://no-such-bucket/part"}')
    assert "failed in step 'volumes'" in text, text
    assert f"the bucket no-such-bucket:/part at {ENDPOINT} cannot be mounted at /data" in text, text
    assert "there is no such bucket, or nothing at that prefix" in text, text
    assert "not found" in text, "s3fs's own words"
    nothing_is_left_on(hosts[:1])
    assert mounts(hosts[0]) == ""


def test_a_read_only_prefix_without_objects_is_refused(
    bed: Bed, hosts: list[Host], store: Store, tmp_path: Path
) -> None:
    """Not shown as an empty directory, from which nothing would be learned in silence."""
    text = refused(bed, hosts[0], tmp_path, 'volume={"/data": "s3://models/smal/"}')
    assert "nothing at that prefix" in text, text
    nothing_is_left_on(hosts[:1])
    assert mounts(hosts[0]) == ""


def test_who_may_not_mount_is_told_so(
    bed: Bed, hosts: list[Host], store: Store, tmp_path: Path
) -> None:
    """A user who is not root and has no sudo. (One who has it: tests/aws/test_lives.py.)"""
    text = refused(
        bed, hosts[0], tmp_path, 'provider={"user": "plain"}, volume={"/data": "s3://models/small"}'
    )
    assert "the directory /data of a volume cannot be created: log in as root" in text, text
    nothing_is_left_on(hosts[:1])
    assert hosts[0].run("ls -d /dev/shm/skyward-s3-* 2>/dev/null").stdout == "", "no keys are left"


def test_a_file_is_uploaded_though_its_writer_is_killed(
    bed: Bed, hosts: list[Host], store: Store, tmp_path: Path
) -> None:
    """So it replaces what was there before; a file that is renamed when it is complete does not."""
    drive(
        bed,
        """
        @sky.compute
        def save(path):
            with open(path + ".tmp", "w") as file:
                file.write("complete")
            os.replace(path + ".tmp", path)

        @sky.compute
        def begin(path):
            import signal
            with open(path, "w") as file:
                file.write("half")
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)

        with pool(1, volume=[sky.S3Volume("/out", "results", read_only=False)]) as p:
            for name, writes in (("unsafe", "unsafe"), ("safe", "safe.tmp")):
                save(f"/out/{name}") >> p
                try:
                    begin(f"/out/{writes}") >> p
                except sky.SkywardError:
                    pass
        """,
        hosts[:1],
        tmp_path,
        env=KEYS,
    )
    found = store.exchange()
    assert (found["results/unsafe"], found["results/safe"]) == ("half", "complete")
    nothing_is_left_on(hosts[:1])


def test_a_mount_whose_agent_was_killed_is_no_obstacle(
    bed: Bed, hosts: list[Host], store: Store, tmp_path: Path
) -> None:
    program = """
        import threading

        @sky.compute
        def read():
            return open("/data/a.txt").read()

        with pool(1, volume={"/data": "s3://models/small"}) as p:
            tell(first=read() >> p)
            print("GO", flush=True)
            while not os.path.exists("go"):
                threading.Event().wait(0.05)
            tell(second=read() >> p)
        """
    for kill in (True, False):
        driver = begin(bed, program, [hosts[2], hosts[1]], tmp_path, env=KEYS)
        assert driver.stdout is not None
        for line in driver.stdout:
            if line == "GO\n":
                break
        if kill:
            os.kill(agent_of(hosts[2]), signal.SIGKILL)
        (tmp_path / "go").touch()
        told = finish(driver)
        assert told.code == 0, told.err
        assert told.facts["second"] == "hello"
        nothing_is_left_on(hosts)
    assert [mounts(host) for host in hosts] == ["", "", ""]


def everything_mounted(host: Host) -> set[str]:
    """Where anything is mounted."""
    return {line.split()[1] for line in host.run("cat /proc/mounts").stdout.splitlines()}


def test_what_somebody_else_mounted_stays(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    """The pool is refused there, and its end leaves the mount alone."""
    hosts[0].run("mkdir -p /theirs && mount -t tmpfs theirs /theirs && echo 1 >/theirs/file")
    mine = 'Own("/mine", "mount -t tmpfs mine /mine")'
    theirs = 'Own("/theirs", "mount -t tmpfs mine /theirs")'
    text = refused(bed, hosts[0], tmp_path, f"volume=[{mine}, {theirs}]")
    assert "something is mounted at /theirs already" in text, text
    nothing_is_left_on(hosts[:1])
    assert hosts[0].run("cat /theirs/file").stdout == "1\n"
    assert "/mine" not in everything_mounted(hosts[0])
    hosts[0].run("umount /theirs")


def test_a_mount_into_which_root_may_not_look_stays(
    bed: Bed, hosts: list[Host], tmp_path: Path
) -> None:
    """As a user's own sshfs: it is not taken for what a killed s3fs has left."""
    host = hosts[0]
    host.write("/opt/slow_store.py", (HERE / "slow_store.py").read_text())
    host.run("mkdir -p /private")
    host.run("setsid -f python3 /opt/slow_store.py /private /tmp/private 0 4177 >/dev/null 2>&1")
    until(lambda: "/private" in everything_mounted(host), 60, "it is mounted")
    mine = 'Own("/private", "mount -t tmpfs mine /private")'
    text = refused(bed, host, tmp_path, f"volume=[{mine}]")
    assert "something is mounted at /private already" in text, text
    assert "/private" in everything_mounted(host)
    host.run("umount /private")
    nothing_is_left_on([host])


def test_a_pool_ends_when_the_store_has_what_was_written(
    bed: Bed, hosts: list[Host], tmp_path: Path
) -> None:
    """umount returns before that. What tasks left behind in the volume does not keep it."""
    host = hosts[0]
    host.write("/opt/slow_store.py", (HERE / "slow_store.py").read_text())
    drive(
        bed,
        OWN
        + """
@sky.compute
def stay():
    import subprocess
    subprocess.Popen(["sleep", "1000"], cwd="/slow", start_new_session=True)

start = "setsid -f python3 /opt/slow_store.py /slow /tmp/stored 4 >/tmp/slow.log 2>&1"
ready = "until grep -q ' /slow ' /proc/mounts; do sleep 0.1; done"
with pool(1, volume=[Own("/slow", start, ready)]) as p:
    stay() >> p
""",
        [host],
        tmp_path,
    )
    assert host.run("cat /tmp/stored").stdout == "stored", host.run("cat /tmp/slow.log").stdout
    nothing_is_left_on([host])
    assert "/slow" not in everything_mounted(host)


def test_a_pool_does_not_wait_for_the_volumes_of_another(
    bed: Bed, hosts: list[Host], tmp_path: Path
) -> None:
    """Both mount at the same time, on the same machine."""
    host = hosts[0]
    host.write("/opt/slow_store.py", (HERE / "slow_store.py").read_text())
    told = drive(
        bed,
        OWN
        + REFUSED
        + """
import threading

opened, done = threading.Event(), threading.Event()
def wait_for(what):
    return f"until {what}; do sleep 0.1; done"

start = "setsid -f python3 /opt/slow_store.py /other /tmp/stored 1 >/tmp/slow.log 2>&1"
def use_other():
    volumes = [Own("/other", wait_for("[ -e /tmp/begun ]"), start,
                   wait_for("grep -q ' /other ' /proc/mounts"))]
    with pool(1, volume=volumes):
        opened.set()
        done.wait(90)

other = threading.Thread(target=use_other)
other.start()
volumes = [Own("/mine", "touch /tmp/begun", wait_for("grep -q ' /other ' /proc/mounts"),
               "mount -t tmpfs mine /mine")]
with pool(1, volume=volumes):
    assert opened.wait(60)
    tell(text=refused(volume=[Own("/other", "true")]))
    began = time.monotonic()
tell(seconds=time.monotonic() - began)
done.set()
other.join()
""",
        [host],
        tmp_path,
    )
    assert "another pool on this machine has a volume at /other" in told.facts["text"]
    assert told.facts["seconds"] < 15
    nothing_is_left_on([host])


def test_a_store_that_is_too_slow_at_the_end_is_reported(
    bed: Bed, hosts: list[Host], tmp_path: Path
) -> None:
    host = hosts[0]
    host.write("/opt/slow_store.py", (HERE / "slow_store.py").read_text())
    told = drive(
        bed,
        OWN
        + """
start = "setsid -f python3 /opt/slow_store.py /slow /tmp/late 600 >/tmp/slow.log 2>&1"
ready = "until grep -q ' /slow ' /proc/mounts; do sleep 0.1; done"
lines = []
def note(event):
    if isinstance(event, sky.LogLine):
        lines.append(event.line)

with pool(1, volume=[Own("/slow", start, ready)], on_event=note) as p:
    pass
tell(lines=lines)
""",
        [host],
        tmp_path,
    )
    assert any("stopped waiting for the volumes after 30 s" in one for one in told.facts["lines"])
    nothing_is_left_on([host])


def test_a_killed_agent_leaves_no_mount(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    """Whoever comes next lets go what it had mounted, and finds the place free."""
    host = hosts[0]
    driver = begin(
        bed,
        OWN
        + """
@sky.compute
def read():
    return open("/own/file").read()

with pool(1, volume=[Own("/own", "mount -t tmpfs own /own", "echo $$ >/own/file")]) as p:
    first = read() >> p
    print("GO", flush=True)
    while read() >> p == first:
        pass
    tell(second=read() >> p)
""",
        [host],
        tmp_path,
    )
    assert driver.stdout is not None
    for line in driver.stdout:
        if line == "GO\n":
            break
    os.kill(agent_of(host), signal.SIGKILL)
    told = finish(driver)
    assert told.code == 0, told.err
    assert told.facts["second"]
    nothing_is_left_on([host])
    assert "/own" not in everything_mounted(host)


def test_a_mount_path_may_be_spelled_in_any_way(
    bed: Bed, hosts: list[Host], tmp_path: Path
) -> None:
    host = hosts[0]
    host.run("ln -sfn /mnt /opt/link")
    drive(
        bed,
        OWN
        + """
@sky.compute
def look():
    return open("/mnt/linked/file").read() + open("/mnt/slash/file").read()

mount = "mount -t tmpfs own "
volumes = [Own("/opt/link/linked", mount + "/opt/link/linked", "echo 1 >/mnt/linked/file"),
           Own("/mnt/slash/", mount + "/mnt/slash", "echo 2 >/mnt/slash/file")]
with pool(1, volume=volumes) as p:
    tell(seen=look() >> p)
""",
        [host],
        tmp_path,
    )
    nothing_is_left_on([host])
    assert not {"/mnt/linked", "/mnt/slash"} & everything_mounted(host)


def test_keys_go_with_whoever_held_them(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    """The pool is closed while its volumes are being mounted."""
    host = hosts[0]
    driver = begin(
        bed,
        OWN
        + """
with pool(1, volume=[Own("/own", "touch /tmp/mounting; sleep 100")]):
    pass
""",
        [host],
        tmp_path,
        env=KEYS,
    )
    until(lambda: host.run("ls /tmp/mounting").returncode == 0, 60, "it mounts")
    assert host.run("ls -d /dev/shm/skyward-s3-* 2>/dev/null").stdout == ""
    driver.send_signal(signal.SIGINT)
    finish(driver)
    nothing_is_left_on([host])
    left = host.run("grep -rl CANARY /dev/shm /tmp /root /run 2>/dev/null").stdout
    assert left == "", left

"""Nodes behind a command: their agents are daemons that outlive the connection to them.

The command is a plain shell of this machine; everything else is as on a machine far away.
"""

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from concurrent.futures import wait
from contextlib import suppress
from pathlib import Path

import pytest
from skyward.events import Notice

import skyward as sky

DEADLINE = 90  # seconds; the watchdog of each test


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """What is brought to a node goes to a directory of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def pool_of(nodes, spare=0, **options):
    commands = [["sh", "-c"]] * (nodes + spare)
    options.setdefault("display", "quiet")
    provider = sky.Command(commands=commands, python=sys.executable)
    return sky.ComputePool(provider=provider, nodes=nodes, **options)


def command_lines():
    """(pid, words) of all that runs here."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                found.append((int(entry.name), (entry / "cmdline").read_bytes().split(b"\0")))
    return found


def agents(parent):
    """(pid, parent) of the agent's processes below this pool's program: a connection has it as
    parent, a daemon the machine's first process."""
    found = []
    for pid, words in command_lines():
        if b"connect" not in words or b"--pool" not in words:
            continue
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                found.append((pid, int(fields[1]), words[words.index(b"--pool") + 1]))
    own = {pool for _, above, pool in found if above == parent}
    return [(pid, above) for pid, above, pool in found if pool in own]


def connections():
    return [pid for pid, above in agents(os.getpid()) if above == os.getpid()]


def daemons():
    return [pid for pid, above in agents(os.getpid()) if above != os.getpid()]


def wait_for(condition, what, seconds=DEADLINE):
    limit = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < limit, f"{what}: not within {seconds} s"
        threading.Event().wait(0.02)


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@sky.compute
def square(x):
    return x * x


@sky.compute
def note(folder, number, seconds):
    """Leaves a file for each time that it runs, and takes a while."""
    import tempfile
    import time

    tempfile.mkstemp(prefix=f"{number}-", dir=folder)
    time.sleep(seconds)  # on a worker
    return number


@sky.compute
def summed(data):
    import hashlib

    return len(data), hashlib.sha256(data).hexdigest()


@sky.compute
def made(size, fill):
    return bytes([fill]) * size


def test_calls_as_on_any_node():
    with pool_of(2) as pool:
        assert square(7) >> pool == 49
        assert square(3) @ pool == (9, 9)
        assert list(pool.map(square, range(50))) == [x * x for x in range(50)]
        with pytest.raises(ZeroDivisionError):
            sky.compute(lambda: 1 // 0)() >> pool
        mine = daemons()
        assert len(mine) == 2
    wait_for(lambda: all(is_gone(pid) for pid in mine), "the daemons end with the pool", 10)


def test_the_agent_is_brought_once(tmp_path):
    stored = tmp_path / "cache" / "skyward" / "agents"
    with pool_of(2) as pool:
        assert square(2) >> pool == 4
    before = [(path, path.stat().st_ino) for path in stored.rglob("*")]
    assert [path.name for path, _ in before if path.is_file()] == ["skyward-agent"]
    with pool_of(1) as pool:
        assert square(2) >> pool == 4
    assert before == [(path, path.stat().st_ino) for path in stored.rglob("*")]


def test_a_killed_connection_loses_nothing_and_repeats_nothing(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    tasks, kills = 600, 0
    with pool_of(2, concurrency=2) as pool:
        mine = sorted(daemons())
        futures = [pool.submit(note(str(folder), number, 0.02)) for number in range(tasks)]
        while not all(future.done() for future in futures) and kills < 6:
            victims = wait_for(connections, "a connection is there again", 30)
            os.kill(victims[kills % len(victims)], signal.SIGKILL)
            kills += 1
            threading.Event().wait(0.25)
        done, pending = wait(futures, timeout=DEADLINE)
        assert not pending, f"{len(pending)} of {tasks} tasks hang"
        assert [future.result() for future in futures] == list(range(tasks))
        assert sorted(daemons()) == mine, "the agents live on"
    assert kills >= 3
    runs = Counter(int(path.name.partition("-")[0]) for path in folder.iterdir())
    assert runs == Counter(range(tasks)), "each ran exactly once"


def test_a_connection_dies_in_the_middle_of_large_data():
    size = 48 << 20
    data = os.urandom(1 << 20) * (size >> 20)
    with pool_of(1, concurrency=2) as pool:
        for _ in range(3):
            argument = pool.submit(summed(data[:-1] + os.urandom(1)))
            answer = pool.submit(made(size, 7))
            threading.Event().wait(0.05)
            for victim in connections():
                os.kill(victim, signal.SIGKILL)
            assert argument.result(DEADLINE)[0] == size
            assert answer.result(DEADLINE) == b"\7" * size


def test_large_data_arrives_whole_and_lets_small_tasks_pass():
    import hashlib

    data = os.urandom(1 << 20) * 96
    with pool_of(1, concurrency=2) as pool:
        large = pool.submit(summed(data))
        assert square(5) >> pool == 25
        assert large.result(DEADLINE) == (len(data), hashlib.sha256(data).hexdigest())
        began = time.monotonic()
        first = summed(data) >> pool
        again = time.monotonic() - began
        assert first == (len(data), hashlib.sha256(data).hexdigest())
        assert made(80 << 20, 3) >> pool == b"\3" * (80 << 20)
        assert again < DEADLINE


def test_a_function_may_hold_more_than_a_frame():
    table = os.urandom(1 << 20) * 70

    @sky.compute
    def lookup(index):
        return table[index]

    with pool_of(1) as pool:
        assert lookup(12345678) >> pool == table[12345678]
        assert lookup(7) >> pool == table[7]


def test_a_killed_agent_is_replaced_and_its_tasks_run_elsewhere():
    tasks = 60
    with pool_of(2, spare=1) as pool:
        futures = [pool.submit(note("/tmp", f"skyward-e2e-{os.getpid()}", 0.05)) for _ in range(2)]
        wait(futures, timeout=DEADLINE)
        futures = [pool.submit(square(number)) for number in range(tasks)]
        slow = pool.submit(sleeper(1.5))
        victim = daemons()[0]
        os.kill(victim, signal.SIGKILL)
        done, pending = wait([*futures, slow], timeout=DEADLINE)
        assert not pending, f"{len(pending)} tasks hang"
        assert [future.result() for future in futures] == [
            number * number for number in range(tasks)
        ]
        assert slow.result() == 1.5
        assert square(3) @ pool == (9, 9), "the node has come back"
    for path in Path("/tmp").glob(f"skyward-e2e-{os.getpid()}-*"):
        path.unlink()


@sky.compute
def sleeper(seconds):
    import time

    time.sleep(seconds)  # on a worker
    return seconds


def test_what_a_killed_agent_started_is_ended(tmp_path):
    """A process that a task left running in a session of its own is no child of anybody who ends
    it, and still it goes."""
    marker = tmp_path / "pid"
    with pool_of(1, spare=1) as pool:
        start_stray(str(marker)) >> pool
        stray = int(marker.read_text())
        assert not is_gone(stray)
        os.kill(daemons()[0], signal.SIGKILL)
        assert square(2) >> pool == 4
    wait_for(lambda: is_gone(stray), "the stray process ends", 10)


@sky.compute
def start_stray(marker):
    import subprocess
    from pathlib import Path

    process = subprocess.Popen(
        ["sleep", "600"],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    Path(marker).write_text(str(process.pid))


DRIVER = """
    import sys, time
    import skyward as sky

    @sky.compute
    def forever():
        import time
        time.sleep(600)  # on a worker

    pool = sky.ComputePool(
        provider=sky.Command(commands=[["sh", "-c"]] * 2, python=sys.executable),
        nodes=2, display="quiet",
        lease=6, heartbeat_timeout=1,
    )
    with pool:
        pool.submit(forever())
        print("running", flush=True)
        time.sleep(600)  # on a worker
"""


def test_a_killed_driver_leaves_nothing_after_its_lease(tmp_path):
    script = tmp_path / "driver.py"
    script.write_text(textwrap.dedent(DRIVER))
    driver = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert driver.stdout.readline() == "running\n"
    family = [pid for pid, above in agents(driver.pid) if above != driver.pid]
    assert len(family) == 2
    nodes = [Path(os.readlink(f"/proc/{pid}/cwd")) for pid in family]
    driver.kill()
    driver.wait()
    driver.stdout.close()
    began = time.monotonic()
    assert not any(is_gone(pid) for pid in family), "they wait for the driver"
    wait_for(lambda: all(is_gone(pid) for pid in family), "the agents end", 40)
    assert time.monotonic() - began > 1.5
    assert not any(node.exists() for node in nodes), "and take their directories along"


MUTE = """
import sys
import skyward as sky

way = ["sh", "-c", 'sh -c "$0" >/dev/null']  # what the node says is lost
with sky.ComputePool(provider=sky.Command(commands=[way], python=sys.executable), display="quiet"):
    pass
"""


@pytest.mark.skipif(sys.platform != "linux", reason="traces a process as Linux does")
def test_a_task_that_cannot_be_killed_does_not_keep_the_agent(tmp_path):
    """The kernel holds back a process for as long as a tracer does not look, as it does one that
    waits for a silent file server. What ends the machine's cost comes after it."""
    program = tmp_path / "driver.py"
    program.write_text(
        textwrap.dedent(
            """
            import sys, time
            import skyward as sky

            @sky.compute
            def ids():
                import ctypes, os
                ctypes.CDLL(None).prctl(0x59616D61, -1)  # anybody may trace it
                return os.getppid(), os.getpid()

            with sky.ComputePool(
                provider=sky.Command(commands=[["sh", "-c"]], python=sys.executable),
                lease=6, display="quiet",
            ) as pool:
                print(*(ids() >> pool), flush=True)
                time.sleep(600)  # on a worker
            """
        )
    )
    driver = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True)
    agent, worker = map(int, driver.stdout.readline().split())
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    seized = libc.ptrace(0x4206, worker, 0, 0) == 0
    driver.kill()
    driver.wait()
    driver.stdout.close()
    try:
        if not seized:
            pytest.skip(f"this system allows no tracing: {os.strerror(ctypes.get_errno())}")
        wait_for(lambda: is_gone(agent), "the agent ends", seconds=40)
    finally:
        for pid in (worker, agent):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(worker, 0x40000000)  # as its tracer


def test_large_data_by_the_thousand_needs_few_descriptors():
    """On a node that allows few, and in a driver that does. Arrays are mapped, not copied."""
    numpy = pytest.importorskip("numpy")

    @sky.compute
    def filled(size, value):
        import numpy

        return numpy.full(size, value, "u1")

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = ["sh", "-c", 'ulimit -n 700; exec sh -c "$1"', "sh"]
    provider = sky.Command(commands=[few], python=sys.executable)
    large = 70_000
    with sky.ComputePool(provider=provider, display="quiet") as pool:
        for number in range(1000):
            assert summed(number.to_bytes(4, "big") + bytes(large)) >> pool
        in_use = len(os.listdir("/proc/self/fd"))
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 100, before[1]))
            kept = [filled(large, 1) >> pool for _ in range(300)]
            kept += sky.gather(*(filled(large, 1) for _ in range(300))) >> pool
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert int(numpy.sum(kept)) == 600 * large


def test_an_agent_that_nobody_greeted_ends_with_its_connection(tmp_path):
    """The pool is abandoned after the agent's start and before its first message."""
    with pool_of(1) as pool:
        assert square(2) >> pool == 4  # the agent is stored
    script = tmp_path / "driver.py"
    script.write_text(MUTE)

    def started():
        place = str(tmp_path / "cache").encode()
        return [
            pid
            for pid, words in command_lines()
            if words[0].startswith(place) and b"connect" in words
        ]

    driver = subprocess.Popen([sys.executable, str(script)], stderr=subprocess.PIPE, text=True)
    wait_for(lambda: len(started()) == 2, "a connection and a daemon")
    mine = started()
    driver.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in driver.communicate(timeout=DEADLINE)[1]
    wait_for(lambda: all(is_gone(pid) for pid in mine), "the agent ends", 10)


def test_an_unreachable_node_is_told_in_the_commands_words():
    pool = sky.ComputePool(
        provider=sky.Command(commands=[["sh", "-c", "echo no such container: c1 >&2; exit 125"]]),
        display="quiet",
    )
    with pytest.raises(sky.ProvisioningError, match="no such container: c1"), pool:
        pass


def test_words_that_are_not_utf8_end_neither_the_events_nor_the_error():
    words = "printf 'gr\\374n\\n' >&2"
    told = []
    provider = sky.Command(
        commands=[["sh", "-c", f'{words}; exec sh -c "$0"']], python=sys.executable
    )
    with sky.ComputePool(provider=provider, display="quiet", on_event=told.append) as pool:
        assert square(4) >> pool == 16
        os.kill(connections()[0], signal.SIGKILL)
        assert square(5) >> pool == 25
    assert any("gr\ufffdn" in event.message for event in told if isinstance(event, Notice))
    assert isinstance(told[-1], sky.PoolStopped)
    never = sky.Command(commands=[["sh", "-c", f"{words}; exit 1"]])
    with (
        pytest.raises(sky.ProvisioningError, match="gr\ufffdn"),
        sky.ComputePool(provider=never, display="quiet"),
    ):
        pass


@sky.compute
def endless():
    import itertools

    yield from itertools.count()


def test_a_connection_that_is_lost_for_good_is_told_apart_from_a_lost_machine(tmp_path):
    """A stream is not started again elsewhere, so that its reader is told at once."""
    gate = tmp_path / "shut"
    way = ["sh", "-c", f'test -e {gate} && {{ echo no way >&2; exit 1; }}; exec sh -c "$0"']
    with (
        sky.ComputePool(
            provider=sky.Command(commands=[way], python=sys.executable),
            reconnect_timeout=1,
            lease=4,
            display="quiet",
        ) as pool,
        endless() >> pool as numbers,
    ):
        assert next(numbers) == 0
        left = daemons()
        gate.touch()
        os.kill(connections()[0], signal.SIGKILL)
        with pytest.raises(sky.ConnectionLostError, match="no way") as caught:
            list(numbers)
        assert caught.value.instance_id and caught.value.node == 0
    assert left
    wait_for(lambda: all(is_gone(pid) for pid in left), "nobody can end it but itself", 30)


def test_a_node_that_comes_back_to_its_machine_ends_who_stood_there(tmp_path):
    """An agent that counts as lost while nobody can reach it still runs its task after another
    agent has started on the same machine."""
    gate = tmp_path / "shut"
    sweep = """case "$0" in *" end "*) exit 1;; esac"""  # never gets there
    way = ["sh", "-c", f'test -e {gate} && exit 1; {sweep}; exec sh -c "$0"']
    lost = threading.Event()

    def hear(event):
        if isinstance(event, sky.InstanceStopping):
            lost.set()

    with sky.ComputePool(
        provider=sky.Command(commands=[way], python=sys.executable),
        reconnect_timeout=1,
        on_event=hear,
        display="quiet",
    ) as pool:
        start_stray(str(tmp_path / "pid")) >> pool
        (left,) = daemons()
        stray = int((tmp_path / "pid").read_text())
        gate.touch()
        os.kill(connections()[0], signal.SIGKILL)
        assert lost.wait(DEADLINE)
        assert not is_gone(left), "nobody could reach it"
        gate.unlink()
        assert square(3) >> pool == 9
        assert is_gone(left) and is_gone(stray), "two agents of one node on one machine"
        assert daemons() and daemons() != [left]


def test_a_silent_connection_is_made_again(tmp_path):
    """Half open: the command neither passes anything on nor ends."""
    events = []
    way = ["bash", "-c", 'exec 3<&0; exec sh -c "$0" < <(exec cat <&3) > >(exec cat)']
    with sky.ComputePool(
        provider=sky.Command(commands=[way], python=sys.executable),
        concurrency=2,
        heartbeat_timeout=1,
        on_event=events.append,
        display="quiet",
    ) as pool:
        mine = daemons()
        future = pool.submit(note(str(tmp_path), 1, 3))
        os.killpg(connections()[0], signal.SIGSTOP)
        assert square(5) >> pool == 25
        assert future.result(DEADLINE) == 1
        assert daemons() == mine
    assert len(list(tmp_path.glob("1-*"))) == 1
    notices = [event for event in events if isinstance(event, Notice)]
    # A machine that is busy with something else may be silent for a second once more.
    assert [event.level for event in notices[:2]] == ["warning", "info"], notices
    assert "no message from it" in notices[0].message
    assert notices[1].message.startswith("node 0: connected again after ")
    assert not [event for event in events if isinstance(event, sky.Error)], "nothing was lost"


def test_an_agent_that_hangs_is_given_up_and_ended():
    began = time.monotonic()
    with pool_of(1, spare=1, heartbeat_timeout=1, reconnect_timeout=3) as pool:
        victim = daemons()[0]
        os.kill(victim, signal.SIGSTOP)
        assert square(6) >> pool == 36
        assert time.monotonic() - began < 30
    wait_for(lambda: is_gone(victim), "the sweep ends what hangs", 15)


def test_what_a_login_shell_prints_is_passed_over():
    noisy = ["sh", "-c", 'echo "Last login: never"; echo; exec sh -c "$0"']
    provider = sky.Command(commands=[noisy], python=sys.executable)
    with sky.ComputePool(provider=provider, display="quiet") as pool:
        assert square(4) >> pool == 16


def test_where_the_agent_cannot_be_stored_the_node_says_why(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    began = time.monotonic()
    with pytest.raises(Exception, match=r"cannot be stored: mkdir.*Not a directory"), pool_of(1):
        pass
    assert time.monotonic() - began < 15, "and it is not tried for long"


@pytest.fixture
def container():
    """The name of a container whose files are this machine's, where podman starts one."""
    if shutil.which("podman") is None:
        pytest.skip("there is no podman")
    name = f"skyward-e2e-{os.getpid()}"
    start = [
        "podman", "run", "--detach", "--rm", "--name", name, "--network", "none",
        "--rootfs", "/:O", "sleep", "600",
    ]  # fmt: skip
    started = subprocess.run(start, capture_output=True, text=True, timeout=60, check=False)
    if started.returncode != 0:
        pytest.skip(f"podman starts no container here: {started.stderr.strip()}")
    yield name
    subprocess.run(["podman", "rm", "--force", "--time", "0", name], check=True, timeout=60)


def test_a_container_is_a_node(container):
    command = ["podman", "exec", "--interactive", container, "sh", "-c"]
    provider = sky.Command(commands=[command], python=sys.executable)
    with sky.ComputePool(provider=provider, display="quiet") as pool:
        assert square(7) >> pool == 49
        os.kill(connections()[0], signal.SIGKILL)
        assert square(8) >> pool == 64


def test_the_driver_knows_how_to_run_a_line_on_a_node():
    with pool_of(1) as pool:
        command, environment, folder = pool._engine().core.shell_of(0)
        done = subprocess.run(
            [*command, "echo $((6 * 7))"],
            env={**os.environ, **dict(environment)},
            cwd=folder or None,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        assert done.stdout == "42\n"
    with sky.ComputePool(display="quiet") as pool:
        assert pool._engine().core.shell_of(0)[0] == [], "a process of this machine"

"""Opening and closing, whatever happens."""

import gc
import os
import pathlib
import queue
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import types
import weakref

import pytest
from skyward.base.programs import agent_path
from skyward.spec.image import CLIENT_PYTHON
from waiting import DEADLINE, is_alive, wait_until

import skyward as sky
from skyward import callback
from skyward.pool import machines

identity = sky.compute(lambda x=None: x)
processes = sky.compute(lambda: (os.getpid(), os.getppid()))
until_cancelled = sky.compute(lambda: threading.Event().wait())


def test_only_inside_its_block():
    pool = sky.ComputePool(display="quiet")
    uses = [
        lambda: identity(1) >> pool,
        lambda: identity(1) @ pool,
        lambda: (identity(1) & identity(2)) >> pool,
        lambda: sky.gather() >> pool,
        lambda: pool.submit(identity(1)),
        lambda: pool.map(identity, [1]),
    ]
    for use in uses:
        with pytest.raises(sky.NotProvisionedError, match="the pool is not open"):
            use()
    assert (pool.is_active, pool.instance_count, pool.total_slots) == (False, 0, 1)
    with pool as entered:
        assert entered is pool and pool.is_active and pool.instance_count == 1
        assert repr(pool) == "Pool(provider=local, nodes=1, accelerator=None, active)"
        pids = processes() >> pool
    assert not pool.is_active and repr(pool).endswith("inactive)")
    for use in uses:
        with pytest.raises(sky.NotProvisionedError):
            use()
    assert not any(map(is_alive, pids))


def test_the_users_exception_goes_through():
    with pytest.raises(KeyError, match="mine"), sky.ComputePool(display="quiet") as pool:
        pids = processes() >> pool
        raise KeyError("mine")
    assert not any(map(is_alive, pids))


def test_opening_again_only_reports_the_machines_that_the_time_before_has_left(monkeypatch, capsys):
    cloud = sky.testing.FakeCloud(speed=0)
    with sky.ComputePool(provider=cloud, timeout=3600, display="quiet") as pool:
        cloud.advance(hours=2)
        wait_until(lambda: not pool.is_active)
        expired = pool._live
        close = expired.close

        def close_and_complain(tell=True):
            close(tell)
            raise sky.MachinesLeftError("i-1 may be running")

        monkeypatch.setattr(expired, "close", close_and_complain)
        pool.open()
        assert identity(1) >> pool == 1
    assert capsys.readouterr().err == "skyward: i-1 may be running\n"


def test_entering_again_gets_new_machines():
    pool = sky.ComputePool(display="quiet")
    job = sky.compute(lambda: sky.instance_info().job_id)
    with pool:
        first = job() >> pool
        with pytest.raises(sky.ConfigurationError, match="open already"):
            pool.__enter__()
    with pool:
        assert job() >> pool != first


def test_leaving_cancels_what_runs(tmp_path):
    started = tmp_path / "started"

    def work():
        started.touch()
        time.sleep(600)  # on a worker

    begin = time.monotonic()
    with sky.ComputePool(display="quiet") as pool:
        running = pool.submit(sky.compute(work)())
        waiting = pool.submit(identity(1))
        wait_until(started.exists)
    assert time.monotonic() - begin < DEADLINE
    for future in (running, waiting):
        with pytest.raises(sky.CancelledError):
            future.result(0)


def on_done(pool, close):
    pool.submit(until_cancelled()).add_done_callback(close)


def on_event(pool, close):
    pool.on(sky.PoolStopped, close)


@pytest.mark.parametrize("when", [on_done, on_event])
def test_a_callback_may_close_a_pool_that_closes(when):
    order = []

    def close(_):
        pool.close()
        order.append("callback")

    with sky.ComputePool(display="quiet") as pool:
        when(pool, close)
    order.append("block")
    assert order == ["callback", "block"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"nodes": 0}, "nodes=0"),
        ({"provider": "nowhere"}, "provider='nowhere'"),
        ({"nodes": "2"}, "nodes='2'"),
        ({"concurrency": -1}, "concurrency=-1"),
        ({"timeout": 0}, "timeout=0"),
        ({"display": "panel"}, "panel"),
        ({"spot": 1.5}, "1.5"),
        ({"env": {"A": 1}}, "A"),
        ({"pip": "torch"}, "torch"),
        ({"memory": "much"}, "much"),
        ({"cpu": 100_000}, "cpu=100000"),
        ({"accelerator": "A101"}, "A101.*\\n.*A100"),
        ({"volume": {"/data": "gs://bucket"}}, "gs://bucket"),
        ({"on_event": 3}, "on_event"),
    ],
)
def test_nonsense_is_refused_before_anything_starts(options, says):
    with pytest.raises(sky.ConfigurationError, match=says):
        sky.ComputePool(**options)


@pytest.mark.parametrize(
    ("image", "says"),
    [
        (sky.Image(python="3.99"), f"3.99.*{CLIENT_PYTHON}"),
        (sky.Image(pip=["--index-url=http://evil"]), "index-url"),
    ],
)
def test_an_image_that_cannot_be_made(image, says):
    seen = []
    pool = sky.ComputePool(image=image, display="quiet", on_event=seen.append)
    with pytest.raises(sky.ConfigurationError, match=says), pool:
        pytest.fail("entered")
    assert not [event for event in seen if isinstance(event, sky.InstanceLaunching)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"volume": {"/data": "s3://bucket"}}, "local provider mounts none.*leave volume out"),
        ({"image": sky.Image(apt=["no-such-package-x"])}, "cannot install them: no-such-package-x"),
        ({"machine": "p5.48xlarge"}, "this machine only"),
        ({"nodes": 10_000, "concurrency": 1000}, "10000000 processes: too many for the memory"),
        ({"cpu": 9999}, "cpu=9999: this machine has"),
        ({"memory": "9000TB"}, 'memory="9216000GB": [0-9.]+ GB may be used here'),
        ({"accelerator": sky.accelerators.GB300(count=64)}, "leave accelerator out"),
    ],
)
def test_what_this_machine_has_not_is_refused_before_anything_starts(options, says):
    seen = []
    pool = sky.ComputePool(provider="local", display="quiet", on_event=seen.append, **options)
    with pytest.raises(sky.ConfigurationError, match=f"(?s){says}"), pool:
        pytest.fail("entered")
    assert not [event for event in seen if not isinstance(event, sky.Error)]


def test_one_architecture_is_that_of_this_machine():
    opened = []
    for architecture in ("x86_64", "arm64"):
        try:
            with sky.ComputePool(architecture=architecture, display="quiet"):
                opened.append(architecture)
        except sky.ConfigurationError as error:
            assert f'architecture="{architecture}": this machine is' in str(error)
    assert len(opened) == 1


def test_a_missing_agent_is_named(monkeypatch):
    monkeypatch.setenv("SKYWARD_AGENT", "/no/such/agent")
    with (
        pytest.raises(sky.ConfigurationError, match="/no/such/agent"),
        sky.ComputePool(display="quiet"),
    ):
        pytest.fail("entered")


def test_an_agent_that_dies_at_once(monkeypatch):
    monkeypatch.setenv("SKYWARD_AGENT", "/bin/false")
    with (
        pytest.raises(sky.ProvisioningError, match="its agent, /bin/false, ended"),
        sky.ComputePool(display="quiet"),
    ):
        pytest.fail("entered")


def test_an_agent_may_be_named_from_the_working_directory(monkeypatch):
    folder, name = os.path.split(agent_path())
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SKYWARD_AGENT", name)
    with sky.ComputePool(display="quiet") as pool:
        assert identity(1) >> pool == 1
    monkeypatch.setenv("SKYWARD_AGENT", ".")
    with (
        pytest.raises(sky.ConfigurationError, match=f"is not at {folder}"),
        sky.ComputePool(display="quiet"),
    ):
        pytest.fail("entered")


@pytest.mark.skipif(shutil.which("ssh") is None, reason="no OpenSSH client here")
def test_a_host_that_cannot_be_reached():
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{nobody.getsockname()[1]}"
        pool = sky.ComputePool(provider=sky.SSH(hosts=[host]), display="quiet")
        with pytest.raises(sky.ConnectionError, match="refuses the connection") as caught, pool:
            pytest.fail("entered")
    assert host in str(caught.value) and "check that sshd runs there" in str(caught.value)
    assert isinstance(caught.value, sky.ProvisioningError)
    assert isinstance(caught.value, ConnectionError)


def test_calls_after_the_pools_time_are_told_so():
    stopped = threading.Event()

    def seen(event):
        if isinstance(event, sky.PoolStopped):
            stopped.set()

    with sky.ComputePool(timeout=5, display="quiet", on_event=seen) as pool:
        with pytest.raises(sky.TimeoutError, match="timeout of 5 s has expired"):
            sky.compute(time.sleep)(60) >> pool
        assert stopped.wait(DEADLINE)
        with pytest.raises(sky.TimeoutError, match=r"timeout of 5 s .*ComputePool\(timeout="):
            identity(1) >> pool
        with pytest.raises(sky.TimeoutError, match="timeout of 5 s"):
            list(pool.map(identity, [1]))
        with pytest.raises(sky.NotProvisionedError, match="timeout has passed"):
            sky.gather() >> pool
        assert not pool.is_active and pool.instance_count == 0
        pool.open()
        assert identity(2) >> pool == identity(2) >> sky == 2
    assert not pool.is_active


def test_a_pool_does_not_open_after_an_upgrade(monkeypatch):
    monkeypatch.setattr(sky, "__version__", "0.0.9")
    with (
        pytest.raises(sky.ConfigurationError, match=r"upgraded .* version 0\.0\.9 .* restart"),
        sky.ComputePool(display="quiet"),
    ):
        pytest.fail("entered")


def test_an_image_with_packages_has_an_environment_of_its_own():
    def look():
        import importlib.util
        import sys

        import iniconfig

        return iniconfig.__file__, sys.prefix, importlib.util.find_spec("numpy") is None

    with sky.ComputePool(pip=["iniconfig"], display="quiet") as pool:
        file, prefix, without_numpy = sky.compute(look)() >> pool
    assert file.startswith(prefix) and prefix != sys.prefix
    assert without_numpy


def test_image_hashes():
    assert sky.Image().content_hash() == "58316d12063e"
    for pip in (["torch", "numpy"], ["numpy", "torch"]):
        assert sky.Image(python="3.13", pip=pip).content_hash() == "23168a3db57d"
    image = sky.Image(python="3.12", pip=["torch"], apt=["git"], env={"A": "1"})
    assert image.content_hash() == "bc22483d0b0a"
    assert sky.Image(pip=["torch", "é"]).content_hash() == "293b3ef5fe4e"


def test_a_task_that_takes_its_machine_along_is_given_up():
    def fell():
        os.kill(os.getppid(), signal.SIGKILL)  # the agent; a task's way to lose the machine
        time.sleep(600)  # on a worker

    with sky.ComputePool(nodes=2, display="quiet") as pool:
        with pytest.raises(sky.InstanceTerminatedError, match="attempt 4 of 4") as caught:
            sky.compute(fell)() >> pool
        assert identity(1) >> pool == 1
    error = caught.value
    assert isinstance(error, sky.ExecutionError)
    assert error.instance_id in str(error) and "killed by signal 9" in error.reason


def test_an_agent_that_is_told_to_end_says_so():
    def agent():
        return os.getppid()

    lost = queue.SimpleQueue()
    there = sky.Command([["sh", "-c"]], python=sys.executable)
    with sky.ComputePool(provider=there, display="quiet") as pool:
        pool.on(sky.Error, lost.put)
        os.kill(sky.compute(agent)() >> pool, signal.SIGTERM)
        assert "its agent ended: it was told to end (SIGTERM" in lost.get(timeout=60).message
        assert identity(1) >> pool == 1


def test_what_a_task_leaves_running_ends_with_a_node_whose_agent_was_killed():
    def daemonise():
        read, write = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.write(write, str(os.getpid()).encode())
                os.execvp("sleep", ["sleep", "600"])
            os._exit(0)
        return int(os.read(read, 100)), os.getppid()

    with sky.ComputePool(display="quiet") as pool:
        daemon, agent = sky.compute(daemonise)() >> pool
        assert is_alive(daemon)
        os.kill(agent, signal.SIGKILL)
        assert identity(1) >> pool == 1
    assert not is_alive(daemon)


def test_multi_pool():
    seen = []
    small, large = sky.ComputePool(display="quiet"), sky.ComputePool(nodes=2, display="quiet")
    with sky.use_callback(seen.append), sky.MultiPool(small, large) as pools:
        assert pools == (small, large)
        assert (identity(1) >> small, identity(2) @ large) == (1, (2, 2))
    assert not small.is_active and not large.is_active
    assert sum(isinstance(event, sky.PoolStopped) for event in seen) == 2


def test_multi_pool_without_threads_of_its_own(monkeypatch):
    real, refused = threading.Thread.start, []

    def start(thread):
        if thread.name.endswith("(run)"):
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        real(thread)

    pools = [sky.ComputePool(display="quiet") for _ in range(2)]
    monkeypatch.setattr(threading.Thread, "start", start)
    with sky.MultiPool(*pools):
        assert [pool.is_active for pool in pools] == [True, True]
    assert [pool.is_active for pool in pools] == [False, False]
    assert len(refused) == 4


def test_without_threads_every_pool_gets_its_turn_whatever_one_raises(monkeypatch):
    from skyward.pool.multi import _in_parallel

    def start(thread):
        raise RuntimeError("can't start new thread")

    def work(position):
        done.append(position)
        if position < 2:
            raise KeyboardInterrupt

    done = []
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(KeyboardInterrupt):
        _in_parallel(work, 3)
    assert sorted(done) == [0, 1, 2]


@pytest.mark.parametrize("broken_first", [True, False])
def test_multi_pool_failure_leaves_nothing(broken_first):
    started, seen = [], []
    good = sky.ComputePool(nodes=2, display="quiet", on_event=seen.append)
    broken = sky.ComputePool(image=sky.Image(python="3.99"), display="quiet")
    pools = (broken, good) if broken_first else (good, broken)
    with pytest.raises(sky.PythonVersionMismatchError), sky.MultiPool(*pools):
        started.append(1)
    assert not started and not good.is_active
    launched = sum(isinstance(event, sky.InstanceProvisioned) for event in seen)
    assert launched == sum(isinstance(event, sky.InstanceStopping) for event in seen)
    with good:
        assert identity(1) >> good == 1


def test_multi_pool_closes_no_pool_that_others_have_opened():
    own = sky.ComputePool(display="quiet")
    with sky.ComputePool(display="quiet") as others:
        with pytest.raises(sky.ConfigurationError, match="open already"):
            sky.MultiPool(own, others).__enter__()
        assert others.is_active and not own.is_active
        assert identity(1) >> others == 1


def test_multi_pool_says_why_it_did_not_open_though_machines_are_left(monkeypatch):
    good = sky.ComputePool(display="quiet")
    broken = sky.ComputePool(image=sky.Image(python="3.99"), display="quiet")
    real = good._close

    def close(why=None):
        real(why)
        raise sky.MachinesLeftError("i-1 may be running")

    monkeypatch.setattr(good, "_close", close)
    with pytest.raises(sky.PythonVersionMismatchError) as raised, sky.MultiPool(good, broken):
        pass
    assert "skyward: i-1 may be running" in raised.value.__notes__


def test_multi_pool_refuses_the_same_pool_twice():
    pool = sky.ComputePool(display="quiet")
    with pytest.raises(ValueError, match="twice"):
        sky.MultiPool(pool, pool)


def start(program, **options):
    """A driver of its own. Ctrl-C reaches it even where the tests run in the background of a shell,
    which starts its background programs with SIGINT ignored."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **options,
    )  # fmt: skip


def test_ctrl_c_stops_the_task_and_the_program(tmp_path):
    started, stopped = tmp_path / "started", tmp_path / "stopped"
    child = start(f"""
        import os, time, skyward as sky
        @sky.compute
        def work():
            try:
                open({str(started)!r}, "w").write(f"{{os.getpid()}} {{os.getppid()}}")
                time.sleep(600)  # on a worker
            except KeyboardInterrupt:
                open({str(stopped)!r}, "w").close()
                raise
        with sky.ComputePool(display="quiet") as pool:
            try:
                work() >> pool
            except KeyboardInterrupt:
                print("interrupted", sky.compute(abs)(-1) >> pool, flush=True)
                raise
    """)
    wait_until(lambda: started.exists() and started.read_text())
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=DEADLINE)
    assert out == "interrupted 1\n", err
    assert child.returncode == -signal.SIGINT or child.returncode == 130
    assert "KeyboardInterrupt" in err
    wait_until(stopped.exists)
    assert not any(map(is_alive, map(int, started.read_text().split())))


def test_ctrl_c_stops_a_whole_batch():
    child = start("""
        import os, signal, threading, time, skyward as sky
        work = sky.compute(lambda: time.sleep(600))  # on a worker
        with sky.ComputePool(nodes=2, display="quiet") as pool:
            try:
                threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
                sky.gather(*[work() for _ in range(50)]) >> pool
            except KeyboardInterrupt:
                print(sky.gather(*[sky.compute(abs)(-i) for i in range(4)]) >> pool, flush=True)
    """)
    out, err = child.communicate(timeout=DEADLINE)
    assert out == "(0, 1, 2, 3)\n", err


def test_ctrl_c_while_opening(tmp_path):
    # An agent that never speaks: the pool would wait for its greeting.
    agent = tmp_path / "agent"
    agent.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    agent.chmod(0o755)
    program = "import skyward as sky\nwith sky.ComputePool(): print('entered')"
    child = start(program, env={**os.environ, "SKYWARD_AGENT": str(agent)})
    pid = tmp_path / "pid"
    wait_until(lambda: pid.exists() and pid.read_text().strip())
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=DEADLINE)
    assert out == "" and "KeyboardInterrupt" in err
    assert "interrupted; closing the pool" in err
    assert not is_alive(int(pid.read_text()))


def test_a_killed_driver_leaves_nothing():
    child = start("""
        import os, signal, time, skyward as sky
        pids = sky.compute(lambda: (os.getpid(), os.getppid()))
        with sky.ComputePool(nodes=2, concurrency=2, display="quiet") as pool:
            found = {pid for pair in pids() @ pool for pid in pair}
            pool.submit(sky.compute(time.sleep)(600))
            print(*found, flush=True)
            while True:
                signal.sigtimedwait([], 0.1)
    """)
    pids = list(map(int, child.stdout.readline().split()))
    assert len(pids) == 4 and all(map(is_alive, pids))
    child.kill()
    child.communicate(timeout=DEADLINE)
    wait_until(lambda: not any(map(is_alive, pids)))


def test_a_killed_driver_leaves_nothing_though_its_forked_child_lives_on():
    child = start("""
        import os, signal, skyward as sky
        pids = sky.compute(lambda: (os.getpid(), os.getppid()))
        with sky.ComputePool(display="quiet") as pool:
            found = pids() >> pool
            forked = os.fork()
            if forked:
                print(forked, *found, flush=True)
            while True:
                signal.pause()
    """)
    forked, *pids = map(int, child.stdout.readline().split())
    try:
        child.kill()
        child.wait(DEADLINE)
        wait_until(lambda: not any(map(is_alive, pids)))
        assert is_alive(forked)
    finally:
        os.kill(forked, signal.SIGKILL)
    child.communicate(timeout=DEADLINE)


def test_a_pool_entered_by_hand_is_closed_at_exit():
    child = start("""
        import os, skyward as sky
        pool = sky.ComputePool(display="quiet").__enter__()
        print(*(sky.compute(lambda: (os.getpid(), os.getppid()))() >> pool), flush=True)
    """)
    out, err = child.communicate(timeout=DEADLINE)
    assert child.returncode == 0, err
    assert not any(map(is_alive, map(int, out.split())))


def test_a_forked_child_leaves_the_pool_alone():
    child = start("""
        import os, skyward as sky
        with sky.ComputePool(display="quiet") as pool:
            sky.compute(abs)(-1) >> pool
            pool.submit(sky.compute(abs)(-1)).result()
            for leave in ("exit", "block"):
                pid = os.fork()
                if pid == 0:
                    try:
                        pool.run(sky.compute(abs)(-1))
                    except sky.NotProvisionedError as error:
                        print("child:", "forked" in str(error), flush=True)
                    if leave == "exit":
                        import sys
                        sys.exit(0)
                    break
                assert os.waitpid(pid, 0)[1] == 0
            else:
                print("parent:", sky.compute(abs)(-2) >> pool, flush=True)
    """)
    out, err = child.communicate(timeout=DEADLINE)
    assert child.returncode == 0, err
    assert out.splitlines() == ["child: True", "child: True", "parent: 2"]


def test_a_forked_child_waits_for_nothing_of_its_parents():
    child = start("""
        import os, sys, threading, time, skyward as sky
        from skyward.pool.display import _screen
        executor = sky.Executor(display="log")
        running = executor.submit(time.sleep, 0.5)
        held, done = threading.Event(), threading.Event()
        def hold():
            with executor._lock, _screen.lock:
                held.set()
                done.wait()
        for leave in ("exit", "block", "close"):
            held.clear(), done.clear()
            holder = threading.Thread(target=hold)
            holder.start()
            held.wait()
            pid = os.fork()
            if pid == 0:
                if leave == "block":
                    executor.__exit__(None, None, None)
                if leave == "close":
                    executor._pool._close()
                sys.exit(3)
            done.set()
            holder.join()
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
            print(leave, flush=True)
        executor.shutdown()
        print("parent", running.done(), flush=True)
    """)
    out, err = child.communicate(timeout=DEADLINE)
    assert child.returncode == 0, err
    assert out.splitlines() == ["exit", "block", "close", "parent True"]


def test_a_child_that_imports_the_program_opens_no_pool(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import multiprocessing
import skyward as sky

def tell(event):
    if isinstance(event, sky.PoolStarted):
        print("started", flush=True)

with sky.ComputePool(display="quiet", on_event=tell) as pool:
    child = multiprocessing.get_context("spawn").Process(target=print, args=("ran",))
    child.start()
    child.join()
    print(child.exitcode, flush=True)
""")
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=DEADLINE
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["started", "1"]
    assert "open it under `if __name__ == '__main__':`" in done.stderr


def test_places_that_are_not_there_are_refused(pool):
    core = pool._live.core
    call = pool._live.packing.calls([sky.compute(abs)(-1)])[0]
    for node, worker in ((2, 0), (99, 0), (0, 1)):
        with pytest.raises(sky.ConfigurationError, match="they count from 0"):
            core.submit(call.at(node, worker))
    assert core.submit(call.at(1, 0)).wait(DEADLINE)


def test_very_many_calls_for_one_node(pool):
    core = pool._live.core
    call = pool._live.packing.calls([sky.compute(abs)(-1)])[0].at(0, 0)
    handles = core.submit_many([call] * 70_000)
    for handle in handles:
        assert handle.wait(DEADLINE)
    assert {handle.take().status for handle in handles} == {"ok"}


def test_what_is_forgotten_too_often_hurts_nobody(pool):
    core = pool._live.core
    stored = core.store(bytes(100_000))
    core.forget(stored)
    core.forget(stored)
    assert sky.compute(abs)(-1) >> pool == 1


def test_an_outcome_is_taken_once(pool):
    handle = pool._live.core.submit(pool._live.packing.calls([sky.compute(abs)(-1)])[0])
    assert handle.wait(1e300)
    assert handle.take().status == "ok"
    with pytest.raises(sky.SkywardError, match="already taken"):
        handle.take()


def test_functions_that_nobody_calls_any_more_leave_the_node():
    @sky.compute
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

    with sky.ComputePool(display="quiet") as pool:
        before = resident() >> pool

        def make(k):
            data = bytes([k]) * (12 << 20)
            return sky.compute(lambda: len(data))

        first = make(0)
        assert first() >> pool == 12 << 20
        for k in range(1, 40):
            assert make(k)() >> pool == 12 << 20
        assert (resident() >> pool) - before < 400  # all would be 480
        assert first() >> pool == 12 << 20


def test_very_many_functions_do_not_pile_up_in_a_worker():
    @sky.compute
    def held():
        found = [o for o in gc.get_objects() if type(o) is types.FunctionType]
        return sum(one.__name__ == "tiny" for one in found)

    def make(k):
        def tiny():
            return k

        return sky.compute(tiny)

    with sky.ComputePool(display="quiet") as pool:
        for start in range(0, 6000, 1000):
            calls = [make(k)() for k in range(start, start + 1000)]
            assert sky.gather(*calls) >> pool == tuple(range(start, start + 1000))
        assert held() >> pool < 4200
        assert make(0)() >> pool == 0  # it was dropped, and is sent again


def test_ctrl_c_while_a_cloud_says_nothing():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        child = start("""
            import threading, time, skyward as sky
            ticks = []
            def tick():
                while True:
                    ticks.append(time.monotonic())
                    pause.wait(0.05)
            pause = threading.Event()
            threading.Thread(target=tick, daemon=True).start()
            try:
                sky.AWS(region="us-east-1").available_instances()
            except KeyboardInterrupt:
                silence = max(b - a for a, b in zip(ticks, ticks[1:]))
                print("interrupted", silence < 30, flush=True)
        """, env=os.environ | {
            "AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y",
            "AWS_EC2_METADATA_DISABLED": "true",
        })  # fmt: skip
        silent.settimeout(DEADLINE)
        with silent.accept()[0]:
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=DEADLINE)
    assert child.returncode == 0, err
    assert out.split() == ["interrupted", "True"], err


def test_pools_in_threads():
    answers = {}

    def work(k):
        with sky.ComputePool(display="quiet") as pool:
            answers[k] = identity(k) >> pool

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert answers == {0: 0, 1: 1, 2: 2}


def test_local_modules_are_found(tmp_path):
    (tmp_path / "own_module.py").write_text("def triple(x):\n    return 3 * x\n")
    script = tmp_path / "main.py"
    script.write_text(
        textwrap.dedent("""
        import skyward as sky
        from own_module import triple

        class Point:
            def __init__(self, x):
                self.x = x

        @sky.compute
        def f(point):
            return Point(triple(point.x))

        if __name__ == "__main__":
            with sky.ComputePool(display="quiet") as pool:
                answer = f(Point(2)) >> pool
                print(answer.x, isinstance(answer, Point))
    """)
    )
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(sky.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True, text=True, timeout=60, cwd="/", env=environment,
    )  # fmt: skip
    assert done.stdout == "6 True\n", done.stderr


def test_a_command_that_fails_is_told_at_once(tmp_path):
    reach = tmp_path / "reach"
    reach.write_text(f"""#!/bin/sh
[ -e {tmp_path}/tried ] && exec sh -c "$1"
touch {tmp_path}/tried
echo "no such option: '$1'" >&2
exit 1
""")
    reach.chmod(0o755)
    troubles = []
    provider = sky.Command([[str(reach)]], python=sys.executable)
    pool = sky.ComputePool(provider=provider, display="quiet")
    pool.on(sky.Notice, lambda event: troubles.append(event.message))
    with pool:
        assert sky.compute(abs)(-1) >> pool == 1
    assert [text for text in troubles if not text.startswith("closing: ")] == [
        "node 0: the command that reaches it ended (exit code 1); it wrote: no such option: '…';"
        f" run it yourself; it must print \"hi\": {reach} 'echo hi'; connecting again"
    ]


@pytest.mark.parametrize("display", ["quiet", "log"])
def test_a_pool_that_was_left_keeps_nothing(display):
    gc.collect()
    gc.disable()
    try:
        with sky.ComputePool(display=display) as pool:
            sky.compute(len)(bytearray(1 << 20)) >> pool
            pool.submit(sky.compute(len)(bytearray(1 << 20))).result()
            live = weakref.ref(pool._live)
        wait_until(lambda: live() is None)
    finally:
        gc.enable()


@pytest.mark.parametrize("collects", [True, False])
def test_what_the_node_says_of_collecting_garbage_holds(collects, tmp_path):
    wanted = "enable" if collects else "disable"
    (tmp_path / "sitecustomize.py").write_text(f"import gc; gc.{wanted}()\n")
    image = sky.Image(env={"PYTHONPATH": str(tmp_path)})
    with sky.ComputePool(image=image, display="quiet") as pool:
        assert (sky.compute(gc.isenabled)() >> pool) == collects


def test_a_machine_that_is_lost_while_the_pool_opens_is_replaced(tmp_path):
    slow_start = f"""
import os, pathlib, time
folder = pathlib.Path(__file__).parent
(folder / f"agent-{{os.getppid()}}").touch()
end = time.monotonic() + {DEADLINE}
while not (folder / "go").exists() and time.monotonic() < end:
    time.sleep(0.01)  # on a worker
"""
    (tmp_path / "sitecustomize.py").write_text(slow_start)
    image = sky.Image(env={"PYTHONPATH": str(tmp_path)})
    events = []

    def lose_one():
        wait_until(lambda: len(list(tmp_path.glob("agent-*"))) == 2)
        os.kill(int(next(tmp_path.glob("agent-*")).name.partition("-")[2]), signal.SIGKILL)
        wait_until(lambda: any(isinstance(event, sky.Error) for event in events))
        (tmp_path / "go").touch()

    losing = threading.Thread(target=lose_one)
    losing.start()
    with sky.ComputePool(nodes=2, image=image, display="quiet", on_event=events.append) as pool:
        assert len(set(processes() @ pool)) == 2
    losing.join()
    replaced = [event.attempt for event in events if isinstance(event, sky.InstanceReplaced)]
    assert replaced == [1]


def test_a_handler_that_hangs_keeps_no_machine(monkeypatch):
    monkeypatch.setattr(callback, "BUSY_SECONDS", 0.1)
    monkeypatch.setattr(machines, "HANDLER_GRACE_SECONDS", 0.1)
    begun, go_on = threading.Event(), threading.Event()

    def hang(event):
        begun.set()
        go_on.wait(DEADLINE)

    try:
        with sky.ComputePool(display="quiet") as pool:
            (process, _) = processes() >> pool
            pool.on(sky.Error, hang)
            busy = threading.Thread(target=pool._live.tell, args=("busy",))
            busy.start()
            assert begun.wait(DEADLINE)
            left = until_cancelled() > pool
        assert left.done(), "it was cancelled"
        wait_until(lambda: not is_alive(process))
    finally:
        go_on.set()
    busy.join(DEADLINE)


def test_ctrl_c_while_a_handler_runs_at_the_end_keeps_no_machine():
    def interrupt(event):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), sky.ComputePool(display="quiet") as pool:
        (process, _) = processes() >> pool
        left = until_cancelled() > pool
        pool.on(sky.Error, interrupt)
    assert left.done() and not pool.is_active
    wait_until(lambda: not is_alive(process))

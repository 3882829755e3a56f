"""The acts: each starts programs on a bed, hurts them, and says what must hold afterwards."""

import os
import resource
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from bed import PATIENCE, Skipped, wait_until

ACTS = {}

MIB = 1 << 20


def act(function):
    ACTS[function.__name__] = function
    return function


def pause(bed, longest):
    """Lets the program under test run for a random time."""
    with suppress(AssertionError):
        wait_until(
            lambda: bed.programs[-1].process.poll() is not None,
            "",
            bed.random.uniform(0, longest),
        )


@act
def signals(bed):
    """A program is signalled at any moment of its pool's life: it ends, and its nodes with it."""
    program = bed.start("""
        say("begun")
        with sky.ComputePool(nodes=random.randint(1, 3), concurrency=2, display="quiet") as pool:
            say("open")
            while True:
                check(pool, random.randint(1, 300))
    """)
    program.wait_for(bed.random.choice(["begun", "begun", "open"]))
    assert "begun" in program.out
    pause(bed, 1.0)
    first = bed.random.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
    program.signal(first)
    if bed.random.random() < 0.3:
        pause(bed, 0.3)
        program.signal(bed.random.choice([signal.SIGINT, signal.SIGTERM]))
    assert program.wait() != 0, f"the program went on after {first.name}"
    bed.expect_nothing_left()


HURT = """
    def below(pid):
        found = []
        for entry in os.listdir("/proc"):
            try:
                with open(f"/proc/{{entry}}/stat") as stat:
                    if entry.isdigit() and int(stat.read().rpartition(")")[2].split()[1]) == pid:
                        found.append(int(entry))
            except OSError:
                pass
        return found

    def agents():
        return below(os.getpid())

    def workers():
        return [worker for agent in agents() for worker in below(agent)]

    over = threading.Event()
    hurts = []

    def hurt():
        while not over.wait(random.uniform(0, {longest_pause})):
            pids = {victims}()
            if not pids:
                continue
            pid, way = random.choice(pids), random.choice([signal.SIGKILL, signal.SIGSTOP])
            try:
                os.kill(pid, way)
                hurts.append(way)
                if way == signal.SIGSTOP:
                    over.wait(random.uniform(0, 1.0))
                    os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass

    right = failed = 0
    with sky.ComputePool(nodes={nodes}, concurrency={slots}, display="quiet") as pool:
        check(pool, 10)
        thread = threading.Thread(target=hurt)
        thread.start()
        end = time.monotonic() + {seconds}
        while time.monotonic() < end:
            futures = [pool.submit(square(i)) for i in range(random.randint(1, 500))]
            for i, future in enumerate(futures):
                try:
                    assert future.result({patience}) == i * i, i
                    right += 1
                except {errors}:
                    failed += 1
        over.set()
        thread.join()
        check(pool, 10)
    assert hurts and right > failed, (hurts, right, failed)
    say(f"{{right}} right, {{failed}} failed, {{len(hurts)}} hurts: survived")
"""


def hurt(bed, **how):
    program = bed.start(HURT.format(patience=PATIENCE, **how))
    program.expect_success()
    bed.expect_nothing_left()


@act
def workers(bed):
    """Workers are killed and stopped: a call is answered right, or says that its worker died."""
    hurt(
        bed,
        nodes=bed.random.randint(1, 3),
        slots=bed.random.randint(1, 6),
        victims="workers",
        longest_pause=0.1,
        seconds=2,
        errors="sky.ExecutionError",
    )


@act
def agents(bed):
    """Agents are killed and stopped: nodes are replaced, and their calls run again."""
    hurt(
        bed,
        nodes=bed.random.randint(2, 3),
        slots=bed.random.randint(1, 4),
        victims="agents",
        # A node is replaced a few times only before the pool gives it up.
        longest_pause=2.0,
        seconds=4,
        errors="sky.SkywardError",
    )


@act
def flood(bed):
    """Tasks print faster than anybody reads: results are right, and the pool closes."""
    display = bed.random.choice(["log", "quiet"])
    program = bed.start(f"""
        @sky.compute
        def shout(lines):
            os.write(1, b"".join(b"line %d\\n" % i for i in range(lines)))
            return lines

        def slow(event):
            if random.random() < 0.001:
                threading.Event().wait(0.01)

        options = {{"on_event": slow}} if random.random() < 0.5 else {{}}
        with sky.ComputePool(nodes=2, concurrency=2, display={display!r}, **options) as pool:
            lines = [random.randint(1, 50_000) for _ in range(12)]
            assert list(sky.gather(*[shout(n) for n in lines]) >> pool) == lines
        say("survived")
    """)
    program.expect_success()
    bed.expect_nothing_left()


@act
def full_disk(bed):
    """The disk of temporary files and records is full: calls are answered all the same, or refused
    in words."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        raise Skipped("mounting a small disk takes root and unshare")
    disk = bed.root / "disk"
    disk.mkdir()
    mount = f'mount -t tmpfs -o size={bed.random.choice([64, 512])}k none {disk} && exec "$@"'
    program = bed.start(
        """
        try:
            with sky.ComputePool(nodes=2, concurrency=2, display="quiet") as pool:
                check(pool, 100)

                @sky.compute
                def shout(size):
                    print("x" * size)
                    return bytes(size)

                assert list(sky.gather(*[shout(300_000)] * 8) >> pool) == [bytes(300_000)] * 8
            say("survived")
        except (sky.SkywardError, OSError) as error:
            say(f"refused {error}")
        """,
        before=("unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh"),
        environment={"TMPDIR": str(disk), "XDG_STATE_HOME": str(disk / "state")},
    )
    program.expect_success()
    bed.expect_nothing_left()


@act
def few_descriptors(bed):
    """A low limit of open files: the pool works, or says what there is too little of."""
    limit = bed.random.randint(12, 64)
    program = bed.start(
        """
        try:
            nodes = random.randint(1, 3)
            with sky.ComputePool(nodes=nodes, concurrency=2, display="quiet") as pool:
                check(pool, 50)
                large = [bytes([i]) * 200_000 for i in range(10)]

                @sky.compute
                def same(data):
                    return data

                assert list(sky.gather(*[same(data) for data in large]) >> pool) == large
            say("survived")
        except (sky.SkywardError, OSError) as error:
            say(f"refused {error}")
        """,
        limits=[(resource.RLIMIT_NOFILE, limit)],
    )
    program.expect_success()
    bed.expect_nothing_left()


@act
def little_memory(bed):
    """A low limit of address space: large data is refused in words."""
    program = bed.start(
        """
        try:
            with sky.ComputePool(nodes=1, display="quiet") as pool:
                check(pool, 50)
                size = random.randint(1, 600) << 20

                @sky.compute
                def measure(data):
                    return len(data)

                assert measure(bytes(size)) >> pool == size
            say("survived")
        except (sky.SkywardError, MemoryError, OSError) as error:
            say(f"refused {error}")
        """,
        limits=[(resource.RLIMIT_AS, bed.random.randint(700, 1500) * MIB)],
    )
    program.expect_success()
    bed.expect_nothing_left()


@act
def few_processes(bed):
    """A low limit of processes and threads: the pool works, or says so."""
    parent = Path("/sys/fs/cgroup/pids")
    group = parent / bed.root.name
    try:
        group.mkdir()
    except OSError as error:
        raise Skipped(f"no group with a limit of processes can be made here: {error}") from None
    try:
        (group / "pids.max").write_text(str(bed.random.randint(3, 40)))
        program = bed.start(
            """
            try:
                with sky.ComputePool(nodes=2, concurrency=4, display="quiet") as pool:
                    check(pool, 50)
                say("survived")
            except (sky.SkywardError, OSError, RuntimeError) as error:
                say(f"refused {error}")
            """,
            setup=lambda: (group / "cgroup.procs").write_text("0"),
        )
        program.expect_success()
        bed.expect_nothing_left()
    finally:
        with suppress(OSError):
            group.rmdir()


@act
def clock(bed):
    """The wall clock jumps by days: calls, time limits and receipts go on."""
    library, file = bed.root / "clock.so", bed.root / "clock"
    source = Path(__file__).resolve().parent.parent / "hosts" / "jumping_clock.c"
    if not shutil.which("cc"):
        raise Skipped("no C compiler")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    file.write_text("0")
    program = bed.start(
        f"""
        with sky.ComputePool(nodes=2, display="quiet") as pool:
            for _ in range(40):
                with open({str(file)!r}, "w") as clock:
                    clock.write(str(random.randint(-10, 10) * 86_400))
                check(pool, 20)
                assert square(3).with_timeout(50) >> pool == 9
        say("survived")
        """,
        environment={"LD_PRELOAD": str(library), "JUMPING_CLOCK": str(file)},
    )
    program.expect_success()
    bed.expect_nothing_left()


@act
def forks(bed):
    """The program forks while threads call: children are refused, the parent goes on."""
    program = bed.start("""
        def call(pool):
            for _ in range(20):
                check(pool, random.randint(1, 50))

        with sky.ComputePool(nodes=2, concurrency=2, display="quiet") as pool:
            threads = [threading.Thread(target=call, args=(pool,)) for _ in range(3)]
            for thread in threads:
                thread.start()
            waiting = pool.submit(square(4))
            for _ in range(10):
                child = os.fork()
                if child == 0:
                    faulthandler.dump_traceback_later(20, exit=True)
                    try:
                        random.choice([lambda: square(2) >> pool, lambda: waiting.result()])()
                    except sky.NotProvisionedError:
                        os._exit(0)
                    # An answer that had come before the fork may be read.
                    os._exit(0 if waiting.done() else 1)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            for thread in threads:
                thread.join()
            assert waiting.result() == 16
        say("survived")
    """)
    program.expect_success()
    bed.expect_nothing_left()


@act
def nested(bed):
    """Pools in pools, in threads and in tasks: each answers its own calls."""
    program = bed.start("""
        @sky.compute
        def inner(count):
            with sky.ComputePool(nodes=1, display="quiet") as pool:
                return sum(sky.gather(*[square(i) for i in range(count)]) >> pool)

        def one_more(depth):
            with sky.ComputePool(nodes=random.randint(1, 2), display="quiet") as pool:
                check(pool, 20)
                if depth:
                    thread = threading.Thread(target=one_more, args=(depth - 1,))
                    thread.start()
                    one_more(0)
                    thread.join()
                check(pool, 20)

        one_more(2)
        with sky.ComputePool(nodes=2, display="quiet") as pool:
            assert list(sky.gather(inner(3), inner(5)) >> pool) == [5, 30]
        say("survived")
    """)
    program.expect_success()
    bed.expect_nothing_left()


@act
def rude_tasks(bed):
    """Tasks that misbehave cost themselves alone; what they leave behind ends with the pool."""
    program = bed.start("""
        def leave_children():
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    signal.signal(signal.SIGTERM, signal.SIG_IGN)
                    time.sleep(1000)  # on a worker
                os._exit(0)

        def ignore_signals():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)

        def close_everything():
            os.closerange(0, 3)

        def exit_at_once():
            os._exit(3)

        def kill_myself():
            os.kill(os.getpid(), signal.SIGKILL)

        def raise_exit():
            raise SystemExit(4)

        def kill_the_agent():
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(30)  # on a worker

        def use_much_stack():
            use_much_stack()

        rude = [leave_children, ignore_signals, close_everything, exit_at_once, kill_myself,
                raise_exit, use_much_stack]
        with sky.ComputePool(nodes=2, concurrency=2, display="quiet") as pool:
            if random.random() < 0.5:
                # What an agent has adopted ends with it; nobody is left to do that where a task
                # kills the agent itself.
                rude[rude.index(leave_children)] = kill_the_agent
            chosen = random.choices(rude, k=12)
            for task in chosen:
                future = pool.submit(sky.compute(task)())
                try:
                    future.result(60)
                except (sky.SkywardError, RecursionError, OSError):
                    pass
                check(pool, 20)
        say("survived")
    """)
    program.expect_success()
    bed.expect_nothing_left()

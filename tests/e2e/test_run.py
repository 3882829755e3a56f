"""`skyward run` as a shell runs it, on nodes of this computer and behind commands."""

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import skyward as sky

PROGRAM = str(Path(sky.__file__).parent / "bin" / "skyward")
DEADLINE = 90  # seconds
COMMANDS = '[["sh", "-c"], ["sh", "-c"], ["sh", "-c"]]'
FAILED = 125


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """A directory of the test's own that is the working directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SKYWARD_COMMAND_COMMANDS", COMMANDS)
    monkeypatch.setenv("SKYWARD_PYTHON", sys.executable)
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def run(*words, **options):
    """Its exit code, standard output and standard error."""
    done = subprocess.run(
        [PROGRAM, "run", *words], capture_output=True, text=True, timeout=DEADLINE, **options
    )
    return done.returncode, done.stdout, done.stderr


class Started:
    """A run whose command has printed "ready"."""

    def __init__(self, *words, **options):
        self.process = subprocess.Popen(
            [PROGRAM, "run", "--quiet", *words],
            stdout=subprocess.PIPE,
            text=True,
            # nohup would have the program ignore it.
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
            **options,
        )
        assert "ready" in self.process.stdout.readline()

    def end(self, number):
        self.process.send_signal(number)
        out = self.process.communicate(timeout=DEADLINE)[0]
        return self.process.returncode, out


def marked(mark, program):
    """The processes that have RUN_MARK=mark in their environment, all or those of one program."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            is_marked = entry.name.isdigit() and (
                f"RUN_MARK={mark}\0".encode() in (entry / "environ").read_bytes()
            )
            if is_marked and program in ("", (entry / "comm").read_text().strip()):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def wait_until_gone(mark, program=""):
    limit = time.monotonic() + DEADLINE
    while left := [pid for pid in marked(mark, program) if pid != os.getpid()]:
        assert time.monotonic() < limit, left
        select.select([], [], [], 0.02)


@pytest.mark.parametrize("provider", ["local", "command"])
def test_a_script_runs_with_its_arguments_and_files(project, provider):
    (project / "part.py").write_text("VALUE = 42\n")
    (project / "train.py").write_text(
        "import os, sys, part\n"
        "print(part.VALUE, *sys.argv[1:])\n"
        "print('careful', file=sys.stderr)\n"
        "open('results/model', 'wb').write(b'\\0' * 3_000_000)\n"
        "sys.exit(3)\n"
    )
    words = ["--provider", provider, "--output", "results", "train.py", "--nodes", "9", "--", "x"]
    code, out, err = run(*words)
    assert (code, out) == (3, "42 --nodes 9 -- x\n"), err
    assert "careful" in err and "sending 2 files" in err and "1 file in" in err
    assert (project / "results" / "model").read_bytes() == b"\0" * 3_000_000
    assert sorted(path.name for path in project.iterdir()) == ["part.py", "results", "train.py"]


@pytest.mark.parametrize("provider", ["local", "command"])
def test_every_node_runs_the_command_and_knows_its_rank(project, provider):
    line = 'echo "$RANK of $WORLD_SIZE at $MASTER_ADDR"; echo $RANK > out/rank; echo err >&2'
    words = ["--provider", provider, "--nodes", "3", "--quiet", "--output", "out"]
    code, out, err = run(*words, "--", "sh", "-c", line)
    assert code == 0, err
    head = "127.0.0.1" if provider == "local" else ""  # commands have no addresses of their own
    assert sorted(out.splitlines()) == [f"node {i}: {i} of 3 at {head}" for i in range(3)]
    assert [f"node {i}: err" in err for i in range(3)] == [True] * 3
    assert [(project / f"out/node-{i}/rank").read_text() for i in range(3)] == ["0\n", "1\n", "2\n"]


def test_variables_of_the_user_come_before_those_of_skyward(project):
    (project / "a.py").write_text(
        "import os; print(*(os.environ[n] for n in ('RANK', 'NODE_RANK', 'PYTHONUNBUFFERED')))\n"
    )
    words = ["--quiet", "--nodes", "2", "--env", "RANK=7", "--env", "PYTHONUNBUFFERED=x", "a.py"]
    code, out, err = run(*words)
    assert code == 0 and sorted(out.splitlines()) == ["node 0: 7 0 x", "node 1: 7 1 x"], err


def test_the_line_about_what_is_sent_names_the_provider_and_who_chose_it(project, monkeypatch):
    (project / ".env").write_text("TOKEN=x\n")
    subprocess.run(["git", "init", "-q"], check=True)
    monkeypatch.setenv("SKYWARD_PROVIDER", "command")
    code, _, err = run("--quiet", "--", "true")
    assert code == 0 and "provider: command ($SKYWARD_PROVIDER)" in err, err
    assert "may hold secrets: .env" in err


def test_a_home_directory_is_not_sent_unless_it_is_named(project, monkeypatch):
    monkeypatch.setenv("HOME", str(project))
    code, out, err = run("--", "true")
    assert code == FAILED and "home directory" in err and "--sync DIR" in err and out == ""
    code, _, err = run("--sync", ".", "--", "true")
    assert code == 0, err


def test_a_node_that_fails_ends_the_others():
    line = "[ $RANK = 1 ] && exit 7; exec sleep 600"
    code, _, err = run("--nodes", "2", "--quiet", "--no-sync", "--", "sh", "-c", line)
    assert code == 7, err


def test_output_is_passed_on_byte_by_byte():
    line = "head -c 5000000 /dev/zero | tr '\\0' '\\377'; printf '\\r\\0end' >&2"
    done = subprocess.run(
        [PROGRAM, "run", "--quiet", "--no-sync", "--", "sh", "-c", line],
        capture_output=True,
        timeout=DEADLINE,
    )
    assert done.stdout == b"\xff" * 5_000_000
    assert done.stderr == b"\r\0end"


def test_a_reader_that_leaves_ends_the_command():
    process = subprocess.Popen(
        [PROGRAM, "run", "--quiet", "--no-sync", "--", "yes"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    assert process.wait(DEADLINE) == 128 + signal.SIGPIPE


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_which_may_save_its_work(project, number, monkeypatch):
    monkeypatch.setenv("RUN_MARK", f"mark-{os.getpid()}-{number}")
    line = (
        "trap 'echo saved > out/work; echo bye; exit 5' INT TERM; "
        "echo ready; while :; do sleep 0.02; done"
    )
    started = Started("--output", "out", "--", "bash", "-c", line)
    assert started.end(number) == (5, "bye\n")
    assert (project / "out/work").read_text() == "saved\n"
    wait_until_gone(os.environ["RUN_MARK"])


def test_an_interrupt_while_results_come_back_leaves_what_was_there(project):
    (project / "out").mkdir()
    (project / "out/big").write_text("of an earlier run")
    line = "truncate -s 40G out/big; echo ready"
    started = Started("--output", "out", "--", "sh", "-c", line)
    limit = time.monotonic() + DEADLINE
    while len(os.listdir("out")) < 2 and time.monotonic() < limit:
        select.select([], [], [], 0.02)
    assert started.end(signal.SIGINT)[0] == -signal.SIGINT
    assert (project / "out/big").read_text() == "of an earlier run"
    assert os.listdir("out") == ["big"]


def test_a_command_that_ignores_signals_is_killed(monkeypatch):
    monkeypatch.setenv("RUN_MARK", f"stubborn-{os.getpid()}")
    line = "trap '' TERM; trap 'echo no' INT; echo ready; while :; do sleep 0.02; done"
    started = Started("--no-sync", "--", "bash", "-c", line, stderr=subprocess.PIPE)
    started.process.send_signal(signal.SIGINT)
    assert "interrupted" in started.process.stderr.readline()
    # Not another SIGINT, which counts only half a second after the first one.
    started.process.send_signal(signal.SIGTERM)
    assert "interrupted again" in started.process.stderr.readline()
    assert started.end(signal.SIGTERM)[0] == -signal.SIGINT
    wait_until_gone(os.environ["RUN_MARK"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_whose_command_died_of_a_signal_ends_by_it(number):
    started = Started("--no-sync", "--", "sh", "-c", "echo ready; exec sleep 600")
    assert started.end(number) == (-number, "")


def test_an_interrupt_ends_a_loop_of_runs():
    run_one = '"$0" run --quiet --no-sync -- sh -c "echo ready $i; [ $i = 2 ] || exec sleep 600"'
    process = subprocess.Popen(
        ["bash", "-c", f"for i in 1 2; do {run_one}; done", PROGRAM],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # as a terminal's foreground
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout.readline() == "ready 1\n"
    os.killpg(process.pid, signal.SIGINT)
    out = process.communicate(timeout=DEADLINE)[0]
    assert (process.returncode, out) == (-signal.SIGINT, "")


def test_a_signal_to_the_shell_of_a_job_reaches_a_run_that_it_executes(monkeypatch):
    """Runners of CI send it to the shell alone."""
    monkeypatch.setenv("RUN_MARK", f"job-{os.getpid()}")
    script = 'echo begins; exec "$0" run --quiet --no-sync -- sh -c "echo ready; exec sleep 600"'
    process = subprocess.Popen(["bash", "-c", script, PROGRAM], stdout=subprocess.PIPE, text=True)
    assert [process.stdout.readline() for _ in range(2)] == ["begins\n", "ready\n"]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=DEADLINE)
    assert process.returncode == -signal.SIGTERM
    wait_until_gone(os.environ["RUN_MARK"])


@pytest.mark.parametrize(("own", "whole"), [(5, 5), (0, 124)])
def test_the_end_of_the_lifetime_lets_a_command_save_its_work(project, own, whole):
    saves = f"echo saved > out/work; exit {own}"
    line = f"trap '{saves}' TERM; echo ready; while :; do sleep 0.02; done"
    words = ["--timeout", "16", "--output", "out", "--", "bash", "-c", line]
    code, out, err = run(*words)
    assert (code, out) == (whole, "ready\n"), err
    assert (project / "out/work").read_text() == "saved\n"
    assert "lifetime ends in 8 s" in err and "--timeout" in err and "ComputePool" not in err


def test_an_interrupt_is_heard_while_nobody_reads_the_output(monkeypatch):
    monkeypatch.setenv("RUN_MARK", f"unread-{os.getpid()}")
    started = Started("--no-sync", "--", "sh", "-c", "echo ready; exec yes")
    started.process.send_signal(signal.SIGINT)
    wait_until_gone(os.environ["RUN_MARK"], "yes")
    started.process.communicate(timeout=DEADLINE)
    assert started.process.returncode == -signal.SIGINT
    wait_until_gone(os.environ["RUN_MARK"])


@pytest.mark.parametrize("provider", ["local", "command"])
def test_nothing_is_left_of_a_driver_that_is_killed(provider, monkeypatch):
    monkeypatch.setenv("RUN_MARK", f"killed-{provider}-{os.getpid()}")
    line = "sleep 600 & echo ready; exec sleep 600"
    words = ["--no-sync", "--lease", "6", "--provider", provider]
    started = Started(*words, "--", "sh", "-c", line)
    started.end(signal.SIGKILL)
    wait_until_gone(os.environ["RUN_MARK"])


def test_an_interrupt_before_the_command_runs_starts_nothing(project, monkeypatch):
    slow = project / "slow.sh"
    slow.write_text('#!/bin/sh\necho x >> "$SLOW_LOG"\nexec sleep 600\n')
    slow.chmod(0o755)
    monkeypatch.setenv("SLOW_LOG", str(project / "log"))
    monkeypatch.setenv("SKYWARD_COMMAND_COMMANDS", f'[["{slow}"]]')
    process = subprocess.Popen(
        [PROGRAM, "run", "--provider", "command", "--no-sync", "--", "true"],
        stderr=subprocess.PIPE,
    )
    limit = time.monotonic() + DEADLINE
    while not (project / "log").exists() and time.monotonic() < limit:
        select.select([], [], [], 0.02)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE)
    assert process.returncode == -signal.SIGINT


# Waits for a file, then kills the command's grandparent, which is the agent of its node.
LOSE_NODE = (
    "while ! [ -e {}/go ]; do sleep 0.02; done; "
    "kill -9 $(awk '/^PPid/ {{ print $2 }}' /proc/$PPID/status); sleep 600"
)


@pytest.mark.parametrize("provider", ["local", "command"])
def test_a_lost_node_fails_the_run(project, provider):
    line = "echo ready; " + LOSE_NODE.format(project)
    words = ["--provider", provider, "--output", "out", "--", "sh", "-c", line]
    started = Started(*words, stderr=subprocess.PIPE)
    (project / "go").touch()
    out, err = started.process.communicate(timeout=DEADLINE)
    assert (started.process.returncode, out) == (FAILED, ""), err
    assert "skyward: node 0 was lost while it ran the command: its agent" in err, err
    assert "the command is not started again elsewhere" in err and "run_command" not in err, err
    assert os.listdir("out") == []


def test_a_lost_node_ends_the_command_on_the_others(project, monkeypatch):
    monkeypatch.setenv("RUN_MARK", f"lost-{os.getpid()}")
    saves = "trap 'echo saved; exit 5' TERM; echo ready; sleep 600 & wait"
    line = f"if [ $RANK = 0 ]; then {saves}; else {LOSE_NODE.format(project)}; fi"
    words = ["--nodes", "2", "--no-sync", "--", "sh", "-c", line]
    started = Started(*words, stderr=subprocess.PIPE)
    (project / "go").touch()
    out, err = started.process.communicate(timeout=DEADLINE)
    assert (started.process.returncode, out) == (FAILED, "node 0: saved\n"), err
    wait_until_gone(os.environ["RUN_MARK"])


def test_machines_end_although_the_output_is_never_read(monkeypatch):
    monkeypatch.setenv("RUN_MARK", f"never-read-{os.getpid()}")
    line = "echo ready; exec yes"
    started = Started("--no-sync", "--", "sh", "-c", line, stderr=subprocess.PIPE)
    for number in [signal.SIGINT] + 3 * [signal.SIGTERM]:  # the last one gives up
        started.process.send_signal(number)
        assert "interrupted" in started.process.stderr.readline()
    assert started.process.wait(DEADLINE) == -signal.SIGINT
    assert "nothing reads the output" in started.process.stderr.read()
    wait_until_gone(os.environ["RUN_MARK"])


SMALL_DISK = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
DISKS = {
    "space": ("size=8m", "head -c 1000 /dev/zero > out/a; truncate -s 64M out/b", "almost full"),
    "names": ("size=8m,nr_inodes=4", "for n in a b c d e; do echo x > out/$n; done", "almost full"),
}


@pytest.mark.parametrize(("options", "line", "why"), DISKS.values(), ids=DISKS)
def test_a_full_disk_here_fails_the_run_and_keeps_what_is_whole(project, options, line, why):
    if subprocess.run([*SMALL_DISK, "mount -t tmpfs none /mnt"], check=False).returncode != 0:
        pytest.skip("this system lets nobody mount in a namespace")
    (project / "out").mkdir()
    mount = f'mount -t tmpfs -o {options} none out; "$@"; code=$?; ls -A out; exit $code'
    words = [PROGRAM, "run", "--quiet", "--output", "out", "--", "sh", "-c", line]
    done = subprocess.run(
        [*SMALL_DISK, mount, "sh", *words], capture_output=True, text=True, timeout=DEADLINE
    )
    assert done.returncode == FAILED, done.stderr
    assert why in done.stderr and "is incomplete" in done.stderr
    whole = done.stdout.split()
    assert whole == (["a"] if "b" not in done.stdout else ["a", "b", "c"]), done.stderr


def test_a_disk_that_is_full_before_the_run_starts_is_refused(project):
    if subprocess.run([*SMALL_DISK, "mount -t tmpfs none /mnt"], check=False).returncode != 0:
        pytest.skip("this system lets nobody mount in a namespace")
    (project / "out").mkdir()
    fill = "head -c 8380000 /dev/zero > out/full"
    mount = f'mount -t tmpfs -o size=8m none out && {fill}; "$@"'
    words = [PROGRAM, "run", "--output", "out", "--", "echo", "ran"]
    done = subprocess.run(
        [*SMALL_DISK, mount, "sh", *words], capture_output=True, text=True, timeout=DEADLINE
    )
    assert (done.returncode, done.stdout) == (FAILED, ""), done.stderr
    assert "almost full" in done.stderr and "opening" not in done.stderr


def test_results_of_another_directory_come_to_the_working_directory(project):
    (project / "part/results").mkdir(parents=True)
    (project / "part/results/old").write_text("x")
    line = "ls results; echo new > results/new"
    words = ["--quiet", "--sync", "part", "--output", "results", "--", "sh", "-c", line]
    code, out, err = run(*words)
    assert (code, out) == (0, ""), err
    assert f"in its copy of {project}/part, comes back to {project}/results" in err, err
    assert f"{project}/part/results is not sent" in err, err
    assert (project / "results/new").read_text() == "new\n"
    assert os.listdir("part/results") == ["old"]


@pytest.mark.parametrize("link", ["out", "out/node-1"])
def test_links_that_came_with_the_files_do_not_lead_results_away(project, link):
    other = project.parent / f"{project.name}-other"
    other.mkdir()
    (project / link).parent.mkdir(exist_ok=True)
    (project / link).symlink_to(other)
    words = ["--nodes", "2", "--output", "out", "--", "touch", "out/x"]
    code, out, err = run(*words)
    assert code == FAILED and out == "", err
    assert f"a symbolic link leads from there to {other}" in err
    assert "opening" not in err and os.listdir(other) == []


MISTAKES = {
    "nothing": ([], "there is nothing to run", "skyward run -- nvidia-smi"),
    "missing": (["no.py"], "there is no script no.py", "skyward run -- no.py"),
    "outside": (["../x.py"], "../x.py is not in", "--sync"),
    "shell": (["x.sh"], "does not end with .py", "skyward run -- ./x.sh"),
    "hidden": ([".x.py"], ".x.py would not be sent", "--sync"),
    "output": (["--output", "out", "out/x.py"], "where --output collects results", "elsewhere"),
    "option": (["--nodse", "2", "a.py"], "no option --nodse", "--nodes"),
    "nodes": (["--nodes", "0", "a.py"], "nodes", ""),
    "provider": (["--provider", "awz", "a.py"], 'no provider named "awz"', "aws"),
    "region": (["--region", "eu-west-1", "a.py"], "the provider local takes no region", "aws"),
    "region of ssh": (
        ["--provider", "ssh", "--region", "eu", "a.py"],
        "--region eu: the provider ssh takes no region",
        "leave --region out",
    ),
    "accelerator": (["--accelerator", "A1000", "a.py"], "no accelerator", "A100"),
    "absolute": (["--output", "/tmp", "a.py"], "--output /tmp", "results"),
    "upwards": (["--output", "../o", "a.py"], "--output ../o", "results"),
    "file": (["--output", "a.py/x", "a.py"], "--output a.py/x", "create files"),
    "sync": (["--sync", "none", "a.py"], "--sync none", "directory"),
    "size": (["--max-sync", "1MB", "a.py"], "big (2.0 MB)", "--max-sync"),
    "env": (["--env", "NO_SUCH", "a.py"], "it is not set here", "NAME=VALUE"),
    "memory": (["--memory", "32", "a.py"], "--memory", "unit"),
}


@pytest.mark.parametrize(("words", "what", "hint"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_refused_before_anything_starts(project, words, what, hint):
    (project / "out").mkdir()
    for name in ("a.py", "x.sh", ".x.py", "../x.py", "out/x.py"):
        (project / name).write_text("print('ran')\n")
    (project / "big").write_bytes(bytes(2_000_000))
    code, out, err = run(*words)
    assert code == FAILED and out == "", err
    assert what in err and hint in err
    assert "opening" not in err and len(err.splitlines()) <= 4, err


def test_a_project_file_cannot_control_the_terminal(project):
    (project / "a.py").touch()
    (project / "skyward.toml").write_text('provider = "x\\u001b]0;title\\u0007"\n')
    code, _, err = run("a.py")
    assert code == FAILED
    assert r'there is no provider "x\x1b]0;title\x07"' in err
    assert not {character for character in err if character < " "} - {"\n"}, repr(err)


def test_what_cannot_be_started_has_the_codes_of_a_shell():
    code, _, err = run("--quiet", "--no-sync", "--", "skyward-no-such-program")
    assert code == 127 and "there is no such program" in err
    code, _, err = run("--quiet", "--no-sync", "--", "/etc/passwd")
    assert code == 126 and "Permission denied" in err


def test_files_that_cannot_be_stored_here_fail_the_run(project):
    (project / "out").mkdir()
    (project / "out" / "a").mkdir()
    line = "echo 1 > out/a; echo 2 > out/b"
    code, _, err = run("--quiet", "--output", "out", "--", "sh", "-c", line)
    assert code == FAILED and "not brought back: a" in err and "out/a" in err, err
    assert (project / "out" / "b").read_text() == "2\n"


def test_options_of_the_program_may_come_before_the_command():
    done = subprocess.run(
        [PROGRAM, "--json", "run", "--no-sync", "--quiet", "--", "echo", "--nodes"],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert (done.returncode, done.stdout) == (0, "--nodes\n"), done.stderr


def test_what_git_ignores_is_not_sent(project, monkeypatch):
    subprocess.run(["git", "init", "-q"], check=True)
    (project / ".gitignore").write_text("*.bin\n")
    (project / "data.bin").write_text("x")
    (project / "new").write_text("x")
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # as in a hook: of another repository
    code, out, err = run("--", "ls", "-A")
    assert code == 0 and out.split() == [".gitignore", "new"], err

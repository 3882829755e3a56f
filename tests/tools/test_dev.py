"""./dev and .ci/run from outside: what they list, refuse, count and end with."""

import re
import shutil
import subprocess
from pathlib import Path

import check_docs
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def dev(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["./dev", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


def test_help_lists_every_verb() -> None:
    listed = set(re.findall(r"^  ([a-z-]+)\s", dev("help").stdout, re.MULTILINE))
    assert listed == check_docs.known_verbs((ROOT / "dev").read_text())
    assert {"setup", "build", "demo", "test", "check", "run", "sim", "wheel"} <= listed


def test_unknown_verb_is_refused_with_a_pointer() -> None:
    done = dev("nosuchverb")
    assert done.returncode != 0
    assert "no verb 'nosuchverb'" in done.stderr
    assert "./dev help" in done.stderr


def test_unknown_part_of_the_tests_is_refused() -> None:
    assert "no part 'nosuchpart'" in dev("test", "nosuchpart").stderr


def run_steps(tmp_path: Path, steps: str) -> subprocess.CompletedProcess[str]:
    """./dev in an empty folder, with a verb of its own that holds the steps."""
    text = (ROOT / "dev").read_text()
    marker = "verb=${1:-help}"
    assert marker in text
    verb = f"verb_steps() {{\n{steps}\nclose_count\n}}\n\n"
    script = tmp_path / "dev"
    script.write_text(text.replace(marker, verb + marker))
    script.chmod(0o755)
    return subprocess.run(
        ["./dev", "steps"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("steps", "closing", "good"),
    [
        ("step a true", "1 passed, 0 failed, 0 skipped", True),
        ("step a echo '3 passed, 0 failed, 1 skipped'", "3 passed, 0 failed, 1 skipped", True),
        ("step a echo '2 passed, 1 failed'", "2 passed, 1 failed, 0 skipped", False),
        ("step a true\nstep b false", "1 passed, 1 failed, 0 skipped", False),
        (
            "step a bash -c \"echo '4 passed, 0 failed'; exit 3\"",
            "4 passed, 1 failed, 0 skipped",
            False,
        ),
        ("step a die 'no such thing'\nstep b true", "1 passed, 1 failed, 0 skipped", False),
        ("true", "0 passed, 0 failed, 0 skipped", False),
    ],
)
def test_steps_are_counted(tmp_path: Path, steps: str, closing: str, good: bool) -> None:
    done = run_steps(tmp_path, steps)
    assert done.stdout.splitlines()[-1] == closing
    assert (done.returncode == 0) == good


def test_failed_step_shows_its_output(tmp_path: Path) -> None:
    done = run_steps(tmp_path, "step a bash -c 'echo the reason; exit 1'")
    assert "the reason" in done.stdout


def test_frameworks_are_skipped_without_their_python(tmp_path: Path) -> None:
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.13.7 || exit 1\n')
    python.chmod(0o755)
    done = run_steps(tmp_path, "setup() { :; }\nverb_frameworks\nexit")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "0 passed, 0 failed, 1 skipped"
    assert "SKIPPED" in done.stdout and "this is Python 3.13.7" in done.stdout


def test_a_run_after_the_demo_compiles_nothing(tmp_path: Path) -> None:
    def targets(verb: str) -> set[str]:
        steps = f'compile() {{ shift; echo "$@"; exit; }}\nverb_{verb} program.py'
        return set(run_steps(tmp_path, steps).stdout.split())

    assert {"_core", "python_cli"} <= targets("run") <= targets("demo")


@pytest.mark.parametrize(("verb", "apart"), [("run", False), ("demo", True)])
def test_only_programs_of_the_user_use_the_users_ledger_and_settings(
    tmp_path: Path, verb: str, apart: bool
) -> None:
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(
        "#!/bin/sh\necho state=$XDG_STATE_HOME metadata=$AWS_EC2_METADATA_DISABLED"
        " provider=$SKYWARD_PROVIDER config=$SKYWARD_CONFIG\n"
    )
    python.chmod(0o755)
    steps = (
        "export XDG_STATE_HOME=/mine SKYWARD_PROVIDER=aws SKYWARD_CONFIG=/mine.toml\n"
        "unset AWS_EC2_METADATA_DISABLED\n"
        f"compile() {{ :; }}\nverb_{verb} program.py\nexit"
    )
    printed = run_steps(tmp_path, steps).stdout.splitlines()[0]
    if apart:
        build = tmp_path / "build"
        expected = f"state={build}/state metadata=true provider= config={build}/no-settings.toml"
        assert (build / "no-settings.toml").read_text() == ""
    else:
        expected = "state=/mine metadata= provider=aws config=/mine.toml"
    assert printed == expected


def run_ci(tmp_path: Path, fake_dev: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "dev").write_text("#!/bin/bash\n" + fake_dev)
    (tmp_path / "dev").chmod(0o755)
    return subprocess.run(
        ["bash", ".ci/run"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )


def test_ci_sums_its_stages_up(tmp_path: Path) -> None:
    done = run_ci(
        tmp_path, "case $1 in test) echo '40 passed, 0 failed, 2 skipped';; *) echo;; esac"
    )
    stages = done.stdout.count("\n== ") // 2 + 1
    assert done.stdout.splitlines()[-1] == f"{40 + stages - 1} passed, 0 failed"
    assert "2 skipped" in done.stdout.splitlines()[-2]
    assert done.returncode == 0


def ci_verbs() -> list[str]:
    return re.findall(
        r"^(?:stage|begin_beside) \w+ \./dev ([\w-]+)",
        (ROOT / ".ci" / "run").read_text(),
        re.MULTILINE,
    )


@pytest.mark.parametrize("verb", ci_verbs())
def test_ci_fails_when_a_stage_does(tmp_path: Path, verb: str) -> None:
    done = run_ci(tmp_path, f"[[ $1 != {verb} ]]")
    assert " 1 failed" in done.stdout.splitlines()[-1]
    assert done.returncode == 1


def test_ci_uses_only_verbs_that_exist() -> None:
    used = ci_verbs()
    assert {"setup", "test", "demo", "static", "sim"} <= set(used)
    assert set(used) <= check_docs.known_verbs((ROOT / "dev").read_text())

"""The script that makes a bare machine into an image: its words, and what it does in a root file
system of its own, where apt, curl and shutdown are played and uv, dpkg and Python are real."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest
from skyward.base.programs import find_uv
from skyward.spec.image import CLIENT_PYTHON

import skyward as sky

NASTY = 'it\'s "$HOME" `touch /evil` \\ * ; é\nsecond line'
HARNESS = """
set -euo pipefail
mount -t tmpfs tmpfs "$1/memory"
mkdir "$1/memory/upper" "$1/memory/work"
mount -t overlay overlay "$1/root" \
  -o "lowerdir=/,upperdir=$1/memory/upper,workdir=$1/memory/work"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
rm -rf "$1/root/opt/skyward" "$1/root$HOME/.local/bin/uv"
cp -r "$1/given/." "$1/root/"
exec chroot "$1/root" bash /drive
"""
DRIVE = """
run() { bash "/$1" || echo "failed with $?"; }
report() { # as lines NAME=VALUE, until the end of the file
  echo "steps=$(cd /opt/skyward && echo .step_* .ready)"
  echo "error=$(cat /opt/skyward/.error 2>/dev/null | tr '\\n' '|')"
  echo "timers=$(grep -als "[s]kyward-timer" /proc/[0-9]*/cmdline | wc -l)"
  echo "apt=$(cat /apt-calls 2>/dev/null | wc -l)"
  echo "curl=$(cat /curl-calls 2>/dev/null | wc -l)"
  echo "synced=$(cat /synced 2>/dev/null | tr '\\n' '|')"
  echo "venv=$(stat -c %i /opt/skyward/.venv)"
  echo "version=$(/opt/skyward/.venv/bin/python -c \
    'import sys, cloudpickle, skyward_test_package as p
print("%d.%d" % sys.version_info[:2], cloudpickle.v, p.v)')"
  echo "dpkg=$(dpkg-query -W -f '${db:Status-Status}' skyward-test-tool)"
}
"""


def needs_own_root():
    if os.geteuid() != 0:
        return "a separate root file system needs root"
    for program in ("unshare", "chroot", "dpkg-deb"):
        if not shutil.which(program):
            return f"there is no {program} here"
    if not find_uv():
        return "there is no uv here"
    probe = "mount -t tmpfs tmpfs /mnt && mkdir /mnt/u /mnt/w /mnt/r && mount -t overlay overlay"
    options = "/mnt/r -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w"
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "bash", "-c", f"{probe} {options}"],
        capture_output=True,
        timeout=60,
    )
    return None if done.returncode == 0 else f"no overlay can be mounted here: {done.stderr!r}"


def wheel(folder, name, code):
    info = f"{name}-9.9.dist-info"
    with zipfile.ZipFile(folder / f"{name}-9.9-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", code)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path):
    """A machine's root file system; returns a function that runs a drive in it."""
    reason = needs_own_root()
    if reason:
        pytest.skip(reason)
    for name in ("memory", "root", "given"):
        (tmp_path / name).mkdir()
    given = tmp_path / "given"
    (given / "wheels").mkdir()
    wheel(given / "wheels", "cloudpickle", "v = 'pickled'\n")
    wheel(given / "wheels", "skyward_test_package", "v = 'mine'\n")
    package = tmp_path / "package/DEBIAN"
    package.mkdir(parents=True)
    (package / "control").write_text(
        "Package: skyward-test-tool\nVersion: 1\nArchitecture: all\nMaintainer: t <t@t.t>\n"
        "Description: for a test\n"
    )
    built = ["dpkg-deb", "--build", str(package.parent), str(given / "skyward-test-tool.deb")]
    subprocess.run(built, check=True, capture_output=True, timeout=60)
    shutil.copy(find_uv(), given / "real-uv")
    played = given / "usr/local/bin"
    program(
        played / "apt-get",
        '#!/bin/sh\necho "$*" >>/apt-calls\ncase "$*" in *skyward-test-tool*)'
        " dpkg -i /skyward-test-tool.deb ;; *broken-tool*) echo no such tool; exit 100 ;; esac\n",
    )
    program(
        played / "curl",
        '#!/bin/sh\necho "$*" >>/curl-calls\n'
        "echo 'env -0 >/seen; mkdir -p ~/.local/bin; cp /real-uv ~/.local/bin/uv'\n",
    )
    program(
        played / "sync",
        '#!/bin/sh\n[ -e "$3/.venv/bin/python" ] && [ ! -e "$3/.image" ] && echo "$3" >>/synced\n',
    )
    program(played / "shutdown", '#!/bin/sh\necho "$*" >/halted\n')

    def run(drive, **scripts):
        for name, text in scripts.items():
            (given / name).write_text(text)
        (given / "drive").write_text(DRIVE + drive)
        python = pathlib.Path(sys.executable).resolve().parent
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
            + ["bash", "-c", HARNESS, "machine", str(tmp_path)],
            env={"PATH": f"/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:{python}", "HOME": "/root"},
            capture_output=True,
            text=True,
            timeout=150,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    return run


OFFLINE = {"UV_OFFLINE": "1", "UV_FIND_LINKS": "/wheels", "UV_PYTHON_DOWNLOADS": "never"}
IMAGE = sky.Image(
    pip=["skyward_test_package>=9"], apt=["skyward-test-tool"], env={**OFFLINE, "NASTY": NASTY}
)


def reported(text):
    return [
        dict(line.split("=", 1) for line in part.splitlines() if "=" in line)
        for part in text.split("--\n")
    ]


def test_twice_on_one_machine(machine):
    out = machine(
        "run script; report; echo --; run script; report; echo --; tr '\\0' '\\n' </seen",
        script=IMAGE.bootstrap(ttl=3600),
    )
    first, second, _ = reported(out)
    assert first == {
        "steps": ".step_apt .step_deps .step_uv .ready",
        "error": "",
        "timers": "1",
        "apt": "2",
        "curl": "1",
        "synced": "/opt/skyward|",
        "venv": first["venv"],
        "version": f"{CLIENT_PYTHON} pickled mine",
        "dpkg": "installed",
    }
    assert second == first  # nothing was done again
    assert f"NASTY={NASTY}" in out


def test_another_image_on_the_same_machine(machine):
    other = sky.Image(pip=["skyward_test_package"], env=OFFLINE)
    out = machine(
        "run script; report; echo --; run other; report",
        script=IMAGE.bootstrap(),
        other=other.bootstrap(),
    )
    first, second = reported(out)
    assert first["venv"] != second["venv"] and second["error"] == ""
    assert (first["timers"], second["curl"]) == ("0", "1")


def test_an_image_is_set_up_again_after_another_one_failed(machine):
    broken = sky.Image(pip=["skyward_test_package_that_is_not_there"], env=OFFLINE)
    out = machine(
        "run script; echo --; run broken; echo --; run script; report",
        script=IMAGE.bootstrap(),
        broken=broken.bootstrap(),
    )
    first, failed, again = out.split("--\n")
    assert "failed with" not in first and "failed with" in failed
    (report,) = reported(again)
    assert report["error"] == "" and report["version"] == f"{CLIENT_PYTHON} pickled mine"


def test_the_machine_is_switched_off_in_time(machine):
    out = machine(
        "run script; for i in $(seq 300); do [[ -e /halted ]] && break; sleep 0.1; done;"
        " cat /halted",
        script=IMAGE.bootstrap(ttl=1),
    )
    assert out == "-h now\n"


def test_a_failure_names_the_command_and_its_last_words(machine):
    image = sky.Image(apt=["broken-tool"], env=OFFLINE)
    out = machine("run script; report", script=image.bootstrap(ttl=60))
    assert "failed with 100" in out
    (report,) = reported(out)
    assert "apt-get -q -y" in report["error"].split("|exit code: ")[0]
    assert "exit code: 100|" in report["error"] and "no such tool|" in report["error"]
    assert report["steps"] == ".step_uv .ready" or report["steps"] == ".step_uv"
    assert report["timers"] == "1"  # armed before anything could fail


IMAGES = {
    "nothing": sky.Image(),
    "an index with a password": sky.Image(
        pip=["numpy"], pip_extra_index_url="https://user:hush@host/simple", env={"A": "1"}
    ),
    "an index of its own": sky.Image(
        pip=["numpy"], pip_indexes=[sky.PipIndex("https://user:hush@host/simple", ["numpy"])]
    ),
    "everything": IMAGE,
}


def written(tmp_path, image, ttl):
    file = tmp_path / "script.sh"
    file.write_text(IMAGES[image].bootstrap(ttl))
    return file


@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("ttl", [0, 60])
def test_the_timer_comes_first_and_bash_can_read_it(tmp_path, image, ttl):
    file = written(tmp_path, image, ttl)
    script = file.read_text()
    subprocess.run(["bash", "-n", str(file)], check=True, timeout=20)
    assert script.startswith("#!/bin/bash\n")
    before_timer = script.split("skyward-timer")[0]
    assert ("skyward-timer" in script) == (ttl > 0)
    for later in ("uv", "apt-get", "NASTY"):
        assert ttl == 0 or later not in before_timer


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="there is no shellcheck here")
@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("ttl", [0, 60])
def test_shellcheck_has_nothing_to_say(tmp_path, image, ttl):
    done = subprocess.run(
        ["shellcheck", "--enable=check-set-e-suppressed", "-f", "gcc"]
        + [str(written(tmp_path, image, ttl))],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_nonsense_is_refused():
    for ttl in (-1, 1.5, True, "60"):
        with pytest.raises(sky.ConfigurationError, match="ttl"):
            sky.Image().bootstrap(ttl)
    with pytest.raises(sky.ConfigurationError, match="pip"):
        sky.Image(pip=["--index-url=http://evil"]).bootstrap()


def test_hashes_are_the_documented_ones():
    assert sky.Image().content_hash() == "58316d12063e"
    assert sky.Image(pip=["torch", "numpy"]).content_hash() == "23168a3db57d"
    assert sky.Image(pip=["numpy", "torch"]).content_hash() == "23168a3db57d"
    image = sky.Image(python="3.12", pip=["torch"], apt=["git"], env={"A": "1"})
    assert image.content_hash() == "bc22483d0b0a"
    assert sky.Image(pip=["torch", "é"]).content_hash() == "293b3ef5fe4e"

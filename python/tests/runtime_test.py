"""Folders from which workers import what the caller imports."""

import errno
import importlib
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import time

import pytest
from skyward.base.programs import PACKAGE, cache_folder
from skyward.transport import runtime, shipping
from skyward.transport.module_watch import ModuleWatch

import skyward as sky
from skyward.base import programs


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "file"))
    return tmp_path / "cache"


def folder_for(name):
    return cache_folder(name, holds=lambda _: False)


def test_a_module_is_alone_in_its_folder(cache):
    for _ in range(2):
        folder = runtime._folder_with("skyward", PACKAGE)
        assert folder.startswith(f"{cache}/skyward/package/") and os.listdir(folder) == ["skyward"]
    assert os.path.samefile(f"{folder}/skyward", PACKAGE)


def test_an_environment_finds_skyward_and_cloudpickle_alone_of_what_is_installed(cache):
    linked = [
        name
        for folder in runtime.importable_folders(True)
        if folder.startswith(str(cache))
        for name in os.listdir(folder)
    ]
    assert linked == ["skyward", "cloudpickle"]


def test_machines_may_ask_for_uv_whatever_the_image(monkeypatch):
    monkeypatch.setattr(shipping, "modules_archive", lambda *_: None)
    monkeypatch.setattr(shipping, "package_archive", lambda: "/package.tar")
    monkeypatch.setattr(runtime, "find_uv", lambda: "/own/uv")
    for image in (sky.Image(), sky.Image(pip=["six"])):
        assert runtime.remote_runtime(image).uv == "/own/uv"


def test_folders_of_earlier_versions_are_closed(cache):
    before = os.umask(0)
    try:
        cache.mkdir(mode=0o755)
        for old in ("skyward", "skyward/programs", "skyward/programs/arm64"):
            (cache / old).mkdir()
        assert folder_for("programs") == cache / "skyward" / "programs"
    finally:
        os.umask(before)
    for made in (cache / "skyward", cache / "skyward" / "programs"):
        assert os.stat(made).st_mode & 0o077 == 0


@pytest.mark.parametrize("rights", [0o1777, 0o777, 0o775])
def test_a_cache_folder_that_others_may_write_to_keeps_its_rights(cache, tmp_path, rights):
    cache.mkdir()
    cache.chmod(rights)
    os.chown(cache, -1, 12345) if os.getuid() == 0 else None
    if rights == 0o1777:  # nobody can rename what others have there
        assert folder_for("archives") == cache / "skyward" / "archives"
    elif rights == 0o777 or os.getuid() == 0:
        with pytest.raises(sky.ConfigurationError, match="yours alone"):
            folder_for("archives")
    assert os.stat(cache).st_mode & 0o7777 == rights


def test_a_missing_cache_folder_is_made_for_its_user_alone(cache):
    before = os.umask(0o002)
    try:
        archives = folder_for("archives")
    finally:
        os.umask(before)
    for made in (cache, cache / "skyward", archives):
        assert os.stat(made).st_mode & 0o077 == 0


def test_a_link_to_another_disk_is_followed(cache, tmp_path):
    cache.mkdir()
    (tmp_path / "large").mkdir(mode=0o700)
    (cache / "skyward").symlink_to(tmp_path / "large")
    assert folder_for("archives") == tmp_path / "large" / "archives"
    if os.getuid() == 0:  # another user's link
        os.chown(cache / "skyward", 12345, 12345, follow_symlinks=False)
        with pytest.raises(sky.ConfigurationError, match="yours alone"):
            folder_for("archives")


def test_an_archive_that_another_program_has_changed_is_written_again(cache):
    archive = pathlib.Path(shipping.package_archive())
    data = archive.read_bytes()
    archive.write_bytes(b"something else")
    assert shipping.package_archive() == str(archive)
    assert archive.read_bytes() == data


def test_the_newest_archives_are_kept(cache, tmp_path):
    module = tmp_path / "module.py"

    def store(number, age):
        module.write_text(f"number = {number}\n")
        path = pathlib.Path(shipping._store({"module.py": module}))
        used = time.time() - age + number
        os.utime(path, (used, used))
        return path

    day = 24 * 3600
    unused = [store(number, 31 * day) for number in (100, 101)]
    assert [path.exists() for path in unused] == [False, True]
    paths = [store(number, 2 * day) for number in range(30)]
    assert [path for path in paths if path.exists()] == paths[-20:]
    today = [store(number, day / 2) for number in range(30, 60)]
    assert [path for path in today if path.exists()] == today
    assert not [path for path in paths if path.exists()]


def test_links_to_folders_above_are_left_out(cache, tmp_path):
    package = tmp_path / "package"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "data" / "table.csv").touch()
    (package / "latest").symlink_to(".")
    (package / "data" / "up").symlink_to("..")
    (package / "data" / "again").symlink_to(package)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "more.csv").touch()
    (package / "linked").symlink_to(tmp_path / "elsewhere")
    with tarfile.open(shipping.modules_archive([str(package)], [])) as archive:
        names = {name for name in archive.getnames() if name.startswith("package/")}
    files = {"__init__.py", "data/table.csv", "linked/more.csv"}
    assert names == {f"package/{name}" for name in files}


def test_own_modules_with_names_of_the_standard_library_are_sent(cache, own_folder, monkeypatch):
    for name in ("profile", "sched", "own_of_that_kind"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        (own_folder / f"{name}.py").touch()
    (own_folder / "own_of_that_kind.py").write_text("def f():\n    import sched, calendar, zlib\n")
    own = [importlib.import_module(name) for name in ("profile", "own_of_that_kind")]
    names = {origin.name for origin in shipping.local_modules()}
    assert {"profile.py", "sched.py", "own_of_that_kind.py"} <= names
    places = [origin.place for origin in shipping.local_modules()]
    assert not [place for place in places if place.is_relative_to(os.path.dirname(os.__file__))]
    watch = ModuleWatch()
    os.utime(own[0].__file__, (5, 5))
    assert watch.changed() == [own[0].__file__]


@pytest.fixture
def read_only(cache, monkeypatch):
    """Everything in the cache folder from now on; root can write to folders without the right."""

    def refuse(*_args, **_options):
        raise OSError(errno.EROFS, "Read-only file system")

    def make():
        access = os.access
        monkeypatch.setattr(
            os,
            "access",
            lambda path, mode: not str(path).startswith(f"{cache}/") and access(path, mode),
        )
        monkeypatch.setattr(os, "utime", refuse)

    return make


def test_an_archive_in_a_folder_that_is_read_only_serves(cache, read_only):
    archive = shipping.package_archive()
    read_only()
    assert shipping.package_archive() == archive


def test_a_folder_that_is_read_only_counts_as_missing(cache, read_only, tmp_path, monkeypatch):
    folder_for("archives")
    read_only()
    with pytest.raises(sky.ConfigurationError, match="can be written to"):
        shipping.package_archive()
    (tmp_path / "temporary").mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    assert shipping.package_archive().startswith(f"{tmp_path}/temporary/")
    assert os.listdir(cache / "skyward" / "archives") == []


def test_half_an_archive_is_removed(cache, monkeypatch):
    def refuse(*_args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(sky.ConfigurationError, match="No space left"):
        shipping.package_archive()
    assert os.listdir(cache / "skyward" / "archives") == []


@pytest.mark.parametrize("what", ["file", "link"])
def test_what_another_program_has_put_there_is_not_used(cache, what):
    folder = runtime._folder_with("skyward", PACKAGE)
    os.unlink(f"{folder}/skyward")
    os.rmdir(folder)
    if what == "file":
        pathlib.Path(folder).touch()
    else:
        os.symlink(f"{cache}/elsewhere", folder)
    with pytest.raises(sky.ConfigurationError, match="yours alone"):
        runtime._folder_with("skyward", PACKAGE)


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders to other users")
def test_folders_of_other_users_are_not_used(cache):
    folder = runtime._folder_with("skyward", PACKAGE)
    os.chown(folder, 12345, 12345)
    with pytest.raises(sky.ConfigurationError, match="yours alone"):
        runtime._folder_with("skyward", PACKAGE)


def test_workers_need_the_path_of_an_interpreter(monkeypatch):
    monkeypatch.setattr(sys, "executable", "")
    with (
        pytest.raises(
            sky.ConfigurationError, match=r"sys\.executable is empty.*set sys\.executable"
        ),
        sky.ComputePool(provider=sky.Local(), display="quiet"),
    ):
        pass


@pytest.mark.parametrize("image", [sky.Image(), sky.Image(pip=["six"])])
def test_a_frozen_program_does_not_start_itself(monkeypatch, image):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(sky.ConfigurationError, match="this program is frozen: .* Set sys.exec"):
        sky.ComputePool(provider=sky.Local(), image=image).open()


def test_a_frozen_program_may_name_an_interpreter(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with sky.ComputePool(provider=sky.Local(), display="quiet") as pool:
        assert sky.compute(abs)(-1) >> pool == 1


def test_paths_that_are_no_utf_8_are_named(tmp_path, monkeypatch):
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    os.mkdir(odd)
    events = []
    with monkeypatch.context() as changed:
        changed.setenv("XDG_STATE_HOME", odd)
        pool = sky.ComputePool(provider="local", display="quiet", on_event=events.append)
        with pytest.raises(sky.ConfigurationError, match="XDG_STATE_HOME or HOME") as refused:
            pool.open()
    assert r"\udcff" in str(refused.value) and "not valid UTF-8" in str(refused.value)
    monkeypatch.setenv("XDG_CACHE_HOME", odd)
    with pytest.raises(sky.ConfigurationError, match="XDG_CACHE_HOME or HOME"):
        sky.ComputePool(provider=sky.SSH(hosts=["h"]), display="quiet").open()
    assert not events


def ran(script, *flags, **variables):
    """What the script prints, which finds Skyward as this program does."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [sys.executable, *flags, str(script), *sys.path],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


WITH_ANOTHER_MODULE_BESIDE = """
import sys

sys.path += sys.argv[1:]

import skyward as sky

def look():
    import sys
    import quopri

    return quopri.__file__, sys.flags.optimize, sys.flags.no_user_site, __debug__

with sky.ComputePool(display="quiet") as pool:
    for facts in (sky.compute(look)() >> pool, look()):
        print(facts)
"""


@pytest.mark.parametrize("flags", [("-P",), ("-P", "-O", "-s"), ("-I", "-OO")])
def test_workers_import_what_the_program_imports_under_its_flags(tmp_path, flags):
    (tmp_path / "quopri.py").touch()
    script = tmp_path / "main.py"
    script.write_text(WITH_ANOTHER_MODULE_BESIDE)
    there, here = ran(script, *flags).splitlines()
    assert there == here and str(tmp_path) not in here
    there, here = ran(script).splitlines()
    assert there == here and str(tmp_path) in here


WITH_VARIABLES = """
import sys

sys.path += sys.argv[1:]

import os
import skyward as sky

def look():
    return [os.environ[name] for name in ("PYTHONPATH", "PYTHONHASHSEED", "PYTHON_VERSION")]

with sky.ComputePool(env={"PYTHONHASHSEED": "7"}, display="quiet") as pool:
    print(*sky.compute(look)() >> pool, sep=",")
with sky.ComputePool(image=sky.Image(env={"PYTHONPATH": "/own"}), display="quiet") as pool:
    print(sky.compute(look)() >> pool)
"""


def test_workers_ignore_the_variables_that_the_program_ignores(tmp_path):
    (tmp_path / "socket.py").write_text("raise RuntimeError")
    script = tmp_path / "scripts" / "main.py"
    script.parent.mkdir()
    script.write_text(WITH_VARIABLES)
    variables = {"PYTHONPATH": str(tmp_path), "PYTHONHASHSEED": "1", "PYTHON_VERSION": "3"}
    pool, image = ran(script, "-E", **variables).splitlines()
    assert pool == ",7,3" and "/own" in image


WITH_A_MODULE_BESIDE = """
import sys

sys.path += sys.argv[1:]

import helper
import skyward as sky

with sky.ComputePool(display="quiet") as pool:
    print(sky.compute(helper.answer)() >> pool)
"""
ASCII_LOCALE = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


def test_a_path_is_the_same_bytes_for_the_engine_whatever_the_locale(monkeypatch):
    def latin_1(path):
        return os.fspath(path).encode("iso8859-1", "surrogateescape")

    assert programs.unicode_path("it", "/müller") == "/müller"
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(os, "fsencode", latin_1)
        seen = "/müller".encode().decode("iso8859-1")
        assert programs.unicode_path("it", seen) == "/müller"
        elsewhere.setenv("XDG_STATE_HOME", seen)
        assert programs.record_root() == "/müller/skyward"
        assert runtime._in_variable(seen) == "/müller"
        assert runtime._in_variable("/müller") == "%" + b"/m\xfcller".hex()
        assert programs.unicode_path("it", "/home") == "/home"
        with pytest.raises(sky.ConfigurationError, match="'/müller', has a name that is not valid"):
            programs.unicode_path("it", "/müller")


def test_a_pool_opens_in_a_home_that_is_not_ascii_under_an_ascii_locale(tmp_path):
    home = tmp_path / "müller"
    python = home / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (home / "agent").symlink_to(programs.agent_path())
    script = tmp_path / "main.py"
    script.write_text(
        "import os, sys\n\nsys.path += sys.argv[1:]\nsys.executable = os.environ['OWN_PYTHON']\n"
        "import skyward as sky\n\nwith sky.ComputePool(display='quiet') as pool:\n"
        "    print(sky.compute(abs)(-1) >> pool)\n"
    )
    own = {"XDG_STATE_HOME": home, "SKYWARD_AGENT": home / "agent", "OWN_PYTHON": python}
    assert ran(script, **ASCII_LOCALE, **{name: str(path) for name, path in own.items()}) == "1"
    assert os.listdir(home / "skyward") and sorted(os.listdir(tmp_path)) == ["main.py", "müller"]


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        (b"12:30:00", {}),
        (b"%2f", {}),
        (b"\xff", {}),
        ("müller:1".encode(), {}),
        ("müller".encode(), ASCII_LOCALE),
    ],
)
def test_modules_are_found_whatever_the_name_of_their_folder(tmp_path, name, variables):
    folder = pathlib.Path(tmp_path, os.fsdecode(name))
    folder.mkdir()
    (folder / "helper.py").write_text("def answer():\n    return 42\n")
    script = folder / "main.py"
    script.write_text(WITH_A_MODULE_BESIDE)
    assert ran(script, **variables) == "42"


def test_a_working_directory_that_is_gone_is_no_folder_of_modules(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend("")
    with monkeypatch.context() as there:
        there.chdir(tmp_path)
        assert str(tmp_path) in runtime.importable_folders(False)
    gone = tmp_path / "gone"
    gone.mkdir()
    script = tmp_path / "main.py"
    script.write_text(
        "import os, sys\n\nsys.path += sys.argv[1:]\nsys.path.insert(0, '')\n"
        f"os.chdir({str(gone)!r})\nos.rmdir({str(gone)!r})\n"
        "import skyward as sky\n\nwith sky.ComputePool(display='quiet') as pool:\n"
        "    print(sky.compute(abs)(-1) >> pool)\n"
    )
    assert ran(script) == "1"

"""The SSH provider's face: settings, inventories, and what is sent to nodes. No connection."""

import subprocess
import sys
import tarfile

import pytest
from skyward.providers.choice import resolve_provider
from skyward.transport import shipping

import skyward as sky


def test_settings_are_text_and_paths_are_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    provider = sky.SSH(
        hosts=["10.0.0.5", "me@box:2222"],
        user="ubuntu",
        port=22,
        identity_file="id",
        jump=["a", "b:2200"],
        host_keys="known",
    )
    assert provider.settings() == {
        "hosts": "10.0.0.5\nme@box:2222",
        "jump": "a,b:2200",
        "user": "ubuntu",
        "port": "22",
        "identity_file": str(tmp_path / "id"),
        "host_keys": str(tmp_path / "known"),
    }
    assert resolve_provider(provider) is provider
    assert provider == sky.SSH(
        ["10.0.0.5", "me@box:2222"], "ubuntu", 22, "id", ["a", "b:2200"], "known"
    )


def test_keys_by_host_reach_the_engine():
    keys = {"Me@Box:2222": "ssh-ed25519 AAA\n"}
    provider = sky.SSH(hosts=["Me@Box:2222"], host_keys=keys)
    assert provider.settings()["host_keys"] == '{"Me@Box:2222": "ssh-ed25519 AAA"}'
    with pytest.raises(sky.ConfigurationError, match=r"no key for gate"):
        with sky.ComputePool(sky.SSH(["Me@Box:2222"], jump="gate", host_keys=keys)):
            pass


def test_lines_of_a_known_hosts_file_are_taken_as_they_are():
    lines = ["10.0.0.5 ssh-ed25519 AAA", "box ssh-ed25519 BBB"]
    assert sky.SSH(["x"], host_keys=lines).settings()["host_keys"] == "\n".join(lines)
    assert sky.SSH(["x"], host_keys=lines[0]).settings()["host_keys"] == lines[0]


@pytest.mark.parametrize(
    "wish",
    [
        {"accelerator": "H100"},
        {"cpu": 1},
        {"memory": "1GB"},
        {"machine": "x"},
        {"architecture": "arm64"},
    ],
)
@pytest.mark.parametrize("provider", [sky.SSH(["w1"]), sky.Command([["sh", "-c"]])])
def test_machines_that_are_there_are_not_chosen(provider, wish):
    says = f"{next(iter(wish))}: the {provider.name} provider takes machines as they are"
    with pytest.raises(sky.ConfigurationError, match=says):
        with sky.ComputePool(provider, display="quiet", **wish):
            pass


def test_more_nodes_than_hosts_are_refused_before_anything_starts():
    with pytest.raises(sky.ConfigurationError, match=r"nodes=2, but the SSH provider has 1 host"):
        with sky.ComputePool(sky.SSH(["192.0.2.1"]), nodes=2, display="quiet"):
            pass


# ---- what is sent ----


def names_in(path):
    with tarfile.open(path) as archive:
        return set(archive.getnames())


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A program with modules of its own, in a folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    (folder / "mypkg" / "tests").mkdir(parents=True)
    (folder / "mypkg" / "__init__.py").write_text("import lazy\n")
    (folder / "mypkg" / "data.csv").write_text("1,2\n")
    (folder / "mypkg" / "tests" / "test_it.py").write_text("")
    (folder / "lazy.py").write_text("def f():\n    import deep\n    return deep.x\n")
    (folder / "deep.py").write_text("x = 1\n")
    (folder / "unused.py").write_text("")
    return folder


def modules_of(folder, program, includes=(), excludes=()):
    """Runs a program in a process of its own that prints where its archive is."""
    (folder / "main.py").write_text(
        f"{program}\nfrom skyward.transport.shipping import modules_archive\n"
        f"print(modules_archive({list(includes)!r}, {list(excludes)!r}))\n"
    )
    done = subprocess.run(
        [sys.executable, str(folder / "main.py")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_own_modules_are_found_from_imports_also_inside_functions(project):
    path = modules_of(project, "import json\ndef f():\n    import mypkg\n")
    assert names_in(path) == {
        "mypkg/__init__.py",
        "mypkg/data.csv",
        "mypkg/tests/test_it.py",
        "lazy.py",
        "deep.py",
    }
    assert modules_of(project, "import json") == "None"


def test_secrets_and_hidden_files_of_own_packages_stay_unless_they_are_named(project):
    package = project / "mypkg"
    (package / ".aws").mkdir()
    for name in (".env", "prod.env", "server.pem", ".aws/credentials", ".hidden"):
        (package / name).write_text("secret")
    expected = {"mypkg/__init__.py", "mypkg/data.csv", "mypkg/tests/test_it.py"}
    for program, includes in (("import mypkg", ()), ("import json", ("mypkg",))):
        names = names_in(modules_of(project, program, includes))
        assert {name for name in names if name.startswith("mypkg/")} == expected
    named = names_in(
        modules_of(project, "import mypkg", [f"{package}/server.pem", f"{package}/.aws"])
    )
    assert {"server.pem", ".aws/credentials", *expected} <= named


def test_a_data_folder_with_the_name_of_a_package_stays(project):
    (project / "datasets" / "raw").mkdir(parents=True)
    (project / "datasets" / "raw" / "a.bin").write_bytes(b"x")
    lazy = "def f():\n    import datasets\n"
    assert modules_of(project, lazy) == "None"
    (project / "datasets" / "raw" / "load.py").touch()
    assert names_in(modules_of(project, lazy)) == {"datasets/raw/load.py"}
    # An import shows that it is a package.
    assert "datasets/raw/a.bin" in names_in(modules_of(project, "import datasets"))


def test_all_folders_of_a_package_without_init_are_sent(project):
    for part in ("near", "far"):
        (project / part / "shared").mkdir(parents=True)
        (project / part / "shared" / f"{part}.py").write_text("import lazy\n")
        (project / part / "shared" / "both.py").write_text(f"part = {part!r}\n")
    paths = f"import sys\nsys.path[:0] = [{str(project)!r} + '/near', {str(project)!r} + '/far']\n"
    expected = {"shared/near.py", "shared/far.py", "shared/both.py", "lazy.py", "deep.py"}
    for program, includes in (("import shared.far\n", ()), ("import json\n", ("shared", "lazy"))):
        path = modules_of(project, paths + program, includes)
        assert names_in(path) == (expected - {"deep.py"} if includes else expected)
        with tarfile.open(path) as archive:
            assert archive.extractfile("shared/both.py").read() == b"part = 'near'\n"


def test_includes_and_excludes_steer(project):
    (project / "extra").mkdir()
    (project / "extra" / "table.bin").write_bytes(b"x")
    path = modules_of(
        project, "import mypkg", [str(project / "extra"), "unused"], ["tests", "*.csv", "deep.py"]
    )
    assert names_in(path) == {"mypkg/__init__.py", "lazy.py", "unused.py", "extra/table.bin"}


def test_the_same_content_is_the_same_archive(project):
    first = modules_of(project, "import lazy")
    (project / "lazy.py").touch()
    assert modules_of(project, "import lazy") == first
    (project / "deep.py").write_text("x = 2\n")
    assert modules_of(project, "import lazy") != first


def test_an_include_that_is_not_there_is_named():
    with pytest.raises(sky.ConfigurationError, match=r"includes=\['no_such_module'\]"):
        shipping.modules_archive(["no_such_module"], [])


def test_includes_do_not_overwrite_each_other(tmp_path):
    for part in ("one", "two"):
        (tmp_path / part / "data").mkdir(parents=True)
        (tmp_path / part / "data" / "x.csv").write_text(part)
        (tmp_path / part / "data" / f"{part}.csv").touch()
        (tmp_path / part / "data" / "__init__.py").write_text("# the same in both\n")
    one, two = (str(tmp_path / part / "data") for part in ("one", "two"))
    with pytest.raises(sky.ConfigurationError, match=r"one/data/x\.csv and \S+ as 'data/x\.csv'"):
        shipping.modules_archive([one, two], [])
    assert "one/data/x.csv" in names_in(
        shipping.modules_archive([str(tmp_path / "one"), str(tmp_path / "two")], [])
    )
    both = shipping.modules_archive([one, two, f"{tmp_path}/one/../one/data"], ["x.csv"])
    assert {"data/one.csv", "data/two.csv", "data/__init__.py"} <= names_in(both)


def test_data_is_not_sent_by_accident(project, monkeypatch):
    monkeypatch.setattr(shipping, "MAX_ARCHIVE_BYTES", 3)
    with pytest.raises(sky.ConfigurationError, match=r"largest file is mypkg/data\.csv"):
        shipping.modules_archive([str(project / "mypkg")], ["*.py"])


def test_the_package_runs_a_worker_without_its_extension(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = shipping.package_archive()
    names = names_in(path)
    assert {
        "skyward/worker/start.py",
        "skyward/task/instance_info.py",
        "cloudpickle/__init__.py",
    } <= names
    assert not [name for name in names if not name.endswith(".py")]
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path / "node", filter="data")
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import skyward, cloudpickle; print(skyward.shard)"],
        env={"PYTHONPATH": str(tmp_path / "node")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "function shard" in done.stdout, done.stderr

"""Modules that an import hook finds, as editable installs have them."""

import importlib.metadata
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tarfile
import types

import pytest
from skyward.transport.runtime import worker_runtime
from skyward.transport.shipping import modules_archive

import skyward as sky


class Hook:
    """As setuptools writes it."""

    def __init__(self, mapping):
        self.mapping = mapping

    def find_spec(self, name, path=None, target=None):
        if name not in self.mapping:
            return None
        place = self.mapping[name]
        return importlib.util.spec_from_file_location(name, f"{place}/__init__.py")


@pytest.fixture
def project(tmp_path, monkeypatch):
    package = tmp_path / "project" / "lib"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from editable_package.part import number\n")
    (package / "part.py").write_text("number = 7\n")
    (tmp_path / "project" / "setup.py").touch()
    hook = types.ModuleType("__editable___editable_package_0_1_finder")
    hook.MAPPING = {"editable_package": str(package)}
    monkeypatch.setitem(sys.modules, hook.__name__, hook)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Hook(hook.MAPPING)])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "project"


def test_an_environment_of_its_own_has_them_and_not_what_lies_beside_them(project):
    for image in (sky.Image(pip=["six"]), sky.Image(pip=["six", "attrs"])):  # the link stays
        folders = worker_runtime(image).environment["SKYWARD_SYS_PATH"]
        assert str(project) not in folders.split(os.pathsep)
        program = "import editable_package, skyward; print(editable_package.number)"
        done = subprocess.run(
            [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = sys.argv[1:]; {program}"]
            + folders.split(os.pathsep),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout == "7\n", done.stderr


def names_in(archive):
    with tarfile.open(archive) as opened:
        return set(opened.getnames())


def test_a_package_keeps_its_name_on_rented_machines(project, monkeypatch):
    spec = importlib.util.find_spec("editable_package")
    monkeypatch.setitem(sys.modules, "editable_package", importlib.util.module_from_spec(spec))
    for includes in ([], ["editable_package"]):
        names = names_in(modules_archive(includes, []))
        assert {"editable_package/__init__.py", "editable_package/part.py"} <= names
        assert "lib/part.py" not in names


@pytest.fixture
def installed(project, tmp_path, monkeypatch):
    """What pip writes into site-packages, in which another project is, too."""
    for name, place in (("editable_package", project), ("other", tmp_path / "elsewhere")):
        info = tmp_path / "site-packages" / f"{name}-4.5.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 4.5\n")
        (info / "entry_points.txt").write_text("[plugs]\none = editable_package.part:number\n")
        (info / "direct_url.json").write_text(
            json.dumps({"url": place.as_uri(), "dir_info": {"editable": True}})
        )
        names = ("METADATA", "entry_points.txt", "direct_url.json", "RECORD")
        (info / "RECORD").write_text("".join(f"{info.name}/{each},,\n" for each in names))
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))


def test_nodes_know_the_version_of_an_editable_package(installed, monkeypatch):
    spec = importlib.util.find_spec("editable_package")
    monkeypatch.setitem(sys.modules, "editable_package", importlib.util.module_from_spec(spec))
    info = "editable_package-4.5.dist-info"
    names = names_in(modules_archive([], []))
    assert {name for name in names if ".dist-info/" in name and "4.5" in name} == {
        f"{info}/METADATA",
        f"{info}/entry_points.txt",
    }
    folders = worker_runtime(sky.Image(pip=["six"])).environment["SKYWARD_SYS_PATH"].split(":")
    found = importlib.metadata.distributions(path=folders)
    assert [one.version for one in found if one.name == "editable_package"] == ["4.5"]
    assert not [
        one for one in importlib.metadata.distributions(path=folders) if one.name == "other"
    ]


def test_a_plugin_that_was_loaded_under_a_name_of_its_own_shadows_nothing(project, monkeypatch):
    place = project / "plug" / "numpy.py"
    place.parent.mkdir()
    place.touch()
    spec = importlib.util.spec_from_file_location("plugin_numpy", place)
    monkeypatch.setitem(sys.modules, "plugin_numpy", importlib.util.module_from_spec(spec))
    folders = worker_runtime(sky.Image(pip=["six"])).environment["SKYWARD_SYS_PATH"]
    names = itertools.chain.from_iterable(map(os.listdir, folders.split(os.pathsep)))
    assert "numpy.py" not in names
    archive = modules_archive([], [])
    assert archive is None or "numpy.py" not in names_in(archive)


def test_other_threads_may_import_meanwhile(project, monkeypatch):
    class Name(str):
        """Of a module: when it is looked at, another one is imported."""

        def __contains__(self, part):
            sys.modules["imported_late"] = late
            return super().__contains__(part)

    late = types.ModuleType("imported_late")
    for name in ("imported_late", Name("looked_at")):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    for walk in (lambda: modules_archive([], []), lambda: worker_runtime(sky.Image(pip=["six"]))):
        del sys.modules["imported_late"]
        walk()
        assert sys.modules["imported_late"] is late

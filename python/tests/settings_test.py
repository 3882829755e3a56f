"""What skyward.toml and the environment say, as pools take it. The rules themselves are tested in
provider/settings_test.cc."""

import json
import os
import pathlib
import subprocess

import pytest

import skyward as sky

PROGRAM = pathlib.Path(sky.__file__).parent / "bin" / "skyward"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder that holds for a project, with a home of its own above it."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("SKYWARD_CONFIG")
    monkeypatch.chdir(folder)
    return folder


def config(*words):
    """`skyward config WORDS`: exit code, output, errors."""
    done = subprocess.run(
        [PROGRAM, "config", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_CONFIG_FILE": "/none"},
    )
    return done.returncode, done.stdout, done.stderr


def trust(path):
    status, _, err = config("trust", path)
    assert status == 0, err


def test_a_relative_state_directory_is_ignored(project, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "foo")
    with sky.ComputePool(display="quiet"):
        pass
    assert not (project / "foo").exists()
    assert (tmp_path / ".local" / "state" / "skyward").is_dir()


def opening(*arguments, **options):
    """What is wrong with a pool that cannot be opened."""
    with pytest.raises(sky.ConfigurationError) as caught:
        with sky.ComputePool(*arguments, display="quiet", **options):
            pytest.fail("entered")
    return str(caught.value)


def test_the_provider_of_pools_that_name_none(project, monkeypatch):
    assert sky.ComputePool().provider == sky.Local()
    (project / "skyward.toml").write_text('provider = "ssh"\n')
    assert sky.ComputePool().provider == sky.SSH()
    assert sky.ComputePool(sky.Local()).provider == sky.Local()
    monkeypatch.setenv("SKYWARD_PROVIDER", "runpod")
    assert sky.ComputePool().provider == sky.RunPod()
    monkeypatch.setenv("SKYWARD_PROVIDER", "asw")
    with pytest.raises(sky.ConfigurationError, match="did you mean aws"):
        sky.ComputePool()
    monkeypatch.setenv("SKYWARD_PROVIDER", "\udcff")  # a byte that is not UTF-8
    with pytest.raises(sky.ConfigurationError, match="\ufffd"):
        sky.ComputePool()


def test_settings_of_the_project_and_of_the_user(project, tmp_path, monkeypatch):
    assert "has no hosts" in opening(sky.SSH())
    (tmp_path / "config" / "skyward").mkdir(parents=True)
    (tmp_path / "config" / "skyward" / "config.toml").write_text(
        '[providers.ssh]\nidentity_file = "id"\nhosts = ["192.0.2.1"]\n'
    )
    assert f"no file {tmp_path}/config/skyward/id" in opening("ssh")
    (project / "skyward.toml").write_text('[providers.ssh]\nidentity_file = "keys/id"\n')
    assert "sets identity_file in [providers.ssh], but you have not trusted" in opening("ssh")
    trust(project)
    assert f"no file {project}/keys/id" in opening("ssh")
    monkeypatch.setenv("SKYWARD_SSH_IDENTITY_FILE", "~/other")
    assert f"no file {tmp_path}/other" in opening("ssh")
    assert "no file /given" in opening(sky.SSH(identity_file="/given"))
    assert "nodes=2" in opening("ssh", nodes=2)  # the user's list of hosts has one


def test_what_is_wrong_is_named_with_its_line_before_anything_starts(project):
    (project / "skyward.toml").write_text("[providers.aws]\nregoin = 'eu-west-1'\n")
    said = opening(sky.Local())
    assert f"{project}/skyward.toml:2: [providers.aws] has no setting regoin" in said
    assert "did you mean region?" in said


def test_commands_of_a_project_run_when_its_file_is_trusted(project, tmp_path):
    file = project / "skyward.toml"
    mark = tmp_path / "ran"
    commands = [["sh", "-c", f"touch {mark}; exec sh -c"]]
    file.write_text(f"provider = 'command'\n[providers.command]\ncommands = {commands}\n")
    (project / "below").mkdir()
    os.chdir(project / "below")
    said = opening()
    assert f"{file} sets commands in [providers.command]" in said
    assert f"'skyward config trust {file}'" in said
    assert not mark.exists()
    trust("..")
    assert "nodes=2, but commands= has 1" in opening(nodes=2)
    file.write_text(file.read_text() + "# changed\n")
    assert "has changed since you trusted it" in opening(nodes=2)
    assert not mark.exists()


def test_a_region_that_is_a_host_gets_no_credentials(project):
    (project / "skyward.toml").write_text('[providers.aws]\nregion = "evil.example/"\n')
    assert "expected the name of a region" in opening(sky.AWS())
    (project / "skyward.toml").unlink()
    with pytest.raises(sky.ConfigurationError, match="expected the name of a region"):
        sky.AWS(region="evil.example/")


def test_files_that_others_may_have_written_are_not_read(project):
    file = project / "skyward.toml"
    file.write_text('provider = "ssh"\n')
    file.chmod(0o664)
    with pytest.raises(sky.SkywardError, match=r"(?s)other users may write to .*chmod go-w"):
        sky.ComputePool()
    file.unlink()
    os.mkfifo(file, 0o600)  # nobody ever writes into it
    with pytest.raises(sky.SkywardError, match="is not a regular file"):
        sky.ComputePool()


def test_a_folder_named_as_the_file_is_not_to_be_removed(project, monkeypatch):
    monkeypatch.setenv("SKYWARD_CONFIG", str(project))
    with pytest.raises(sky.SkywardError, match=r"(?s)is a directory.*give the path of a file"):
        sky.ComputePool()


def test_trust_is_listed_and_taken_back(project, tmp_path):
    file = project / "skyward.toml"
    file.write_text(
        '[providers.ssh]\nhosts = ["192.0.2.1"]\n[providers.aws]\nregion = "eu-west-1"\n'
    )
    status, _, err = config("untrust", file)
    assert status == 2 and f"{file} is not trusted" in err
    status, out, _ = config("trust", file)
    assert (status, out) == (0, f"{file} is trusted until it changes; it sets ssh.hosts\n")
    (record,) = (tmp_path / "state" / "skyward" / "trusted").iterdir()
    assert record.stat().st_mode & 0o777 == 0o600
    assert config("trusted")[1] == f"{file}\n"
    assert json.loads(config("trusted", "--json")[1]) == {"path": str(file), "current": True}
    file.write_text("")
    assert config("trusted")[1] == f"{file} (changed since, or gone)\n"
    assert config("untrust", project) == (0, "", "")
    assert config("trusted") == (0, "", "")
    status, _, err = config("trust", project / "none" / "skyward.toml")
    assert status == 2 and "there is no file" in err


def show(*options):
    """The lines of `skyward config show --origin --json` in this folder, by name."""
    return config("show", *options)


def test_the_program_tells_each_value_and_its_origin(project, tmp_path, monkeypatch):
    file = project / "skyward.toml"
    file.write_text(
        'provider = "aws"\n[providers.aws]\nregion = "eu-west-1"\n'
        '[providers.vastai]\napi_key = "hush"\n[providers.ssh]\nhosts = ["w1", "w2"]\n'
    )
    monkeypatch.setenv("SKYWARD_AWS_AMI", "ami-1")
    status, out, err = show("--origin", "--json")
    assert status == 0
    assert "pools refuse the settings of a project's file that is not trusted" in err
    rows = {row.pop("name"): row for row in map(json.loads, out.splitlines())}
    assert rows["file.project.trust"]["value"] == "not given"
    assert rows["aws.region"]["origin"] == f"{file}:3"
    assert rows["ssh.hosts"] == {"value": "w1\nw2", "origin": f"{file}:7 (not trusted)"}
    trust(file)
    status, out, err = show("--origin", "--json")
    assert (status, err) == (0, "")
    rows = {row.pop("name"): row for row in map(json.loads, out.splitlines())}
    assert rows["file.project"]["value"] == str(file)
    assert rows["provider"] == {"value": "aws", "origin": f"{file}:1"}
    assert rows["aws.region"] == {"value": "eu-west-1", "origin": f"{file}:3"}
    assert rows["aws.ami"] == {"value": "ami-1", "origin": "$SKYWARD_AWS_AMI"}
    assert rows["aws.use_ssm"] == {"value": "false", "origin": "default"}
    assert rows["ssh.hosts"] == {"value": "w1\nw2", "origin": f"{file}:7"}
    assert rows["vastai.api_key"] == {"value": "(set)", "origin": f"{file}:5"}
    assert "hush" not in out
    assert rows["runpod.api_key"] == {"value": "(not set)", "origin": "default"}
    status, out, _ = show("--origin")
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["SETTING", "VALUE", "ORIGIN"]
    assert ["aws.region", "eu-west-1", f"{file}:3"] in lines
    assert ["ssh.hosts", "w1", "w2", f"{file}:7"] in lines and "hush" not in out


def test_keys_of_the_clouds_own_tools_are_told_and_never_shown(project, tmp_path, monkeypatch):
    monkeypatch.setenv("VERDA_CLIENT_ID", "hush")
    monkeypatch.setenv("VERDA_CLIENT_SECRET", "hush")
    monkeypatch.setenv("VAST_API_KEY", "hush")
    monkeypatch.setenv("DIGITALOCEAN_TOKEN", "hush")
    monkeypatch.delenv("RUNPOD_API_KEY", raising=False)
    (tmp_path / ".runpod").mkdir()
    (tmp_path / ".runpod" / "config.toml").write_text('apikey = "hush"')
    status, out, _ = show("--origin", "--json")
    assert status == 0 and "hush" not in out
    rows = {row.pop("name"): row for row in map(json.loads, out.splitlines())}
    for name, origin in (
        ("verda.client_id", "$VERDA_CLIENT_ID"),
        ("verda.client_secret", "$VERDA_CLIENT_SECRET"),
        ("vastai.api_key", "$VAST_API_KEY"),
        ("digital_ocean.token", "$DIGITALOCEAN_TOKEN"),
        ("runpod.api_key", "~/.runpod/config.toml"),
    ):
        assert rows[name] == {"value": "(set)", "origin": origin}
    assert rows["digital_ocean.node_token"]["value"] == "(not set)"
    status, _, err = config("show", "--origin")
    assert (status, err) == (0, "")


def test_the_program_names_what_is_wrong_in_a_file(project):
    (project / "skyward.toml").write_text("[providers.aws]\nuse_ssm = 1\n")
    status, out, err = show("--json")
    assert status == 2 and json.loads(out)["error"] == "invalid"
    assert f"{project}/skyward.toml:2: [providers.aws] use_ssm = 1 is not valid" in err
    assert "expected true or false" in err

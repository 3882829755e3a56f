"""What a pool leaves in files."""

import skyward as sky


@sky.compute
def speak(text):
    print(text)
    return 1


def test_lines_and_events_are_in_the_state_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with sky.ComputePool(display="quiet") as pool:
        assert speak("a line to keep") >> pool == 1
    (folder,) = (tmp_path / "skyward").iterdir()
    assert (folder / "node-0.log").read_text().endswith("stdout a line to keep\n")
    assert "closed after" in (folder / "pool.log").read_text()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_what_the_programs_own_calls_report_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    gate = tmp_path / "gate"

    @sky.compute(retries=1)
    def flaky(gate):
        from pathlib import Path

        if not Path(gate).exists():
            Path(gate).touch()
            raise ValueError("not yet")
        return 1

    told = []
    with sky.ComputePool(display="quiet", on_event=told.append) as pool:
        assert flaky(str(gate)) >> pool == 1
    (folder,) = (tmp_path / "skyward").iterdir()
    (error,) = [event for event in told if isinstance(event, sky.Error)]
    assert error.message.endswith("attempt 2 of 2")
    assert (folder / "pool.log").read_text().count(f"ERROR   {error.message}\n") == 1


def test_a_place_that_cannot_be_written_is_told_and_harmless(tmp_path, monkeypatch):
    (tmp_path / "state").write_text("a file")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    errors = []
    with sky.ComputePool(display="quiet", on_event=errors.append) as pool:
        assert speak("x") >> pool == 1
    told = [error for error in errors if isinstance(error, sky.Error)]
    assert len(told) == 1
    assert "log files are not kept" in told[0].message

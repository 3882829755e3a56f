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


def test_a_place_that_cannot_be_written_is_told_and_harmless(tmp_path, monkeypatch):
    (tmp_path / "state").write_text("a file")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    errors = []
    with sky.ComputePool(display="quiet", on_event=errors.append) as pool:
        assert speak("x") >> pool == 1
    told = [error for error in errors if isinstance(error, sky.Error)]
    assert len(told) == 1
    assert "log files are not kept" in told[0].message

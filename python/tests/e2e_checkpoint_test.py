"""The folder for checkpoints of calls without restarts: one for each."""

import os
import pathlib
import signal

import pytest

import skyward as sky


@pytest.fixture(scope="module")
def pool():
    with sky.ComputePool(concurrency=1, display="quiet") as opened:
        yield opened


def save(number):
    """What the call has found, and where."""
    from concurrent.futures import ThreadPoolExecutor

    folder = sky.checkpoint_dir()
    found = sorted(os.listdir(folder))
    (folder / f"{number}.pt").touch()
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(sky.checkpoint_dir).result() == sky.checkpoint_dir() == folder
    assert os.listdir(folder) == [f"{number}.pt"]
    if number < 0:
        raise LookupError("after it has saved")
    return found, str(folder)


def stream(number):
    yield save(number)
    yield sorted(os.listdir(sky.checkpoint_dir()))


def test_a_call_finds_no_checkpoints_of_others_in_its_process(pool):
    found = list(pool.map(save, range(200)))  # in groups
    with pytest.raises(LookupError):
        sky.compute(save)(-1) >> pool
    first, second = sky.compute(stream)(300) >> pool
    assert second == ["300.pt"]
    found += [first, sky.compute(save)(400) >> pool]
    assert [names for names, _ in found] == [[]] * 202
    (folder,) = {folder for _, folder in found}
    assert sky.compute(os.path.exists)(folder) >> pool is False


def test_slots_and_child_processes_have_their_own():
    def folders(_):
        first, second = os.pipe()
        mine = sky.checkpoint_dir()
        if child := os.fork():
            os.close(second)
            with open(first) as told:
                childs = told.read()
            os.waitpid(child, 0)
            return str(mine), childs
        os.write(second, str(sky.checkpoint_dir()).encode())
        os._exit(0)

    with sky.ComputePool(concurrency=2, display="quiet") as pool:
        pairs = sky.gather(*[sky.compute(folders)(number) for number in range(2)]) >> pool
        for mine, childs in pairs:
            assert childs not in ("", mine)
            assert pathlib.Path(childs).parent == pathlib.Path(mine).parent
    assert not [folder for pair in pairs for folder in pair if os.path.exists(folder)]


def test_the_folder_of_a_killed_process_goes(tmp_path):
    def die(told):
        folder = sky.checkpoint_dir()
        (folder / "last.pt").touch()
        pathlib.Path(told).write_text(str(folder))
        os.kill(os.getpid(), signal.SIGKILL)

    told = tmp_path / "folder"
    with sky.ComputePool(concurrency=1, display="quiet") as pool:
        with pytest.raises(sky.ExecutionError):
            sky.compute(die)(str(told)) >> pool
        folder = told.read_text()
        assert sky.compute(save)(1) >> pool == ([], folder)
        with pytest.raises(sky.ExecutionError):
            sky.compute(die)(str(told)) >> pool
        assert os.path.exists(folder)
    assert not os.path.exists(folder)

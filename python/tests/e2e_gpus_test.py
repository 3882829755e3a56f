"""Accelerators on the local provider, with GPUs that a program in nvidia-smi's place plays."""

import json
import os
import pathlib

import pytest

import skyward as sky
from skyward import accelerators

H100 = {"name": "NVIDIA H100 80GB HBM3", "mib": 81559, "mig": None, "busy": False}
A100 = {"name": "NVIDIA A100-SXM4-40GB", "mib": 40960, "mig": None, "busy": False}
T4 = {"name": "Tesla T4", "mib": 15360, "mig": None, "busy": False}


@pytest.fixture
def gpus(tmp_path, monkeypatch):
    """Gives this machine GPUs; returns a function that tells how they stand now."""
    file = tmp_path / "gpus.json"
    here = pathlib.Path(__file__).parent / "gpus"
    monkeypatch.setenv("PATH", f"{here}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_GPUS", str(file))

    def stand(*devices):
        if devices:
            file.write_text(json.dumps(devices))
        return json.loads(file.read_text())

    return stand


@sky.compute
def seen():
    info = sky.instance_info()
    names = (
        "CUDA_VISIBLE_DEVICES",
        "SKYWARD_WORKER_ID",
        "SKYWARD_MIG_GPU",
        "SKYWARD_MIG_PARTITION",
    )
    return info, [os.environ.get(name) for name in names]


def open_pool(**options):
    return sky.ComputePool(provider=sky.Local(), display="quiet", **options)


def test_nodes_get_gpus_of_their_own_and_tasks_know_their_names(gpus):
    gpus(T4, H100, H100, H100, H100)
    with open_pool(nodes=2, accelerator=accelerators.H100(count=2)) as pool:
        answers = seen() @ pool
        model = sky.compute(sky.current_accelerator)() >> pool
    assert [environment[0] for _, environment in answers] == ["1,2", "3,4"]
    for info, _ in answers:
        assert info.accelerators == ["H100-80GB"] * 2 and info.total_accelerators == 4
        assert info.accelerator == {"type": "H100-80GB", "count": 2, "is_trainium": False}
        assert (info.workers_per_node, info.worker) == (1, 0)
    assert model == "H100-80GB"


def test_a_program_that_is_confined_to_some_gpus_gives_nodes_no_others(gpus, monkeypatch):
    gpus(H100, H100, H100, H100)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    with open_pool(nodes=2, accelerator=accelerators.H100()) as pool:
        assert [environment[0] for _, environment in seen() @ pool] == ["3", "1"]
    with pytest.raises(sky.ConfigurationError, match="where CUDA_VISIBLE_DEVICES leaves 2 H100"):
        open_pool(accelerator=accelerators.H100(count=3)).__enter__()


def test_a_pool_that_asks_for_nothing_sees_all(gpus):
    gpus(T4, T4)
    with open_pool() as pool:
        info, environment = seen() >> pool
    assert info.accelerators == ["T4", "T4"] and environment[0] is None


def test_half_a_gpu_is_shared(gpus):
    gpus(T4)
    with open_pool(nodes=2, accelerator=accelerators.T4(count=0.5)) as pool:
        assert [environment[0] for _, environment in seen() @ pool] == ["0", "0"]


def test_each_partition_is_a_worker(gpus):
    gpus(H100, T4, H100)
    with open_pool(nodes=2, accelerator=accelerators.H100(mig="3g.40gb"), concurrency=2) as pool:
        assert (pool.workers_per_instance, pool.total_slots) == (2, 8)
        answers = seen() @ pool
        parts = sky.compute(lambda data: list(sky.shard(data)))(list(range(10))) @ pool
        devices = {environment[0] for _, environment in sky.gather(*[seen()] * 30) >> pool}
    assert [info.global_worker_index for info, _ in answers] == [0, 1, 2, 3]
    assert [(info.node, info.worker) for info, _ in answers] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert {(info.workers_per_node, info.total_workers) for info, _ in answers} == {(2, 4)}
    assert [info.is_head for info, _ in answers] == [True, False, False, False]
    partitions = [uuid for gpu in (gpus()[0], gpus()[2]) for _, uuid in gpu["mig"]]
    assert len(set(partitions)) == 4
    assert [environment for _, environment in answers] == [
        [partitions[0], "0", "0", "0"],
        [partitions[1], "1", "0", "1"],
        [partitions[2], "0", "2", "0"],
        [partitions[3], "1", "2", "1"],
    ]
    assert parts == ([0, 4, 8], [1, 5, 9], [2, 6], [3, 7])
    assert devices <= set(partitions)


def test_a_fake_cloud_invents_partitions_and_leaves_this_computers_gpus_alone(gpus):
    mine = {**H100, "mig": [["7g.80gb", "MIG-of-somebody"]]}
    gpus(mine, mine)
    cloud = sky.testing.FakeCloud(speed=0)
    half = accelerators.H100(mig="3g.40gb")
    with sky.ComputePool(provider=cloud, accelerator=half, display="quiet") as pool:
        answers = seen() @ pool
    assert [environment for _, environment in answers] == [
        ["MIG-fake-0-0", "0", "0", "0"],
        ["MIG-fake-0-1", "1", "0", "1"],
    ]
    assert gpus() == [mine, mine]


def test_partitions_of_different_sizes_and_several_gpus(gpus):
    gpus(A100, A100)
    wanted = accelerators.A100(count=2, memory="40GB", mig=["3g.20gb", "1g.5gb"])
    with open_pool(accelerator=wanted) as pool:
        answers = seen() @ pool
    assert [profile for gpu in gpus() for profile, _ in gpu["mig"]] == ["3g.20gb", "1g.5gb"] * 2
    assert [environment[1:] for _, environment in answers] == [
        ["0", "0", "0"],
        ["1", "0", "1"],
        ["2", "1", "0"],
        ["3", "1", "1"],
    ]
    assert answers[0][0].accelerators == ["A100-40"] * 2


def test_partitions_are_used_again_and_never_replaced_by_others(gpus):
    gpus(H100)
    half, third = accelerators.H100(mig="3g.40gb"), accelerators.H100(mig="2g.20gb")
    stands = []
    for _ in range(2):
        with open_pool(accelerator=half) as pool:
            assert len(seen() @ pool) == 2
        stands.append(gpus())
    with pytest.raises(sky.ConfigurationError) as caught:
        open_pool(accelerator=third).__enter__()
    assert "GPU 0 is split into 3g.40gb, 3g.40gb" in str(caught.value)
    assert "sudo nvidia-smi mig -i 0 -dci; sudo nvidia-smi mig -i 0 -dgi" in str(caught.value)
    assert stands[0] == stands[1] == gpus()


def test_whole_gpus_are_those_that_no_pool_has_split(gpus):
    gpus(H100, H100)
    split = accelerators.H100(mig="3g.40gb")
    with open_pool(accelerator=split) as pool:
        seen() @ pool
    assert [gpu["mig"] is None for gpu in gpus()] == [False, True]
    with open_pool(accelerator=accelerators.H100()) as pool:
        assert (seen() >> pool)[1][0] == "1"
    with open_pool(accelerator=split) as pool:  # the one that is split already
        assert [environment[2] for _, environment in seen() @ pool] == ["0", "0"]
    assert gpus()[1]["mig"] is None
    with pytest.raises(sky.ConfigurationError) as caught:
        open_pool(accelerator=accelerators.H100(count=2)).__enter__()
    assert "GPU 0 is split" in str(caught.value)
    assert "sudo nvidia-smi -i 0 -mig 0" in str(caught.value)


def test_a_partition_wins_over_the_images_variable(gpus):
    gpus(H100)
    image = sky.Image(env={"CUDA_VISIBLE_DEVICES": "0"})
    with open_pool(accelerator=accelerators.H100(mig="7g.80gb"), image=image) as pool:
        _, environment = seen() >> pool
    assert environment[0] == gpus()[0]["mig"][0][1]


@pytest.mark.parametrize(
    ("devices", "options", "says"),
    [
        ([T4], {"accelerator": "H100"}, "1 H100 needs 1 on this machine, which has 1 T4"),
        (
            [H100],
            {"accelerator": accelerators.H100(count=2), "nodes": 2},
            "need 4.*which has 1 H100-80GB",
        ),
        ([A100], {"accelerator": accelerators.A100(memory="80GB")}, "of 80GB.*1 A100-40"),
        ([T4], {"accelerator": accelerators.Trainium2()}, "Trainium2.*which has 1 T4"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_starts(gpus, devices, options, says):
    gpus(*devices)
    seen_events = []
    pool = open_pool(on_event=seen_events.append, **options)
    with pytest.raises(sky.ConfigurationError, match=says), pool:
        pytest.fail("entered")
    assert not [event for event in seen_events if isinstance(event, sky.InstanceLaunching)]
    assert gpus() == list(devices)


def test_without_nvidia_smi_there_is_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with (
        pytest.raises(sky.ConfigurationError, match="which has none"),
        open_pool(accelerator="A100"),
    ):
        pytest.fail("entered")


def test_the_drivers_trouble_is_named(gpus):
    gpus(T4)
    trouble = "Failed to initialize NVML: Driver/library version mismatch"
    pathlib.Path(os.environ["FAKE_GPUS"]).write_text(json.dumps(trouble))
    with pytest.raises(sky.ConfigurationError, match=f"cannot list this machine's GPUs: {trouble}"):
        open_pool(accelerator="T4").__enter__()


def test_a_gpu_in_use_is_named_with_the_drivers_words(gpus):
    gpus({**H100, "busy": True})
    with (
        pytest.raises(sky.ProvisioningError) as caught,
        open_pool(accelerator=accelerators.H100(mig="3g.40gb")),
    ):
        pytest.fail("entered")
    assert "accelerators" in str(caught.value)
    assert "In use by another client" in str(caught.value)
    assert "MIG mode is 'Disabled' after it was enabled" in str(caught.value)


def test_a_pool_of_cpus_pays_no_heed_to_spot_machines():
    with open_pool(spot="never", max_hourly_cost=0.01) as pool:
        assert sky.compute(abs)(-3) >> pool == 3

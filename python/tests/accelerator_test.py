"""Accelerators as values: both front doors, the catalogue behind them, what is refused."""

import pickle
import typing
from dataclasses import replace

import numpy
import pytest
from skyward.accelerators import VENDORS

import skyward as sky
from skyward import NVIDIA, Accelerator, InstanceSpec, _core, accelerators


@pytest.mark.parametrize(
    ("one", "other", "canonical"),
    [
        (Accelerator.NVIDIA.H100(), accelerators.H100(), ("H100", "80GB", 1)),
        (Accelerator.NVIDIA.H100(count=4), accelerators.H100(count=4), ("H100", "80GB", 4)),
        (Accelerator.NVIDIA.H100(4), accelerators.H100(4, "80GB"), ("H100", "80GB", 4)),
        (
            Accelerator.NVIDIA.A100(memory="40GB"),
            accelerators.A100(memory="40GB"),
            ("A100", "40GB", 1),
        ),
        (Accelerator.NVIDIA.T4(), accelerators.T4(), ("T4", "16GB", 1)),
        (Accelerator.NVIDIA.RTX4090(), accelerators.RTX_4090(), ("RTX 4090", "24GB", 1)),
        (Accelerator.AWS.Trainium(version=2), accelerators.Trainium2(), ("Trainium2", "64GB", 1)),
        (Accelerator.AWS.Inferentia(), accelerators.Inferentia2(), ("Inferentia2", "32GB", 1)),
        (Accelerator.Google.TPU(version="v5p"), accelerators.TPUv5p(), ("TPUv5p", "95GB", 1)),
        (
            Accelerator.Google.TPUSlice("v5p-8"),
            accelerators.TPUv5p_8(),
            ("TPUv5p-8", "760GB", 8),
        ),
        (Accelerator.AMD.MI("300X"), accelerators.MI300X(), ("MI300X", "192GB", 1)),
        (Accelerator.AMD.RadeonPro("V520"), accelerators.RadeonPro_V520(), None),
        (Accelerator.AMD.Instinct("MI25"), accelerators.Instinct_MI25(), None),
        (Accelerator.Habana.Gaudi(), accelerators.Gaudi3(), ("Gaudi3", "128GB", 1)),
        (Accelerator.Habana.Gaudi(version=1), accelerators.Gaudi(), ("Gaudi", "32GB", 1)),
        (
            Accelerator.NVIDIA.H100(form_factor="NVL"),
            accelerators.H100(form_factor="NVL"),
            ("H100-NVL", "94GB", 1),
        ),
    ],
)
def test_both_front_doors_lead_to_the_same(one, other, canonical):
    assert one == other and hash(one) == hash(other)
    assert canonical is None or (one.name, one.memory, one.count) == canonical


def test_a_bare_name_is_one_device_of_any_memory():
    found = Accelerator.from_value("a100")
    assert (found.name, found.memory, found.count) == ("A100", "", 1)
    assert found.accelerator == "A100" and found.multiple_instance is None
    assert Accelerator.from_value(None) is None and Accelerator.from_value(found) is found
    assert Accelerator.from_name("A100", count=2) == accelerators.A100(count=2)
    assert Accelerator(accelerator="T4") == Accelerator("T4")


def test_values_are_immutable_comparable_picklable_and_match():
    gpu = accelerators.H100(count=4, mig="3g.40gb")
    with pytest.raises(AttributeError):
        gpu.count = 2
    again = pickle.loads(pickle.dumps(gpu))
    assert again == gpu and again != accelerators.H100() and repr(again) == repr(gpu)
    assert repr(gpu) == "Accelerator('H100', memory='80GB', count=4, mig='3g.40gb')"
    assert str(gpu) == "4xH100" and str(accelerators.T4()) == "T4"
    assert accelerators.H100(count=0.5).fractional and not gpu.fractional
    assert gpu.with_count(2) == accelerators.H100(count=2, mig="3g.40gb")
    match gpu:
        case Accelerator(name="H100", count=count, multiple_instance=mig):
            assert (count, mig) == (4, "3g.40gb")
        case _:
            pytest.fail("no match")
    match accelerators.A100():
        case Accelerator("A100", memory):
            assert memory == "80GB"


def test_a_changed_copy():
    changed = replace(accelerators.H100(), count=4)
    assert changed == accelerators.H100(count=4) and type(changed.count) is int
    assert not replace(replace(accelerators.A100(), count=2), count=4).memory_required
    assert not replace(pickle.loads(pickle.dumps(accelerators.A100())), count=4).memory_required
    assert replace(accelerators.A100(memory="40GB"), count=4).memory_required
    other = replace(accelerators.A100(), memory="40GB")
    assert other.memory == "40GB" and other.memory_required
    assert not replace(other, memory="").memory_required
    assert Accelerator("A100", accelerators.A100().memory).memory_required
    split = replace(accelerators.H100(count=4, mig="3g.40gb"), count=2)
    assert split == accelerators.H100(count=2, mig="3g.40gb") and split.memory_required
    assert type(accelerators.T4(count=numpy.int64(2)).count) is int
    mine = accelerators.Custom("X1", "8GB", cuda_min="12.4")
    assert replace(mine, count=2) == mine.with_count(2)


def test_what_the_catalogue_knows():
    facts = accelerators.H100(form_factor="SXM").metadata
    assert facts == {
        "vendor": "nvidia",
        "architecture": "Hopper",
        "memory_gb": 80,
        "form_factor": "SXM",
        "cuda": {"min": "11.8", "max": "13.1"},
    }
    assert accelerators.MI300X().metadata["cuda"] is None
    own = accelerators.Custom("Own 9", memory="5GB", count=2, cuda_min="12.0")
    assert own.custom and own.metadata["cuda"] == {"min": "12.0", "max": ""}
    assert pickle.loads(pickle.dumps(own)) == own


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Accelerator("H1OO"), "H1OO.*\n.*H100"),
        (lambda: Accelerator("A100", "64GB"), "64GB.*comes with 80GB or 40GB"),
        (lambda: accelerators.A100(memory="81GB"), "80GB or 40GB"),
        (lambda: accelerators.T4(count=0), "count=0"),
        (lambda: accelerators.T4(count=1.5), "count=1.5"),
        (lambda: accelerators.T4(count="2"), "count='2'"),
        (lambda: accelerators.Custom("X", cuda_min=12.8), "cuda_min=12.8: a string"),
        (lambda: accelerators.H100(mig="3g.20gb"), "3g.20gb.*\n.*3g.40gb"),
        (lambda: accelerators.H100(mig=["4g.40gb", "4g.40gb"]), "8 slices"),
        (lambda: accelerators.H100(mig=3), "mig=3"),
        (lambda: Accelerator("T4", mig="1g.5gb"), "cannot be split"),
        (lambda: Accelerator("T4", accelerator="T4"), "mean the same"),
        (lambda: accelerators.H100(form_factor="OAM"), "SXM, PCIe, NVL"),
        (lambda: Accelerator.AMD.MI("9000"), "MI9000"),
        (lambda: sky.ComputePool(accelerator=3), "accelerator=3"),
    ],
)
def test_what_does_not_exist_is_refused_with_what_is_near(make, says):
    with pytest.raises(sky.ConfigurationError, match=says):
        make()


def test_partitions_make_workers():
    assert accelerators.H100(mig="3g.40gb").workers_per_node == 2
    assert accelerators.A100(memory="40GB", mig="1g.5gb", count=2).workers_per_node == 14
    split = accelerators.H100(mig=["3g.40gb", "1g.10gb"])
    assert split.workers_per_node == 2 and split.mig == ("3g.40gb", "1g.10gb")
    pool = sky.ComputePool(accelerator=split, nodes=3, concurrency=2)
    assert (pool.workers_per_instance, pool.total_slots) == (2, 12)


def test_nvidia_is_a_type_and_a_namespace():
    def train(gpu: NVIDIA) -> None: ...

    names = typing.get_args(typing.get_type_hints(train)["gpu"])
    assert {"T4", "A100-40GB", "A100-80", "H100-SXM", "RTX3080", "GB200", "M60"} <= set(names)
    assert all(sky.is_nvidia(name) for name in names)
    assert NVIDIA.A100 == "A100" and NVIDIA.H100_PCIe == "H100-PCIe"
    assert NVIDIA.A100(count=2) == accelerators.A100(count=2)
    assert type(pickle.loads(pickle.dumps(NVIDIA.A100))) is str
    assert sky.ComputePool(accelerator=NVIDIA.A100).accelerator == Accelerator("A100")


def test_predicates_agree_with_the_engine():
    assert sky.is_nvidia("H100") and not sky.is_nvidia("MI300X")
    assert sky.is_trainium("Trainium2") and not sky.is_trainium("H100")
    others = ["", "nonsense", "A6000", "rtx-4090", "Tesla T4", "NVIDIA H100", "Radeon Pro V520"]
    for name in [*_core.accelerator_names(), *VENDORS, *others]:
        assert sky.is_nvidia(name) == _core.is_nvidia(name), name
        assert sky.is_gpu(name) == _core.is_gpu(name), name
        assert sky.is_trainium(name) == _core.is_trainium(name), name


def test_every_model_has_its_factories():
    for name in _core.accelerator_names():
        attribute = name.replace(" ", "_").replace("-", "_")
        made = getattr(accelerators, attribute)()
        assert made.name == name and made == Accelerator.from_name(name)
        if sky.is_nvidia(name):
            assert getattr(Accelerator.NVIDIA, attribute)() == made
            assert getattr(Accelerator.NVIDIA, name.replace(" ", "").replace("-", "_"))() == made


def test_the_current_accelerator_is_that_of_the_task(monkeypatch):
    assert sky.current_accelerator() is None
    text = '{"node": 0, "total_nodes": 1, "accelerators": ["H100-80GB", "H100-80GB"]}'
    monkeypatch.setenv("COMPUTE_POOL", text)
    assert sky.current_accelerator() == "H100-80GB"


MARKET = [
    InstanceSpec("cpu", 4, 16, price_on_demand=0.2),
    InstanceSpec("big", 64, 256, price_on_demand=3.0),
    InstanceSpec("h100", 26, 200, "H100", 1, 80, price_on_demand=4.0),
    InstanceSpec("h100x8", 192, 2048, "H100-80GB", 8, 80, price_on_demand=50.0, price_spot=3.0),
]


def test_select_instance_takes_both_ways_of_asking():
    assert sky.select_instance(MARKET, accelerator="H100", cpu=32, memory="128GB").name == "h100x8"
    assert sky.select_instance(MARKET, 8, 1024).name == "big"
    assert sky.select_instance(MARKET, 1, 1024, "H100", 8).name == "h100x8"
    assert sky.select_instance(instances=MARKET, memory_mb=1024).name == "cpu"
    assert sky.select_instance(MARKET, accelerator="H100", prefer_spot=True).name == "h100x8"
    names = [one.name for one in sky.select_instances(MARKET, accelerator=accelerators.H100())]
    assert names == ["h100", "h100x8"]


def test_select_instance_says_what_was_near():
    with pytest.raises(ValueError, match="16 H100.*\n.*1, 8 devices") as caught:
        sky.select_instance(MARKET, accelerator=accelerators.H100(count=16))
    assert isinstance(caught.value, sky.NoMatchingInstanceError)
    with pytest.raises(sky.NoMatchingInstanceError, match="A100.*\n.*H100"):
        sky.select_instance(MARKET, accelerator="A100")
    with pytest.raises(sky.NoMatchingInstanceError, match="most offered is 192 CPUs"):
        sky.select_instance(MARKET, cpu=1000)
    with pytest.raises(sky.ConfigurationError, match="mean the same"):
        sky.select_instance(MARKET, memory="1GB", memory_mb=1024)

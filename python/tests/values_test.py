"""What users hold in their hands are values: equal when they say the same, unchangeable, and whole
after a journey."""

import copy
import dataclasses
import pickle

import pytest
from skyward.providers.clouds import CLOUDS

import skyward as sky

NAMES = {name: getattr(sky, name) for name in sky.__all__ if name != "pool"}
VALUES = [
    "Image(pip=['numpy'], apt=['git'])",  # its text form hides the values of variables
    "AWS(region='eu-west-1')",
    *(f"{cloud.__name__}()" for cloud in CLOUDS.values()),
    "RunPod(data_center_ids=('EU-1', 'EU-2'))",
    "SSH(hosts=('gpu-box', 'me@other:2222'))",
    "Command(commands=(('sh', '-c'),))",
    "Local()",
    "Accelerator.NVIDIA.H100(count=4, mig='3g.40gb')",
    "Accelerator.NVIDIA.A100(memory='40GB')",
    "accelerators.Custom('Own', memory='3GB')",
    "S3Volume('/data', 'bucket', 'prefix/')",
    "Spot.Always(retries=3)",
    "Spot.IfAvailable()",
    "Spot.Never",
    "Spot.Percent(0.5)",
    "InstanceInfo(node=1, total_nodes=2)",
    "InstanceSpec('small', 8, 64, 'H100', 1, 80, price_on_demand=3.0)",
    "Worker(concurrency=2)",
    "Metrics('i-1', 0, 1.0, 2.0, 3.0, 4.0)",
    "InstanceProvisioned('i-1', 0, True, 'AWS')",
    "CostUpdate(1.0, 2.0, 3.0, 4, 5)",
    "LogLine(0, 'i-1', 'text', 1.5)",
]


def made(text):
    return eval(text, dict(NAMES))


@pytest.mark.parametrize("text", VALUES)
def test_a_value_is_one(text):
    value = made(text)
    assert value == made(text) and hash(value) == hash(made(text))
    assert value != object()
    for copied in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):
        assert copied == value and type(copied) is type(value)
    for field in dataclasses.fields(value) if dataclasses.is_dataclass(value) else ():
        with pytest.raises(AttributeError):
            setattr(value, field.name, None)
    assert made(repr(value)) == value, repr(value)


def test_values_are_taken_apart_by_match():
    match sky.S3Volume("/data", "bucket"):
        case sky.S3Volume(path, bucket, read_only=True):
            assert (path, bucket) == ("/data", "bucket")
    match sky.Accelerator.NVIDIA.H100(count=4):
        case sky.Accelerator(name="H100", count=count):
            assert count == 4
    match sky.ComputePool(spot=0.8).spot:
        case sky.Spot.Percent(share):
            assert share == 0.8
    match sky.AWS():
        case sky.AWS(region=region):
            assert region == "us-east-1"

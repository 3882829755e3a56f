"""Which way tensors go, on a stand-in for PyTorch: python/frameworks_tests has the real one, and
tests/gpu real GPUs."""

import sys
import types

import pytest

from skyward.worker import tensors


class Tensor:
    """As much of one as is asked when it is reduced. Its elements are one behind the other."""

    __slots__ = ("_backward_hooks", "attributes", "device", "shape", "strides")
    layout = "strided"
    is_quantized = is_nested = requires_grad = False

    def __init__(self, device, count, step=1, attributes=None):
        self.device = types.SimpleNamespace(type=device)
        self.shape, self.strides = (count,), (step,)
        self.attributes, self._backward_hooks = attributes or {}, None

    @property
    def __dict__(self):
        return self.attributes

    def stride(self):
        return self.strides

    def numel(self):
        return self.shape[0]

    def is_conj(self):
        return False

    is_neg = is_conj

    def detach(self):
        return Tensor(self.device.type, *self.shape, *self.strides)

    def resolve_conj(self):
        return self

    resolve_neg = resolve_conj

    def as_strided(self, shape, strides):
        return Tensor(self.device.type, *shape, *strides)

    def new_zeros(self, count):
        return Tensor(self.device.type, count)

    def __reduce_ex__(self, protocol):
        return "as PyTorch does", self.device.type


@pytest.fixture(autouse=True)
def pytorch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(strided="strided"))


@pytest.mark.parametrize(
    ("given", "length"),
    [
        ({"count": 0}, 1),
        ({"count": 1 << 40, "step": 0}, 1),
        ({"count": 3, "attributes": {"note": "the user's"}}, 3),
    ],
    ids=["empty", "expanded", "with attributes"],
)
def test_special_tensors_of_a_gpu_are_views_of_plain_ones(given, length):
    tensor = Tensor("cuda", **given)
    rebuild, (memory, shape, strides, _, attributes) = tensors.reduce_tensor(tensor)
    assert rebuild is tensors.rebuild_view
    assert (shape, strides, attributes) == (tensor.shape, tensor.strides, tensor.attributes)
    assert (memory.device.type, memory.shape, memory.strides) == ("cuda", (length,), (1,))
    assert 0 < memory.numel() <= tensors._span(memory) and not memory.attributes, "it is plain"


@pytest.mark.parametrize("device", ["cpu", "meta", "xla"])
def test_special_tensors_of_other_devices_are_pytorchs(device):
    assert tensors.reduce_tensor(Tensor(device, 0)) == ("as PyTorch does", device)

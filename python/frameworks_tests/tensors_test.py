"""PyTorch's tensors on the way to a task and back."""

import copyreg
import io
import pickle
import warnings

import pytest
import torch
from skyward.transport import serialize

import skyward as sky
from skyward.worker import by_value, tensors

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int16,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.float8_e4m3fn,
]
LARGE = 1 << 20


def there_and_back(value, dumps=tensors.dumps):
    """What arrives, and the buffers beside the stream."""
    buffers = []
    stream = dumps(value, buffer_callback=buffers.append)
    copies = [bytearray(buffer.raw()) for buffer in buffers]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "The given buffer is not writable")
        return pickle.loads(stream, buffers=copies), copies


def same(one, other):
    return (
        type(one) is type(other)
        and one.dtype is other.dtype
        and one.shape == other.shape
        and one.device == other.device
        and one.requires_grad == other.requires_grad
        and torch.equal(one.to(torch.complex128), other.to(torch.complex128))
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_types_travel_beside_the_stream(dtype):
    tensor = (torch.arange(24) % 3).to(dtype).reshape(2, 3, 4)
    arrived, buffers = there_and_back(tensor)
    assert same(arrived, tensor) and [len(one) for one in buffers] == [tensor.nbytes]


@pytest.mark.parametrize("dumps", [tensors.dumps, by_value.dumps])
def test_plain_pickle_and_cloudpickle_do_the_same(dumps):
    weights, buffers = there_and_back({"w": torch.ones(3, 4), "b": torch.tensor(2.5)}, dumps)
    assert same(weights["w"], torch.ones(3, 4)) and same(weights["b"], torch.tensor(2.5))
    assert [len(one) for one in buffers] == [48, 4]


def test_strides_remain_and_slices_travel_alone():
    matrix = torch.arange(12.0).reshape(3, 4)
    images = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    for tensor in (matrix.T, images):
        arrived, _ = there_and_back(tensor)
        assert same(arrived, tensor) and arrived.stride() == tensor.stride()
    for tensor in (torch.rand(1000, 10)[5], torch.rand(1000, 10)[:, 3], torch.rand(8)[::2]):
        arrived, buffers = there_and_back(tensor)
        assert same(arrived, tensor) and [len(one) for one in buffers] == [tensor.nbytes]


def test_what_arrives_may_be_written_to():
    for callback in (None, [].append):
        stream = tensors.dumps(torch.zeros(4), buffer_callback=callback)
        buffers = None if callback is None else [bytes(16)]  # read-only
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "The given buffer is not writable")
            arrived = pickle.loads(stream, buffers=buffers)
        arrived += 1
        assert arrived.tolist() == [1, 1, 1, 1]


def special_tensors():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it will go
        quantized = torch.quantize_per_tensor(torch.ones(4), 0.5, 0, torch.qint8)
    named = torch.ones(3)
    named.note = "given by the user"
    return {
        "empty": torch.empty(0, 3),
        "expanded": torch.ones(1).expand(1 << 40),
        "a part expanded": torch.ones(1000)[:1].expand(10),
        "overlapping": torch.arange(100.0).as_strided((4, 3), (1, 1)),
        "sparse": torch.eye(3).to_sparse(),
        "quantized": quantized,
        "conjugate": torch.tensor([1 + 2j]).conj(),
        "with attributes": named,
        "meta": torch.empty(3, device="meta"),
    }


@pytest.mark.parametrize("kind", list(special_tensors()))
def test_special_tensors_are_left_to_pytorch(kind):
    tensor = special_tensors()[kind]
    arrived, buffers = there_and_back(tensor)
    assert bool(buffers) is (kind == "sparse")  # whose parts are plain tensors
    assert type(arrived) is torch.Tensor and arrived.shape == tensor.shape
    assert vars(arrived) == vars(tensor)
    assert (arrived.layout, arrived.is_quantized) == (tensor.layout, tensor.is_quantized)
    if kind == "conjugate":
        assert torch.equal(arrived, tensor)


@pytest.mark.parametrize("kind", sorted({*special_tensors(), "a gradient's"} - {"sparse", "meta"}))
def test_special_tensors_leave_their_device(kind):
    """As those of a GPU do, which tests/gpu has. None binds the stream to it."""
    gradient = torch.ones(1, requires_grad=True).expand(3)
    tensor = {**special_tensors(), "a gradient's": gradient}[kind]
    function, parts = tensors._reduce_view(tensor)
    arrived_parts, _ = there_and_back(parts)
    arrived = function(*arrived_parts)
    assert type(arrived) is torch.Tensor and arrived.shape == tensor.shape
    assert (arrived.dtype, arrived.stride()) == (tensor.dtype, tensor.stride())
    assert vars(arrived) == vars(tensor) and arrived.requires_grad == tensor.requires_grad
    if kind == "quantized":
        assert torch.equal(arrived.dequantize(), tensor.dequantize())
    elif kind != "expanded":  # to more elements than one can compare
        assert torch.equal(arrived, tensor)


def test_gradients_parameters_and_modules():
    leaf = torch.ones(2, requires_grad=True)
    assert same(there_and_back(leaf)[0], leaf)
    result, _ = there_and_back(leaf * 2)
    assert result.requires_grad and result.is_leaf
    first, second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    second.weight = first.weight
    arrived, buffers = there_and_back(torch.nn.Sequential(first, second))
    assert arrived[0].weight is arrived[1].weight
    assert type(arrived[0].weight) is torch.nn.Parameter
    assert [len(one) for one in buffers] == [36, 12, 12]
    arrived(torch.ones(1, 3)).sum().backward()


def test_a_tensor_of_a_device_that_is_not_here_arrives_in_memory():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU: tests/gpu has it")
    data = bytearray(b"\0\0\x80?" * 3)
    arrived = tensors.rebuild_tensor(data, torch.float32, (3,), [0], "cuda:0", True)
    assert arrived.device.type == "cpu" and arrived.tolist() == [1, 1, 1] and arrived.requires_grad


def test_the_programs_own_pickles_stay_pytorchs():
    tensors.dumps(torch.ones(2))
    assert b"skyward" not in pickle.dumps(torch.ones(2))
    file = io.BytesIO()
    torch.save({"w": torch.ones(2)}, file)
    assert b"skyward" not in file.getvalue()
    file.seek(0)
    assert torch.load(file, weights_only=True)["w"].tolist() == [1, 1]


def test_calls_and_results():
    @sky.compute
    def add(state, by):
        assert isinstance(by, torch.nn.Parameter)
        state["large"] += by  # in place: it is the task's own
        return {name: tensor + by for name, tensor in state.items()}, type(by).__name__

    large = torch.zeros(LARGE)
    by = torch.nn.Parameter(torch.ones(1), requires_grad=False)
    with sky.ComputePool(nodes=2, display="quiet") as pool:
        given = {"large": large, "small": torch.zeros(3)}
        answers = [add(given, by) >> pool, *(add(given, by) @ pool)]
        answers += sky.gather(*[add(given, by)] * 3) >> pool
        answers += pool.map(lambda one: add.local({"large": one, "small": one}, by), [large] * 2)
    assert len(answers) == 8 and float(large.sum()) == 0
    for state, name in answers:
        assert name == "Parameter"
        assert float(state["large"].sum()) == 2 * LARGE
        assert state["small"].dtype is torch.float32 and float(state["small"].max()) in (1, 2)
        state["large"] += 1


def test_large_tensors_are_buffers_of_the_call():
    stream, buffers = serialize.dumps_arguments(len, "len", (torch.zeros(LARGE),), {})
    assert len(stream) < 1000 and [view.nbytes for view in buffers] == [4 * LARGE]


def test_arrived_tensors_can_be_resized():
    arrived, _ = there_and_back(torch.ones(4))
    assert arrived.resize_(100).numel() == 100
    arrived, _ = there_and_back(torch.nn.Linear(2, 2))
    arrived.weight.untyped_storage().resize_(0)


def test_a_reducer_of_the_programs_own_goes_first(monkeypatch):
    monkeypatch.setitem(copyreg.dispatch_table, torch.Tensor, lambda tensor: (str, ("own",)))
    for dumps in (tensors.dumps, by_value.dumps):
        assert there_and_back([torch.ones(2)], dumps) == (["own"], [])

"""Pickles PyTorch's tensors as NumPy's arrays are pickled: with their bytes beside the stream.
PyTorch itself writes the whole storage of each tensor into the stream, as a file. Driver and worker
use this."""

import copyreg
import io
import pickle
import sys

NAME = "skyward.worker.tensors"
"""This module, as its readers import it."""


def dumps(value, protocol=5, *, buffer_callback=None):
    """As ``pickle.dumps``."""
    known = reducers()
    if not known:
        return pickle.dumps(value, protocol, buffer_callback=buffer_callback)
    with io.BytesIO() as file:
        pickler = pickle.Pickler(file, protocol, buffer_callback=buffer_callback)
        pickler.dispatch_table = {**copyreg.dispatch_table, **known}
        pickler.dump(value)
        return file.getvalue()


def reducers():
    """What reduces objects of a class, by the class. Empty until the program loads PyTorch."""
    return learn(_reducers, "torch", "Tensor", reduce_tensor)


_reducers = {}


def learn(known, module, name, reduce):
    """`known`, with what reduces the class of this name from when the program has the module."""
    if not known:
        cls = getattr(sys.modules.get(module), name, None)
        if cls is not None:
            known[cls] = reduce
    return known


def reduce_tensor(tensor):
    """A tensor's own elements alone, in the order in which memory has them. PyTorch pickles what
    has more to it than elements, and any tensor without NumPy."""
    own = copyreg.dispatch_table.get(type(tensor))
    if own is not None:  # the program's
        return own(tensor)
    try:
        parts = _parts(tensor)
    except Exception:  # of what no function of PyTorch's takes for a tensor of its own
        parts = None
    return tensor.__reduce_ex__(5) if parts is None else (rebuild_tensor, parts)


def _parts(tensor):
    import torch

    is_plain = (
        tensor.layout is torch.strided
        and tensor.device.type in ("cpu", "cuda", "mps")
        and not (tensor.is_quantized or tensor.is_nested or tensor.is_conj() or tensor.is_neg())
        and not (tensor.__dict__ or tensor._backward_hooks)
    )
    strides, count = tensor.stride(), tensor.numel()
    span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, strides, strict=True))
    # Of an expanded tensor, some elements have one place in memory.
    if not is_plain or not 0 < count <= span:
        return None
    order = sorted(range(tensor.dim()), key=lambda axis: -strides[axis])
    elements = tensor.detach().permute(order).cpu().contiguous()
    data = elements.reshape(-1).view(torch.uint8).numpy()
    place = None if tensor.device.type == "cpu" else str(tensor.device)
    shape = tuple(elements.shape)
    return pickle.PickleBuffer(data), tensor.dtype, shape, order, place, tensor.requires_grad


def rebuild_tensor(data, dtype, shape, order, place, requires_grad):
    """The tensor, on the device where it was, or in the CPU's memory where this process cannot use
    that device: a result is not lost because this computer has no GPU. Its memory is PyTorch's,
    which alone can be resized."""
    import torch

    if memoryview(data).readonly:
        data = bytearray(data)
    elements = torch.frombuffer(data, dtype=dtype)
    tensor = None
    if place is not None:
        try:
            tensor = elements.to(place)
        except (RuntimeError, AssertionError):  # no such device, or it has no room
            pass
    tensor = elements.clone() if tensor is None else tensor
    tensor = tensor.view(shape).permute([order.index(axis) for axis in range(len(order))])
    return tensor.requires_grad_() if requires_grad else tensor


# In a worker, whose modules have names of their own, this one has both.
rebuild_tensor.__module__ = NAME
sys.modules.setdefault(NAME, sys.modules[__name__])

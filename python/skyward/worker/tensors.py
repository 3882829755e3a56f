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
    has more to it than elements if it is in the CPU's memory, and any tensor without NumPy."""
    own = copyreg.dispatch_table.get(type(tensor))
    if own is not None:  # the program's
        return own(tensor)
    try:
        reduced = _reduce_plain(tensor) or _reduce_special(tensor)
    except Exception:  # of what no function of PyTorch's takes for a tensor of its own
        reduced = None
    return tensor.__reduce_ex__(5) if reduced is None else reduced


def _reduce_plain(tensor):
    import torch

    is_plain = (
        tensor.layout is torch.strided
        and tensor.device.type in ("cpu", "cuda", "mps")
        and not (tensor.is_quantized or tensor.is_nested or tensor.is_conj() or tensor.is_neg())
        and not (tensor.__dict__ or tensor._backward_hooks)
    )
    # Of an expanded tensor, some elements have one place in memory.
    if not is_plain or not 0 < tensor.numel() <= _span(tensor):
        return None
    strides = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda axis: -strides[axis])
    elements = tensor.detach().permute(order).cpu().contiguous()
    data = elements.reshape(-1).view(torch.uint8).numpy()
    place = None if tensor.device.type == "cpu" else str(tensor.device)
    shape = tuple(elements.shape)
    parts = pickle.PickleBuffer(data), tensor.dtype, shape, order, place, tensor.requires_grad
    return rebuild_tensor, parts


def _span(tensor):
    """How many places in memory there are from its first element to its last."""
    strides = zip(tensor.shape, tensor.stride(), strict=True)
    return 1 + sum((size - 1) * step for size, step in strides)


def _reduce_special(tensor):
    """What PyTorch's pickle would bind to the tensor's device: a computer without that could not
    load it, nor anything that was pickled with it."""
    if tensor.device.type not in ("cuda", "mps"):
        return None
    return _reduce_view(tensor)


def _reduce_view(tensor):
    """A view of memory that travels as a plain tensor. PyTorch makes several tensors of sparse and
    nested ones, which all come here."""
    import torch

    if tensor.layout is not torch.strided or tensor.is_nested:
        return None
    state = dict(tensor.__dict__)
    if tensor.is_quantized:
        return rebuild_quantized, (tensor.detach().cpu(), str(tensor.device), state)
    bare = tensor.detach().resolve_conj().resolve_neg()
    memory = bare.as_strided((_span(bare),), (1,)) if bare.numel() else bare.new_zeros(1)
    shape, strides = tuple(bare.shape), bare.stride()
    return rebuild_view, (memory, shape, strides, tensor.requires_grad, state)


def rebuild_tensor(data, dtype, shape, order, place, requires_grad):
    """The tensor, on the device where it was, or in the CPU's memory where this process cannot use
    that device: a result is not lost because this computer has no GPU. Its memory is PyTorch's,
    which alone can be resized."""
    import torch

    if memoryview(data).readonly:
        data = bytearray(data)
    elements = torch.frombuffer(data, dtype=dtype)
    moved = _move(elements, place)
    tensor = elements.clone() if moved is elements else moved
    tensor = tensor.view(shape).permute([order.index(axis) for axis in range(len(order))])
    return tensor.requires_grad_() if requires_grad else tensor


def rebuild_view(memory, shape, strides, requires_grad, state):
    """The tensor, where its memory has arrived."""
    tensor = memory.as_strided(shape, strides)
    tensor.__dict__.update(state)
    return tensor.requires_grad_() if requires_grad else tensor


def rebuild_quantized(tensor, place, state):
    """The tensor, on its device if that is here."""
    tensor = _move(tensor, place)
    tensor.__dict__.update(state)
    return tensor


def _move(tensor, place):
    """The tensor itself, if there is no such device, or it has no room."""
    if place is None:
        return tensor
    try:
        return tensor.to(place)
    except (RuntimeError, AssertionError):
        return tensor


# In a worker, whose modules have names of their own, this one has both.
for _rebuild in (rebuild_tensor, rebuild_view, rebuild_quantized):
    _rebuild.__module__ = NAME
sys.modules.setdefault(NAME, sys.modules[__name__])

"""Describes the exceptions that functions raise."""

import pickle
import sys

from .results import SerializationError

FOLDER = __file__.rpartition("/")[0] + "/"

DEVICE_ERRORS = (
    "CUDA error",
    "CUDA driver error",
    "CUDA_ERROR_",
    "cudaError",
    "HIP error",
    "hipError",
    "Triton Error [",
    "Cuda failure",
    "CUDNN_STATUS_EXECUTION_FAILED",
)
"""In the texts of PyTorch, CuPy, JAX, TensorFlow, Numba, Triton, NCCL and cuDNN when the runtime of
a GPU reports an error."""
HARMLESS_ERRORS = (
    "NO_DEVICE",
    "no CUDA-capable",
    "no kernel image",
    "invalid device ordinal",
    "out of memory",
    "OUT_OF_MEMORY",
    "MemoryAllocation",
)
"""Of these, those that no kernel has caused: the device works as before."""


def is_device_error(error):
    """Whether the process may be unable to use its GPU from now on: after a kernel has failed, so
    does everything else that the process asks of the device."""
    for each in chain_of(error):
        try:
            text = str(each)
        except BaseException:  # of a __str__ of the user's
            text = ""
        is_harmless = any(mark in text for mark in HARMLESS_ERRORS)
        if not is_harmless and any(mark in text for mark in DEVICE_ERRORS):
            return True
    return False


def chain_of(error):
    """The exception, its causes and contexts, and the members of groups, each of them once. A chain
    may be longer than the stack is deep."""
    left, seen = [error], set()
    while left:
        error = left.pop()
        if error is not None and id(error) not in seen:
            seen.add(id(error))
            yield error
            members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
            left += (error.__cause__, error.__context__, *members)


def explain_missing_module(error, what):
    name, _, part = (error.name or "").partition(".")
    if part:
        version = getattr(sys.modules.get(name), "__version__", "")
        known = f"{name!r} ({version})" if version else repr(name)
        text = f"{what} needs the module {error.name!r}; the worker has {known} without it"
        add_note(error, text)
    elif name:
        add_note(
            error,
            f"{what} needs the module {name!r}, which is not on the worker: add its package to "
            f"Image(pip=[…]); if it is your own, import it before the pool opens or name it in "
            f"Image(includes=[{name!r}])",
        )


def add_note(error, text):
    try:
        error.add_note(text)
    except Exception:
        pass  # its class is read-only


# A frozen class would not let its instances be assigned to.
set_traceback = BaseException.with_traceback


def clear_frames(error):
    """Cuts the traceback off everything in the chain, so that no frame keeps arguments alive."""
    for each in chain_of(error):
        set_traceback(each, None)


def describe(error):
    import traceback

    from .by_value import AnswerPickler, dumps

    failed_after = take_attribute(error, "__skyward_failed_after__")
    skip_own_frames(error)
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    clear_frames(error)
    pickled = parts = None
    if type(error) is not SerializationError:
        try:
            pickled = dumps(error, pickler=AnswerPickler)
            # Exceptions with an __init__ of their own often pickle but do not load.
            if not isinstance(pickle.loads(pickled), BaseException):
                raise TypeError("it loads as something else")
        except BaseException:
            pickled, parts = None, pickled_parts(error)
    return {
        "type": type(error).__qualname__,
        "module": type(error).__module__,
        "message": text_of(error),
        "traceback": text,
        "exception": pickled,
        "parts": parts,
        "notes": [str(note) for note in getattr(error, "__notes__", ())],
        "of_result": type(error) is SerializationError,  # the function has ended
        "failed_after": failed_after,  # of skyward/distributed/decorate.py, or None
    }


def take_attribute(error, name):
    try:
        return vars(error).pop(name, None)
    except Exception:
        return None


def text_of(error):
    try:
        return str(error)
    except Exception as second:
        return f"(its __str__ raised {type(second).__name__})"


def pickled_parts(error):
    """The class, the arguments and those fields that travel, of one that does not as a whole."""
    from .by_value import AnswerPickler, dumps, slots_of

    def travels(value):
        try:
            pickle.loads(dumps(value, pickler=AnswerPickler))
        except BaseException:
            return False
        return True

    cls = type(error)
    if not travels(cls):
        return None
    fields = {**slots_of(error), **error.__dict__}
    fields = {name: value for name, value in fields.items() if travels(value)}
    args = tuple([value if travels(value) else repr(value) for value in error.args])
    return dumps((cls, args, fields), pickler=AnswerPickler)


def skip_own_frames(error):
    """Removes the worker's own frames from the tracebacks of the whole chain."""
    for each in chain_of(error):
        trace = each.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename.startswith(FOLDER):
            trace = trace.tb_next
        set_traceback(each, trace)

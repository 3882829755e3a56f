"""How functions are pickled: by value, with cloudpickle, which is loaded when the first one is."""

import pickle
import sys
from collections.abc import Callable
from typing import Any

from skyward.worker import tensors
from skyward.worker.sentinels import keep_sentinels

PROGRAMS = ("__main__", "__mp_main__")
"""Names of the program itself; the second one in processes that multiprocessing spawned."""

keep_sentinels()
plain_dumps: Callable[..., bytes] = tensors.dumps
"""``pickle.dumps``, but for PyTorch's tensors, which travel as arrays do."""


def reduce_by_value(make: Any, fields: tuple[Any, ...]) -> Any:
    """The ``__reduce__`` of objects that hold a decorated function.

    Its module holds the wrapper under the function's name, so plain pickle would refuse to refer to
    it: under plain pickle the fields become cloudpickle bytes of their own. Inside our cloudpickle
    they go as they are, so that pickling a function that refers to itself terminates."""
    from skyward.worker.by_value import AnswerPickler, is_pickling

    if is_pickling():
        return make, fields
    pickler = AnswerPickler if "_skyward_worker" in sys.modules else None
    return _load_by_value, (make, dumps_by_value(fields, pickler=pickler))


def dumps_by_value(value: Any, buffer_callback: Any = None, pickler: Any = None) -> bytes:
    """cloudpickle bytes of a value. Raises what cloudpickle raises. `pickler`: of worker/by_value;
    None: that of calls."""
    import cloudpickle

    from skyward.worker.by_value import Pickler, dumps

    program: Any = sys.modules.get(PROGRAMS[1])
    if program is not None and program.__name__ == PROGRAMS[1]:
        cloudpickle.register_pickle_by_value(program)
    data: bytes = dumps(value, buffer_callback, pickler or Pickler)
    return data


def _load_by_value(make: Any, data: bytes) -> Any:
    return make(*pickle.loads(data))


def registered_by_value() -> bool:
    """True if the user asked cloudpickle to pickle some importable modules by value."""
    # It lacks the function while another thread is still importing it.
    cloudpickle = sys.modules.get("cloudpickle")
    list_names = getattr(cloudpickle, "list_registry_pickle_by_value", None)
    if list_names is None:
        return False
    names = list_names()
    return bool(names) and names != {PROGRAMS[1]}


class StaysHere:
    """An object that cannot be sent; its ``__reduce__`` says why."""

"""Keras 3 on one of its three backends, for the length of a call."""

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from skyward.distributed.environment import variables
from skyward.exceptions import ConfigurationError
from skyward.task.instance_info import InstanceInfo

SEED = 42
"""All workers begin with the same weights."""

_BACKENDS = ("jax", "tensorflow", "torch")


@contextlib.contextmanager
def session(info: InstanceInfo, backend: str | None, timeout: float, name: str) -> Iterator[None]:
    """Keras takes its backend when it is imported, once for the whole process."""
    chosen = backend or os.environ.get("KERAS_BACKEND") or "jax"
    if chosen not in _BACKENDS:
        raise ConfigurationError(
            f"KERAS_BACKEND={chosen!r}: distributed.keras supports {', '.join(_BACKENDS)}"
        )
    loaded = sys.modules.get("keras")
    if loaded is not None and loaded.backend.backend() != chosen:
        raise ConfigurationError(
            f"{name}: Keras runs on {loaded.backend.backend()!r} in this worker already, and keeps"
            f" its backend as long as the process lives; for {chosen!r} use another pool"
        )
    below: Any = import_module(f"skyward.distributed.{chosen}_session")
    with variables({"KERAS_BACKEND": chosen}), below.session(info, None, timeout, name):
        import keras

        if info.total_workers == 1:
            yield
            return
        keras.utils.set_random_seed(SEED)
        with _data_parallel(keras, chosen):
            yield


@contextlib.contextmanager
def _data_parallel(keras: Any, backend: str) -> Iterator[None]:
    """``model.fit`` sees the data of this worker and averages gradients over all."""
    if backend == "jax":
        devices = keras.distribution.list_devices()
        keras.distribution.set_distribution(
            keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False)
        )
        try:
            yield
        finally:
            keras.distribution.set_distribution(None)
    elif backend == "tensorflow":
        with _own_data_strategy().scope():
            yield
    else:
        yield


def _own_data_strategy() -> Any:
    """A strategy that trains on the data which each worker has, in the batches which it makes.

    TensorFlow's own would cut the data and the batches of every worker up once more."""
    import tensorflow

    base: Any = tensorflow.distribute.MultiWorkerMirroredStrategy

    class OwnData(base):  # type: ignore[misc]
        def reduce(self, op: Any, value: Any, axis: Any = None) -> Any:
            # Keras gives whole batches, (x, y), and losses without the axis that it names.
            def reduced(part: Any) -> Any:
                rank = self.experimental_local_results(part)[0].shape.rank
                return base.reduce(self, op, part, axis if rank else None)

            return tensorflow.nest.map_structure(reduced, value)

        def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
            return self.distribute_datasets_from_function(lambda _: dataset, options)

    return OwnData()

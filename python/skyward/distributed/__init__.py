"""Training on all workers of a pool, with the framework's own means.

    @sky.compute
    @sky.distributed.torch(backend="gloo")
    def train(rows):
        model = torch.nn.parallel.DistributedDataParallel(make_model())
        ...

    with sky.ComputePool(nodes=4) as pool:
        losses = train(rows) @ pool

A decorator may stand above or below ``@compute``. A call of such a function runs on every worker at
the same time (``@``): the workers meet, the framework is set up and connected among them, the
function runs, and all of it is torn down again, so that the next call starts fresh. Outside a
pool the function just runs.

Every decorator takes `timeout`: how long, in seconds, the workers wait for each other at the start
of a call."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

from skyward.distributed.decorate import MEETING_SECONDS, decorator, mpi_decorator
from skyward.distributed.detect import detect_framework

F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["detect_framework", "jax", "keras", "mpi", "tensorflow", "torch", "transformers"]


@overload
def torch(function: F, /) -> F: ...
@overload
def torch(
    backend: str | None = None, *, timeout: float = MEETING_SECONDS, max_restarts: int = 0
) -> Callable[[F], F]: ...
def torch(backend: Any = None, *, timeout: float = MEETING_SECONDS, max_restarts: int = 0) -> Any:
    """PyTorch: inside, ``torch.distributed`` is initialised over all workers.

    `backend`: "nccl" (GPUs) or "gloo" (CPUs); None: nccl where there is CUDA and each worker can
    have its own GPU, else gloo. ConfigurationError: "nccl" for workers that share one. Sets the
    variables MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK, LOCAL_RANK, LOCAL_WORLD_SIZE and
    NODE_RANK. Unless you set them yourself, GLOO_SOCKET_IFNAME names the network interface that has
    the node's address in the pool, and NCCL_SOCKET_IFNAME and NCCL_DEBUG are set where there are
    several nodes.

    `max_restarts`: how often the function starts again on all workers when it fails on one of them
    or a node is lost, as with torchrun: the other workers are stopped, the pool replaces the node,
    and the function continues from what it saved in ``sky.checkpoint_dir()``. The variables
    TORCHELASTIC_RESTART_COUNT and TORCHELASTIC_MAX_RESTARTS say which start it is."""
    return decorator("torch", backend, ("nccl", "gloo", "mpi", "ucc"), timeout, max_restarts)


@overload
def transformers(function: F, /) -> F: ...
@overload
def transformers(
    backend: str | None = None, *, timeout: float = MEETING_SECONDS, max_restarts: int = 0
) -> Callable[[F], F]: ...
def transformers(
    backend: Any = None, *, timeout: float = MEETING_SECONDS, max_restarts: int = 0
) -> Any:
    """Hugging Face: as ``torch``; ``transformers.Trainer`` finds the workers by itself."""
    return decorator("transformers", backend, ("nccl", "gloo", "mpi", "ucc"), timeout, max_restarts)


@overload
def jax(function: F, /) -> F: ...
@overload
def jax(*, timeout: float = MEETING_SECONDS) -> Callable[[F], F]: ...
def jax(function: Any = None, *, timeout: float = MEETING_SECONDS) -> Any:
    """JAX: inside, ``jax.distributed`` is initialised; ``jax.devices()`` are those of all workers.

    Sets the variables JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES, JAX_PROCESS_ID and, where there
    are accelerators, JAX_LOCAL_DEVICE_COUNT; unless you set it yourself, also
    JAX_COORDINATOR_BIND_ADDRESS, and those of gloo and NCCL as ``torch`` does. Arrays of earlier
    calls are lost: each call has new devices. ConfigurationError: workers share a GPU."""
    return decorator("jax", function, (), timeout)


@overload
def tensorflow(function: F, /) -> F: ...
@overload
def tensorflow(*, timeout: float = MEETING_SECONDS) -> Callable[[F], F]: ...
def tensorflow(function: Any = None, *, timeout: float = MEETING_SECONDS) -> Any:
    """TensorFlow: inside, TF_CONFIG names all workers, as ``MultiWorkerMirroredStrategy`` needs.

    TensorFlow stays connected after the call: the worker's next call finds the same cluster, and
    cannot join another one."""
    return decorator("tensorflow", function, (), timeout)


@overload
def keras(function: F, /) -> F: ...
@overload
def keras(backend: str | None = None, *, timeout: float = MEETING_SECONDS) -> Callable[[F], F]: ...
def keras(backend: Any = None, *, timeout: float = MEETING_SECONDS) -> Any:
    """Keras 3 on "jax" (the default), "tensorflow" or "torch": KERAS_BACKEND is set and the backend
    initialised before the function imports keras.

    With several workers, all start with the same seed (42). On jax and tensorflow ``model.fit`` is
    data-parallel: give each worker its own part of the data (``sky.shard``). On torch the process
    group is there, but Keras does not average gradients: wrap the model in
    ``DistributedDataParallel`` in your own training loop."""
    return decorator("keras", backend, ("jax", "tensorflow", "torch"), timeout)


@overload
def mpi(function: F, /) -> F: ...
@overload
def mpi(
    *,
    ranks_per_node: int = 1,
    implementation: Literal["openmpi", "mpich"] | None = None,
    timeout: float = MEETING_SECONDS,
) -> Callable[[F], F]: ...
def mpi(
    function: Any = None,
    *,
    ranks_per_node: int = 1,
    implementation: Literal["openmpi", "mpich"] | None = None,
    timeout: float = MEETING_SECONDS,
) -> Any:
    """MPI: inside, ``mpi4py.MPI.COMM_WORLD`` has one rank on each worker, in rank order.

    The function runs in another process, which MPI starts for this call, with the worker's
    variables, folder and output. `ranks_per_node`: how many such processes on each worker; with
    more than one, each worker's result is a list of their results. `implementation`: None: Open MPI
    where it is installed, else MPICH. The nodes need one of them and mpi4py, the driver neither.

    MPI's own connections between the nodes are neither encrypted nor authenticated."""
    return mpi_decorator(function, ranks_per_node, implementation, timeout)

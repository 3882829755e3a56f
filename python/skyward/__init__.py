"""Run functions on machines that exist only as long as you need them.

    import skyward as sky

    @sky.compute
    def train(data): ...

    with sky.ComputePool(provider=sky.Local(), nodes=2) as pool:
        model = train(data) >> pool

Names are loaded when they are first used: ``import skyward`` costs a few milliseconds, loads
neither the compiled extension nor numpy nor cloudpickle, and works on a node that has no extension
at all."""

import sys

__version__ = "0.1.0"

# This file, and what it imports here, can be read by old ones.
if sys.version_info < (3, 11):  # noqa: UP036
    from skyward.base.extension import unfit

    raise unfit()

# Type checkers recognize this name; importing typing would be the slowest part.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from skyward import accelerators as accelerators
    from skyward import callback as callback
    from skyward import conc as conc
    from skyward import distributed as distributed
    from skyward import events as events
    from skyward import integrations as integrations
    from skyward import testing as testing
    from skyward.accelerators import GPU as GPU
    from skyward.accelerators import NVIDIA as NVIDIA
    from skyward.accelerators import Accelerator as Accelerator
    from skyward.accelerators import Trainium as Trainium
    from skyward.call.function import ComputeFunction as ComputeFunction
    from skyward.call.function import compute as compute
    from skyward.call.function import lazy as lazy
    from skyward.call.gather import gather as gather
    from skyward.call.pending import PendingBatch as PendingBatch
    from skyward.call.pending import PendingCompute as PendingCompute
    from skyward.callback import Callback as Callback
    from skyward.callback import compose as compose
    from skyward.callback import emit as emit
    from skyward.callback import use_callback as use_callback
    from skyward.engines.dask_cluster import dask as dask
    from skyward.engines.mpi_runs import mpi as mpi
    from skyward.engines.ray_cluster import ray as ray
    from skyward.events import BootstrapCompleted as BootstrapCompleted
    from skyward.events import BootstrapProgress as BootstrapProgress
    from skyward.events import BootstrapStarting as BootstrapStarting
    from skyward.events import BudgetWarning as BudgetWarning
    from skyward.events import ClusterSetupCompleted as ClusterSetupCompleted
    from skyward.events import CostFinal as CostFinal
    from skyward.events import CostUpdate as CostUpdate
    from skyward.events import Error as Error
    from skyward.events import InfraCreated as InfraCreated
    from skyward.events import InfraCreating as InfraCreating
    from skyward.events import InstanceLaunching as InstanceLaunching
    from skyward.events import InstancePreempted as InstancePreempted
    from skyward.events import InstanceProvisioned as InstanceProvisioned
    from skyward.events import InstanceReplaced as InstanceReplaced
    from skyward.events import InstanceStopping as InstanceStopping
    from skyward.events import LogLine as LogLine
    from skyward.events import Metrics as Metrics
    from skyward.events import NodeReceipt as NodeReceipt
    from skyward.events import Notice as Notice
    from skyward.events import PoolStarted as PoolStarted
    from skyward.events import PoolStopped as PoolStopped
    from skyward.events import PoolStopping as PoolStopping
    from skyward.events import ProviderName as ProviderName
    from skyward.events import ProvisioningCompleted as ProvisioningCompleted
    from skyward.events import RegionAutoSelected as RegionAutoSelected
    from skyward.events import SkywardEvent as SkywardEvent
    from skyward.events import TaskFailed as TaskFailed
    from skyward.events import TaskFinished as TaskFinished
    from skyward.events import TaskPoolInitCompleted as TaskPoolInitCompleted
    from skyward.events import TaskStarted as TaskStarted
    from skyward.exceptions import AllProvidersFailedError as AllProvidersFailedError
    from skyward.exceptions import BudgetExceededError as BudgetExceededError
    from skyward.exceptions import CancelledError as CancelledError
    from skyward.exceptions import CapacityError as CapacityError
    from skyward.exceptions import ConfigurationError as ConfigurationError
    from skyward.exceptions import ConfigurationTypeError as ConfigurationTypeError
    from skyward.exceptions import ConnectionError as ConnectionError
    from skyward.exceptions import ConnectionLostError as ConnectionLostError
    from skyward.exceptions import ExecutionError as ExecutionError
    from skyward.exceptions import InstanceTerminatedError as InstanceTerminatedError
    from skyward.exceptions import MachinesLeftError as MachinesLeftError
    from skyward.exceptions import NoAvailableRegionError as NoAvailableRegionError
    from skyward.exceptions import NoMatchingInstanceError as NoMatchingInstanceError
    from skyward.exceptions import NotProvisionedError as NotProvisionedError
    from skyward.exceptions import PreemptionError as PreemptionError
    from skyward.exceptions import ProvisioningError as ProvisioningError
    from skyward.exceptions import PythonVersionMismatchError as PythonVersionMismatchError
    from skyward.exceptions import QuotaExceededError as QuotaExceededError
    from skyward.exceptions import SerializationError as SerializationError
    from skyward.exceptions import SkywardError as SkywardError
    from skyward.exceptions import SpotCapacityError as SpotCapacityError
    from skyward.exceptions import SpotMinimumNotMetError as SpotMinimumNotMetError
    from skyward.exceptions import TimeoutError as TimeoutError
    from skyward.integrations.executor import Executor as Executor
    from skyward.pool.block import pool as pool
    from skyward.pool.compute_pool import ComputePool as ComputePool
    from skyward.pool.multi import MultiPool as MultiPool
    from skyward.providers.choice import Provider as Provider
    from skyward.providers.clouds import AWS as AWS
    from skyward.providers.clouds import Container as Container
    from skyward.providers.clouds import DigitalOcean as DigitalOcean
    from skyward.providers.clouds import Kubernetes as Kubernetes
    from skyward.providers.clouds import RunPod as RunPod
    from skyward.providers.clouds import Slurm as Slurm
    from skyward.providers.clouds import VastAI as VastAI
    from skyward.providers.clouds import Verda as Verda
    from skyward.providers.command import Command as Command
    from skyward.providers.local import Local as Local
    from skyward.providers.ssh import SSH as SSH
    from skyward.spec.costs import PoolCost as PoolCost
    from skyward.spec.image import DEFAULT_IMAGE as DEFAULT_IMAGE
    from skyward.spec.image import Image as Image
    from skyward.spec.image import PipIndex as PipIndex
    from skyward.spec.instances import ComputeSpec as ComputeSpec
    from skyward.spec.instances import ExitedInstance as ExitedInstance
    from skyward.spec.instances import Instance as Instance
    from skyward.spec.instances import InstanceSpec as InstanceSpec
    from skyward.spec.instances import select_instance as select_instance
    from skyward.spec.instances import select_instances as select_instances
    from skyward.spec.makers import is_gpu as is_gpu
    from skyward.spec.makers import is_nvidia as is_nvidia
    from skyward.spec.makers import is_trainium as is_trainium
    from skyward.spec.options import Worker as Worker
    from skyward.spec.spot import Spot as Spot
    from skyward.spec.spot import SpotLike as SpotLike
    from skyward.spec.volume import S3Volume as S3Volume
    from skyward.spec.volume import Volume as Volume
    from skyward.task.accelerator import current_accelerator as current_accelerator
    from skyward.task.checkpoint import checkpoint_dir as checkpoint_dir
    from skyward.task.data import DistributedSampler as DistributedSampler
    from skyward.task.data import shard as shard
    from skyward.task.data import shard_iterator as shard_iterator
    from skyward.task.instance_info import InstanceInfo as InstanceInfo
    from skyward.task.instance_info import instance_info as instance_info
    from skyward.task.output import is_head as is_head
    from skyward.task.output import silent as silent
    from skyward.task.output import stderr as stderr
    from skyward.task.output import stdout as stdout
    from skyward.task.preemption import on_preemption as on_preemption

_MODULE_OF = {
    name: module
    for module, names in {
        "accelerators": "Accelerator GPU NVIDIA Trainium",
        "call.function": "ComputeFunction compute lazy",
        "call.gather": "gather",
        "call.pending": "PendingBatch PendingCompute",
        "callback": "Callback compose emit use_callback",
        "events": (
            "BootstrapCompleted BootstrapProgress BootstrapStarting BudgetWarning "
            "ClusterSetupCompleted CostFinal CostUpdate Error InfraCreated InfraCreating "
            "InstanceLaunching InstancePreempted InstanceProvisioned InstanceReplaced "
            "InstanceStopping LogLine Metrics NodeReceipt Notice PoolStarted PoolStopped "
            "PoolStopping ProviderName ProvisioningCompleted RegionAutoSelected SkywardEvent "
            "TaskFailed TaskFinished TaskPoolInitCompleted TaskStarted"
        ),
        "engines.dask_cluster": "dask",
        "engines.mpi_runs": "mpi",
        "engines.ray_cluster": "ray",
        "exceptions": (
            "AllProvidersFailedError BudgetExceededError CancelledError CapacityError "
            "ConfigurationError ConfigurationTypeError ConnectionError ConnectionLostError "
            "ExecutionError InstanceTerminatedError MachinesLeftError NoAvailableRegionError "
            "NoMatchingInstanceError NotProvisionedError PreemptionError ProvisioningError "
            "PythonVersionMismatchError QuotaExceededError SerializationError SkywardError "
            "SpotCapacityError SpotMinimumNotMetError TimeoutError"
        ),
        "integrations.executor": "Executor",
        "pool.compute_pool": "ComputePool",
        "pool.multi": "MultiPool",
        "providers.choice": "Provider",
        "providers.clouds": "AWS Container DigitalOcean Kubernetes RunPod Slurm VastAI Verda",
        "providers.command": "Command",
        "providers.local": "Local",
        "providers.ssh": "SSH",
        "spec.costs": "PoolCost",
        "spec.image": "DEFAULT_IMAGE Image PipIndex",
        "spec.instances": (
            "ComputeSpec ExitedInstance Instance InstanceSpec select_instance select_instances"
        ),
        "spec.makers": "is_gpu is_nvidia is_trainium",
        "spec.options": "Worker",
        "spec.spot": "Spot SpotLike",
        "spec.volume": "S3Volume Volume",
        "task.accelerator": "current_accelerator",
        "task.checkpoint": "checkpoint_dir",
        "task.data": "DistributedSampler shard shard_iterator",
        "task.instance_info": "InstanceInfo instance_info",
        "task.output": "is_head silent stderr stdout",
        "task.preemption": "on_preemption",
    }.items()
    for name in names.split()
}

_SUBMODULES = {
    "accelerators",
    "callback",
    "conc",
    "distributed",
    "events",
    "integrations",
    "pool",
    "testing",
}

# Not in __all__, so that `from skyward import *` leaves builtins and packages of these names alone;
# `skyward.TimeoutError` works.
_SHADOWS_OTHERS = {"ConnectionError", "TimeoutError", "dask", "ray"}

if not TYPE_CHECKING:  # a type checker goes by the imports above
    __all__ = [  # noqa: PLE0604
        "__version__",
        *sorted({*_MODULE_OF, *_SUBMODULES} - _SHADOWS_OTHERS),
    ]

    def __getattr__(name):
        from importlib import import_module

        if name == "_core":  # asked for before it is imported
            from skyward.base.extension import loaded

            return loaded()
        if name in _SUBMODULES:
            return import_module(f"skyward.{name}")
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module 'skyward' has no attribute {name!r}")
        value = getattr(import_module(f"skyward.{module}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF, *_SUBMODULES})

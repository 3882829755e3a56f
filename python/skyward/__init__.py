"""Run functions on machines that exist only as long as you need them.

    import skyward as sky

    @sky.compute
    def train(data): ...

    with sky.ComputePool(provider=sky.Local(), nodes=2) as pool:
        model = train(data) >> pool

Names are loaded when they are first used: ``import skyward`` costs a few milliseconds, loads
neither the compiled extension nor numpy nor cloudpickle, and works on a node that has no extension
at all."""

__version__ = "0.1.0"

# Type checkers take this for typing's; to import that would cost more than all else.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from skyward.callback import Callback as Callback
    from skyward.callback import compose as compose
    from skyward.callback import emit as emit
    from skyward.callback import use_callback as use_callback
    from skyward.cluster import InstanceInfo as InstanceInfo
    from skyward.cluster import instance_info as instance_info
    from skyward.data import DistributedSampler as DistributedSampler
    from skyward.data import shard as shard
    from skyward.data import shard_iterator as shard_iterator
    from skyward.events import BootstrapCompleted as BootstrapCompleted
    from skyward.events import BootstrapProgress as BootstrapProgress
    from skyward.events import BootstrapStarting as BootstrapStarting
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
    from skyward.events import PoolStarted as PoolStarted
    from skyward.events import PoolStopped as PoolStopped
    from skyward.events import PoolStopping as PoolStopping
    from skyward.events import ProviderName as ProviderName
    from skyward.events import ProvisioningCompleted as ProvisioningCompleted
    from skyward.events import RegionAutoSelected as RegionAutoSelected
    from skyward.events import SkywardEvent as SkywardEvent
    from skyward.events import TaskPoolInitCompleted as TaskPoolInitCompleted
    from skyward.exceptions import CancelledError as CancelledError
    from skyward.exceptions import ConfigurationError as ConfigurationError
    from skyward.exceptions import ConnectionError as ConnectionError
    from skyward.exceptions import ConnectionLostError as ConnectionLostError
    from skyward.exceptions import ExecutionError as ExecutionError
    from skyward.exceptions import InstanceTerminatedError as InstanceTerminatedError
    from skyward.exceptions import NotProvisionedError as NotProvisionedError
    from skyward.exceptions import ProvisioningError as ProvisioningError
    from skyward.exceptions import PythonVersionMismatchError as PythonVersionMismatchError
    from skyward.exceptions import SerializationError as SerializationError
    from skyward.exceptions import SkywardError as SkywardError
    from skyward.exceptions import TimeoutError as TimeoutError
    from skyward.function import ComputeFunction as ComputeFunction
    from skyward.function import PendingBatch as PendingBatch
    from skyward.function import PendingCompute as PendingCompute
    from skyward.function import compute as compute
    from skyward.function import gather as gather
    from skyward.image import Image as Image
    from skyward.multi import MultiPool as MultiPool
    from skyward.pool import ComputePool as ComputePool
    from skyward.providers import Local as Local

_MODULE_OF = {
    name: module
    for module, names in {
        "callback": "Callback compose emit use_callback",
        "cluster": "InstanceInfo instance_info",
        "data": "DistributedSampler shard shard_iterator",
        "events": (
            "BootstrapCompleted BootstrapProgress BootstrapStarting ClusterSetupCompleted "
            "CostFinal CostUpdate Error InfraCreated InfraCreating InstanceLaunching "
            "InstancePreempted InstanceProvisioned InstanceReplaced InstanceStopping LogLine "
            "Metrics NodeReceipt PoolStarted PoolStopped PoolStopping ProviderName "
            "ProvisioningCompleted RegionAutoSelected SkywardEvent TaskPoolInitCompleted"
        ),
        "exceptions": (
            "CancelledError ConfigurationError ConnectionError ConnectionLostError ExecutionError "
            "InstanceTerminatedError NotProvisionedError ProvisioningError "
            "PythonVersionMismatchError SerializationError SkywardError TimeoutError"
        ),
        "function": "ComputeFunction PendingBatch PendingCompute compute gather",
        "image": "Image",
        "multi": "MultiPool",
        "pool": "ComputePool",
        "providers": "Local",
    }.items()
    for name in names.split()
}

# Not in __all__, so that `from skyward import *` leaves the builtins alone; `skyward.TimeoutError`
# works.
_SHADOWS_BUILTIN = {"ConnectionError", "TimeoutError"}
__all__ = ["__version__", *sorted(_MODULE_OF.keys() - _SHADOWS_BUILTIN)]  # noqa: PLE0604


if not TYPE_CHECKING:

    def __getattr__(name):
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module 'skyward' has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"skyward.{module}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})

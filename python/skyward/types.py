"""Types that programs name in their own signatures."""

from skyward.accelerators import Accelerator
from skyward.call.answers import AwaitableFuture, AwaitedCall, Stream
from skyward.callback import Callback
from skyward.events import ProviderName, SkywardEvent
from skyward.providers.choice import Provider
from skyward.spec.instances import ComputeSpec, ExitedInstance, Instance, InstanceSpec
from skyward.spec.spot import SpotLike
from skyward.spec.volume import Volume
from skyward.task.instance_info import InstanceInfo

__all__ = [
    "Accelerator",
    "AwaitableFuture",
    "AwaitedCall",
    "Callback",
    "ComputeSpec",
    "ExitedInstance",
    "Instance",
    "InstanceInfo",
    "InstanceSpec",
    "Provider",
    "ProviderName",
    "SkywardEvent",
    "SpotLike",
    "Stream",
    "Volume",
]

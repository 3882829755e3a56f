"""Types that programs name in their own signatures."""

from skyward.accelerator import Accelerator
from skyward.callback import Callback
from skyward.cluster import InstanceInfo
from skyward.events import ProviderName, SkywardEvent
from skyward.instances import ComputeSpec, ExitedInstance, Instance, InstanceSpec
from skyward.providers import Provider
from skyward.spot import SpotLike
from skyward.volume import Volume

__all__ = [
    "Accelerator",
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
    "Volume",
]

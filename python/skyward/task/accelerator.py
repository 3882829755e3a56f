"""The accelerators that a task finds on its node."""

from skyward.task.instance_info import instance_info


def current_accelerator() -> str | None:
    """Inside a task: the model of the node's accelerators, such as "H100-80GB"; None without one
    and outside of a pool."""
    info = instance_info()
    return info.accelerators[0] if info.accelerators else None

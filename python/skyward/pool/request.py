"""The request for a pool, and its form for the engine."""

import os
import sys
from importlib.util import find_spec
from typing import Any

from skyward.base.programs import (
    agent_path,
    is_frozen_program,
    other_agents,
    record_root,
    unicode_path,
)
from skyward.exceptions import ConfigurationError
from skyward.providers.choice import Provider
from skyward.spec.accelerator import Accelerator
from skyward.spec.image import CLIENT_PYTHON, Image
from skyward.spec.options import memory_mb
from skyward.spec.spot import SpotStrategy
from skyward.spec.spot import to_core as spot_to_core
from skyward.spec.volume import to_core as volume_to_core

HASH_SEED = "PYTHONHASHSEED"
PLOTS = "MPLBACKEND"


class PoolRequest:
    """The parameters of a pool, checked. ComputePool says what each of them means."""

    providers: tuple[Any, ...]
    selection: str
    image: Image
    nodes: int
    machine: str | None
    accelerator: Accelerator | None
    cpu: float | None
    memory: str | None
    volume: tuple[Any, ...]
    spot: SpotStrategy
    timeout: float
    lease: float
    heartbeat_timeout: float
    reconnect_timeout: float | None
    max_hourly_cost: float | None
    budget: float | None
    architecture: str | None
    env: dict[str, str]
    concurrency: int
    collect_metrics: bool
    collect_tasks: bool

    @property
    def workers_per_instance(self) -> int:
        """Workers on each machine: one for each partition of its GPUs, else one."""
        return 1 if self.accelerator is None else self.accelerator.workers_per_node

    @property
    def total_slots(self) -> int:
        """Tasks that can run at the same time."""
        return self.nodes * self.workers_per_instance * self.concurrency

    def to_core(self) -> Any:
        """The request, for the engine."""
        from skyward import _core

        if find_spec("cloudpickle") is None:  # imported while machines start
            raise ConfigurationError(
                "cloudpickle is not installed, and without it no function can be sent. Install it"
                f" for {sys.executable}: pip install 'cloudpickle>=3,<4'"
            )
        spec = _core.PoolSpec()
        spec.image = self.image.to_core()
        (spec.provider, spec.runtime), *others = map(self._choice, self.providers)
        spec.other_providers = [_other(*choice) for choice in others]
        spec.selection = self.selection
        spec.nodes = self.nodes
        if self.accelerator is not None:
            spec.accelerator = self.accelerator.to_core()
        spec.cpus = float(self.cpu or 0)
        spec.memory_mb = memory_mb(self.memory) or 0
        spec.architecture = self.architecture or ""
        spec.machine = self.machine or ""
        spec.spot = spot_to_core(self.spot)
        spec.max_hourly_cost = self.max_hourly_cost
        spec.budget = self.budget
        spec.volumes = [volume_to_core(volume) for volume in self.volume]
        spec.concurrency = self.concurrency
        spec.timeout = self.timeout
        spec.lease = self.lease
        spec.heartbeat_timeout = self.heartbeat_timeout
        spec.reconnect_timeout = self.reconnect_timeout
        spec.env = self._env()
        spec.collect_metrics = self.collect_metrics
        spec.collect_tasks = self.collect_tasks
        program = "the node program"
        spec.agent_path = unicode_path(program, agent_path())
        spec.other_agents = {
            name: unicode_path(program, path) for name, path in other_agents().items()
        }
        spec.record_root = record_root()
        return spec

    def _env(self) -> dict[str, str]:
        """Of workers. All hash strings alike, so that a set of them has one order everywhere, and
        each worker can take its part of it."""
        from skyward.transport.runtime import ignored_variables

        seed = os.environ.get(HASH_SEED, "")
        if not seed.isdecimal():
            seed = str(int.from_bytes(os.urandom(4), "little") or 1)  # 0 would mean none
        own = {HASH_SEED: self.image.env.get(HASH_SEED, seed)}
        if all(provider.remote for provider in self.providers):
            return {**own, **self.env}
        hidden = ignored_variables()
        if self.image.needs_environment() and os.environ.get(PLOTS, "").startswith("module://"):
            hidden.append(PLOTS)  # a module of the notebook's kernel, which is not in the image
        empty = dict.fromkeys((name for name in hidden if name not in self.image.env), "")
        return {**empty, **own, **self.env}

    def _choice(self, provider: Provider) -> tuple[Any, Any]:
        """A provider and how its nodes run tasks, for the engine."""
        from skyward import _core
        from skyward.transport.runtime import remote_runtime, worker_runtime

        spec = _core.ProviderSpec()
        spec.name = provider.name
        spec.settings = provider.settings()
        slots = self.workers_per_instance * self.concurrency
        own = provider.name in ("local", "fake")
        if (own or self.image.pip) and is_frozen_program():
            raise ConfigurationError(
                f"this program is frozen: {sys.executable} is the program itself, not a Python"
                " interpreter: Skyward would start the program again in place of Python. Set"
                f" sys.executable to the path of a Python {CLIENT_PYTHON} with the same packages"
                " before you open the pool, or run the program's source with such a Python"
            )
        if provider.remote:
            return spec, remote_runtime(self.image, slots)
        if not own:
            return spec, worker_runtime(self.image, slots)
        if not self.image.needs_environment() and not sys.executable:
            raise ConfigurationError(
                "sys.executable is empty, so no worker can be started with this program's Python:"
                " set sys.executable to the path of an interpreter with the same packages, or give"
                " the pool an image with packages, Image(pip=[…])"
            )
        # All nodes are on this computer, and processes of this user.
        return spec, worker_runtime(self.image, slots * self.nodes, share_key=True)


def _other(provider: Any, runtime: Any) -> Any:
    from skyward import _core

    choice = _core.ProviderChoice()
    choice.provider, choice.runtime = provider, runtime
    return choice

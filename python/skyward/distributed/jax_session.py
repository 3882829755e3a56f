"""JAX's coordination service for the length of a call."""

import contextlib
import gc
import importlib.util
import os
import pkgutil
from collections.abc import Iterator
from typing import Any

from skyward.distributed.elastic import renew
from skyward.distributed.environment import (
    bind_address_of_jax,
    endpoint,
    for_jax,
    network_defaults,
    own_address,
    variables,
)
from skyward.distributed.gpus import refusal, sharing, visible_gpus
from skyward.distributed.meeting import can_listen_at, interface_of, meet
from skyward.exceptions import ConfigurationError
from skyward.task.instance_info import InstanceInfo


@contextlib.contextmanager
def session(info: InstanceInfo, backend: str | None, timeout: float, name: str) -> Iterator[None]:
    """A service that the program started itself is left alone, during and after the call."""
    defaults = network_defaults(info, interface_of(own_address(info)))
    if info.global_worker_index == 0 and can_listen_at(info.head_addr):
        defaults.update(bind_address_of_jax(info))
    with variables(for_jax(info), defaults), _gloo_on(_chosen_interface()):
        import jax

        if jax.distributed.is_initialized():
            yield
            return
        call = f"{name}() of jax"
        if ranks := sharing(meet(info, call, timeout, _gpus()), uses_all=True):
            advice = "use torch with gloo, or JAX on CPUs: env={'JAX_PLATFORMS': 'cpu'}"
            raise ConfigurationError(refusal(call, ranks, advice))
        # Devices that an earlier call looked at know nothing of the other processes.
        _forget_devices()
        jax.distributed.initialize(
            coordinator_address=endpoint(info.head_addr, info.head_port),
            num_processes=info.total_workers,
            process_id=info.global_worker_index,
            initialization_timeout=max(1, int(timeout)),
        )
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):  # the function's own error tells more
                _leave()
            raise
        _leave()


def _gpus() -> list[str]:
    """Those that JAX will use: all that this process sees, unless the program has chosen. JAX
    itself, asked for its devices, would not find the other processes' later."""
    import jax

    config: Any = jax.config
    platforms = getattr(config, "jax_platforms", None) or "cuda"
    chosen = getattr(config, "jax_cuda_visible_devices", "all")
    if chosen != "all" or not {"cuda", "gpu"} & set(platforms.split(",")):
        return []
    plugins = importlib.util.find_spec("jax_plugins")
    places = plugins.submodule_search_locations if plugins is not None else None
    has_cuda = any("cuda" in module.name for module in pkgutil.iter_modules(places or []))
    return visible_gpus() if has_cuda else []


def _chosen_interface() -> str | None:
    """As PyTorch reads the variable; but gloo takes one."""
    return os.environ.get("GLOO_SOCKET_IFNAME", "").partition(",")[0] or None


@contextlib.contextmanager
def _gloo_on(interface: str | None) -> Iterator[None]:
    """JAX lets gloo, which connects its CPUs, take the address of the host's own name, and has no
    variable for another one."""
    from jax._src import xla_bridge

    bridge: Any = xla_bridge
    # Under the first name from JAX 0.6 on.
    library = getattr(bridge, "_jax", None) or getattr(bridge.xla_client, "_xla", None)
    make = getattr(library, "make_gloo_tcp_collectives", None)
    if library is None or make is None or interface is None:
        yield
        return

    def make_there(*args: Any, **options: Any) -> Any:
        if "hostname" not in options:
            options.setdefault("interface", interface)
        return make(*args, **options)

    library.make_gloo_tcp_collectives = make_there
    try:
        yield
    finally:
        library.make_gloo_tcp_collectives = make


def _leave() -> None:
    import jax

    if _has_accelerators():
        # Whatever the program keeps of them keeps their memory, and a watch over the workers of
        # this call, which aborts the process when it finds those of the next one.
        renew()
    try:
        if jax.distributed.is_initialized():
            jax.distributed.shutdown()
    finally:
        _forget_devices()
        _forget_place()


def _has_accelerators() -> bool:
    from jax._src import xla_bridge

    backends = getattr(xla_bridge, "_backends", ())  # that the program has used so far
    return any(name not in ("cpu", "interpreter") for name in backends)


def _forget_place() -> None:
    """jax goes on numbering its devices as those of the process that this was."""
    from jax._src import distributed

    state: Any = distributed.global_state
    for name, value in (("process_id", 0), ("num_processes", 1), ("coordinator_address", None)):
        if hasattr(state, name):
            setattr(state, name, value)


def _forget_devices() -> None:
    import jax.extend.backend

    clear: Any = jax.extend.backend.clear_backends
    clear()
    gc.collect()  # they are in reference cycles that hold device memory

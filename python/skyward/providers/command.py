"""Machines that a command reaches."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from skyward.base.suggest import suggesting_class
from skyward.exceptions import ConfigurationError
from skyward.spec.options import text_or_none


@suggesting_class
@dataclass(frozen=True)
class Command:
    """Nodes that commands reach. A command takes one more argument, and runs it in a shell there.

        Command(commands=[["podman", "exec", "-i", "c1", "sh", "-c"],
                          ["podman", "exec", "-i", "c2", "sh", "-c"]])

    Other examples: ``["kubectl", "exec", "-i", "pod", "--", "sh", "-c"]``,
    ``["sudo", "-u", "me", "sh", "-c"]``, ``["sh", "-c"]``. Each command is one node. Skyward brings
    its agent there and ends it with the pool; it neither starts nor stops machines.

    Parameters:
        commands: one for each node, each a list of words. More than `nodes`: the others replace
            machines that are lost. None: those of skyward.toml, ``[providers.command]``.
        python: for nodes that see this machine's files: the interpreter to use there, with this
            side's version of cloudpickle (``sys.executable``, say). None: each node gets an
            environment of its own, and this program's modules, as any remote machine does.
        addresses: for nodes on several machines that must reach each other (`head_addr`,
            frameworks): for each command, the address of its node as seen by the others. None: all
            nodes are on one machine, or need not reach each other."""

    commands: Sequence[Sequence[str]] | None = None
    python: str | None = None
    addresses: Sequence[str] | None = None
    name: ClassVar[str] = "command"

    def __post_init__(self) -> None:
        text_or_none("Command: python", self.python)
        if self.commands is None:
            if self.addresses is not None:
                raise ConfigurationError("addresses= needs commands=")
            return
        lists = isinstance(self.commands, (list, tuple)) and len(self.commands) > 0
        if not lists or not all(_is_command(command) for command in self.commands):
            raise ConfigurationError(
                f"commands={self.commands!r}: give a list of commands, each a list of words:"
                ' [["podman", "exec", "-i", "c1", "sh", "-c"]]'
            )
        object.__setattr__(self, "commands", tuple(map(tuple, self.commands)))
        if self.addresses is None:
            return
        texts = isinstance(self.addresses, (list, tuple)) and all(
            isinstance(address, str) and address for address in self.addresses
        )
        if not texts or len(self.addresses) != len(self.commands):
            raise ConfigurationError(
                f"addresses={self.addresses!r}: give one address for each of the"
                f" {len(self.commands)} commands, or leave it out"
            )
        object.__setattr__(self, "addresses", tuple(self.addresses))

    @property
    def remote(self) -> bool:
        """Its nodes share no files with this machine."""
        return self.python is None

    def settings(self) -> dict[str, str]:
        """What the engine's provider needs to know of this side."""
        settings = {"python": self.python or ""}
        if self.commands is not None:
            settings["commands"] = json.dumps([list(command) for command in self.commands])
        if self.addresses is not None:
            settings["addresses"] = json.dumps(list(self.addresses))
        return settings


def _is_command(command: Any) -> bool:
    return (
        isinstance(command, (list, tuple))
        and len(command) > 0
        and all(isinstance(word, str) for word in command)
    )

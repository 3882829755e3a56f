"""Containers as nodes, or, without names of containers, two shells of this machine.

podman run -d --name c1 debian:12 sleep infinity
python 11_local_containers.py c1"""

import os
import sys

import skyward as sky


@sky.compute
def system():
    import platform

    return f"{platform.node()}, Python {platform.python_version()}, process {os.getpid()}"


def main():
    # A container needs nothing but a shell; Skyward brings the rest. (docker works the same way.)
    commands = [["podman", "exec", "-i", name, "sh", "-c"] for name in sys.argv[1:]]
    nodes = sky.Command(commands) if commands else sky.Command([["sh", "-c"]] * 2, sys.executable)
    with sky.ComputePool(provider=nodes, nodes=len(nodes.commands)) as pool:
        systems = system() @ pool
    print(*systems, sep="\n")
    assert len(set(systems)) == len(nodes.commands)


if __name__ == "__main__":
    main()

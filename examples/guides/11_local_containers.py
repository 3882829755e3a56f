"""Nodes in containers of an image, or, without the name of one, two shells of this machine.

python 11_local_containers.py docker.io/library/python:3.12-slim"""

import os
import sys

import skyward as sky


@sky.compute
def system():
    import platform

    return f"{platform.node()}, Python {platform.python_version()}, process {os.getpid()}"


def main():
    # Containers of your podman or docker: the image needs sh and bash, and Skyward brings the rest.
    nodes = sky.Command([["sh", "-c"]] * 2, sys.executable)
    if len(sys.argv) > 1:
        nodes = sky.Container(image=sys.argv[1])
    with sky.ComputePool(provider=nodes, nodes=2) as pool:
        systems = system() @ pool
    print(*systems, sep="\n")
    assert len(set(systems)) == 2


if __name__ == "__main__":
    main()

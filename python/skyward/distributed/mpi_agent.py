"""What mpirun runs instead of ssh: notes the command line for a host, for the worker there.

    python mpi_agent.py FOLDER [OPTION…] HOST PROGRAM ARGS…

Runs on node 0, as a script: it knows nothing of the package."""

import json
import os
import sys


def main() -> None:
    folder, *words = sys.argv[1:]
    while words and words[0].startswith("-"):
        words.pop(0)
    host = words.pop(0)
    path = os.path.join(folder, f"{host}.line")
    with open(f"{path}.tmp", "w") as file:
        json.dump(" ".join(words), file)
    os.rename(f"{path}.tmp", path)


if __name__ == "__main__":
    main()

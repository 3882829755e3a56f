"""What ``sh -c SCRIPT`` does, with the bytes that go in counted: ``counting_shell.py FILE SCRIPT``.

FILE holds their number at any time after the first ones."""

import os
import subprocess
import sys


def main():
    file, script = sys.argv[1:]
    child = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE)
    total = 0
    while data := os.read(0, 1 << 20):
        total += len(data)
        with open(f"{file}.new", "w") as out:
            out.write(str(total))
        os.replace(f"{file}.new", file)
        child.stdin.write(data)
        child.stdin.flush()
    child.stdin.close()
    return child.wait()


if __name__ == "__main__":
    sys.exit(main())

"""The console script `skyward`: the compiled program of that name, which the package brings."""

import os
import signal
import sys
from pathlib import Path


def main() -> None:
    program = str(Path(__file__).parent / "bin" / "skyward")
    # Python ignores it, and what is ignored stays so: `| head` would be an error.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.environ.setdefault("SKYWARD_PYTHON", sys.executable)  # for `skyward run`
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"skyward: cannot run {program}: {error.strerror}\n  hint: install skyward again")

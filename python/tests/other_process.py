"""Other Python processes: programs, and readers of what the tests pickle."""

import os
import subprocess
import sys

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

ANSWER = """
import pickle, sys
answer = pickle.loads(sys.stdin.buffer.read())()
from skyward.worker.by_value import AnswerPickler, dumps
sys.stdout.buffer.write(dumps(answer, pickler=AnswerPickler))
"""
"""Calls the function that it reads, and writes the answer as a worker does."""


def run_program(folder, program, *options):
    """A program that ran as a script: its status, and what it printed, as text."""
    script = folder / "program.py"
    script.write_text(program)
    return subprocess.run(
        [sys.executable, *options, script],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env=ENVIRONMENT,
    )


def in_another_process(program, data):
    """What a program writes that reads this."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=data,
        capture_output=True,
        timeout=60,
        check=False,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout

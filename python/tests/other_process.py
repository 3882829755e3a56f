"""Another Python process, which reads what the tests pickle."""

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

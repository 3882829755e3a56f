"""The worker's compiled half (python/native/quick.cc), where it is missing: runs nothing by itself,
and sends every answer through the socket."""

import collections
import os

from .protocol import BELL, FINISHED


class Plain:
    AT_A_TIME = -1
    """Messages that are parsed before the first of them is run; -1: all."""

    endings = []  # not the instance's: Python shares the names of thirty attributes at most

    def __init__(self, shared, mark):
        self.running = 0
        self.interrupted = False
        self.forked = False
        self.skipped = set()
        self.callbacks = []
        self.functions = {}
        self.data, self.at = b"", 0
        self.finished = collections.deque(maxlen=FINISHED)
        self.note_finished = self.finished.append

    def run_calls(self):
        """Runs plain calls out of `data`, from `at` on, until something else comes."""

    def put(self, message, wake=True):
        """Writes a message into the ring, and wakes the agent if it sleeps. False: there is none,
        or the message is too large for it."""
        return False

    def begin_group(self, task):
        """The agent leaves a group to a worker that has no ring."""

    def claim(self, calls):
        """Whether the next call of the group is this worker's. Asked before each but the first."""
        self.claimed += 1
        return self.claimed < calls

    def is_finished(self, task):
        return task in self.finished

    def ring(self):
        """Has the agent look at once."""
        try:
            os.write(BELL, b"\1")
        except OSError:
            pass  # it is ringing already; or the user closed it, and the agent looks by its timer

"""The program skyward-double, and its controls."""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("SKYWARD_DOUBLE", ROOT / "build/release/bin/skyward-double"))


@dataclass
class Double:
    url: str
    environment: dict[str, str]

    def control(self, method: str, what: str, body: Any = None) -> Any:
        reply = requests.request(method, f"{self.url}/_double/{what}", json=body, timeout=20)
        reply.raise_for_status()
        return reply.json()

    def turn(self, **dials: Any) -> None:
        self.control("POST", "dials", dials)

    def advance(self, seconds: float) -> None:
        self.control("POST", "advance", {"seconds": seconds})

    def violations(self) -> list[str]:
        return [one["text"] for one in self.control("GET", "violations")]

    def leftovers(self) -> list[str]:
        return list(self.control("GET", "leftovers"))


@contextlib.contextmanager
def running(cloud: str, *options: str) -> Iterator[Double]:
    """A fresh double, which ends with the block."""
    with subprocess.Popen(
        [PROGRAM, "--cloud", cloud, *options], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = json.loads(process.stdout.readline())
            assert line["cloud"] == cloud
            yield Double(line["url"], line["environment"])
        finally:
            process.terminate()

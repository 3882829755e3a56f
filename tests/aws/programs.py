"""Programs that see the emulated cloud: the command line tool, and drivers of pools."""

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloud import Cloud

ROOT = Path(__file__).resolve().parents[2]
SKYWARD = os.environ.get("SKYWARD_CLI", str(ROOT / "build/release/bin/skyward"))
PYTHON = os.environ.get("SKYWARD_TEST_PYTHON", sys.executable)
LIMIT_SECONDS = 120.0

START = """\
import json, os, sys, time
import skyward as sky

def tell(**facts):
    print("FACTS " + json.dumps(facts), flush=True)

def pool(**options):
    settings = {"region": "us-east-1", "username": "root", **options.pop("provider", {})}
    options.setdefault("display", "quiet")
    options.setdefault("spot", "never")
    return sky.ComputePool(provider=sky.AWS(**settings), **options)
"""


@dataclass
class Told:
    """What a program left."""

    out: str
    err: str
    code: int

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        for line in self.out.splitlines():
            if line.startswith("FACTS "):
                facts.update(json.loads(line[6:]))
        assert facts, f"the program told nothing (status {self.code})\n{self.out}\n{self.err}"
        return facts


def start(
    cloud: Cloud, home: Path, command: list[str], env: dict[str, str] | None
) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*cloud.place.prefix, *command],
        env={**cloud.environment(home), **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def begin(
    cloud: Cloud, home: Path, program: str, env: dict[str, str] | None = None
) -> "subprocess.Popen[str]":
    """Starts a driver."""
    script = home / "program.py"
    script.write_text(START + textwrap.dedent(program))
    return start(cloud, home, [PYTHON, str(script)], env)


def begin_skyward(
    cloud: Cloud, home: Path, *arguments: str, env: dict[str, str] | None = None
) -> "subprocess.Popen[str]":
    """Starts the command line tool."""
    return start(cloud, home, [SKYWARD, *arguments], env)


def skyward(cloud: Cloud, home: Path, *arguments: str, env: dict[str, str] | None = None) -> Told:
    """Runs the command line tool."""
    return finish(begin_skyward(cloud, home, *arguments, env=env))


def finish(driver: "subprocess.Popen[str]", heard: str = "") -> Told:
    """Waits for a driver of which `heard` has been read already."""
    try:
        out, err = driver.communicate(timeout=LIMIT_SECONDS)
    finally:
        driver.kill()
    return Told(heard + out, err, driver.returncode)


def drive(cloud: Cloud, home: Path, program: str, env: dict[str, str] | None = None) -> Told:
    """Runs a driver to its end."""
    return finish(begin(cloud, home, program, env))


def hear(driver: "subprocess.Popen[str]", word: str) -> Told:
    """What a driver has told until then: it says tell(WORD=…)."""
    assert driver.stdout is not None
    heard = ""
    for line in driver.stdout:
        heard += line
        if line.startswith("FACTS ") and word in json.loads(line[6:]):
            return Told(heard, "", 0)
    told = finish(driver, heard)
    raise AssertionError(f"the program ended without {word}\n{told.out}\n{told.err}")

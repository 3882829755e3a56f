"""Puts tools/ on the path, so that its tests can import what they test."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

pytest_plugins = ["held_tests"]

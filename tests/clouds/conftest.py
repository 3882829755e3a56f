"""Doubles of clouds, checked by what the clouds' vendors wrote. `./dev test-clouds` runs them."""

import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

if importlib.util.find_spec("openapi_core") is None:
    collect_ignore_glob = ["test_*.py"]

"""What the snippets of the documents take for granted: a function here, some data there. A program
is this text, then the snippet, in a pool if it speaks of one without making it."""

# ruff: noqa: F401, F403, F405, N801
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import skyward as sky
from skyward import *

x, x_full, y_full = 3, [1, 2, 3, 4], [5, 6, 7, 8]
data = my_data = full_dataset = [1, 2, 3, 4]
path, epochs = "model.bin", 2


@compute
def my_function(*args: Any) -> int:
    return len(args)


@compute
def train(*args: Any) -> list[Any]:
    return list(args)


my_model = load_model = process = benchmark = fn = my_function
fn1 = fn2 = fn3 = f1 = f2 = f3 = f4 = f5 = my_function


@compute
def add(a: int, b: int) -> int:
    return a + b


class create_model:
    def cuda(self) -> "create_model":
        return self

    def fit(self, data: Any) -> int:
        return len(data)


def fit(x: Any, y: Any) -> int:
    return len(x)


def my_callback(event: SkywardEvent) -> None: ...


callback1 = callback2 = callback3 = my_callback
available_instances = [
    InstanceSpec("small", 8, 64, "H100", 1, 80, price_on_demand=3.0),
    InstanceSpec("large", 64, 512, "H100", 8, 80, price_on_demand=30.0),
]


dataset = list(range(10))


def train_step(batch: Any) -> None: ...


def sklearn_names() -> dict[str, Any]:
    from sklearn.linear_model import LogisticRegression

    features = [[float(i), float(i % 3)] for i in range(30)]
    labels = [i % 2 for i in range(30)]
    return {
        "estimator": LogisticRegression(),
        "params": {"C": [0.1, 1.0]},
        "X": features,
        "y": labels,
    }


def main(file: str, needs_pool: bool) -> dict[str, Any]:
    code = compile(Path(file).read_text(), file, "exec")
    names = dict(globals(), __name__="__main__")
    text = Path(file).read_text()
    if "GridSearchCV" in text:
        names |= sklearn_names()
    if "delayed(fn)" in text:
        names["fn"] = abs
    if "DataLoader(" in text:
        from torch.utils.data import DataLoader

        names["DataLoader"] = DataLoader
    if needs_pool:
        with ComputePool(provider=Local(), nodes=4, display="quiet") as pool:
            names["pool"] = pool
            exec(code, names)
    else:
        exec(code, names)
    return names


if __name__ == "__main__":
    names = main(sys.argv[1], sys.argv[2] == "pool")
    for check in sys.argv[3:]:
        assert eval(check, names), check

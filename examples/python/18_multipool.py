"""MultiPool: one pool prepares the data, one trains, one judges; results pass from one to the next.

With SKYWARD_PROVIDER=local your machine takes the place of AWS, and no GPU is asked for."""

import os

import numpy as np

import skyward as sky

LOCAL = os.environ.get("SKYWARD_PROVIDER") == "local"


@sky.compute
def prepare(part, rows=500):
    """Points of two classes, and a column of ones."""
    random = np.random.default_rng(part)
    labels = random.integers(0, 2, rows)
    points = random.normal(size=(rows, 2)) + 2.5 * labels[:, None]
    return np.hstack([points, np.ones((rows, 1))]), labels


@sky.compute
def train(parts, steps=300):
    """Logistic regression on all parts."""
    rows, labels = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    weights = np.zeros(rows.shape[1])
    for _ in range(steps):
        chance = 1 / (1 + np.exp(-rows @ weights))
        weights -= 0.5 / len(rows) * rows.T @ (chance - labels)
    return weights


@sky.compute
def judge(weights, part):
    rows, labels = prepare.local(part)
    return float(((rows @ weights > 0) == labels).mean())


def main():
    image = sky.Image() if LOCAL else sky.Image(pip=["numpy"])
    gpu = None if LOCAL else "T4"
    with sky.MultiPool(
        sky.ComputePool(provider=sky.AWS(), nodes=2, image=image, budget=2),
        sky.ComputePool(provider=sky.AWS(), accelerator=gpu, image=image, budget=2),
        sky.ComputePool(provider=sky.AWS(), image=image, concurrency=2, budget=2),
    ) as (preparing, training, judging):
        parts = sky.gather(*[prepare(n) for n in range(4)]) >> preparing
        weights = train(parts) >> training
        scores = sky.gather(*[judge(weights, n) for n in range(100, 104)]) >> judging
    print(f"weights {np.round(weights, 2)}, right: {', '.join(f'{s:.1%}' for s in scores)}")
    assert min(scores) > 0.9


if __name__ == "__main__":
    main()

"""Train a classifier for handwritten digits on four local nodes, then test it in parallel.

Each round, every node trains the shared weights on its own shard of the training images (`@`), and
the driver averages what comes back. At the end the test images are split and judged in parallel
(`gather`).
"""

import sys

import numpy as np

import skyward as sky

NODES = 4
ROUNDS = 8
SPLIT = 1297  # of 1797 images: the first are for training, the last 500 for testing


def load_images():
    """8×8 images of digits, shuffled alike everywhere: rows of 64 values in 0…1 and a 1."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    rows = np.hstack([digits.data[order] / 16.0, np.ones((len(order), 1))])
    return rows, digits.target[order]


def probabilities(rows, weights):
    scores = rows @ weights
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


@sky.compute
def train(weights, round_number, epochs=5, rate=0.5, batch=32):
    """Softmax regression by mini-batch gradient descent on this worker's shard.

    Returns the new weights.
    """
    rows, labels = load_images()
    rows, labels = sky.shard(rows[:SPLIT], labels[:SPLIT], shuffle=True, seed=round_number)
    weights = weights.copy()
    for _ in range(epochs):
        for start in range(0, len(rows), batch):
            x, y = rows[start : start + batch], labels[start : start + batch]
            error = probabilities(x, weights)
            error[np.arange(len(y)), y] -= 1
            weights -= rate / len(y) * x.T @ error
    chosen = probabilities(rows, weights)[np.arange(len(labels)), labels]
    info = sky.instance_info()
    print(
        f"round {round_number}: node {info.node} of {info.total_nodes},"
        f" {len(rows)} images, loss {-np.log(chosen).mean():.3f}"
    )
    return weights


@sky.compute
def evaluate(weights, part, parts):
    """How many of this part of the test images are recognised, and how many there are."""
    rows, labels = load_images()
    rows, labels = rows[SPLIT:][part::parts], labels[SPLIT:][part::parts]
    return int((probabilities(rows, weights).argmax(axis=1) == labels).sum()), len(labels)


def main():
    with sky.ComputePool(provider=sky.Local(), nodes=NODES) as pool:
        weights = np.zeros((65, 10))
        for round_number in range(ROUNDS):
            weights = np.mean(train(weights, round_number) @ pool, axis=0)
        counts = sky.gather(*[evaluate(weights, part, 8) for part in range(8)]) >> pool
    right, total = map(sum, zip(*counts, strict=True))
    print(f"accuracy: {right / total:.1%} ({right} of {total} test images)")
    return 0 if right / total > 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())

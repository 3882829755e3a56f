"""Volumes: data goes into a bucket, is trained on where it is mounted, and the model comes out.

Both stay in $BUCKET, below skyward-example-17/. With SKYWARD_PROVIDER=local folders of your machine
take the place of the bucket."""

import contextlib
import csv
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import skyward as sky

LOCAL = os.environ.get("SKYWARD_PROVIDER") == "local"
BUCKET = os.environ.get("BUCKET", "my-bucket")


@sky.compute
def upload(folder: str, parts: int, rows: int) -> list[str]:
    """Each worker writes its own files; the bucket takes them when they are closed."""
    import random

    names = [f"part-{part}.csv" for part in sky.shard(range(parts))]
    for name in names:
        numbers = random.Random(name)
        with open(Path(folder, name), "w", newline="") as file:
            lines = csv.writer(file)
            for _ in range(rows):
                x = numbers.uniform(-1, 1)
                lines.writerow([x, 3 * x + 1 + numbers.gauss(0, 0.01)])
    return names


@sky.compute
def train(source: str, target: str) -> list[str]:
    """A straight line through all points, as a file of two numbers."""
    import statistics

    names = sorted(os.listdir(source))
    points = [
        tuple(map(float, row)) for name in names for row in csv.reader(open(Path(source, name)))
    ]
    line = statistics.linear_regression(*zip(*points, strict=True))
    Path(target, "model.txt").write_text(f"{line.slope} {line.intercept}")
    return names


@sky.compute
def download(file: str) -> str:
    return Path(file).read_text()


@contextlib.contextmanager
def places() -> Iterator[tuple[list[sky.Volume], str, str]]:
    """Volumes for the pool, and where data and models are on its nodes."""
    if LOCAL:
        with tempfile.TemporaryDirectory() as data, tempfile.TemporaryDirectory() as models:
            yield [], data, models
        return
    data = sky.S3Volume("/data", BUCKET, "skyward-example-17/data/", read_only=False)
    models = sky.S3Volume("/models", BUCKET, "skyward-example-17/models/", read_only=False)
    yield [data, models], data.mount_path, models.mount_path


def main() -> None:
    with (
        places() as (volumes, data, models),
        sky.ComputePool(provider=sky.AWS(), nodes=2, volume=volumes, budget=2) as pool,
    ):
        print(f"written, by worker: {upload(data, 4, 50) @ pool}")
        used = train(data, models) >> pool
        slope, intercept = map(float, (download(f"{models}/model.txt") >> pool).split())
    print(f"y = {slope:.2f} x + {intercept:.2f}, from {len(used)} files")
    assert len(used) == 4 and abs(slope - 3) < 0.05 and abs(intercept - 1) < 0.05


if __name__ == "__main__":
    main()

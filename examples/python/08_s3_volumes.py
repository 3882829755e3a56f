"""Volumes: tasks list, read and write the files of a bucket; it stays mounted between them.

Samples and checkpoints stay in $BUCKET, below skyward-example-08/, and another run goes on from
there. With SKYWARD_PROVIDER=local a folder of your machine takes the place of the bucket."""

import os
import tempfile

import skyward as sky

LOCAL = os.environ.get("SKYWARD_PROVIDER") == "local"
BUCKET = os.environ.get("BUCKET", "my-bucket")


@sky.compute
def write_samples(folder):
    for name in ("a", "b"):
        with open(os.path.join(folder, f"{name}.txt"), "w") as file:
            file.writelines(f"{ord(name) + i}\n" for i in range(10))


@sky.compute
def files(folder):
    return sorted(os.listdir(folder))


@sky.compute
def mean_of(file):
    with open(file) as lines:
        numbers = [float(line) for line in lines]
    return sum(numbers) / len(numbers)


@sky.compute
def train(folder, steps):
    """Goes on where the last checkpoint ends; a checkpoint is a file with the number of steps. It
    gets its name when it is complete: the bucket keeps the one before until then."""
    file = os.path.join(folder, "step.txt")
    done = int(open(file).read()) if os.path.exists(file) else 0
    with open(f"{file}.tmp", "w") as checkpoint:
        checkpoint.write(str(done + steps))
    os.replace(f"{file}.tmp", file)
    return done + steps


def work(pool, data, checkpoints):
    write_samples(data) >> pool
    names = files(data) >> pool
    means = sky.gather(*[mean_of(os.path.join(data, name)) for name in names]) >> pool
    print(dict(zip(names, means, strict=True)))
    train(checkpoints, 10) >> pool
    return train(checkpoints, 10) >> pool


def main():
    if LOCAL:
        with (
            tempfile.TemporaryDirectory() as data,
            tempfile.TemporaryDirectory() as checkpoints,
            sky.ComputePool(provider=sky.AWS(), budget=2) as pool,
        ):
            steps = work(pool, data, checkpoints)
            assert steps == 20
    else:
        volumes = [
            sky.S3Volume(f"/{name}", BUCKET, prefix=f"skyward-example-08/{name}/", read_only=False)
            for name in ("data", "checkpoints")
        ]
        with sky.ComputePool(provider=sky.AWS(), volume=volumes, budget=2) as pool:
            steps = work(pool, "/data", "/checkpoints")
    print(f"trained for {steps} steps")


if __name__ == "__main__":
    main()

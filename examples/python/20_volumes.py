"""Volumes, the short form: ``{path: address}``; read-only input beside writable output.

Texts and counts stay in $BUCKET, below skyward-example-20/. With SKYWARD_PROVIDER=local folders of
your machine take the place of the bucket."""

import os
import tempfile
from pathlib import Path

import skyward as sky

LOCAL = os.environ.get("SKYWARD_PROVIDER") == "local"
BUCKET = os.environ.get("BUCKET", "my-bucket")
TEXTS = {"one.txt": "to be or not to be", "two.txt": "that is the question"}


@sky.compute
def write_texts(folder):
    for name, text in TEXTS.items():
        Path(folder, name).write_text(text)


@sky.compute
def count_words(source, target):
    """Each worker takes its part of the files; one result file for each."""
    names = sky.shard(sorted(os.listdir(source)))
    for name in names:
        words = Path(source, name).read_text().split()
        Path(target, f"{name}.count").write_text(str(len(words)))
    return names


def work(pool, source, target):
    parts = count_words(source, target) @ pool
    print(f"files by worker: {parts}")
    return sky.compute(lambda: sorted(os.listdir(target)))() >> pool


def main():
    # A mapping is short for read-only volumes; both forms mean the same.
    prefix = "skyward-example-20/texts/"
    source = sky.S3Volume("/input", BUCKET, prefix)
    assert sky.ComputePool(volume={"/input": f"s3://{BUCKET}/{prefix}"}).volume == (source,)
    if not LOCAL:
        # There must be something to read: no pool opens with an empty read-only volume.
        texts = sky.S3Volume("/texts", BUCKET, prefix, read_only=False)
        with sky.ComputePool(provider=sky.AWS(), volume=[texts], budget=2) as pool:
            write_texts("/texts") >> pool
        target = sky.S3Volume("/output", BUCKET, "skyward-example-20/counts/", read_only=False)
        volumes = [source, target]
        with sky.ComputePool(provider=sky.AWS(), nodes=2, volume=volumes, budget=2) as pool:
            print(work(pool, "/input", "/output"))
        return
    with tempfile.TemporaryDirectory() as folder:
        texts, counts = Path(folder, "texts"), Path(folder, "counts")
        texts.mkdir()
        counts.mkdir()
        with sky.ComputePool(provider=sky.AWS(), nodes=2, budget=2) as pool:
            write_texts(str(texts)) >> pool
            made = work(pool, str(texts), str(counts))
        print({file.name: int(file.read_text()) for file in sorted(counts.iterdir())})
    assert made == ["one.txt.count", "two.txt.count"]


if __name__ == "__main__":
    main()

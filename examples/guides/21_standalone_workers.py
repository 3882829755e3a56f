"""Workers that know nothing of each other: one dies in the middle, and the others do not notice.

Nodes meet only where a function asks for it (`sky.distributed`, `peers`); calls alone never do."""

import tempfile
from pathlib import Path

import skyward as sky


@sky.compute(retries=2)
def render(frame: int, folder: str) -> tuple[int, int]:
    """One picture of many. The first try of one of them ends its whole process."""
    import os

    first = Path(folder, "died")
    if frame == 5 and not first.exists():
        first.touch()
        os._exit(9)
    pixels = sum((x * x + frame) % 251 for x in range(20_000))
    return frame, pixels


def main() -> None:
    events: list[sky.SkywardEvent] = []
    with (
        tempfile.TemporaryDirectory() as folder,  # which the nodes must see, so they are here
        sky.ComputePool(
            provider=sky.Local(), nodes=2, concurrency=2, on_event=events.append
        ) as pool,
    ):
        frames = sky.gather(*[render(frame, folder) for frame in range(16)]) >> pool
        assert Path(folder, "died").exists()
    replaced = [event for event in events if isinstance(event, sky.InstanceReplaced)]
    print(f"{len(frames)} frames; nodes that were replaced: {len(replaced)}")
    assert [frame for frame, _ in frames] == list(range(16))
    assert not replaced, "a process died, its node went on"


if __name__ == "__main__":
    main()

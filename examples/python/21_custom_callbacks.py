"""Callbacks: several small ones composed into one; around pools, or for one pool alone."""

from skyward.callback import compose, use_callback
from skyward.events import CostFinal, CostUpdate, Error, LogLine, Metrics, SkywardEvent

import skyward as sky

lines: list[str] = []
busiest: dict[int, float] = {}


def cost(event: SkywardEvent) -> None:
    match event:
        case CostUpdate(accumulated_cost=dollars, hourly_rate=rate):
            print(f"${dollars:.4f} so far, ${rate:.2f} an hour")
        case CostFinal(total_cost=dollars, savings_vs_ondemand=saved):
            print(f"${dollars:.4f} in all, ${saved:.4f} saved")


def metrics(event: SkywardEvent) -> None:
    if isinstance(event, Metrics):
        busiest[event.node] = max(event.cpu, busiest.get(event.node, 0))


def log(event: SkywardEvent) -> SkywardEvent | None:
    """What a callback returns is an event too, which all callbacks see next."""
    match event:
        case LogLine(line=line):
            lines.append(line)
            if "warning" in line:
                return Error(f"a task warns: {line}")
        case Error(message=message):
            print(message)
    return None


@sky.compute
def work(n: int) -> int:
    import time

    time.sleep(1)
    print(f"warning: {n} is odd" if n % 2 else f"{n} is fine")
    return n * n


def main() -> None:
    everything = compose(cost, metrics, log)
    with use_callback(everything):  # for every pool that opens inside
        with sky.ComputePool(nodes=2, display="quiet") as pool:
            squares = sky.gather(*[work(n) for n in range(4)]) >> pool
    print(f"{squares}; busiest: { ({node: f'{cpu:.0f} %' for node, cpu in busiest.items()}) }")
    assert len(lines) == 4

    # The same for one pool, without metrics.
    with sky.ComputePool(display="quiet", on_event=log, collect_metrics=False) as pool:
        work(5) >> pool
    assert lines[-1] == "warning: 5 is odd"


if __name__ == "__main__":
    main()

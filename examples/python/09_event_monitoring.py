"""Events: everything that happens to a pool arrives as a value, which `match` takes apart."""

import skyward as sky

seen: list[str] = []


def watch(event):
    seen.append(type(event).__name__)
    match event:
        case sky.InstanceProvisioned(instance_id=machine, node=node, spot=spot):
            print(f"node {node} is {machine}, {'spot' if spot else 'on demand'}")
        case sky.BootstrapCompleted(instance_id=machine):
            print(f"{machine} is ready")
        case sky.Metrics(node=node, cpu=cpu, memory_used_mb=memory):
            print(f"node {node}: {cpu:.0f} % CPU, {memory:.0f} MB")
        case sky.LogLine(node=node, line=line):
            print(f"node {node} says: {line}")
        case sky.CostFinal(total_cost=dollars):
            print(f"that was ${dollars:.4f}")
        case sky.PoolStopped(total_seconds=seconds, nodes=receipts):
            print(f"{sum(one.tasks for one in receipts)} tasks, {seconds:.1f} s")
        case sky.Error(message=message):
            print(f"careful: {message}")


@sky.compute
def greet(name):
    print(f"hello, {name}")


def main():
    with sky.ComputePool(nodes=2, display="quiet", on_event=watch) as pool:
        words = []
        pool.on(sky.LogLine, lambda event: words.append(event.line))  # one type of event
        sky.gather(greet("ada"), greet("alan")) >> pool
    print("kinds:", *dict.fromkeys(seen))
    assert sorted(words) == ["hello, ada", "hello, alan"]
    assert seen.index("PoolStarted") < seen.index("LogLine") < seen.index("PoolStopped")


if __name__ == "__main__":
    main()

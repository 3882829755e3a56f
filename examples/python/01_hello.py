"""Hello: one call that runs on another machine; what it prints there appears here."""

import skyward as sky


@sky.compute
def add(a, b):
    print(f"adding {a} and {b}, {'here' if sky.instance_info() is None else 'on a node'}")
    return a + b


@sky.pool(nodes=1)  # a pool for each call of main(); its parameters are those of ComputePool
def main():
    total = add(2, 3) >> sky  # sky stands for the open pool
    print(f"2 + 3 = {total}")
    assert total == add.local(2, 3)  # the function itself, without a pool


if __name__ == "__main__":
    main()

"""Hello: decorate a function, send a call of it to a pool, look at what comes back."""

import skyward as sky


@sky.compute
def train(data):
    return {"mean": sum(data) / len(data), "count": len(data)}


def main():
    call = train([1, 2, 3, 4])
    print(call)  # a call is a value; nothing has run yet
    with sky.ComputePool() as pool:  # this machine; provider=sky.AWS() rents one
        result = call >> pool
    print(result)
    assert result == {"mean": 2.5, "count": 4}


if __name__ == "__main__":
    main()

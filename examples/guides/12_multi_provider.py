"""Several providers: the first that has machines gets the pool; the others' errors are kept."""

import skyward as sky

# In order of preference. There is one machine at home, and the pool needs two.
HOME = sky.SSH(hosts=["192.0.2.1"])
RENTED = [sky.AWS(region="eu-central-1"), sky.AWS(region="us-east-1")]


@sky.compute
def where() -> tuple[int, str]:
    info = sky.instance_info()
    return info.node, info.head_addr


def main() -> None:
    with sky.ComputePool(provider=[HOME, *RENTED], nodes=2, budget=2) as pool:
        print(where() @ pool)

    # By what the pool would cost per hour; unknown prices come last.
    with sky.ComputePool(provider=RENTED, nodes=2, cpu=1, selection="cheapest", budget=2) as pool:
        places = where() @ pool
    print(places)
    assert [node for node, _ in places] == [0, 1]

    try:
        with sky.ComputePool(provider=[HOME, HOME], nodes=2):
            pass
    except sky.AllProvidersFailedError as error:
        for name, why in error.errors:
            print(f"{name}: {why}".partition("\n")[0])
        assert len(error.errors) == 2


if __name__ == "__main__":
    main()

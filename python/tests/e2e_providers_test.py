"""Pools that may take one of several providers: the order in which they are tried, and what is said
when none has machines."""

import pytest
from waiting import wait_until

import skyward as sky

TOO_FEW = sky.SSH(hosts=["192.0.2.1"])  # a pool of two is refused there before anything is sent


@sky.compute
def double(x):
    return 2 * x


def pool(provider, **options):
    options.setdefault("nodes", 2)
    return sky.ComputePool(provider=provider, display="quiet", **options)


@pytest.fixture
def without_keys(monkeypatch, tmp_path):
    """Nobody at Amazon knows this user."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def test_the_next_one_stands_in_for_a_provider_without_machines():
    events = []
    with pool([TOO_FEW, sky.Local()], on_event=events.append) as open_pool:
        assert open_pool.provider == sky.Local()
        assert double(4) >> open_pool == 8
        assert len(double(1) @ open_pool) == 2
    told = [event.message for event in events if isinstance(event, sky.Error)]
    assert any("SSH" in text and "has 1 host" in text and "local" in text for text in told), told
    names = [type(event).__name__ for event in events]
    assert names.count("PoolStopped") == names.count("PoolStarted") == 1
    assert names[-1] == "PoolStopped"


def test_the_first_that_can_is_taken_and_no_other_is_asked():
    with pool([sky.Local(), TOO_FEW]) as open_pool:
        assert open_pool.provider == sky.Local()


def test_when_all_fail_each_ones_words_are_told(without_keys):
    closed = pool([TOO_FEW, sky.AWS(region="eu-west-1")])
    for _ in range(2):  # as often as one enters
        with pytest.raises(sky.AllProvidersFailedError) as caught, closed:
            pass
        error = caught.value
        assert isinstance(error, sky.ProvisioningError)
        assert [name for name, _ in error.errors] == ["ssh", "AWS"]
        few, keyless = (why for _, why in error.errors)
        assert isinstance(few, sky.ConfigurationError) and "has 1 host" in str(few)
        assert isinstance(keyless, sky.SkywardError) and "credentials" in str(keyless)
        assert str(few) in str(error).replace("\n    hint", "\n  hint")
        assert not closed.is_active
    assert closed.provider == TOO_FEW


def test_the_last_event_comes_where_the_last_provider_refuses_at_once():
    events = []
    cloud = sky.testing.FakeCloud(capacity={"cpu": 1}, speed=0)
    with (
        pytest.raises(sky.AllProvidersFailedError),
        pool([cloud, TOO_FEW], on_event=events.append),
    ):
        pass
    wait_until(lambda: isinstance(events[-1], sky.PoolStopped))
    assert sum(isinstance(event, sky.PoolStopped) for event in events) == 1


def test_a_single_provider_keeps_its_own_error():
    with pytest.raises(sky.ConfigurationError, match="has 1 host"), pool([TOO_FEW]):
        pass


@pytest.mark.parametrize("selection", ["cheapest", "available"])
def test_a_provider_that_has_nothing_comes_last(selection, without_keys):
    providers = [sky.AWS(region="eu-west-1"), TOO_FEW, sky.Local()]
    events = []
    with pool(providers, selection=selection, on_event=events.append) as open_pool:
        assert open_pool.provider == sky.Local()
    assert not [event for event in events if isinstance(event, sky.Error)]


def test_selections_and_lists_that_make_no_sense_are_refused():
    with pytest.raises(sky.ConfigurationError, match="did you mean 'cheapest'"):
        pool([sky.Local()], selection="cheepest")
    with pytest.raises(sky.ConfigurationError, match="'first', 'cheapest', 'available'"):
        pool([sky.Local()], selection=7)
    with pytest.raises(sky.ConfigurationError, match="empty"):
        pool([])
    with pytest.raises(sky.ConfigurationError, match="not a provider"):
        pool([sky.Local(), [sky.Local()]])


def test_an_interrupted_comparison_leaves_the_pool_closed():
    closed = pool([TOO_FEW, sky.Local()], selection="cheapest")

    def stop():
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        closed._open(stop)
    assert not closed.is_active
    with closed:
        assert double(1) >> closed == 2


def test_what_is_for_sale_is_listed():
    (machine,) = sky.Local().available_instances()
    assert isinstance(machine, sky.InstanceSpec)
    assert machine.vcpu >= 1 and machine.metadata["region"] == "localhost"


def test_no_keys_no_list(without_keys):
    with pytest.raises(sky.SkywardError, match="credentials"):
        sky.AWS(region="eu-west-1").available_instances()

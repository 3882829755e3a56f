"""Several pools open at a time: each tells its own events, to its own listeners."""

import contextvars
import sys
import threading

import pytest

import skyward as sky
from skyward.call import target


@sky.compute
def speak(word):
    print(word)
    return word


def lines(events):
    return [event.line for event in events if isinstance(event, sky.LogLine)]


def pools_of(events):
    return {event.pool for event in events}


def test_each_pool_tells_its_own_events():
    outer, inner, around = [], [], []
    with (
        sky.use_callback(around.append),
        sky.ComputePool(display="quiet", on_event=outer.append) as a,
        sky.ComputePool(display="quiet", on_event=inner.append) as b,
    ):
        speak("one") >> a
        speak("two") >> b
    assert (lines(outer), lines(inner)) == (["one"], ["two"])
    assert len(pools_of(outer)) == len(pools_of(inner)) == 1
    assert pools_of(outer) != pools_of(inner)
    assert "" not in pools_of(outer)
    assert sorted(lines(around)) == ["one", "two"]
    assert pools_of(around) == pools_of(outer) | pools_of(inner)
    assert len(around) == len(outer) + len(inner)


def test_a_quiet_pool_is_quiet_inside_one_that_shows_lines(capfd):
    with sky.ComputePool() as a, sky.ComputePool(display="quiet") as b:
        speak("shown") >> a
        speak("hidden") >> b
    err = capfd.readouterr().err
    assert err.count("shown") == 1 and "hidden" not in err
    assert err.count("closed after") == 1


def test_the_receipt_counts_its_own_dollars(capfd):
    from skyward.testing import FakeCloud

    bills = []
    with sky.ComputePool(on_event=bills.append) as free:
        with sky.ComputePool(provider=FakeCloud(prices={"cpu": 10}), display="quiet") as paid:
            speak(1) >> paid
        speak(2) >> free
    assert "$" not in capfd.readouterr().err
    (bill,) = [event for event in bills if isinstance(event, sky.CostFinal)] or [None]
    assert bill is None or bill.total_cost == 0


def in_another_thread(work):
    failed = []

    def run():
        try:
            contextvars.Context().run(work)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


def test_a_pool_that_another_thread_leaves_hears_no_more():
    def scene():  # in a context of its own: it stays as the leaving has left it
        first, second, own = [], [], []
        with sky.use_callback(own.append):
            a = sky.ComputePool(display="quiet", on_event=first.append)
            a.__enter__()
            in_another_thread(lambda: a.__exit__(None, None, None))
            heard = len(first)
            with sky.ComputePool(display="quiet", on_event=second.append) as b:
                speak("later") >> sky
                assert (speak("later") @ sky) == ("later",)
            assert len(first) == heard
            assert lines(second) == ["later", "later"]
            sky.emit(sky.Error("mine"))
            assert own[-1] == sky.Error("mine") and len(first) == heard
            assert not b.is_active
        with pytest.raises(RuntimeError, match="needs an open pool"):
            speak("nowhere") >> sky

    contextvars.Context().run(scene)


def test_pools_may_be_left_in_any_order():
    def scene():
        first, second = [], []
        a = sky.ComputePool(display="quiet", on_event=first.append).open()
        b = sky.ComputePool(display="quiet", on_event=second.append).open()
        assert a.is_active and b.is_active
        a.close()
        heard = len(first)
        speak("b") >> b
        sky.emit(sky.Error("mine"))
        b.close()
        b.close()
        assert len(first) == heard and lines(second) == ["b"]
        sky.emit(sky.Error("nobody's"))
        assert second[-1] != sky.Error("nobody's")

    contextvars.Context().run(scene)


@pytest.mark.parametrize("interactive", [True, False])
def test_a_cell_that_runs_again_hears_of_the_pool_that_it_has_opened_before(
    monkeypatch, interactive
):
    if interactive:
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)

    def scene():
        heard = []
        first = pool = sky.ComputePool(nodes=2, display="quiet").open()
        pool = sky.ComputePool(display="quiet", on_event=heard.append).open()
        texts = [event.message for event in heard if isinstance(event, sky.Error)]
        pool.close()
        first.close()
        if interactive:
            (text,) = texts
            assert "another pool that you have opened with open() still has 2 machines" in text
        else:
            assert texts == []

    contextvars.Context().run(scene)


def test_a_pool_that_was_opened_in_another_context_is_found():
    """As a cell with `await` opens it."""

    def opened():
        return contextvars.copy_context().run(sky.ComputePool(display="quiet").open)

    def scene():
        first = opened()
        assert speak("here") >> sky == "here"
        second = opened()
        with pytest.raises(RuntimeError, match=r"any of 2 open pools, Pool\(.*write `>> pool`"):
            speak("nowhere") >> sky
        with sky.ComputePool(display="quiet") as inner:
            assert target.resolve(sky) is inner
        second.close()
        assert target.resolve(sky) is first
        with pytest.raises(RuntimeError, match="Threads that you start"):
            in_another_thread(lambda: target.resolve(sky))
        first.close()

    contextvars.Context().run(scene)


def test_a_quiet_pool_without_handlers_warns_at_a_prompt(monkeypatch):
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)

    def scene():
        first = sky.ComputePool(display="quiet").open()
        for _ in range(2):  # the same text is shown again
            with pytest.warns(UserWarning, match="another pool .* still has 1 machine") as shown:
                sky.ComputePool(display="quiet").open().close()
            assert len(shown) == 1
        first.close()

    contextvars.Context().run(scene)


@sky.compute
def counted_by_threads():
    import multiprocessing.pool

    with multiprocessing.pool.ThreadPool(2) as threads:
        return len(threads.map(str, range(2))), sky.instance_info().total_nodes


@sky.compute
def counted_by_another_pool():
    with sky.pool(nodes=2, display="quiet") as inner:
        return speak("inside") @ inner


@sky.compute
def kind_of_the_package():
    from skyward import pool

    return type(pool).__name__, callable(sky.pool)


def test_a_function_that_names_a_pool_can_be_sent(pool):
    assert counted_by_threads() >> pool == (2, 2)
    assert counted_by_another_pool() >> pool == ("inside", "inside")
    assert kind_of_the_package() >> pool == ("CallableModule", True)

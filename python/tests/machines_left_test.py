"""What a block does when machines of its pool were not seen to end."""

import gc
import weakref
from collections.abc import Iterator

import pytest
from skyward.pool.leave import end_block

import skyward as sky
from skyward.pool import open_pool


def left() -> None:
    raise sky.MachinesLeftError("i-1 of AWS in eu-west-1 did not end")


def test_it_is_raised_at_the_end_of_a_block_that_went_well() -> None:
    with pytest.raises(sky.MachinesLeftError, match="i-1 of AWS"):
        end_block(left, None)


def test_a_block_that_failed_keeps_its_error(capsys: pytest.CaptureFixture[str]) -> None:
    error = ValueError("the loss is not a number")
    end_block(left, error)
    assert error.__notes__ == ["skyward: i-1 of AWS in eu-west-1 did not end"]
    assert capsys.readouterr().err == "skyward: i-1 of AWS in eu-west-1 did not end\n"


class Pool(sky.ComputePool):
    """Opens nothing."""

    def __init__(
        self,
        says: str = "",
        refuses: str = "",
        closing: BaseException | None = None,
    ) -> None:
        super().__init__(provider=sky.Local())
        self.says = says
        self.refuses = refuses
        self.closing = closing
        self.closed = 0

    def _open(self, check: object = None) -> None:
        if self.refuses:
            raise ValueError(self.refuses)

    def _close(self, tell: bool = True) -> None:
        self.closed += 1
        if self.closing is not None:
            raise self.closing
        if self.says:
            raise sky.MachinesLeftError(self.says)


@pytest.fixture
def executor() -> Iterator[sky.Executor]:
    opened = sky.Executor(provider=sky.Local())
    opened._pool = pool = Pool("one is left")
    yield opened
    pool.says = ""  # it is closed once more at the end of the program


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_an_error_that_leaves_an_executors_block_is_not_hidden(
    executor: sky.Executor, error: BaseException
) -> None:
    with pytest.raises(type(error)) as caught, executor:
        raise error
    assert caught.value is error and error.__notes__ == ["skyward: one is left"]


def test_an_interrupt_at_the_end_of_a_block_is_not_hidden(executor: sky.Executor) -> None:
    endings = iter([KeyboardInterrupt(), sky.MachinesLeftError("one is left")])

    def finish() -> None:
        raise next(endings)

    executor._finish = finish  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt) as caught, executor:
        pass
    assert caught.value.__notes__ == ["skyward: one is left"]


def test_machines_left_of_an_executor_that_went_well_are_told(executor: sky.Executor) -> None:
    with pytest.raises(sky.MachinesLeftError, match="one is left"), executor:
        pass
    assert not executor._flying


def test_several_pools_are_all_closed_and_told_of_together() -> None:
    pools = [Pool("one is left"), Pool(), Pool("two are left")]
    with pytest.raises(sky.MachinesLeftError) as caught, sky.MultiPool(*pools):
        pass
    assert sorted(str(caught.value).splitlines()) == ["one is left", "two are left"]
    assert [pool.closed for pool in pools] == [1, 1, 1]


def test_an_error_of_closing_one_of_several_pools_is_raised() -> None:
    pools = [Pool("one is left"), Pool(closing=KeyboardInterrupt()), Pool(closing=SystemExit(3))]
    with pytest.raises(KeyboardInterrupt) as caught, sky.MultiPool(*pools):
        pass
    assert caught.value.__notes__ == ["skyward: one is left", "pool 2 failed too: SystemExit: 3"]
    assert [pool.closed for pool in pools] == [1, 1, 1]


def test_why_a_pool_did_not_open_matters_more_than_what_closing_the_others_raises() -> None:
    pools = [Pool(refuses="no room"), Pool(closing=RuntimeError("no thread"))]
    with pytest.raises(ValueError, match="no room") as caught, sky.MultiPool(*pools):
        pass
    assert caught.value.__notes__ == ["closing failed too: RuntimeError: no thread"]


def test_the_errors_of_several_pools_are_told_of_and_keep_none_alive() -> None:
    def open_and_close() -> "weakref.ref[Pool]":
        pools = [Pool(), Pool(refuses="no room"), Pool(refuses="no name")]
        try:
            with sky.MultiPool(*pools):
                raise AssertionError("they opened")
        except ValueError as error:
            assert str(error) == "no room"
            assert error.__notes__ == ["pool 2 failed too: ValueError: no name"]
        return weakref.ref(pools[0])

    gc.collect()
    gc.disable()
    try:
        assert open_and_close()() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("error", [sky.MachinesLeftError("one is left"), KeyboardInterrupt()])
def test_a_program_that_ends_closes_all_pools_and_tells_of_unread_errors(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[object] = []

    class Opened:
        def close(self) -> None:
            ended.append(self)
            raise error

    pools = [Opened(), Opened(), Opened()]
    monkeypatch.setattr(open_pool, "_open_pools", set(pools))
    monkeypatch.setattr(open_pool, "tell_unread", lambda: ended.append("unread"))
    with pytest.raises(type(error)):
        open_pool._close_open_pools()
    assert set(ended[:-1]) == set(pools) and ended[-1] == "unread"

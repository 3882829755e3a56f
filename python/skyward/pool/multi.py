"""Several pools at once."""

import contextvars
import threading
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from skyward.exceptions import ConfigurationError, ConfigurationTypeError, MachinesLeftError
from skyward.pool.compute_pool import ComputePool
from skyward.pool.leave import end_block, note_other, report

if TYPE_CHECKING:
    from skyward.pool.machines import Opening


class MultiPool:
    """Opens pools at the same time: opening takes as long as the slowest pool.

        with MultiPool(ComputePool(nodes=1), ComputePool(nodes=2)) as (small, large): ...

    If one cannot be opened, the others that were opened here are closed, and its error is raised;
    of several errors, the first one by position, with the others as notes. The end of the block
    closes all at the same time. Inside asyncio, write ``async with``."""

    def __init__(self, *pools: ComputePool) -> None:
        for position, pool in enumerate(pools):
            if not isinstance(pool, ComputePool):
                fix = "; write MultiPool(*pools)" if isinstance(pool, (list, tuple)) else ""
                raise ConfigurationTypeError(
                    f"MultiPool() takes pools, but argument {position} is {pool!r:.80}{fix}"
                )
            if type(pool).__enter__ is not ComputePool.__enter__:
                kind = type(pool).__name__
                raise ConfigurationTypeError(
                    f"MultiPool() cannot enter argument {position}, as a {kind} does more than open"
                    f" machines; write `with {kind}(…):`"
                )
        if len(set(map(id, pools))) != len(pools):
            raise ConfigurationError("MultiPool() got the same pool twice; make two")
        self.pools = pools

    def __repr__(self) -> str:
        return f"MultiPool({', '.join(map(repr, self.pools))})"

    def __enter__(self) -> tuple[ComputePool, ...]:
        self._open()
        return self.pools

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        end_block(lambda: self._close(error), error)

    async def __aenter__(self) -> tuple[ComputePool, ...]:
        from skyward.pool.async_block import enter

        await enter(self)
        return self.pools

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        from skyward.pool.async_block import leave

        await leave(self, error)

    def _open(self, *, opening: "Opening | None" = None) -> None:
        from skyward.pool.machines import Opening

        opening = Opening() if opening is None else opening
        failed = threading.Event()
        errors: dict[int, BaseException] = {}

        def check() -> None:
            if failed.is_set():
                raise _AbandonError
            opening.check()

        def open_one(position: int) -> None:
            try:
                self.pools[position]._open(check)
            except _AbandonError:
                pass
            except BaseException as error:
                errors[position] = error
                failed.set()

        try:
            _in_parallel(open_one, len(self.pools))
            if errors:
                raise _first_of(errors)
            opening.end()
            opening.check()  # abandoned when all were ready
        except BaseException as error:  # Ctrl-C while waiting, too
            failed.set()
            opening.end()
            # One that could not be opened needs no closing, or others have opened it.
            refused = frozenset(errors)
            try:
                end_block(partial(self._close, error, refused), error)
            except Exception as other:  # why it did not open matters more
                error.add_note(f"closing failed too: {type(other).__name__}: {other}")
            raise
        finally:
            errors.clear()  # their tracebacks have this frame

    def _close(
        self, why: BaseException | None = None, spared: frozenset[int] = frozenset()
    ) -> None:
        """All but those that are spared, by position."""
        errors: dict[int, BaseException] = {}

        def close_one(position: int) -> None:
            if position in spared:
                return
            try:
                self.pools[position]._close(why)
            except BaseException as error:
                errors[position] = error

        _in_parallel(close_one, len(self.pools))
        at = [at for at in sorted(errors) if isinstance(errors[at], MachinesLeftError)]
        left = MachinesLeftError("\n".join(str(errors.pop(position)) for position in at))
        try:
            if errors:
                if at:
                    report(left, errors[min(errors)])
                raise _first_of(errors)
            if at:
                raise left
        finally:
            errors.clear()  # their tracebacks have this frame
            del left


def _first_of(errors: dict[int, BaseException]) -> BaseException:
    """The error of the first pool that has one, with notes of the others'."""
    first, *others = sorted(errors)
    for position in others:
        note_other(errors[first], f"pool {position}", errors[position])
    return errors[first]


class _AbandonError(Exception):
    """Stops the opening of a pool because another one failed."""


def _in_parallel(work: Any, count: int) -> None:
    """Calls work(0) … work(count − 1), each in a thread with this context's variables, and waits
    for all."""
    threads, alone = [], []
    for position in range(count):
        run = contextvars.copy_context().run
        thread = threading.Thread(target=run, args=(work, position), daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads; and no pool may be left open
            alone.append(partial(run, work, position))
        else:
            threads.append(thread)
    with ExitStack() as stack:  # all of them, whatever one raises
        for one in alone:
            stack.callback(one)
    for thread in threads:
        while thread.is_alive():
            thread.join(0.1)  # in steps, so that Ctrl-C works

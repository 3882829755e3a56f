"""``sky.mpi(pool)``: functions that run as the ranks of an MPI world."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, ParamSpec, TypeVar, overload

from skyward.call.function import ComputeFunction, compute
from skyward.call.pending import PendingCompute
from skyward.distributed.decorate import mpi_decorator
from skyward.engines.block import seconds_of
from skyward.engines.members import ask_nodes
from skyward.engines.survey import NodeFacts, look_for_mpi, require_network
from skyward.exceptions import ConfigurationError
from skyward.pool.compute_pool import ComputePool

_VERB = "sky.mpi(pool)"
P = ParamSpec("P")
R = TypeVar("R")


class MpiRanks:
    """The ranks of the MPI worlds on a pool; ``sky.mpi()`` makes it."""

    def __init__(
        self,
        pool: ComputePool,
        ranks_per_node: int,
        implementation: Literal["openmpi", "mpich"],
        timeout: float,
        workers: int,
    ) -> None:
        self._pool = pool
        self._ranks_per_node = ranks_per_node
        self._implementation = implementation
        self._timeout = timeout
        self.size = workers * ranks_per_node
        """How many ranks a world has."""

    def __repr__(self) -> str:
        return f"MpiRanks({self.size} ranks, {self._implementation})"

    @overload
    def run(
        self, function: ComputeFunction[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> list[R]: ...
    @overload
    def run(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> list[R]: ...
    def run(self, function: Any, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Calls the function in every rank of a new world, at the same time; the results, by rank.

        `function` needs no decorator; one of ``@compute`` keeps its time limit and retries. Inside,
        ``mpi4py.MPI.COMM_WORLD`` has `size` ranks, those of a node next to each other. When a rank
        raises, the others are ended, and what it raised is raised here."""
        plain = function if isinstance(function, ComputeFunction) else compute(function)
        call = mpi_decorator(plain, self._ranks_per_node, self._implementation, self._timeout)
        answers = self._pool.broadcast(call(*args, **kwargs))
        if self._ranks_per_node == 1:
            return list(answers)
        return [result for answer in answers for result in answer]


@contextmanager
def mpi(
    pool: ComputePool,
    *,
    ranks_per_node: int = 1,
    implementation: Literal["openmpi", "mpich"] | None = None,
    timeout: float = 60.0,
) -> Iterator[MpiRanks]:
    """Runs functions as MPI programs on all nodes of `pool`, an open pool.

        image = sky.Image(apt=["openmpi-bin"], pip=["mpi4py"])
        with sky.ComputePool(nodes=4, image=image) as pool:
            with sky.mpi(pool, ranks_per_node=8) as ranks:
                results = ranks.run(simulate, 1000)  # 32 of them, by rank

    Each ``run()`` starts a world, which takes about a second, and ends it; between them nothing
    runs, and no slot is taken. It is the same as a call of a function of
    ``@sky.distributed.mpi(…)``, which takes the same parameters.

    `ranks_per_node`: processes on each worker. `implementation`: "openmpi" or "mpich"; None: Open
    MPI where it is installed, else MPICH. `timeout`: how long the workers wait for each other, and
    for MPI, at the start of a world, in seconds. The nodes need mpi4py and one of these MPIs, the
    driver needs neither. MPI's own connections between the nodes are neither encrypted nor
    authenticated.

    ConfigurationError: a node lacks mpi4py or an MPI, versions differ, or the nodes cannot reach
    each other; nothing was started. TimeoutError: no slot of a node became free in time."""
    seconds = seconds_of(_VERB, timeout)
    mpi_decorator(None, ranks_per_node, implementation, seconds)  # refuses what is wrong
    if not isinstance(pool, ComputePool):
        raise TypeError(f"sky.mpi() takes an open pool, not {type(pool).__name__}")
    engine = pool._engine()
    asked = PendingCompute(look_for_mpi, (implementation,), name="look_for_mpi")
    found = ask_nodes(_VERB, engine, pool.nodes, asked, seconds)
    require_network(_VERB, [facts for facts, _, _ in found])
    kind = _require_one(found)
    yield MpiRanks(pool, ranks_per_node, kind, seconds, engine.core.total_slots // pool.concurrency)


def _require_one(found: list[tuple[NodeFacts, tuple[str, str], str]]) -> Any:
    """The MPI that all nodes have."""
    head, kind, _ = found[0]
    for facts, other, problem in found:
        where = f"node {facts.node}"
        if problem:
            raise ConfigurationError(f"{_VERB}: {where}: {problem}")
        for what, there, here in (
            ("mpi4py", facts.versions["mpi4py"], head.versions["mpi4py"]),
            ("MPI", " ".join(other), " ".join(kind)),
        ):
            if there is None:
                raise ConfigurationError(
                    f"{_VERB}: {what} is not installed on {where} ({facts.executable}).\n"
                    "The ranks run there; nothing was started.\n"
                    "Open the pool with pip=['mpi4py'], or with an image that has it."
                )
            if there != here:
                raise ConfigurationError(
                    f"{_VERB}: {where} has {what} {there}, but node 0 has {here}.\n"
                    "The ranks of one world need the same; nothing was started.\n"
                    "Use one image for all nodes, or give implementation=."
                )
    return kind[0]

"""This worker's part of the data. Runs inside a task; outside a pool there is one part,
everything."""

import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from operator import index as as_index
from typing import Any, Protocol, SupportsIndex, TypedDict, TypeVar, Unpack, overload

from skyward.exceptions import ConfigurationError, ConfigurationTypeError
from skyward.task.instance_info import instance_info

T = TypeVar("T")
U = TypeVar("U")


class _Array(Protocol):
    """Of numpy, PyTorch, JAX, TensorFlow or scipy, or a column of pandas or Polars."""

    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...


class _Table(Protocol):
    """Of pandas, Polars or Arrow."""

    @property
    def shape(self) -> Any: ...
    @property
    def columns(self) -> Any: ...


_Kept = list[Any] | tuple[Any, ...] | _Array | _Table
A = TypeVar("A", bound=_Kept)
B = TypeVar("B", bound=_Kept)
C = TypeVar("C", bound=_Kept)


class _How(TypedDict, total=False):
    shuffle: bool
    seed: SupportsIndex | None
    drop_last: bool
    node: int | None
    total_nodes: int | None


@overload
def shard(  # type: ignore[overload-overlap]
    a: A, /, **how: Unpack[_How]
) -> A: ...
@overload
def shard(a: Sequence[T], /, **how: Unpack[_How]) -> list[T]: ...
@overload
def shard(  # type: ignore[overload-overlap]
    a: A, b: B, /, **how: Unpack[_How]
) -> tuple[A, B]: ...
@overload
def shard(  # type: ignore[overload-overlap]
    a: A, b: Sequence[U], /, **how: Unpack[_How]
) -> tuple[A, list[U]]: ...
@overload
def shard(  # type: ignore[overload-overlap]
    a: Sequence[T], b: B, /, **how: Unpack[_How]
) -> tuple[list[T], B]: ...
@overload
def shard(a: Sequence[T], b: Sequence[U], /, **how: Unpack[_How]) -> tuple[list[T], list[U]]: ...
@overload
def shard(a: A, b: B, c: C, /, **how: Unpack[_How]) -> tuple[A, B, C]: ...
@overload
def shard(*arrays: Any, **how: Unpack[_How]) -> Any: ...
def shard(
    *arrays: Any,
    shuffle: bool = False,
    seed: SupportsIndex | None = None,
    drop_last: bool = False,
    node: int | None = None,
    total_nodes: int | None = None,
) -> Any:
    """The elements of each array that belong to this worker, in the type of the input.

    Rank k of t gets the positions k, k + t, k + 2t, … of the (optionally shuffled) order: nothing
    is dropped, nothing occurs twice, and inputs of the same length stay aligned. Several lengths
    are allowed, with at least two inputs of each: ``shard(x_train, y_train, x_test, y_test)``. With
    `drop_last` every rank gets a block of the same length and the tail is dropped. All ranks must
    pass the same seed; None counts as 0. `node` and `total_nodes` override the place of this
    worker.

    Returns one array for one input, a tuple for several. Lists, tuples, arrays of numpy and
    JAX, tensors of PyTorch and TensorFlow, sparse matrices of scipy, and tables and columns of
    pandas, Polars and Arrow keep their kind; other sequences become lists."""
    if not arrays:
        raise ConfigurationError("shard() needs at least one array")
    index, total = _place(node, total_nodes)
    counts = [_length("shard()", array) for array in arrays]
    for position, count in enumerate(counts):
        if len(set(counts)) > 1 and counts.count(count) == 1:
            raise ConfigurationError(
                f"shard(): argument {position} has {count} rows, and no other argument does; arrays"
                " that are sharded together must be of one length, so that their rows stay aligned"
            )
    whole_seed = _whole(seed)
    order = {
        count: _positions(count, index, total, shuffle, whole_seed, drop_last)
        for count in set(counts)
    }
    parts = [_pick(array, order[count]) for array, count in zip(arrays, counts, strict=True)]
    return parts[0] if len(parts) == 1 else tuple(parts)


def shard_iterator(
    iterator: Iterable[T], *, node: int | None = None, total_nodes: int | None = None
) -> Iterator[T]:
    """Every item whose running index belongs to this worker, one by one; the input may be
    endless."""
    index, total = _place(node, total_nodes)
    return (item for position, item in enumerate(iterator) if position % total == index)


class DistributedSampler(Sequence[int]):
    """The positions of a dataset that belong to this worker; usable as ``DataLoader(sampler=…)``.

    Workers may differ by one in length (nothing is padded); pass ``drop_last=True`` where they must
    not."""

    def __init__(
        self,
        dataset: Any,
        *,
        shuffle: bool = True,
        seed: SupportsIndex | None = 0,
        drop_last: bool = False,
        node: int | None = None,
        total_nodes: int | None = None,
    ) -> None:
        _length("DistributedSampler()", dataset)
        self.dataset = dataset
        self.node, self.total_nodes = _place(node, total_nodes)
        self.shuffle = shuffle
        self.seed = _whole(seed)
        self.drop_last = drop_last
        self.epoch = 0
        self._indices: list[int] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of this epoch; without it every epoch repeats the first one."""
        self.epoch = epoch
        self._indices = None

    @property
    def indices(self) -> list[int]:
        if self._indices is None:
            seed = _whole(self.seed) + int(self.epoch)
            count = len(self.dataset)
            self._indices = list(
                _positions(count, self.node, self.total_nodes, self.shuffle, seed, self.drop_last)
            )
        return self._indices

    def __len__(self) -> int:
        return len(self.indices)

    @overload
    def __getitem__(self, item: int) -> int: ...
    @overload
    def __getitem__(self, item: slice) -> list[int]: ...
    def __getitem__(self, item: int | slice) -> int | list[int]:
        return self.indices[item]

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices)


def _length(what: str, array: Any) -> int:
    if isinstance(array, (Mapping, Set)):
        kind = type(array).__name__
        fix = "list(x.items())" if isinstance(array, Mapping) else "sorted(x)"
        raise ConfigurationTypeError(
            f"{what} needs data that can be indexed, which a {kind} cannot be; pass {fix}"
        )
    if _is_sparse(array):  # has no len()
        return int(array.shape[0])
    try:
        return len(array)
    except TypeError:
        raise ConfigurationTypeError(
            f"{what} needs data with a length, not {type(array).__name__};"
            " for iterators there is shard_iterator()"
        ) from None


def _is_sparse(array: Any) -> bool:
    sparse: Any = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(array))


def _place(node: int | None, total_nodes: int | None) -> tuple[int, int]:
    """(rank, number of ranks) of this worker, or as the caller says."""
    info = instance_info()
    index = info.global_worker_index if node is None else node
    total = info.total_workers if total_nodes is None else total_nodes
    if total < 1 or not 0 <= index < total:
        raise ConfigurationError(
            f"node {index} of total_nodes {total}: node must be from 0 to total_nodes - 1"
        )
    return index, total


def _whole(seed: SupportsIndex | None) -> int:
    try:
        return 0 if seed is None else as_index(seed)
    except TypeError:
        raise ConfigurationTypeError(
            f"seed={seed!r}: a whole number is expected, or None"
        ) from None


def _positions(
    count: int, index: int, total: int, shuffle: bool, seed: int, drop_last: bool
) -> Sequence[int]:
    order: Sequence[int] = range(count)
    if shuffle:
        order = list(order)
        random.Random(seed).shuffle(order)
    if drop_last:
        block = count // total
        return order[index * block : (index + 1) * block]
    return order[index::total]


def _indices(numpy: Any, positions: Sequence[int]) -> Any:
    """The positions as an array; asarray() would read a range number by number."""
    if isinstance(positions, range):
        return numpy.arange(positions.start, positions.stop, positions.step, dtype=numpy.intp)
    return numpy.asarray(positions, dtype=numpy.intp)


def _pick(array: Any, positions: Sequence[int]) -> Any:
    if type(array) is list:
        return [array[i] for i in positions]
    if type(array) is tuple:
        return tuple([array[i] for i in positions])
    # A caller that passes a library's array has loaded the library; nothing needs to be imported.
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(array, numpy.ndarray):
        return array[_indices(numpy, positions)]
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return array[torch.as_tensor(list(positions), dtype=torch.long, device=array.device)]
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(array, jax.Array):
        return array[_indices(sys.modules["numpy"], positions)]
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None and isinstance(array, tensorflow.Tensor):
        return tensorflow.gather(array, tensorflow.constant(list(positions), tensorflow.int64))
    if hasattr(array, "iloc"):  # pandas: `array[i]` would look up labels
        return array.iloc[list(positions)]
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(
        array, (pandas.Index, pandas.api.extensions.ExtensionArray)
    ):
        return array.take(_indices(sys.modules["numpy"], positions))
    if _is_sparse(array):  # not every format has rows
        return array.tocsr()[list(positions)].asformat(array.format)
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(array, (polars.DataFrame, polars.Series)):
        return array[list(positions)]
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(
        array, (arrow.Table, arrow.RecordBatch, arrow.Array, arrow.ChunkedArray)
    ):
        return array.take(arrow.array(positions, arrow.int64()))
    return [array[i] for i in positions]

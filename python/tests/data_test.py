"""Shards, samplers and the place of a worker."""

import dataclasses
import itertools
import json

import numpy
import pytest

import skyward as sky

# (count, total, seed) -> strided shards, shards with drop_last
VECTORS = [
    (10, 3, 42, [[7, 8, 9, 1], [3, 5, 4], [2, 6, 0]], [[7, 3, 2], [8, 5, 6], [9, 4, 0]]),
    (10, 3, 0, [[7, 5, 2, 6], [8, 3, 0], [1, 4, 9]], [[7, 8, 1], [5, 3, 4], [2, 0, 9]]),
    (9, 3, 0, [[7, 3, 0], [5, 4, 8], [1, 2, 6]], [[7, 5, 1], [3, 4, 2], [0, 8, 6]]),
    (7, 2, 7, [[5, 4, 3, 2], [6, 0, 1]], [[5, 6, 4], [0, 3, 1]]),
    (5, 4, 1, [[2, 1], [3], [4], [0]], [[2], [3], [4], [0]]),
    (3, 5, 0, [[0], [2], [1], [], []], [[], [], [], [], []]),
    (10, 3, None, [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]], [[0, 1, 2], [3, 4, 5], [6, 7, 8]]),
]


@pytest.mark.parametrize(("count", "total", "seed", "strided", "blocks"), VECTORS)
def test_vectors(count, total, seed, strided, blocks):
    for node in range(total):
        place = {"node": node, "total_nodes": total, "shuffle": seed is not None, "seed": seed}
        assert sky.shard(list(range(count)), **place) == strided[node]
        assert sky.shard(list(range(count)), drop_last=True, **place) == blocks[node]
        sampler = sky.DistributedSampler(
            range(count), shuffle=seed is not None, seed=seed or 0, node=node, total_nodes=total
        )
        assert list(sampler) == strided[node] and len(sampler) == len(strided[node])


def test_kinds_are_kept():
    place = {"node": 1, "total_nodes": 2}
    assert sky.shard((1, 2, 3), **place) == (2,)
    assert sky.shard("abc", **place) == ["b"]
    array = numpy.arange(6, dtype="f4").reshape(3, 2)
    part = sky.shard(array, **place)
    assert part.dtype == array.dtype and part.tolist() == [[2.0, 3.0]]
    empty = sky.shard(array[:1], **place)
    assert empty.shape == (0, 2)


def test_equal_lengths_stay_aligned():
    x, y = list(range(50)), numpy.arange(50) * 10
    for node in range(3):
        a, b = sky.shard(x, y, shuffle=True, node=node, total_nodes=3)
        assert [value * 10 for value in a] == b.tolist()


def test_unequal_lengths_are_refused():
    with pytest.raises(sky.ConfigurationError, match=r"argument 0 has 6 rows"):
        sky.shard(list(range(6)), numpy.arange(4), node=0, total_nodes=2)
    with pytest.raises(sky.ConfigurationError, match=r"argument 2 has 5 rows"):
        sky.shard([0] * 6, [0] * 6, [0] * 5, node=0, total_nodes=2)


def test_training_and_test_data_have_their_own_lengths():
    parts = [
        sky.shard(
            list(range(6)), list("abcdef"), numpy.arange(4), list("wxyz"),
            node=node, total_nodes=2, shuffle=True, seed=3,
        )
        for node in (0, 1)
    ]  # fmt: skip
    for x, letters, small, more in parts:
        assert [*letters] == ["abcdef"[i] for i in x]
        assert [*more] == ["wxyz"[i] for i in small]
    assert sorted(parts[0][0] + parts[1][0]) == list(range(6))
    assert sorted([*parts[0][2], *parts[1][2]]) == list(range(4))


def test_a_table_stays_a_table():
    class Table:  # as pandas' are
        def __init__(self, rows):
            self.rows, self.iloc = rows, self

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, positions):
            return Table([self.rows[i] for i in positions])

    part = sky.shard(Table(list("abcde")), node=1, total_nodes=2)
    assert type(part) is Table and part.rows == ["b", "d"]


@pytest.mark.parametrize(
    ("value", "fix"), [({"a": 1, "b": 2}, "items"), ({1, 2}, "sorted"), ({}.keys(), "sorted")]
)
def test_what_has_no_positions_is_refused(value, fix):
    with pytest.raises(sky.ConfigurationTypeError, match=fix):
        sky.shard(value, node=0, total_nodes=2)


def test_no_input_and_no_such_node():
    with pytest.raises(ValueError, match="at least one"):
        sky.shard()
    with pytest.raises(ValueError, match="node 3 of total_nodes 3"):
        sky.shard([1], node=3, total_nodes=3)


def test_outside_a_pool_there_is_one_part(monkeypatch):
    monkeypatch.delenv("COMPUTE_POOL", raising=False)
    info = sky.instance_info()
    assert (info.node, info.total_nodes, info.is_head, info.job_id) == (0, 1, True, "")
    assert sky.shard([1, 2, 3]) == [1, 2, 3]


def test_iterators_may_be_endless():
    part = sky.shard_iterator(itertools.count(), node=1, total_nodes=3)
    assert list(itertools.islice(part, 3)) == [1, 4, 7]


def test_seeds_of_numpy_are_seeds():
    place = {"node": 0, "total_nodes": 2, "shuffle": True}
    seed = numpy.int64(3)
    assert sky.shard(range(9), seed=seed, **place) == sky.shard(range(9), seed=3, **place)
    assert list(sky.DistributedSampler(range(9), seed=seed, **place)) == list(
        sky.DistributedSampler(range(9), seed=3, **place)
    )


def test_epochs():
    sampler = sky.DistributedSampler(range(20), node=0, total_nodes=2)
    first = list(sampler)
    assert list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) != first
    assert list(sampler) == sky.shard(list(range(20)), shuffle=True, seed=1, node=0, total_nodes=2)
    assert sampler[0] == sampler.indices[0] and sampler[:2] == sampler.indices[:2]


def test_the_place_comes_from_the_environment(monkeypatch):
    info = {
        "node": 1,
        "worker": 1,
        "total_nodes": 2,
        "workers_per_node": 2,
        "accelerators": ["T4"],
        "total_accelerators": 2,
        "head_addr": "10.0.0.5",
        "head_port": 29500,
        "job_id": "1a2b3c4d",
        "peers": [{"node": 0, "private_ip": "10.0.0.5"}],
        "accelerator": None,
        "network": {},
        "of_a_later_version": 1,
    }
    monkeypatch.setenv("COMPUTE_POOL", json.dumps(info))
    seen = sky.instance_info()
    assert isinstance(seen, sky.InstanceInfo) and sky.InstanceInfo.current() == seen
    assert (seen.global_worker_index, seen.total_workers, seen.is_head) == (3, 4, False)
    assert dataclasses.replace(seen, node=0, worker=0).is_head
    assert not dataclasses.replace(sky.InstanceInfo(0, 2), node=1).is_head
    assert seen.accelerators == ["T4"] and seen.job_id == "1a2b3c4d"
    assert sky.shard(list(range(8))) == [3, 7]


def test_sparse_matrices_keep_their_format():
    sparse = pytest.importorskip("scipy.sparse")
    rows = [[0, 1, 0], [2, 0, 0], [0, 0, 3], [4, 0, 5]]
    for make in (sparse.csr_array, sparse.coo_array, sparse.csc_matrix, sparse.dia_array):
        matrix = make(rows)
        part, labels = sky.shard(matrix, list("abcd"), node=1, total_nodes=3)
        assert type(part) is type(matrix) and part.toarray().tolist() == [rows[1]]
        assert labels == ["b"]
        assert sky.shard(matrix, node=4, total_nodes=5).shape == (0, 3)
    parts = [sky.shard(make(rows), shuffle=True, node=node, total_nodes=2) for node in range(2)]
    assert sorted(row for part in parts for row in part.toarray().tolist()) == sorted(rows)


def test_indexes_and_arrays_of_pandas_keep_their_type():
    pandas = pytest.importorskip("pandas")
    for values in (
        pandas.Categorical(["a", "b", "a"], categories=["a", "b", "c"]),
        pandas.Index([3, 4, 5], name="n"),
        pandas.date_range("2026-01-01", periods=3),
        pandas.MultiIndex.from_tuples([(1, "a"), (2, "b"), (3, "c")]),
        pandas.array([1, None, 3], dtype="Int64"),
    ):
        part = sky.shard(values, node=0, total_nodes=2)
        assert type(part) is type(values) and part.dtype == values.dtype
        assert list(part[:1]) == [values[0]] and list(part[1:]) == [values[2]]
        assert type(sky.shard(values, node=3, total_nodes=4)) is type(values)

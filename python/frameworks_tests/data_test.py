"""Shards and shared arguments of what torch and pandas hold."""

import numpy
import pandas
import polars
import pyarrow
import pytest
import torch
from skyward.transport.shared_arguments import _is_candidate, _packed

import skyward as sky


def test_tensors_stay_tensors():
    rows = torch.arange(10, dtype=torch.float64).reshape(5, 2)
    part = sky.shard(rows, node=1, total_nodes=2)
    assert part.dtype == torch.float64 and part.tolist() == [[2.0, 3.0], [6.0, 7.0]]
    part[0, 0] = 99
    assert rows[1, 0] == 2, "a copy"
    empty = sky.shard(rows[:1].int(), node=1, total_nodes=2)
    assert empty.shape == (0, 2) and empty.dtype == torch.int32


def test_tables_are_taken_by_position_and_stay_tables():
    table = pandas.Series([10, 20, 30], index=[2, 1, 0])
    part = sky.shard(table, node=0, total_nodes=2)
    assert isinstance(part, pandas.Series)
    assert part.tolist() == [10, 30] and part.index.tolist() == [2, 0]
    rows = sky.shard(pandas.DataFrame({"a": [1, 2, 3], "b": list("xyz")}), node=1, total_nodes=2)
    assert isinstance(rows, pandas.DataFrame)
    assert rows.to_dict("list") == {"a": [2], "b": ["y"]} and rows.index.tolist() == [1]


def test_tables_of_polars_and_arrow_stay_tables():
    columns = {"a": [1, 2, 3], "b": ["x", "y", "z"]}
    part = sky.shard(polars.DataFrame(columns), node=1, total_nodes=2)
    assert part.to_dict(as_series=False) == {"a": [2], "b": ["y"]}
    part = sky.shard(pyarrow.table(columns), node=1, total_nodes=2)
    assert part.to_pydict() == {"a": [2], "b": ["y"]}
    part = sky.shard(polars.Series([1, 2, 3]), node=0, total_nodes=2)
    assert part.to_list() == [1, 3]
    part = sky.shard(pyarrow.array([1, 2, 3]), node=0, total_nodes=2)
    assert part.to_pylist() == [1, 3]


def test_mixed_kinds_stay_aligned():
    x, y = torch.arange(11), pandas.Series(range(11))
    for node in range(3):
        a, b = sky.shard(x, y, shuffle=True, seed=4, node=node, total_nodes=3)
        assert a.tolist() == b.tolist()


@pytest.mark.parametrize(("workers", "drop_last"), [(1, False), (2, True), (3, False)])
def test_sampler_of_a_data_loader(workers, drop_last):
    from torch.utils.data import DataLoader, TensorDataset

    dataset = TensorDataset(torch.arange(20), torch.arange(20) ** 2)
    epochs = []
    for epoch in range(2):
        seen = []
        for node in range(workers):
            sampler = sky.DistributedSampler(
                dataset, seed=1, drop_last=drop_last, node=node, total_nodes=workers
            )
            sampler.set_epoch(epoch)
            loader = DataLoader(dataset, batch_size=4, sampler=sampler)
            assert len(loader) == -(-len(sampler) // 4)
            mine = [int(x) for batch, _ in loader for x in batch]
            assert mine == list(sampler)
            seen += mine
        assert sorted(seen) == list(range(20))
        epochs.append(seen)
    assert epochs[0] != epochs[1]


def test_tables_of_texts_travel_as_one_lump():
    texts = [f"{n:0200}" for n in range(1000)]
    columns = {"text": pandas.Series(texts, dtype=object), "n": numpy.arange(1000.0)}
    mixed, times = pandas.DataFrame(columns), pandas.date_range("2020", periods=20_000, freq="s")
    for value in (columns["text"], mixed, pandas.DataFrame({"t": times, "n": range(20_000)})):
        loads, (data,) = _packed(value).__reduce_ex__(5)
        assert loads(data).equals(value)
    for numbers in (pandas.Series(numpy.arange(9999.0)), numpy.arange(9999), torch.arange(9999)):
        assert _packed(numbers) is numbers
    assert _is_candidate(numpy.arange(4000)[::2]) and not _is_candidate(numpy.arange(4000))

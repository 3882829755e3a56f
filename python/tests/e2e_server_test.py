"""Pools in processes of servers: for days, beside other pools, and under replaced threads."""

import sys
import types

import pytest

import skyward as sky


@pytest.mark.parametrize(
    ("name", "question", "part"),
    [
        ("gevent.monkey", "is_module_patched", "threading"),
        ("eventlet.patcher", "is_monkey_patched", "thread"),
    ],
)
def test_a_pool_does_not_open_where_threads_are_greenlets(monkeypatch, name, question, part):
    patched = set()
    module = types.ModuleType(name)
    setattr(module, question, patched.__contains__)
    monkeypatch.setitem(sys.modules, name, module)
    with sky.ComputePool(display="quiet") as pool:  # imported, and nothing is replaced
        assert pool.is_active
    patched.add(part)
    with pytest.raises(sky.ConfigurationError, match=f"{name.partition('.')[0]}.*gthread"):
        pool.open()
    assert not pool.is_active

"""Decorators, variables and the meeting of distributed calls, without any framework."""

import functools
import json
import os
import socket
import struct
import sys
import types

import numpy
import pytest
from skyward.base.programs import agent_path
from skyward.distributed import (
    decorate,
    elastic,
    environment,
    gpus,
    jax_session,
    meeting,
    torch_session,
)
from skyward.transport.functions import dumps_function
from waiting import answers_at_once, wait_until

import skyward as sky
from skyward import distributed


def place(rank=0, nodes=2, port=29500, workers_per_node=1, address="127.0.0.1", **others):
    peers = [{"node": n, "private_ip": address.format(n)} for n in range(nodes)]
    return sky.InstanceInfo(
        node=rank // workers_per_node,
        worker=rank % workers_per_node,
        total_nodes=nodes,
        workers_per_node=workers_per_node,
        head_addr=peers[0]["private_ip"],
        head_port=port,
        job_id="1a2b3c4d",
        peers=peers,
        **others,
    )


def test_the_only_node_of_a_pool_meets_itself():
    info = place(nodes=1, workers_per_node=2, address="203.0.113.7")
    here = environment.meeting_place(info)
    assert here.head_addr == environment.own_address(here) == "127.0.0.1"
    assert (here.total_workers, here.head_port) == (2, info.head_port)
    two = place(nodes=2, address="10.0.0.{}")
    assert environment.meeting_place(two) == two


def test_variables_of_torch():
    info = place(rank=3, nodes=2, workers_per_node=2, address="10.0.0.{}")
    assert environment.for_torch(info) == {
        "MASTER_ADDR": "10.0.0.0",
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "4",
        "RANK": "3",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "NODE_RANK": "1",
    }


def test_variables_of_gloo_and_nccl():
    several, one = place(address="10.0.0.{}"), place(nodes=1)
    between = {"NCCL_SOCKET_IFNAME": "^lo,docker", "NCCL_DEBUG": "WARN"}
    here = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
    assert environment.network_defaults(several, "eth1") == {
        "GLOO_SOCKET_IFNAME": "eth1",
        **between,
    }
    assert environment.network_defaults(several, None) == between  # a router has the address
    assert environment.network_defaults(place(), "lo") == {**here, "NCCL_DEBUG": "WARN"}
    assert environment.network_defaults(one, "lo") == here
    assert environment.network_defaults(one, None) == {}


def test_the_interface_of_an_address(monkeypatch):
    cards = {"lo": "127.0.0.1", "eth0": "203.0.113.7", "eth1": "10.0.0.5", "down": ""}
    names = {"node-5": "10.0.0.5", "debian": "127.0.1.1", "image": "127.0.0.1"}

    def resolve(host, *_):
        if "." not in host and host not in names:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (names.get(host, host), 0))]

    monkeypatch.setattr(socket, "if_nameindex", lambda: list(enumerate(cards, 1)))
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(meeting, "_first_address", cards.get)
    assert meeting.interface_of("10.0.0.5") == meeting.interface_of("node-5") == "eth1"
    assert meeting.interface_of("203.0.113.7") == "eth0"
    assert meeting.interface_of("127.0.0.1") == meeting.interface_of("127.1.0.1") == "lo"
    for host in ("198.51.100.1", "debian", "image", "fd00::1", "", "unknown"):
        assert meeting.interface_of(host) is None, host


def test_the_interfaces_of_this_machine():
    assert meeting._first_address("lo") == "127.0.0.1"
    assert meeting._first_address("no-such-card") == ""
    for _, name in socket.if_nameindex():
        address = meeting._first_address(name)
        if address:
            socket.inet_aton(address)
            assert meeting.interface_of(address)


def test_a_node_that_takes_its_name_for_loopback_listens_everywhere(monkeypatch):
    def resolve(host, *_, **__):
        address = {"node1": "127.0.1.1", "localhost": "127.0.0.1"}.get(host, host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    for host, address in {
        "node1": "0.0.0.0",
        "localhost": "127.0.0.1",
        "127.0.0.1": "127.0.0.1",
        "192.0.2.7": "192.0.2.7",
    }.items():
        assert meeting.described(place(address=host))["head_addr"] == address
    assert not meeting.can_listen_at("node1")
    with meeting.bound_socket("node1") as found:
        assert found.getsockname()[0] == "0.0.0.0"


def test_nodes_without_a_network_are_told_so_at_once(monkeypatch):
    called = []
    info = {"node": 0, "total_nodes": 2, "head_addr": "", "network": {"missing": "Command"}}
    monkeypatch.setenv("COMPUTE_POOL", json.dumps(info))
    with pytest.raises(sky.ConfigurationError) as failed:
        distributed.torch(lambda: called.append(1))()
    for words in ("of torch: the 2 nodes of this pool cannot reach each other", "Command gives"):
        assert words in str(failed.value)
    assert not called
    alone = {**info, "total_nodes": 1}
    meeting.require_network(sky.InstanceInfo(**alone), "alone")


def test_variables_of_jax():
    assert environment.for_jax(place(rank=1, address="10.0.0.{}")) == {
        "JAX_COORDINATOR_ADDRESS": "10.0.0.0:29500",
        "JAX_NUM_PROCESSES": "2",
        "JAX_PROCESS_ID": "1",
    }
    info = place(accelerators=["T4", "T4"])
    assert environment.for_jax(info)["JAX_LOCAL_DEVICE_COUNT"] == "2"
    info = place(address="fd00::{}")
    assert environment.for_jax(info)["JAX_COORDINATOR_ADDRESS"] == "[fd00::0]:29500"


def test_the_coordinator_of_jax_listens_at_the_pools_address_alone():
    def bound(address):
        return environment.bind_address_of_jax(place(address=address))[
            "JAX_COORDINATOR_BIND_ADDRESS"
        ]

    assert bound("127.0.0.1") == "127.0.0.1:29500"
    assert bound("fd00::1") == "[fd00::1]:29500"


def test_variables_of_tensorflow():
    from skyward.distributed.tensorflow_session import _cluster

    info = place(rank=2, nodes=2, workers_per_node=2, address="10.0.0.{}")
    addresses, _ = _cluster(info, "f", 1.0)
    assert addresses == [f"10.0.0.{node}:{29500 + worker}" for node in (0, 1) for worker in (0, 1)]
    assert _cluster(place(address="fd00::{}"), "f", 1.0)[0][1] == "[fd00::1]:29500"
    assert json.loads(environment.for_tensorflow(info, addresses)["TF_CONFIG"]) == {
        "cluster": {"worker": addresses},
        "task": {"type": "worker", "index": 2},
    }
    assert environment.nodes_share_an_address(place())
    assert not environment.nodes_share_an_address(info)


def test_variables_are_put_back(monkeypatch):
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("RANK", "7")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    values = {"RANK": "1", "WORLD_SIZE": "2"}
    with pytest.raises(KeyError), environment.variables(values, {"NCCL_DEBUG": "WARN"}):
        assert [os.environ[name] for name in ("RANK", "WORLD_SIZE", "NCCL_DEBUG")] == [
            "1",
            "2",
            "INFO",
        ]
        raise KeyError
    assert os.environ["RANK"] == "7" and "WORLD_SIZE" not in os.environ


@pytest.mark.parametrize(
    ("pip", "env", "expected"),
    [
        (["torch"], {}, ("torch", None)),
        (["Torch[extra]>=2.1", "numpy"], {}, ("torch", None)),
        (["torch", "transformers==4.40"], {}, ("transformers", None)),
        (["tensorflow ; python_version > '3.8'", "jax"], None, ("jax", None)),
        (["keras", "torch", "jax"], {}, ("keras", "jax")),
        (["keras==3.0", "tensorflow", "torch"], {}, ("keras", "torch")),
        (["keras"], {"KERAS_BACKEND": "tensorflow"}, ("keras", "tensorflow")),
        (["keras"], {}, ("keras", None)),
        (["torchvision"], {}, (None, None)),
    ],
)
def test_detect_framework(pip, env, expected):
    assert distributed.detect_framework(pip, env) == expected


def add(a, b=1):
    """Adds."""
    return a + b


FRAMEWORKS = ["torch", "jax", "tensorflow", "keras", "transformers"]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_outside_a_pool_the_function_just_runs(name, monkeypatch):
    monkeypatch.delenv("COMPUTE_POOL", raising=False)
    make = getattr(distributed, name)
    for decorated in (make(add), make()(add), make(timeout=5)(add)):
        assert decorated(2) == 3 and decorated(2, b=5) == 7
        assert decorated.__name__ == "add" and decorated.__doc__ == "Adds."
    below, above = sky.compute(make()(add)), make()(sky.compute(timeout=9, retries=2)(add))
    for function in (below, above):
        assert isinstance(function, sky.ComputeFunction) and function.local(1) == 2
    assert above(1).timeout == 9 and above(1).retries == 2
    assert above(1).name == below(1).name == "add"


def test_generators_stay_generators(monkeypatch):
    monkeypatch.delenv("COMPUTE_POOL", raising=False)

    @distributed.torch
    def count(n):
        yield from range(n)

    from skyward.call.function import is_generator

    assert is_generator(count) and list(count(3)) == [0, 1, 2]


def test_wrong_use_is_named():
    with pytest.raises(sky.ConfigurationError, match="'nccl', 'gloo'"):
        distributed.torch(backend="smoke")
    with pytest.raises(sky.ConfigurationError, match="'jax', 'tensorflow', 'torch'"):
        distributed.keras(backend="theano")
    with pytest.raises(sky.ConfigurationError, match="takes no 'gloo'"):
        distributed.jax("gloo")
    for bare in (distributed.torch, distributed.mpi):
        with pytest.raises(
            sky.ConfigurationError, match=r"distributed\.\w+: timeout=0: a positive"
        ):
            bare(timeout=0)
        bare(timeout=numpy.int64(60))
    with pytest.raises(sky.ConfigurationError, match="a number of 0 or more"):
        sky.distributed.torch(max_restarts=-1)
    with pytest.raises(sky.ConfigurationError, match="items is a generator"):

        @sky.distributed.torch(max_restarts=1)
        def items():
            yield 1

    with pytest.raises(TypeError, match="needs a function, not int"):
        distributed.torch()(3)


def test_only_a_broadcast_starts_again():
    @sky.distributed.torch(max_restarts=1)
    def train():
        return 1

    with sky.ComputePool(provider=sky.Local(), display="quiet") as pool:
        for send in (
            lambda: sky.compute(train)() >> pool,
            lambda: sky.compute(train)() > pool,
            lambda: sky.gather(sky.compute(train)()) >> pool,
        ):
            with pytest.raises(sky.ConfigurationError, match=r"write train\(…\) @ pool"):
                send()
        with pytest.raises(sky.ConfigurationError, match="retries"):
            sky.compute(retries=1)(train)() @ pool


def test_the_body_is_pickled_once():
    function = sky.compute(distributed.torch(backend="gloo")(add)).local
    assert dumps_function(function, "add") is dumps_function(function, "add")


@pytest.fixture
def agent(monkeypatch):
    """A worker has been started by one."""
    monkeypatch.setenv("SKYWARD_AGENT", agent_path())


def together(count, visit, port=None):
    """What `visit(info)` returns or raises at each of `count` ranks, in threads of this process."""
    port = port or meeting.free_port("127.0.0.1")
    return answers_at_once(count, lambda rank: visit(place(rank=rank, nodes=count, port=port)))


def test_all_learn_what_each_brought(agent):
    port = meeting.free_port("127.0.0.1")
    for round_ in range(3):  # the port is free again at once
        visit = functools.partial(meeting.meet, call=f"{round_}", timeout=20, brought=round_)
        seen = together(4, visit, port)
        assert seen == [[round_] * 4] * 4
    seen = together(4, lambda info: meeting.meet(info, "last", 20, [info.node]), port)
    assert seen == [[[0], [1], [2], [3]]] * 4


def test_what_is_no_json_is_none(agent):
    def visit(info):
        if info.node == 0:
            return meeting.meet(info, "f()", 20, "x")
        hello = {"job": info.job_id, "of": 2, "call": "f()", "rank": 1, "brought": "{"}
        text = json.dumps(hello).encode()
        host = "127.0.0.1", info.head_port
        with socket.socket() as line:
            wait_until(lambda: line.connect_ex(host) == 0)
            line.sendall(struct.pack("<Q", len(text)) + text)
            return line.recv(1) != b""

    assert together(2, visit) == [["x", None], True]


def test_one_worker_needs_no_meeting():
    assert meeting.meet(place(nodes=1, port=1), "f()", 1, "x") == ["x"]


def is_listening(port):
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def test_missing_workers_are_named(agent):
    port = meeting.free_port("127.0.0.1")

    def visit(info):
        if info.node == 2:  # whoever is early gives up early, and can only say that 0 is missing
            wait_until(lambda: is_listening(port))
        return None if info.node in (1, 3) else meeting.meet(info, "train() of torch", 6)

    seen = together(4, visit, port)
    for rank in (0, 2):
        assert isinstance(seen[rank], sky.TimeoutError)
        assert "train() of torch: workers 1, 3 of 4 did not arrive" in str(seen[rank])
        assert "`@`" in str(seen[rank])


def test_without_worker_0_the_others_give_up(agent):
    seen = together(2, lambda info: info.node and meeting.meet(info, "train()", 0.2))
    assert isinstance(seen[1], sky.TimeoutError)
    assert "worker 0 was not at 127.0.0.1" in str(seen[1])


def test_two_calls_at_once_are_told_apart(agent):
    seen = together(2, lambda info: meeting.meet(info, f"call {info.node}()", 10))
    for error in seen:
        assert isinstance(error, sky.ConfigurationError)
        assert "worker 0 is in call 0(), but worker 1 is in call 1()" in str(error)


def test_a_port_in_use_is_named(agent, monkeypatch):
    monkeypatch.setattr(meeting, "_PORT_SECONDS", 0.2)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(sky.TimeoutError, match=f"cannot listen at 127.0.0.1:{port}"):
            meeting.meet(place(port=port), "f()", 10)


def test_a_program_that_is_no_agent_is_named(monkeypatch):
    monkeypatch.setenv("SKYWARD_AGENT", "/bin/false")
    with pytest.raises(RuntimeError, match=r"skyward-agent meet ended \(status 1\)"):
        meeting.meet(place(port=1), "f()", 1)


def test_free_ports_are_near_the_first():
    first = meeting.free_port("127.0.0.1")
    with socket.socket() as other:
        other.bind(("127.0.0.1", first))
        assert first < meeting.free_port("127.0.0.1", first) <= first + 100


@pytest.fixture
def jaxlib(monkeypatch):
    """What JAX's session touches of it."""
    asked = []

    def make(**options):
        asked.append(options)

    library = types.SimpleNamespace(make_gloo_tcp_collectives=make)
    bridge = types.ModuleType("jax._src.xla_bridge")
    bridge.xla_client = types.SimpleNamespace(_xla=library)
    inner = types.ModuleType("jax._src")
    inner.xla_bridge = bridge
    for module in (types.ModuleType("jax"), inner, bridge):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return library, bridge, asked


@pytest.mark.parametrize("is_new", [False, True])
def test_gloo_of_jax_takes_the_interface(jaxlib, is_new):
    library, bridge, asked = jaxlib
    if is_new:
        bridge._jax, bridge.xla_client = library, types.SimpleNamespace()
    make = library.make_gloo_tcp_collectives
    with jax_session._gloo_on("eth1"):
        library.make_gloo_tcp_collectives(distributed_client=1)
        library.make_gloo_tcp_collectives(distributed_client=1, interface="eth0")
        library.make_gloo_tcp_collectives(distributed_client=1, hostname="10.0.0.5")
    assert asked == [
        {"distributed_client": 1, "interface": "eth1"},
        {"distributed_client": 1, "interface": "eth0"},
        {"distributed_client": 1, "hostname": "10.0.0.5"},
    ]
    assert library.make_gloo_tcp_collectives is make


def test_what_the_user_says_of_gloo_holds_for_jax_too(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib0,eth0")
    with environment.variables({}, {"GLOO_SOCKET_IFNAME": "eth1"}):
        assert jax_session._chosen_interface() == "ib0"
    monkeypatch.delenv("GLOO_SOCKET_IFNAME")
    assert jax_session._chosen_interface() is None


def test_gloo_of_jax_is_left_alone_where_nothing_is_known(jaxlib):
    library, bridge, _ = jaxlib
    make = library.make_gloo_tcp_collectives
    with jax_session._gloo_on(None):
        assert library.make_gloo_tcp_collectives is make
    bridge.xla_client = types.SimpleNamespace()
    with jax_session._gloo_on("eth1"):
        assert library.make_gloo_tcp_collectives is make


@pytest.fixture
def node(monkeypatch, tmp_path):
    """A node with the checkpoints of a call in its folder."""
    monkeypatch.chdir(tmp_path)
    folder = elastic.folder_of("1a2b")
    folder.mkdir(parents=True)
    (folder / "last.pt").touch()
    return folder


def again(restart):
    return elastic.started({"id": "1a2b", "restart": restart, "of": 3})


def test_checkpoints_that_reach_no_restart_are_kept(node):
    with pytest.raises(LookupError) as failed, again(1):
        raise LookupError("gloo cannot connect")
    assert f"here in {node};" in failed.value.__notes__[0]
    elastic.discard("1a2b")
    assert (node / "last.pt").exists()


def test_checkpoints_that_a_function_had_are_removed(node, monkeypatch):
    with pytest.raises(LookupError), again(1):
        raise LookupError("gloo cannot connect")
    monkeypatch.setattr(elastic, "_share", lambda info, folder: None)
    with pytest.raises(KeyError) as failed, again(2):
        elastic.share_checkpoints(place())
        raise KeyError("of the function")
    assert not hasattr(failed.value, "__notes__")
    elastic.discard("1a2b")
    assert list(node.parent.iterdir()) == []


def test_links_to_folders_beside_them_are_checkpoints(node, tmp_path):
    (node / "step-100").mkdir()
    (node / "step-100" / "part-0").touch()
    (node / "relative").symlink_to("step-100")
    (node / "absolute").symlink_to(node / "step-100")
    (node / "step-100" / "above").symlink_to("../step-100")
    (node / "out").symlink_to(tmp_path)
    (node / "step-100" / "further-out").symlink_to("../..")
    (node / "gone").symlink_to("step-50")
    (node / "now.tmp").symlink_to("step-100")
    files = elastic._files(node)
    assert files.keys() == {"last.pt", "step-100/part-0", "relative", "absolute"}
    assert files["relative"][1] == files["absolute"][1] == "link:step-100"
    assert files["relative"][0] == (node / "relative").lstat().st_mtime_ns
    assert elastic._checked(files) == files
    for name, target in [("a", "/etc"), ("a", ".."), ("a", "."), ("a", "/"), ("a/b", "../c")]:
        with pytest.raises(ValueError, match="leads out"):
            elastic._checked({name: (1, f"link:{target}")})


def test_a_link_of_the_program_leads_no_copy_out_of_the_folder(node, tmp_path):
    (node / "out").symlink_to(tmp_path)
    assert elastic._place(node, "in/side") == node / "in" / "side"
    with pytest.raises(ValueError, match="leads out"):
        elastic._place(node, "out/file")


def test_files_below_what_is_a_link_by_now_are_not_shared():
    lists = [{"last": (2, "link:step-200")}, {"last/w": (1, "a"), "step-200/w": (1, "b")}]
    assert elastic.sources(lists) == [("last", 0), ("step-200/w", 1)]


@pytest.mark.parametrize("older", [None, "step-100", "a folder"])
def test_all_nodes_get_the_latest_link(older, node, monkeypatch):
    torch, dist = types.ModuleType("torch"), types.ModuleType("torch.distributed")
    torch.distributed = dist
    dist.new_group = lambda backend: None
    dist.barrier = lambda group: None
    dist.destroy_process_group = lambda group: None
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.distributed", dist)
    (node / "step-200").mkdir()
    if older == "a folder":
        (node / "latest").mkdir()
        (node / "latest" / "part-0").touch()
    elif older:
        (node / older).mkdir()
        (node / "latest").symlink_to(older)
    later = 4_000_000_000_000_000_000
    files = elastic._files(node) | {"latest": (later, "link:step-200")}
    monkeypatch.setattr(
        elastic, "_gather", lambda dist, group, mine: [mine, json.dumps(files).encode()]
    )
    elastic._share(place(), node)
    assert os.readlink(node / "latest") == "step-200"
    assert (node / "latest").lstat().st_mtime_ns == later
    assert not list(node.glob("*.tmp"))


class FakeTorch(types.ModuleType):
    """As much of PyTorch as its session uses; `stores` are what it was asked for."""

    def __init__(self, version):
        super().__init__("torch")
        self.__version__ = version
        self.cuda = types.SimpleNamespace(is_available=lambda: False)
        self.stores = []
        self.distributed = types.ModuleType("torch.distributed")
        vars(self.distributed).update(
            is_initialized=lambda: False,
            TCPStore=self.store,
            init_process_group=lambda backend, **_: self.stores[-1].update(backend=backend),
            constants=types.SimpleNamespace(default_pg_timeout=None),
            distributed_c10d=types.SimpleNamespace(_world=types.SimpleNamespace(group_count=1)),
        )

    def store(self, host, port, **options):
        with socket.socket(fileno=options.pop("master_listen_fd")) as listener:
            assert listener.getsockname() == (host, port)
            with socket.create_connection((host, port)):
                pass  # it listens
        self.stores.append(options)
        return types.SimpleNamespace(set_timeout=lambda _: None)


@pytest.mark.parametrize(
    ("version", "has_libuv"),
    [("2.3.1", {}), ("2.4.0+cpu", {"use_libuv": False}), ("2.7.1", {"use_libuv": False})]
    + [("2.8.0a0+git1", {}), ("2.13.0+cu130", {}), ("3.0.1", {})],
)
def test_the_store_of_torch_listens_at_the_pools_address_alone(monkeypatch, version, has_libuv):
    torch = FakeTorch(version)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.distributed", torch.distributed)
    info = place(nodes=1, port=meeting.free_port("127.0.0.1"))
    with torch_session.session(info, None, 20, "train"):
        assert os.environ["GLOO_SOCKET_IFNAME"] == "lo"
    (store,) = torch.stores
    del store["timeout"]
    assert store == {"is_master": True, "world_size": 1, "backend": "gloo", **has_libuv}


SEEN = {
    "CPUs": ([[], []], [], []),
    "a GPU each": ([["a 01"], ["a 02"]], [], []),
    "the same bus on two hosts": ([["a 01"], ["b 01"]], [], []),
    "partitions of a GPU": ([["a 01"], ["a 01"]], [0, 1], [0, 1]),
    "two partitions of each of two GPUs": ([["a 01"], ["a 02"]] * 2, [0, 2], [0, 2]),
    "processes that see the machine's GPU": ([["a 01"], ["b 01"], ["b 01"]], [1, 2], [1, 2]),
    "processes that see all GPUs, and may choose": ([["a 01", "a 02"]] * 2, [], [0, 1]),
    "more of them than GPUs": ([["a 01", "a 02"]] * 3, [0, 1, 2], [0, 1, 2]),
    "a partition beside others": ([["a 01", "a 01"], ["a 02"]], [], []),
}


@pytest.mark.parametrize(("seen", "one_each", "all_each"), SEEN.values(), ids=SEEN)
def test_workers_that_share_a_gpu(seen, one_each, all_each):
    assert gpus.sharing(seen) == one_each
    assert gpus.sharing(seen, uses_all=True) == all_each


def test_the_backend_where_workers_share_a_gpu():
    shared, own = [["a 01"], ["a 01"]], [["a 01"], ["a 02"]]
    assert torch_session.backend_for("train()", None, "nccl", shared) == "gloo"
    assert torch_session.backend_for("train()", None, "nccl", own) == "nccl"
    assert torch_session.backend_for("train()", "nccl", "nccl", own) == "nccl"
    with pytest.raises(sky.ConfigurationError, match="workers 0, 1 share a GPU") as failed:
        torch_session.backend_for("train() of torch", "nccl", "nccl", shared)
    assert "backend='gloo'" in str(failed.value)


def cuda_driver(start=0):
    """NVIDIA's, on a machine with two GPUs. `start`: what its first call answers."""

    def count(found):
        found._obj.value = 2
        return 0

    def device(found, ordinal):
        found._obj.value = ordinal
        return 0

    def bus(text, length, device):
        text.value = b"0000:0%d:00.0" % device.value
        return 0

    return types.SimpleNamespace(
        cuInit=lambda flags: start,
        cuDeviceGetCount=count,
        cuDeviceGet=device,
        cuDeviceGetPCIBusId=bus,
    )


def test_the_gpus_that_a_process_sees(monkeypatch):
    monkeypatch.setattr(gpus.ctypes, "CDLL", lambda name: cuda_driver())
    monkeypatch.setenv("NCCL_HOSTID", "a")
    assert gpus.visible_gpus() == ["a 0000:00:00.0", "a 0000:01:00.0"]
    monkeypatch.delenv("NCCL_HOSTID")
    assert gpus.visible_gpus()[0].startswith(socket.gethostname() + " ")
    monkeypatch.setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1")
    assert gpus.visible_gpus() == [], "the user knows"
    monkeypatch.setenv("NCCL_MULTI_RANK_GPU_ENABLE", "0")
    monkeypatch.setattr(gpus.ctypes, "CDLL", lambda name: cuda_driver(100))  # there is none
    assert gpus.visible_gpus() == []


def test_torch_takes_gloo_where_workers_share_a_gpu(monkeypatch):
    torch = FakeTorch("2.13.0")
    torch.cuda = types.SimpleNamespace(is_available=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.distributed", torch.distributed)
    monkeypatch.setattr(torch_session, "visible_gpus", lambda: ["a 01"])

    def meet(info, call, timeout, brought=None):
        return [brought, [None, ["a 01"]]]

    monkeypatch.setattr(torch_session, "meet", meet)
    info = place(port=meeting.free_port("127.0.0.1"))
    with torch_session.session(info, None, 20, "train"):
        pass
    assert torch.stores.pop()["backend"] == "gloo"
    with pytest.raises(sky.ConfigurationError), torch_session.session(info, "nccl", 20, "train"):
        pass
    assert not torch.stores


@pytest.mark.parametrize(
    ("plugin", "config", "expected"),
    [
        ("xla_cuda12", {}, ["a 01"]),
        ("xla_cuda13", {"jax_platforms": "cuda,cpu"}, ["a 01"]),
        ("xla_cuda13", {"jax_platforms": "cpu"}, []),
        ("xla_cuda13", {"jax_cuda_visible_devices": "1"}, []),
        ("tpu", {"jax_platforms": None, "jax_cuda_visible_devices": "all"}, []),
    ],
)
def test_the_gpus_that_jax_will_use(jaxlib, monkeypatch, tmp_path, plugin, config, expected):
    """JAX for CPUs on a machine with GPUs, too, uses none."""
    sys.modules["jax"].config = types.SimpleNamespace(**config)
    (tmp_path / "jax_plugins" / plugin).mkdir(parents=True)
    (tmp_path / "jax_plugins" / plugin / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(jax_session, "visible_gpus", lambda: ["a 01"])
    assert jax_session._gpus() == expected


def test_where_a_router_has_the_address_a_port_is_open_at_all():
    with meeting.bound_socket("203.0.113.7") as everywhere:
        assert everywhere.getsockname()[0] == "0.0.0.0"
    with meeting.bound_socket("127.0.0.1") as here:
        assert here.getsockname()[0] == "127.0.0.1"


def test_every_framework_has_a_session():
    assert set(decorate._SESSIONS) == set(FRAMEWORKS)

"""What a pool may be asked for: both vocabularies, spot strategies, volumes, clouds."""

import copy
import dataclasses
import inspect
import pickle
import sys
from typing import ClassVar

import numpy
import pytest
from skyward.engines.block import seconds_of
from skyward.integrations import JoblibPool
from skyward.providers.cloud import Cloud
from skyward.providers.clouds import CLOUDS
from skyward.spec.spot import normalize_spot

import skyward as sky
from skyward import ComputePool, ConfigurationError, Spot, _core


@pytest.mark.parametrize(
    ("given", "strategy"),
    [
        ("always", Spot.Always()),
        ("always-spot", Spot.Always()),
        ("spot", Spot.Always()),
        ("if-available", Spot.IfAvailable()),
        ("spot-if-available", Spot.IfAvailable()),
        ("never", Spot.Never),
        ("on-demand", Spot.Never),
        ("cheapest", Spot.Cheapest()),
        (0.8, Spot.Percent(0.8)),
        (1, Spot.Percent(1.0)),
        (Spot.Always(retries=3, interval=0.5), Spot.Always(3, 0.5)),
    ],
)
def test_spot_strategies(given, strategy):
    assert ComputePool(spot=given).spot == strategy
    if isinstance(given, str):
        assert _core.parse_spot(given).kind == {
            "Always": "always",
            "IfAvailable": "if-available",
            "_Never": "never",
            "Cheapest": "cheapest",
        }.get(type(strategy).__name__)


def test_spot_values():
    assert ComputePool().spot == Spot.Always(retries=10, interval=1.0)
    assert repr(Spot.Always()) == "Spot.Always(retries=10, interval=1.0)"
    assert repr(Spot.Never) == "Spot.Never" and not callable(Spot.Never)
    for value in (Spot.Always(2), Spot.IfAvailable(), Spot.Percent(0.5), Spot.Cheapest()):
        assert pickle.loads(pickle.dumps(value)) == value
    assert pickle.loads(pickle.dumps(Spot.Never)) is Spot.Never
    match normalize_spot("if-available"):
        case Spot.IfAvailable(retries=retries):
            assert retries == 10


@pytest.mark.parametrize("bad", ["sometimes", 1.5, -0.1, True, None, [0.5]])
def test_other_spot_values_are_refused(bad):
    with pytest.raises(ValueError, match="spot"):
        ComputePool(spot=bad)


def test_the_second_names_mean_the_same():
    one = ComputePool(spot="never", timeout=60, cpu=2, memory="1GB", concurrency=3)
    other = ComputePool(
        allocation="on-demand", ttl=60, vcpus=2, memory_gb=1, worker=sky.Worker(concurrency=3)
    )
    for name in ("spot", "timeout", "cpu", "memory", "concurrency"):
        assert getattr(one, name) == getattr(other, name), name
    assert ComputePool(volumes=[sky.S3Volume("/data", "bucket")]).volume == (
        sky.S3Volume("/data", "bucket"),
    )
    assert ComputePool(ttl=0).timeout == 0
    assert ComputePool().reconnect_timeout is None
    assert ComputePool(reconnect_timeout=None).to_core().reconnect_timeout is None
    assert ComputePool(reconnect_timeout=5).to_core().reconnect_timeout == 5


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"spot": "never", "allocation": "spot"}, "spot='never' and allocation='spot'"),
        ({"spot": "always", "allocation": "always-spot"}, "mean the same"),
        ({"timeout": 3600, "ttl": 600}, "timeout=3600 and ttl=600"),
        ({"cpu": 1, "vcpus": 1}, "cpu=1 and vcpus=1"),
        ({"memory": "1GB", "memory_gb": 1}, "memory='1GB'"),
        ({"volume": {"/a": "s3://abc"}, "volumes": {"/b": "s3://abc"}}, "volume="),
        ({"concurrency": 1, "worker": sky.Worker()}, "concurrency=1"),
        ({"worker": 3}, "worker=3"),
        ({"allocation": "perhaps"}, "perhaps"),
        ({"ttl": -1}, "ttl=-1"),
        ({"cpu": 0}, "cpu=0"),
        ({"memory_gb": "1"}, "memory_gb='1'"),
        ({"max_hourly_cost": 0}, "max_hourly_cost=0"),
        ({"reconnect_timeout": 0}, "reconnect_timeout=0: a positive number of seconds"),
        ({"budget": 0}, "budget=0: a positive number of dollars"),
        ({"budget": "5 $"}, "budget='5 \\$'"),
        ({"budget": float("nan")}, "budget=nan"),
        ({"architecture": "vax"}, "architecture='vax'"),
        ({"nodes": -1}, "nodes=-1"),
        ({"memory": "12 parsecs"}, "12 parsecs"),
        ({"provider": "aws2"}, "aws2.*did you mean 'aws'"),
        ({"provider": sky.AWS}, r"make one: AWS\(\)"),
        ({"provider": 3}, "provider=3"),
        (
            {"provider": ""},
            r"unknown provider\. Choose one of 'local', 'ssh', 'command', 'aws', .*'slurm'",
        ),
        ({"env": {"A": "\udcff"}}, r"env\['A'\]: character 0 is not valid Unicode"),
        ({"machine": "\udcff"}, "machine: character 0"),
        ({"machine": "x\0y"}, "machine: character 1 is NUL"),
        ({"env": {"A": "x\0"}}, r"env\['A'\]: character 1 is NUL"),
        ({"env": {"A=B": "1"}}, "env: 'A=B' is not a valid environment variable name"),
        ({"env": {"": "1"}}, "env: '' is not a valid environment variable name"),
        ({"pip": ["numpy", ""]}, r"pip=\['numpy', ''\]: item 1 is empty"),
        ({"cpu": 100_000}, "cpu=100000: .*at most 10000$"),
        ({"provider": ["aws", ["verda"]]}, "a list contains providers, not lists"),
        ({"provider": ["aws", "verdda"]}, "did you mean 'verda'"),
        ({"nodes": (1, 4)}, r"nodes=\(1, 4\).*from 1 to 10000$"),
        ({"nodes": 10_001}, "from 1 to 10000$"),
        ({"concurrency": 1025}, "from 1 to 1024$"),
        ({"nodes": True}, "nodes=True"),
        ({"memory": 1.5}, "memory=1.5"),
        ({"memory": 32}, 'memory=32 has no unit; write memory="32GB", or memory_gb=32$'),
        ({"memory": "32"}, 'memory="32" has no unit\\n +hint: write "32GB" or "32MB"'),
        ({"memory": True}, "memory=True: text"),
        ({"memory": ""}, "not an amount of memory"),
        ({"cpu": "4"}, "cpu='4'"),
        ({"timeout": "1h"}, "timeout='1h'.*seconds"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"spot": Spot.Always}, r"spot=Spot.Always: call it: Spot.Always\("),
        ({"volume": sky.S3Volume("/a", "bucket")}, r"write volume=\[…\]"),
        ({"image": "torch"}, r"an Image is expected, such as Image\(pip="),
        ({"pip": "torch"}, r"pip='torch': .*write \['torch'\]"),
        ({"env": "A=1"}, "env='A=1': a mapping"),
        ({"env": {"A": 1}}, "env={'A': 1}"),
        ({"env": {"COMPUTE_POOL": "{}"}}, "COMPUTE_POOL"),
        ({"machine": 3}, "machine=3"),
        ({"machine": ""}, "machine=''"),
        ({"collect_metrics": "no"}, "True or False"),
        ({"accelerator": 3}, "accelerator=3"),
        ({"accelerator": "4xA100"}, r"Accelerator\('A100', count=4\)"),
        ({"accelerator": sky.accelerators.H100}, r"call it: sky.accelerators.H100\(\)"),
        ({"display": None}, "log, spinner, quiet"),
    ],
)
def test_conflicts_and_nonsense(options, says):
    with pytest.raises(ConfigurationError, match=says):
        ComputePool(**options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"pip": "torch"}, r"pip='torch': .*write \['torch'\]"),
        ({"pip": [3]}, r"pip=\[3\]"),
        ({"apt": "git"}, "apt='git'"),
        ({"includes": "folder"}, "includes='folder'"),
        ({"env": [("A", "1")]}, "env=.*mapping"),
        ({"env": {"A": 1}}, "names and values must be strings"),
        ({"env": {"A B": "1"}}, "Image: env: 'A B' is not a valid environment variable name"),
        ({"pip": ["numpy", ""]}, "item 1 is empty"),
        ({"python": 3.11}, 'write it as a string, python="3.11"'),
        ({"python": "three"}, "python='three'.*version"),
        ({"pip_extra_index_url": 3}, "pip_extra_index_url=3"),
    ],
)
def test_an_image_of_wrong_values_cannot_be_made(options, says):
    with pytest.raises(ConfigurationError, match=says):
        sky.Image(**options)


def test_images_are_values():
    packages = ["numpy"]
    image = sky.Image(pip=packages, env={"A": "1"})
    packages.append("torch")
    assert image.pip == ["numpy"] and image == sky.Image(pip=["numpy"], env={"A": "1"})
    assert {image: 1}[pickle.loads(pickle.dumps(image))] == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        image.pip = []
    match image:
        case sky.Image(pip=[first, *_], env={"A": a}):
            assert (first, a) == ("numpy", "1")


def test_tasks_are_always_in_processes():
    assert sky.Worker(executor="process").concurrency == 1
    with pytest.raises(ConfigurationError, match="processes of their own"):
        sky.Worker(executor="thread")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: sky.Worker(concurrency=0), "concurrency=0"),
        (lambda: sky.S3Volume("/a", 3), "bucket=3: a string"),
        (lambda: sky.S3Volume(3, "bucket"), "mount_path=3"),
        (lambda: sky.S3Volume("/a", "bucket", read_only="no"), "read_only='no': True or False"),
        (lambda: sky.Image().with_pip("torch"), r"pip='torch': .*write \['torch'\]"),
        (lambda: sky.Command([]), r"commands=\[\]"),
        (lambda: sky.Command([["sh"]], addresses=["a", "b"]), "one address for each of the 1"),
        (lambda: sky.Command([["sh"]], addresses="a"), "addresses='a'"),
        (lambda: sky.MultiPool([ComputePool()]), r"write MultiPool\(\*pools\)"),
        (lambda: sky.MultiPool(3), "argument 0 is 3"),
        (lambda: sky.MultiPool(JoblibPool()), r"write `with JoblibPool\(…\):`"),
        (lambda: sky.stdout(only="worker"), "only='worker'"),
        (lambda: sky.silent(3), "a function is expected, not 3"),
        (lambda: sky.compose(print, 3), r"compose\(3\)"),
        (lambda: sky.use_callback(3).__enter__(), r"use_callback\(3\)"),
        (lambda: sky.emit("hello"), r"emit\('hello'\)"),
        (lambda: sky.shard(iter([1])), "a length.*shard_iterator"),
        (lambda: sky.DistributedSampler(3), "a length"),
        (lambda: sky.DistributedSampler([1], seed="a"), "seed='a': a whole number"),
        (lambda: sky.shard([1], seed=1.5), "seed=1.5: a whole number"),
    ],
)
def test_other_nonsense(make, says):
    with pytest.raises(ConfigurationError, match=says):
        make()


def test_values_of_all_kinds_can_be_kept_apart_and_put_into_sets():
    values = [
        sky.Command([["sh", "-c"]]),
        sky.SSH(hosts=["a", "b"], jump=["c"], host_keys={"a": "key"}),
        sky.AWS(),
        sky.Local(),
        Spot.Percent(0.5),
        sky.S3Volume("/a", "bucket"),
        sky.Worker(2),
        sky.accelerators.H100(mig="3g.40gb"),
        sky.InstanceSpec("small", 2, 4),
        sky.Image(pip=["a"]),
        sky.PoolStarted(),
        sky.LogLine(0, "i", "line", 1.0),
        sky.InstanceInfo(0, 1, accelerators=["T4"], peers=[{"node": 0}]),
        sky.ProvisioningCompleted(1, 0, "local", "here", ["i"]),
        sky.PoolStopped("p", 1.0, 2.0, [sky.NodeReceipt(0, "i", 1, 0, 0.5, 1.0)]),
    ]
    for value in values:
        again = pickle.loads(pickle.dumps(value))
        assert again == value and again != "other", value
        assert len({value, again}) == 1, value
        assert type(value).__name__.strip("_") in repr(value)


def test_volumes():
    pool = ComputePool(volume={"/data": "s3://bucket/some/prefix", "/out": "s3://other"})
    assert pool.volume == (
        sky.S3Volume("/data", "bucket", "some/prefix"),
        sky.S3Volume("/out", "other"),
    )
    assert sky.S3Volume("/data", "bucket").read_only is True

    class Own:
        mount_path = "/own"

        def install_commands(self):
            return ["true"]

        def mount_commands(self):
            return ["mkdir -p /own"]

    assert isinstance(Own(), sky.Volume)
    assert len(ComputePool(volume=[Own()]).volume) == 1
    for bad in ("s3://bucket", 3, [3], {"/a": 3}):
        with pytest.raises(TypeError, match="volume"):
            ComputePool(volume=bad)
    for bad in ({"/": "s3://bucket"}, {"/a": "gs://bucket"}, {"relative": "s3://bucket"}):
        with pytest.raises(ConfigurationError, match="volume"):
            ComputePool(volume=bad)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: sky.SSH(hosts=["a"], user=3), "SSH: user=3: a string"),
        (lambda: sky.SSH(hosts=3), r"SSH\(hosts=3\): a list of strings"),
        (lambda: sky.SSH(hosts=["a"], port="x"), "SSH: port='x': a whole number"),
        (lambda: sky.SSH(hosts=["a"], identity_file=3), "identity_file=3: a path"),
        (lambda: sky.Command([["sh", "-c"]], python=3), "Command: python=3: a string"),
        (lambda: sky.testing.FakeCloud(capacity=1), "capacity=1.*a mapping such as"),
        (lambda: sky.testing.FakeCloud(prices={"A10": "x"}), "prices=.*a mapping such as"),
        (lambda: sky.testing.FakeCloud(storms=3), "storms=3.*a list of times"),
        (lambda: sky.testing.FakeCloud(seed="x"), "seed='x'.*a number is"),
        (lambda: sky.Image(pip=["\udcff"]), "pip: character 0"),
    ],
)
def test_values_of_a_wrong_kind_are_refused_where_they_are_given(make, says):
    with pytest.raises(ConfigurationError, match=says):
        make()


def test_numbers_of_numpy_are_numbers():
    pool = ComputePool(
        nodes=numpy.int64(2), timeout=numpy.int64(30), cpu=numpy.float32(2), budget=numpy.float64(1)
    )
    assert (pool.nodes, pool.timeout, pool.cpu, pool.budget) == (2, 30, 2, 1)
    assert type(pool.nodes) is int and type(pool.timeout) is float
    call = sky.compute(timeout=numpy.float32(3), retries=numpy.int8(2))(abs)(1)
    assert (call.timeout, call.retries) == (3, 2) and type(call.retries) is int
    assert call.with_timeout(numpy.int64(5)).timeout == 5
    half = ComputePool(spot=numpy.float32(0.5)).spot
    assert half == Spot.Percent(numpy.float32(0.5)) == Spot.Percent(0.5)
    assert type(half.percentage) is float and repr(half) == "Spot.Percent(percentage=0.5)"
    assert type(Spot.Always(retries=numpy.int64(3)).retries) is int
    assert seconds_of("mpi", numpy.int64(60)) == 60
    for bad in (numpy.bool_(True), numpy.float64(2), numpy.arange(2), True):
        with pytest.raises(ConfigurationError, match="nodes="):
            ComputePool(nodes=bad)


def test_commands_may_mount_volumes():
    provider = sky.Command(commands=[["sh", "-c"]])
    assert ComputePool(provider=provider, volume={"/data": "s3://bucket"}).volume
    shared = sky.Command(commands=[["sh", "-c"]], python=sys.executable)
    pool = ComputePool(provider=shared, volume={"/data": "s3://bucket"}, display="quiet")
    with pytest.raises(ConfigurationError, match="see /data as it is here"), pool:
        pass


def test_a_single_host_is_a_host():
    assert sky.SSH(hosts="10.0.0.5") == sky.SSH(hosts=["10.0.0.5"])
    assert sky.SSH(hosts="a, b").hosts == ("a", "b")


def test_a_cloud_shows_what_was_said():
    assert repr(sky.AWS()) == "AWS()"
    assert repr(sky.AWS("eu-west-1", ami=None)) == "AWS(region='eu-west-1', ami=None)"


def test_an_image_shows_no_secrets():
    image = sky.Image(
        python="3.12",
        pip=["numpy", "x @ https://me:hush@h/x.whl", "git+ssh://git@h/y.git@main"],
        pip_extra_index_url="https://hush@h",
        env={"HF_TOKEN": "hush", "A": "1"},
    )
    assert repr(image) == (
        "Image(python='3.12', pip=['numpy', 'x @ https://…@h/x.whl', 'git+ssh://…@h/y.git@main'],"
        " env={'HF_TOKEN': '…', 'A': '…'})"
    )
    assert repr(sky.Image()) == "Image()"


def test_clouds_are_values():
    assert sky.AWS() == sky.AWS(region="us-east-1", use_ssm=False)
    assert sky.DigitalOcean().region == "nyc1" and sky.Verda().region is None
    assert pickle.loads(pickle.dumps(sky.VastAI(disk_gb=5))) == sky.VastAI(disk_gb=5)
    assert sky.VastAI.ubuntu(cuda="12.8.0").endswith("cuda:12.8.0-runtime-ubuntu24.04")
    assert "hush" not in repr(sky.RunPod(api_key="hush"))
    match sky.AWS(region="eu-west-1"):
        case sky.AWS(region=region):
            assert region == "eu-west-1"
    for name, cloud in CLOUDS.items():
        assert ComputePool(provider=name).provider == cloud()
        with pytest.raises(dataclasses.FrozenInstanceError):
            cloud().region = "x"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: sky.AWS(region=""), "region"),
        (lambda: sky.AWS(region=3), r"AWS\(region=3\) is not valid: expected text"),
        (lambda: sky.AWS(ami=["a"]), "text or None"),
        (lambda: sky.AWS(instance_timeout=True), "a whole number"),
        (lambda: sky.DigitalOcean(token=12345), r"token=…\) is not valid"),
        (lambda: sky.RunPod(ports=(22,)), "a list of strings"),
        (lambda: sky.AWS(use_ssm="perhaps"), "True or False"),
        (lambda: sky.AWS(allocation_strategy="best"), "lowest-price"),
        (lambda: sky.DigitalOcean(region="mars/1"), "the name of a region"),
        (lambda: sky.VastAI(disk_gb=-1), "disk_gb"),
        (lambda: sky.RunPod(cluster_mode="both"), "individual, instant"),
    ],
)
def test_settings_of_clouds_are_checked(make, says):
    with pytest.raises(ConfigurationError, match=says):
        make()


@pytest.mark.parametrize(
    ("here", "options", "there"),
    [
        ("module://matplotlib_inline.backend_inline", {"pip": ["six"]}, ""),
        ("module://matplotlib_inline.backend_inline", {}, None),  # this program's own packages
        ("agg", {"pip": ["six"]}, None),
        ("module://own", {"pip": ["six"], "env": {"MPLBACKEND": "svg"}}, "svg"),
        ("module://own", {"image": sky.Image(pip=["six"], env={"MPLBACKEND": "pdf"})}, None),
    ],
)
def test_plots_of_a_notebook_are_not_those_of_an_environment(monkeypatch, here, options, there):
    monkeypatch.setenv("MPLBACKEND", here)
    pool = ComputePool(provider=sky.Local(), **options)
    assert pool._env().get("MPLBACKEND") == there


def test_this_machine_in_the_place_of_a_cloud(monkeypatch):
    monkeypatch.setenv("SKYWARD_PROVIDER", "local")
    assert ComputePool(provider=sky.AWS()).provider == sky.Local()
    assert ComputePool(provider="runpod").provider == sky.Local()
    with pytest.raises(ConfigurationError):
        ComputePool(provider="nonsense")


def test_what_is_left_out_is_the_same_in_both_faces():
    for cloud in CLOUDS.values():
        said = cloud(*[one.default for one in dataclasses.fields(cloud)])
        assert said.settings() == _core.standard_settings(cloud.name), cloud


@dataclasses.dataclass(frozen=True, repr=False)
class Moon(Cloud):
    """A provider that no table knows."""

    name: ClassVar[str] = "moon"
    labels: dict[str, str] | tuple[str, ...] = ()


def test_pairs_become_texts():
    moon = Moon(labels={"disk": "ssd", "zone": "a"})
    assert moon.settings() == {"labels": "disk=ssd,zone=a"} and hash(moon)
    assert moon == Moon(labels=["disk=ssd", "zone=a"])
    with pytest.raises(ConfigurationError, match="expected a dict of strings or a list of strings"):
        Moon(labels={"disk": 1})


def test_only_what_is_given_is_said():
    assert sky.AWS().settings() == {}
    assert sky.AWS("us-east-1", ami=None).settings() == {"region": "us-east-1"}
    subnets = sky.AWS(subnet_id=["subnet-1", "subnet-2"])
    assert subnets.settings() == {"subnet_id": "subnet-1,subnet-2"}
    assert sky.RunPod(registry_auth=None).settings() == {"registry_auth": "none"}
    assert sky.RunPod(ports=[]).settings() == {}
    two = sky.Slurm(extra=["--constraint=a,b", "--nice"]).settings()
    assert two == {"extra": "--constraint=a,b\n--nice"}
    assert sky.Slurm(extra=[]).settings() == {}
    copied = pickle.loads(pickle.dumps(sky.AWS(use_ssm=False)))
    assert copied.settings() == {"use_ssm": "false"}


def test_a_changed_copy_says_no_more_than_was_said():
    for cloud in CLOUDS.values():
        for other in (cloud(), pickle.loads(pickle.dumps(cloud())), copy.deepcopy(cloud())):
            assert dataclasses.replace(other).settings() == {}, cloud
    base = sky.AWS(region="us-east-1", use_ssm=True)
    changed = dataclasses.replace(dataclasses.replace(base, ami="ami-1"), request_timeout=30)
    assert changed.settings() == {
        "region": "us-east-1",
        "use_ssm": "true",
        "ami": "ami-1",
        "request_timeout": "30",
    }
    assert changed == sky.AWS(use_ssm=True, ami="ami-1")
    assert repr(dataclasses.replace(sky.RunPod(), volume_gb=0)) == "RunPod(volume_gb=0)"
    assert dataclasses.replace(sky.VastAI(verified_only=False)).settings() == {
        "verified_only": "false"
    }


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: sky.ComputePool(node=2), "'node'. Did you mean nodes?"),
        (lambda: sky.ComputePool(concurency=2), "Did you mean concurrency?"),
        (
            lambda: sky.Local(nodes=2),
            r"parameter of the pool: ComputePool\(provider=Local\(…\), nodes",
        ),
        (lambda: sky.testing.FakeCloud(price={"cpu": 1}), "Did you mean prices?"),
        (lambda: sky.Image(package=["x"]), "unexpected keyword argument 'package'"),
        (lambda: sky.pool(node=2), "Did you mean nodes?"),
        (lambda: sky.Executor(node=2), "Did you mean nodes?"),
    ],
)
def test_a_parameter_that_does_not_exist(make, says):
    with pytest.raises(TypeError, match=says):
        make()


def test_a_decorator_refuses_wrong_values_on_its_line():
    with pytest.raises(ConfigurationError, match="budget='5'"):
        sky.pool(nodes=2, budget="5")


def test_signatures_are_those_of_the_documents():
    parameters = inspect.signature(sky.ComputePool).parameters
    assert list(parameters)[:3] == ["provider", "image", "nodes"]
    assert parameters["image"].default == sky.Image()
    assert list(inspect.signature(sky.is_nvidia).parameters) == ["acc"]
    assert list(inspect.signature(sky.is_trainium).parameters) == ["acc"]
    assert list(inspect.signature(sky.use_callback).parameters) == ["cb"]
    assert [field.name for field in dataclasses.fields(sky.InstanceInfo)][:5] == [
        "node",
        "total_nodes",
        "is_head",
        "accelerators",
        "head_addr",
    ]
    assert dataclasses.asdict(sky.InstanceInfo(1, 2))["is_head"] is False
    call = sky.compute(dict)(a=1)
    assert call.kwargs_dict == {"a": 1} and (call & call).computations == (call, call)


def test_names_of_earlier_modules():
    from skyward.integrations import joblib

    from skyward import pending, types

    assert pending.PendingCompute is sky.PendingCompute and types.InstanceInfo is sky.InstanceInfo
    assert joblib.JoblibPool is sky.integrations.JoblibPool


def test_a_python_that_no_node_can_run_is_refused_where_it_is_written():
    with pytest.raises(sky.PythonVersionMismatchError, match="3.11 or newer"):
        sky.Image(python="3.8")
    sky.Image(python="3.13")


def test_labels_of_nodes_are_a_dict_or_texts():
    labels = {"disktype": "ssd", "a.b/c": "d"}
    cluster = sky.Kubernetes(node_selector=labels, tolerations=["x=y:NoSchedule", "z"])
    assert cluster.settings() == {
        "node_selector": "disktype=ssd,a.b/c=d",
        "tolerations": "x=y:NoSchedule,z",
    }
    assert cluster == sky.Kubernetes(
        node_selector=("disktype=ssd", "a.b/c=d"), tolerations=("x=y:NoSchedule", "z")
    )
    assert hash(cluster)
    with pytest.raises(sky.ConfigurationError, match="a dict of strings or a list of strings"):
        sky.Kubernetes(node_selector={"a": 1})


def test_a_choice_without_a_default_may_be_left_out():
    assert sky.Container().settings() == {}
    assert sky.Container(runtime="docker", host="me@box").settings() == {
        "runtime": "docker",
        "host": "me@box",
    }
    with pytest.raises(sky.ConfigurationError, match="podman"):
        sky.Container(runtime="lxc")

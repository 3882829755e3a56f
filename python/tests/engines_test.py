"""What engines say before they start; `./dev engines` tests the engines themselves."""

import sys
from dataclasses import replace

import pytest
from skyward.engines.survey import (
    NodeFacts,
    python_version,
    require_here,
    require_there,
    version_of,
)

import skyward as sky

CLOUDPICKLE = version_of("cloudpickle")
NODE = NodeFacts(
    node=1,
    address="10.0.0.2",
    python=python_version(),
    executable="/usr/bin/python3",
    versions={"cloudpickle": CLOUDPICKLE},
    cpus=2,
    accelerators=0,
)
VERB = "sky.engine(pool)"


def refusal(*nodes):
    with pytest.raises(sky.ConfigurationError) as caught:
        require_there(VERB, ["cloudpickle"], "cloudpickle[all]", nodes)
    return str(caught.value)


def test_equal_versions_are_accepted():
    require_there(VERB, ["cloudpickle"], "cloudpickle", [NODE, replace(NODE, node=2)])


def test_another_version_on_a_node_is_refused():
    text = refusal(NODE, replace(NODE, node=2, versions={"cloudpickle": "0.1"}))
    assert f"node 2 has cloudpickle 0.1, but this program has cloudpickle {CLOUDPICKLE}" in text
    assert f"pip=['cloudpickle[all]=={CLOUDPICKLE}']" in text
    assert len(text.splitlines()) == 3


def test_a_package_that_a_node_lacks_is_named_with_the_version_to_install():
    text = refusal(replace(NODE, versions={"cloudpickle": None}))
    assert "cloudpickle is not installed on node 1 (/usr/bin/python3)" in text
    assert f"pip=['cloudpickle[all]=={CLOUDPICKLE}']" in text


def test_another_python_is_refused():
    assert "node 1 has Python 3.1.4" in refusal(replace(NODE, python="3.1.4"))


def test_another_patch_release_of_python_is_accepted():
    patched = python_version().rpartition(".")[0] + ".99"
    require_there(VERB, ["cloudpickle"], "cloudpickle", [replace(NODE, python=patched)])


def test_several_nodes_without_a_network_are_refused_and_one_is_not():
    alone = replace(NODE, missing_network="command")
    require_there(VERB, ["cloudpickle"], "cloudpickle", [alone])
    assert "the 2 nodes of this pool cannot reach each other" in refusal(alone, alone)


def test_a_package_that_this_program_lacks_is_refused_with_the_command_that_installs_it():
    with pytest.raises(sky.ConfigurationError) as caught:
        require_here(VERB, ["cloudpickle", "no-such-package"], "no-such-package>=2", "as a client")
    text = str(caught.value)
    assert "no-such-package is not installed for this program" in text
    assert f"{sys.executable} -m pip install 'no-such-package>=2'" in text


@pytest.mark.skipif(version_of("distributed") is not None, reason="Dask is installed here")
def test_without_dask_nothing_is_asked_of_the_pool():
    with pytest.raises(sky.ConfigurationError, match="dask"), sky.dask(sky.ComputePool()):
        pass

"""A node to add is the same one in worlds and in questions, with amounts that a node can have."""

from __future__ import annotations

from typing import Any

import click
import pytest

from scheduler import offline
from scheduler.cli.whatif import node_of
from scheduler.explain.what_if.added_nodes import node_manifest
from scheduler.explain.what_if.changes import ChangeError
from scheduler.offline.experiment import Scenario, Simulation
from tests.unit.api.stored.existing import pod
from tests.unit.explain.what_if.test_asker import asked_world, question

TAINTED = offline.node(
    "big", cpu=8, labels={"zone": "a"}, resources={"nvidia.com/gpu": 4},
    taints=("gpu=yes:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "requests", "fits"),
    [
        ("count=1", {"cpu": "4", "memory": "16Gi"}, True),
        ("count=1", {"cpu": "4001m"}, False),
        ("memory=32Gi", {"cpu": "4", "memory": "32Gi"}, True),
        ("nvidia.com/gpu=2", {"nvidia.com/gpu": 2, "cpu": 1}, True),
        ("cpu=0", {"cpu": "1"}, False),
        ("like=big", {"cpu": "8"}, False),
        ("like=big,cpu=1", {"cpu": "1"}, False),
    ],
)
async def test_a_node_to_add_means_one_thing(
    spec: str, requests: dict[str, Any], fits: bool, tmp_path: Any
) -> None:
    import json

    manifest = pod({"resources": {"limits": requests}})
    full = offline.pod("full", cpu=8, node="big")
    asked = node_of(spec)
    with asked_world(TAINTED, full) as (_, _, asker):
        nodes = [{"name": asked.name, "like": asked.like, "resources": asked.resources}]
        found = await asker.what_if(question(manifest=manifest, add_nodes=nodes))
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"kind": "List", "items": [TAINTED, full]}))
    with Simulation(Scenario((str(dump),), add_nodes=(asked,))).world(None, 0) as world:
        copies = world.how_many_fit(manifest).total
    assert (found.fits, copies > 0) == (fits, fits)


def test_a_node_like_another_has_its_amounts_labels_and_taints_but_not_its_state() -> None:
    with offline.World() as world:
        world.add(TAINTED)
        like = world._assembly.tables.get("nodes", "big")
    asked = node_of("like=big,cpu=2,label.zone=b,taint=a:NoExecute")
    made = node_manifest(asked, "new", like)
    assert made["metadata"]["labels"] == {"kubernetes.io/hostname": "new", "zone": "b"}
    assert [each["key"] for each in made["spec"]["taints"]] == ["gpu", "a"]
    assert made["status"]["allocatable"]["cpu"] == "2"
    assert made["status"]["allocatable"]["nvidia.com/gpu"] == 4


BAD = [
    ("cpus=4", "no node has a resource cpus; did you mean cpu?"),
    ("memroy=4Gi", "no node has a resource memroy; did you mean memory?"),
    ("CPU=4", "did you mean cpu?"),
    ("gpu=4", "others have a domain, such as nvidia.com/gpu"),
    ("storage=4Gi", "there are cpu, memory, ephemeral-storage, pods"),
    ("/gpu=4", "'/gpu' is no name of a resource"),
    ("cpu=-1", "must not be negative"),
    ("cpu=many", "cpu: invalid quantity 'many'"),
    ("pods=1.5", "give a whole number"),
    ("nvidia.com/gpu=500m", "give a whole number"),
]


@pytest.mark.parametrize(("spec", "text"), BAD)
async def test_amounts_that_are_no_nodes_are_refused(spec: str, text: str) -> None:
    with pytest.raises(click.BadParameter) as raised:
        node_of(spec)
    assert text in raised.value.message
    name, _, amount = spec.partition("=")
    with asked_world(TAINTED) as (_, _, asker):
        nodes = [{"resources": {name: amount}}]
        with pytest.raises(ChangeError) as refused:
            await asker.what_if(question(manifest=pod(), add_nodes=nodes))
        assert text in str(refused.value)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("labels.zone=b", "did you mean label.KEY=VALUE?"),
        ("taints=a:NoSchedule", "did you mean taint=KEY=VALUE:EFFECT?"),
        ("nmae=n", "did you mean name=NAME?"),
    ],
)
def test_a_misspelt_key_is_refused(spec: str, text: str) -> None:
    with pytest.raises(click.BadParameter) as raised:
        node_of(spec)
    assert text in raised.value.message


async def test_a_taint_without_effect_is_refused() -> None:
    with asked_world(TAINTED) as (_, _, asker):
        nodes = [{"taints": ["a=b:Never"]}]
        with pytest.raises(ChangeError, match="taint 'a=b:Never': write KEY=VALUE:EFFECT"):
            await asker.what_if(question(manifest=pod(), add_nodes=nodes))

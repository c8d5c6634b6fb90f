"""Every workload can be carried out: its templates exist, its sizes fit, its plan survives JSON."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from benchmarks import operations as ops
from benchmarks.load import PLURALS
from benchmarks.templates import TEMPLATES, render
from benchmarks.volume_templates import volume
from benchmarks.workloads import QUICK, SIZES, WORKLOADS

EVERY = [(name, size) for name in WORKLOADS for size in SIZES]


@pytest.mark.parametrize(("name", "size"), EVERY)
def test_a_plan_has_one_window_with_measured_pods_inside(name: str, size: str) -> None:
    plan = WORKLOADS[name].plan(size)

    kinds = [type(operation) for operation in plan]
    opened, closed = kinds.index(ops.OpenWindow), kinds.index(ops.CloseWindow)
    assert kinds.count(ops.OpenWindow) == kinds.count(ops.CloseWindow) == 1
    measured = [
        index
        for index, operation in enumerate(plan)
        if isinstance(operation, ops.CreatePods) and operation.measured
    ]
    assert measured
    assert all(opened < index < closed for index in measured)


@pytest.mark.parametrize(("name", "size"), EVERY)
def test_a_plan_survives_json(name: str, size: str) -> None:
    plan = ops.Plan(
        url="u", ca="c", token="t", scheduler="s", result="r",
        operations=tuple(WORKLOADS[name].plan(size)),
    )  # fmt: skip

    assert msgspec.json.decode(msgspec.json.encode(plan), type=ops.Plan) == plan


@pytest.mark.parametrize("name", WORKLOADS)
def test_no_two_pods_of_a_plan_have_one_name(name: str) -> None:
    keys = Counter[str]()
    for operation in WORKLOADS[name].plan("smoke"):
        if isinstance(operation, ops.CreatePods):
            for index in range(operation.count * operation.rounds):
                pod = render(operation.template, index, operation.count)
                keys[f"{operation.namespace}/{pod['metadata']['name']}"] += 1

    assert keys.most_common(1)[0][1] == 1


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_gives_an_object_of_its_own_to_each_index(name: str) -> None:
    first, second = render(name, 0, 2), render(name, 1, 2)

    assert first["kind"] in PLURALS
    fixed = {"big-node", "unschedulable-node", "node-with-taint", "device-class"}
    fixed |= {name for name in TEMPLATES if name.endswith(("claim-template", "matching-class"))}
    fixed.discard("pod-with-claim-template")
    assert (first["metadata"]["name"] == second["metadata"]["name"]) == (name in fixed)


@pytest.mark.parametrize("kind", ["csi", "ebs", "once"])
def test_a_claim_and_its_volume_name_each_other(kind: str) -> None:
    claim, persistent, name = volume(kind, "space", 3)

    assert claim["metadata"]["name"] == name
    assert claim["spec"]["volumeName"] == persistent["metadata"]["name"]
    assert persistent["spec"]["claimRef"] == {"namespace": "space", "name": name}


def test_sizes_can_be_changed_by_name() -> None:
    plan = WORKLOADS["SchedulingBasic"].plan("smoke", {"pods": 77})

    assert [each.count for each in plan if isinstance(each, ops.CreatePods)] == [5, 77]


def test_a_parameter_that_a_workload_does_not_have_is_refused() -> None:
    with pytest.raises(KeyError, match="gated"):
        WORKLOADS["SchedulingBasic"].plan("smoke", {"gated": 1})


def test_the_quick_workloads_exist() -> None:
    assert len(set(QUICK)) >= 6
    assert set(QUICK) <= set(WORKLOADS)

"""Pods as an API server would store them. The real one is asked in `tests/envtest`."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.api.stored import Nothing, as_stored
from tests.unit.api.stored.existing import (
    JsonObject,
    existing,
    limit_range,
    pod,
    priority_class,
    runtime_class,
)

_GPU = "nvidia.com/gpu"


def _container(manifest: JsonObject, *others: JsonObject) -> JsonObject:
    found: JsonObject = as_stored(manifest, existing(*others)).obj["spec"]["containers"][0]
    return found


@pytest.mark.parametrize(
    ("resources", "requests"),
    [
        ({"limits": {_GPU: 1}}, {_GPU: 1}),
        ({"limits": {"cpu": "1", _GPU: 1}, "requests": {"cpu": "500m"}}, {"cpu": "500m", _GPU: 1}),
        ({"limits": {"cpu": "1"}, "requests": None}, {"cpu": "1"}),
        ({"limits": {"cpu": "1"}, "requests": {"cpu": None}}, {"cpu": "1"}),
        ({"requests": {"cpu": "1"}}, {"cpu": "1"}),
        (None, None),
    ],
)
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_a_container_requests_its_limits(
    resources: Any, requests: JsonObject | None, kind: str
) -> None:
    given = pod()
    given["spec"][kind] = [{"name": "c", "image": "x", "resources": resources}]
    made = as_stored(given, Nothing()).obj["spec"][kind][0]
    assert made["resources"].get("requests") == requests


def test_pod_level_requests_are_those_of_the_containers_then_the_limits() -> None:
    given = pod(
        {"resources": {"requests": {"cpu": "1500m"}, "limits": {"hugepages-2Mi": "4Mi"}}},
        {"resources": {"limits": {"cpu": "500m", _GPU: 1}}},
        resources={"limits": {"cpu": "4", "memory": "1Gi"}},
    )
    made = as_stored(given, Nothing()).obj["spec"]["resources"]
    assert made["requests"] == {"cpu": "2", "memory": "1Gi", "hugepages-2Mi": "4Mi"}
    assert made["limits"] == {"cpu": "4", "memory": "1Gi", "hugepages-2Mi": "4Mi"}


def test_host_ports_follow_from_the_host_network() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 90, "protocol": "UDP"}]
    assert _container(pod({"ports": ports}))["ports"][0] == {"containerPort": 80, "protocol": "TCP"}
    assert _container(pod({"ports": ports}, hostNetwork=True))["ports"] == [
        {"containerPort": 80, "hostPort": 80, "protocol": "TCP"},
        {"containerPort": 81, "hostPort": 90, "protocol": "UDP"},
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"priorityClassName": "urgent"}, ("urgent", 1000, "Never")),
        ({}, ("usual", 5, "PreemptLowerPriority")),
        ({"priorityClassName": ""}, ("usual", 5, "PreemptLowerPriority")),
        (
            {"priorityClassName": "system-node-critical"},
            ("system-node-critical", 2_000_001_000, "PreemptLowerPriority"),
        ),
        ({"priority": 7}, (None, 7, "PreemptLowerPriority")),
        ({"priorityClassName": "absent"}, ("absent", 0, "PreemptLowerPriority")),
    ],
)
def test_a_priority_follows_from_its_class(spec: JsonObject, expected: tuple[Any, ...]) -> None:
    classes = [
        priority_class("urgent", 1000, preemptionPolicy="Never"),
        priority_class("usual", 5, globalDefault=True),
        priority_class("higher", 6, globalDefault=True),
    ]
    made = as_stored(pod(**spec), existing(*classes)).obj["spec"]
    names = ("priorityClassName", "priority", "preemptionPolicy")
    assert tuple(made.get(name) for name in names) == expected


def test_limit_ranges_fill_in_what_a_container_leaves_open() -> None:
    ranges = [
        limit_range("a", {"max": {"cpu": "4"}, "defaultRequest": {"memory": "1Gi"}}),
        limit_range("b", {"default": {"cpu": "2"}, "min": {"example.com/x": 1}}),
        limit_range("c", {"default": {"memory": "9Gi"}}, namespace="other"),
        {**limit_range("d"), "spec": {"limits": [{"type": "Pod", "max": {"cpu": "9"}}]}},
    ]
    made = _container(pod({"resources": {"requests": {"cpu": "1"}}}), *ranges)
    assert made["resources"] == {
        "limits": {"cpu": "4"},
        "requests": {"cpu": "1", "memory": "1Gi", "example.com/x": 1},
    }


def test_a_runtime_class_adds_overhead_and_placement() -> None:
    kata = runtime_class(
        "kata",
        overhead={"podFixed": {"cpu": "250m"}},
        scheduling={
            "nodeSelector": {"kata": "true"},
            "tolerations": [{"key": "kata", "operator": "Exists"}],
        },
    )
    given = pod(
        runtimeClassName="kata",
        nodeSelector={"zone": "a"},
        tolerations=[{"key": "kata", "operator": "Equal", "value": "x"}],
    )
    made = as_stored(given, existing(kata)).obj["spec"]
    assert made["overhead"] == {"cpu": "250m"}
    assert made["nodeSelector"] == {"kata": "true", "zone": "a"}
    tolerated = [each["key"].rpartition("/")[2] for each in made["tolerations"]]
    assert tolerated == ["not-ready", "unreachable", "kata"]
    assert made["tolerations"][-1]["operator"] == "Exists"


@pytest.mark.parametrize(
    ("tolerations", "kept"),
    [
        ([], ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]),
        ([{"operator": "Exists"}], [None]),
        (
            [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}],
            [
                "node.kubernetes.io/not-ready",
                "node.kubernetes.io/not-ready",
                "node.kubernetes.io/unreachable",
            ],
        ),
    ],
)
def test_a_lost_node_is_tolerated_for_a_while(tolerations: list[Any], kept: list[Any]) -> None:
    made = as_stored(pod(tolerations=tolerations), Nothing()).obj["spec"]["tolerations"]
    assert [each.get("key") for each in made] == kept


def test_label_keys_are_merged_into_selectors() -> None:
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "w"}},
        "matchLabelKeys": ["rev", "absent"],
        "mismatchLabelKeys": ["tenant"],
    }
    constraint = {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
        "matchLabelKeys": ["rev"],
    }
    given = pod(
        affinity={
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": {**term, "labelSelector": None}}
                ]
            },
        },
        topologySpreadConstraints=[constraint],
    )
    given["metadata"]["labels"] = {"rev": "2", "tenant": "t"}
    stored = as_stored(given, Nothing())
    spec = stored.obj["spec"]
    own = {"key": "rev", "operator": "In", "values": ["2"]}
    other = {"key": "tenant", "operator": "NotIn", "values": ["t"]}
    (required,) = spec["affinity"]["podAntiAffinity"].popitem()[1]
    assert required["labelSelector"]["matchExpressions"] == [own, other]
    (preferred,) = spec["affinity"]["podAffinity"].popitem()[1]
    assert "labelSelector" not in preferred["podAffinityTerm"]
    (spread,) = spec["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchExpressions"] == [own]
    assert "selectors from matchLabelKeys and mismatchLabelKeys" in stored.filled


def test_a_field_is_dropped_while_its_gate_is_off() -> None:
    given = pod(schedulingGroup={"podGroupName": "g"})
    dropped = as_stored(given, Nothing())
    assert "schedulingGroup" not in dropped.obj["spec"]
    assert any("schedulingGroup dropped" in each for each in dropped.filled)
    kept = as_stored(given, Nothing("GenericWorkload"))
    assert kept.obj["spec"]["schedulingGroup"] == {"podGroupName": "g"}


def test_what_cannot_be_known_is_named() -> None:
    given = pod(priorityClassName="urgent", runtimeClassName="kata")
    assert as_stored(given, Nothing()).unknown == (
        "LimitRanges",
        "PriorityClass urgent (priority 0)",
        "RuntimeClass kata (no overhead)",
    )
    assert as_stored(pod(), Nothing()).unknown == ("LimitRanges", "PriorityClasses (priority 0)")
    assert as_stored(pod(), existing()).unknown == ()
    assert as_stored(pod(), existing(complete=False)).unknown != ()


def test_what_was_stored_comes_out_as_it_was_and_what_is_given_stays() -> None:
    kata = runtime_class("kata", overhead={"podFixed": {"cpu": "250m"}})
    around = existing(kata, limit_range("a", {"max": {"cpu": "4"}}), priority_class("urgent", 9))
    given = pod({"resources": {"limits": {_GPU: 1}}}, runtimeClassName="kata", hostNetwork=True)
    before = repr(given)
    once = as_stored(given, around)
    assert repr(given) == before
    again = as_stored(once.obj, around)
    assert again.obj == once.obj
    assert again.filled == ()

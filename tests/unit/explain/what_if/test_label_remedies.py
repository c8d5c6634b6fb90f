"""Remedies for labels: a misspelt value is corrected, and what says what a node is stays."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import offline
from tests.unit.explain.what_if.test_remedies import SELECTOR, ZONE, world


def zoned(**spec: Any) -> offline.World:
    """Return a world of three nodes in two zones, and a pod."""
    nodes = [offline.node(f"n{at}", labels={ZONE: f"zone-{at // 2}"}) for at in range(3)]
    return world(nodes[0], offline.pod("p", spec=spec), *nodes[1:])


def test_a_misspelt_value_of_a_selector_is_corrected() -> None:
    with zoned(nodeSelector={ZONE: "zone0"}) as made:
        first, second, *_ = made.remedies("default/p").remedies
        assert first.text == f"use zone-0 instead of zone0 in nodeSelector {ZONE}"
        assert second.text == f"drop nodeSelector {ZONE}=zone0"
        assert "did you mean zone-0?" in str(made.explain("default/p"))
    # One that is equally similar to several is no misspelling.
    nodes = [offline.node(f"n{at}", labels={ZONE: f"zone-{at}"}) for at in "abc"]
    pod = offline.pod("p", spec={"nodeSelector": {ZONE: "zone-d"}})
    with world(nodes[0], pod, *nodes[1:]) as made:
        assert made.remedies("default/p").remedies[0].text == f"drop nodeSelector {ZONE}=zone-d"
        shown = str(made.explain("default/p"))
        assert "nodes have zone-a (1), zone-b (1), zone-c (1)" in shown
        assert "did you mean" not in shown
    with zoned(nodeSelector={ZONE: "elsewhere"}) as made:
        first, *_ = made.remedies("default/p").remedies
        assert first.text == f"drop nodeSelector {ZONE}=elsewhere"


def test_a_misspelt_value_of_an_affinity_is_corrected() -> None:
    wanted = {"key": ZONE, "operator": "In", "values": ["far", "zone1"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    with zoned(affinity={"nodeAffinity": required}) as made:
        first, second, *_ = made.remedies("default/p").remedies
        assert first.text == f"use zone-1 instead of zone1 in the node affinity for {ZONE}"
        assert second.text == "drop the required node affinity"
        assert first.steps[0].changes[0].value == ["far", "zone-1"]


ZONES = "topology.kubernetes.io/zones"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERM = {"topologyKey": ZONES, "labelSelector": SELECTOR}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"nodeSelector": {ZONES: "zone-0"}},
            "use label {} instead of {}, which no node has, in nodeSelector",
        ),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": ZONES, "operator": "Exists"}]}
            ]}}}},
            "use label {} instead of {}, which no node has, in the node affinity",
        ),
        (
            {"topologySpreadConstraints": [
                {**TERM, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
            ]},
            "use topologyKey {} instead of {}, which no node has",
        ),
        (
            {"affinity": {"podAffinity": {REQUIRED: [TERM]}}},
            "use topologyKey {} instead of {}, which no node has",
        ),
    ],
)  # fmt: skip
def test_a_misspelt_label_is_corrected_first(spec: dict[str, Any], text: str) -> None:
    labels = SELECTOR["matchLabels"]
    node = offline.node("n", labels={ZONE: "zone-0"})
    with world(node, offline.pod("p", labels=labels, spec=spec)) as made:
        first, *_ = made.remedies("default/p").remedies
        shown = str(made.explain("default/p"))
    assert first.text == text.format(ZONE, ZONES)
    assert f"; did you mean {ZONE}?" in shown


@pytest.mark.parametrize(
    ("wanted", "others", "meant"),
    [
        ("cache", ["caches"], "caches"),
        ("Cache_1", ["cache-1", "web"], "cache-1"),
        ("cache", ["web"], ""),
        ("cache-2", ["cache-1"], ""),
    ],
)
def test_a_misspelt_label_of_pods_to_be_near_is_corrected_first(
    wanted: str, others: list[str], meant: str
) -> None:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": wanted}}}
    pod = offline.pod("p", spec={"affinity": {"podAffinity": {REQUIRED: [term]}}})
    placed = [offline.pod(each, labels={"app": each}, node="n") for each in others]
    elsewhere = offline.pod("x", namespace="other", labels={"app": f"{wanted}s"}, node="n")
    with world(offline.node("n", labels={ZONE: "a"}), pod, *placed, elsewhere) as made:
        first, *_ = made.remedies("default/p").remedies
    corrected = f"use {meant} instead of {wanted} in the required pod affinity for app"
    assert first.text == (corrected if meant else "drop the required pod affinity")


@pytest.mark.parametrize(
    "key",
    [
        ZONE,
        "failure-domain.beta.kubernetes.io/region",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
    ],
)
def test_a_label_that_says_what_a_node_is_is_never_set(key: str) -> None:
    hard = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    expression = {"key": key, "operator": "Exists"}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    for spec in (
        {"nodeSelector": {key: "x"}},
        {"affinity": {"nodeAffinity": required}},
        {"topologySpreadConstraints": [{**hard, "labelSelector": SELECTOR}]},
    ):
        node = offline.node("n")
        node["metadata"]["labels"] = {}
        with world(node, offline.pod("p", spec=spec)) as made:
            found = made.remedies("default/p", limit=20).remedies
            assert found
            assert not [each.text for each in found if "LabelNode" in each.codes]


def test_nodes_to_label_count_as_one_remedy() -> None:
    nodes = [offline.node(name) for name in "abc"]
    pod = offline.pod("p", spec={"nodeSelector": {"disk": "ssd"}})
    with world(nodes[0], pod, *nodes[1:]) as made:
        texts = [each.text for each in made.remedies("default/p", limit=9).remedies]
        assert texts == [
            "label one of 3 nodes, such as a, with disk=ssd",
            "drop nodeSelector disk=ssd",
            "add a node like a, labelled disk=ssd",
        ]

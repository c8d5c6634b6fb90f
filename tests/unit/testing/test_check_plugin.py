"""`check_plugin` finds each kind of fault on random clusters, and none in plugins without."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

from examples.columnar_score.node_cost import NodeCost
from examples.gate_until.not_before import NotBefore
from examples.scalar_filter.app_limit import AppLimit, AppLimitArgs
from plugins import NodeResourcesFit, TaintToleration
from scheduler.framework import ConfigurationError
from scheduler.offline import WorldError
from scheduler.offline.builders import JsonObject
from scheduler.testing import Cluster, ContractViolation, check_plugin
from scheduler.testing.enabling import EnabledPlugin, world_with
from scheduler.testing.examination import examine_plugin
from scheduler.testing.random_clusters import RandomCluster, words_of
from scheduler.testing.strategies import clusters, pods
from tests.unit.testing import faulty_plugins as faulty
from tests.unit.testing.impure_plugin import Lottery
from tests.unit.testing.plugins import (
    AVOID,
    RACK,
    ClosedRacks,
    Forgetful,
    Misspelt,
    RackFilter,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "plugin",
    [
        RackFilter,
        AppLimit,
        NodeCost,
        NotBefore,
        NodeResourcesFit,
        TaintToleration,
        faulty.TierFilter,
        faulty.Licences,
        faulty.Asking,
    ],
)
def test_a_plugin_without_faults_passes(plugin: Any) -> None:
    report = check_plugin(plugin, clusters=4)
    assert report.clusters == 4
    assert not report.problems


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plugin", "problem"),
    [
        (faulty.SkippingHint, "Filter accepts node .* since the labels of .* the hint of"),
        (faulty.ForgottenEvent, "since the labels of pod .* stays unschedulable"),
        (faulty.ForgottenGate, "pre_enqueue admits it since the labels of pod .* stays gated"),
        (faulty.LeakingLicences, "Unschedulable: no licence is free after 20 reservations"),
        (faulty.LastingReservation, "reserve and unreserve left something behind"),
        (faulty.Labelling, "changed pod .*: objects are shared"),
        (faulty.Tainting, "changed node .*: objects are shared"),
        (faulty.WrongReuse, "without a change that its reuse rule declares"),
        (faulty.Counting, "filter returned first .* and then"),
        (faulty.Remembering, "the same cluster was decided differently"),
        (faulty.Hanging, "pre_filter did not return within its timeout of 2 s"),
        (faulty.Stubborn, "pre_filter swallows CancelledError"),
        (faulty.Raising, r"LookupError: no such tier \(.*faulty_plugins.py:\d+: raise"),
        (Lottery, "impure_plugin.py, line 5: imports random: use the Handle"),
        (Lottery, "calls datetime.now"),
    ],
)
def test_a_fault_is_found(plugin: Any, problem: str) -> None:
    with pytest.raises(ContractViolation, match=problem):
        check_plugin(plugin)


def test_a_plugin_that_asks_the_clock_of_the_machine_is_named_once() -> None:
    problems = examine_plugin(Lottery, clusters=3).problems
    assert len(problems) == len(set(problems))


@pytest.mark.slow
def test_the_report_counts_what_was_tried() -> None:
    report = check_plugin(RackFilter, clusters=6)
    assert (report.name, report.points) == ("example.com/RackFilter", ("Filter",))
    assert report.accepted
    assert report.rejected
    assert report.woken
    assert [each.method for each in report.speeds] == ["filter"]
    assert not list(report.notes())


def test_the_report_says_what_the_clusters_could_not_show() -> None:
    # No port is asked for in a random cluster.
    from plugins import NodePorts

    (note,) = check_plugin(NodePorts, clusters=2).notes()
    assert note.startswith("Filter rejected nothing, so hints were not tried")


def test_a_plugin_over_its_budget_is_a_violation() -> None:
    with pytest.raises(ContractViolation, match=r"filter takes .* µs a node, and may take 0"):
        check_plugin(RackFilter, clusters=1, budget=0.0)


@pytest.mark.parametrize(
    ("plugin", "args", "text"),
    [(Misspelt, None, "fliter"), (AppLimit, {"limit": 0}, "lets no pod in")],
)
def test_what_cannot_be_enabled_is_a_configuration_error(plugin: Any, args: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        check_plugin(plugin, args)


def test_words_come_from_source_and_arguments_and_the_caller() -> None:
    words = words_of(RackFilter, keys=["example.com/own"])
    assert {AVOID, RACK, "example.com/own"} <= set(words.keys)
    assert RackFilter.name not in words.keys
    words = words_of(AppLimit, AppLimitArgs(label="team"))
    assert words.keys[0] == "team"
    assert "team" in words.values


def test_words_of_a_class_without_source_are_the_usual_ones() -> None:
    made = type("Made", (), {"__module__": "nowhere", "name": "x"})
    assert words_of(made).keys == ("topology.kubernetes.io/zone", "app")


@pytest.mark.parametrize("seed", range(3))
def test_the_same_seed_makes_the_same_cluster_and_changes(seed: int) -> None:
    def played() -> tuple[list[str], bytes]:
        with world_with([EnabledPlugin(RackFilter)]) as world:
            cluster = RandomCluster(world, Random(seed), words_of(RackFilter))
            cluster.fill(nodes=3, running=4, pending=5)
            changes = [cluster.change() for _ in range(25)]
            return changes, world.schedule().to_json()

    assert played() == played()


@pytest.mark.slow
@settings(max_examples=15)
@given(cluster=clusters(RackFilter), incoming=pods(RackFilter))
def test_strategies_make_clusters_on_which_a_property_can_be_tested(
    cluster: Cluster, incoming: JsonObject
) -> None:
    with cluster:
        (key,) = cluster.add_pods(incoming)
        cluster.world.schedule()
        where = cluster.world.pod(key).spec.node_name
        avoided = incoming["metadata"]["annotations"].get(AVOID, "").split(",")
        if where:
            nodes = {
                n.metadata.name: n for n in cluster.world._assembly.tables.stores["nodes"].list()
            }
            assert nodes[where].metadata.labels.get(RACK) not in avoided


RACKS = [
    {
        "apiVersion": "example.com/v1",
        "kind": "Rack",
        "metadata": {"name": name},
        "spec": {"closed": closed},
    }
    for name in ("a", "b", "c")
    for closed in (False, True)
]


def test_custom_objects_come_and_go_in_the_clusters() -> None:
    report = check_plugin(ClosedRacks, objects=RACKS, clusters=4)
    assert report.rejected
    assert report.woken
    assert not list(report.notes())


def test_a_missing_event_about_custom_objects_is_found() -> None:
    with pytest.raises(ContractViolation, match=r"Rack . (was removed|changed)"):
        check_plugin(Forgetful, objects=RACKS, clusters=4)


def test_the_report_names_custom_resources_that_were_not_tried() -> None:
    notes = list(check_plugin(ClosedRacks, clusters=2).notes())
    assert notes[-1] == (
        "there were no objects of example.com/v1/racks; give manifests with `objects`"
    )


def test_objects_that_nothing_reads_are_an_error() -> None:
    with pytest.raises(WorldError, match="scheduling reads no such objects"):
        check_plugin(RackFilter, objects=RACKS)

"""The cluster of the test kit: what it schedules, and how its assertions fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler.framework import ConfigurationError
from scheduler.testing import Cluster, Snapshot, node, pod
from tests.unit.testing.plugins import (
    AVOID,
    RACK,
    Broken,
    Gate,
    Misspelt,
    RackFilter,
    RankArgs,
    RankScore,
)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as found:
        yield found


def racks(cluster: Cluster) -> Cluster:
    """Two nodes in two racks, and the plugin that reads the racks."""
    cluster.enable(RackFilter)
    for name in ("r1", "r2"):
        cluster.add_node(node(f"node-{name}", labels={RACK: name}))
    return cluster


def picky(avoided: str) -> dict[str, object]:
    return pod("picky", annotations={AVOID: avoided})


@pytest.mark.parametrize(("avoided", "chosen"), [("r1", "node-r2"), ("r2", "node-r1")])
def test_an_enabled_plugin_decides(cluster: Cluster, avoided: str, chosen: str) -> None:
    racks(cluster).add_pods(picky(avoided))
    cluster.assert_scheduled("picky", node=chosen)
    cluster.assert_scheduled("default/picky")


def test_a_rejected_pod_is_unschedulable_by_its_plugin(cluster: Cluster) -> None:
    racks(cluster).add_pods(picky("r1,r2"))
    cluster.assert_unschedulable("picky")
    cluster.assert_unschedulable("picky", plugin="example.com/RackFilter", reason="avoided rack r2")


@pytest.mark.parametrize(
    ("avoided", "claim", "text"),
    [
        ("r1,r2", lambda c: c.assert_scheduled("picky"), "was to be scheduled, but it waits"),
        ("r1,r2", lambda c: c.assert_scheduled("picky", "n9"), "scheduled to n9, but it waits"),
        ("r1", lambda c: c.assert_scheduled("picky", "node-r1"), "to be on node-r1, but it is on"),
        ("r1", lambda c: c.assert_unschedulable("picky"), "unschedulable, but it is on node-r2"),
        (
            "r1,r2",
            lambda c: c.assert_unschedulable("picky", plugin="NodeName"),
            "rejected by NodeName, but it is by example.com/RackFilter",
        ),
        (
            "r1,r2",
            lambda c: c.assert_unschedulable("picky", reason="rack r7"),
            "rejected with 'rack r7', but not so",
        ),
    ],
)
def test_a_failed_assertion_says_what_is_the_case(
    cluster: Cluster, avoided: str, claim: Callable[[Cluster], None], text: str
) -> None:
    racks(cluster).add_pods(picky(avoided))
    with pytest.raises(AssertionError) as raised:
        claim(cluster)
    assert text in str(raised.value)


def test_a_failed_assertion_explains_as_the_command_does(cluster: Cluster) -> None:
    racks(cluster).add_pods(picky("r1,r2"))
    with pytest.raises(AssertionError, match=r"None of 2 nodes fits: .*example.com/RackFilter"):
        cluster.assert_scheduled("picky")


def test_a_plugin_that_raises_is_no_rejection(cluster: Cluster) -> None:
    cluster.enable(Broken)
    cluster.add_node(node())
    cluster.add_pods(pod("web"))
    with pytest.raises(AssertionError, match=r"the attempt failed: .*no such rack"):
        cluster.assert_unschedulable("web")


def test_time_passes_only_as_the_test_says(cluster: Cluster) -> None:
    cluster.enable(Gate)
    cluster.add_node(node())
    cluster.add_pods(pod("web"))
    cluster.assert_unschedulable("web", plugin="example.com/Gate", reason="one hour")
    cluster.tick(3599.0)
    cluster.assert_unschedulable("web")
    cluster.tick(2.0)
    cluster.assert_scheduled("web")


def test_events_are_kept_in_order(cluster: Cluster) -> None:
    cluster.enable(Gate)
    cluster.add_node(node())
    cluster.add_pods(pod("web"))
    cluster.tick(3601.0)
    found = [(each.regarding, each.type, each.reason, each.note) for each in cluster.events]
    assert found[0] == ("default/web", "Normal", "Held", "3600 s left")
    assert found[-1][:3] == ("default/web", "Normal", "Scheduled")
    times = [each.time for each in cluster.events]
    assert times == sorted(times)


@pytest.mark.parametrize("args", [{"rankLabel": "rank"}, RankArgs(rank_label="rank")])
def test_arguments_are_those_of_a_configuration_or_a_record(
    cluster: Cluster, args: dict[str, str] | RankArgs
) -> None:
    cluster.enable(RankScore, args, weight=50)
    cluster.add_node(node("low", labels={"rank": "1"}))
    cluster.add_node(node("high", labels={"rank": "90"}))
    cluster.add_pods(pod("web"), count=2)
    cluster.assert_scheduled("web-0", node="high")
    assert cluster.plugin("example.com/RankScore").args.rank_label == "rank"


@pytest.mark.parametrize(
    ("plugin", "args", "text"),
    [
        (Misspelt, None, "does not know fliter: did you mean `def filter"),
        (RankScore, {"rankLable": "x"}, "rankLable"),
        (RankScore, {"rankLabel": ""}, "rankLabel: is empty"),
        (RackFilter, {"racks": 1}, "racks"),
    ],
)
def test_faults_of_a_class_or_its_arguments_are_found_when_it_is_enabled(
    cluster: Cluster, plugin: type, args: dict[str, object] | None, text: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        cluster.enable(plugin, args)
    assert text in str(raised.value)
    cluster.add_node(node())
    cluster.add_pods(pod("web"))
    cluster.assert_scheduled("web")


def test_a_plugin_is_enabled_before_the_cluster_is_used(cluster: Cluster) -> None:
    cluster.add_node(node())
    with pytest.raises(RuntimeError, match="before anything is added"):
        cluster.enable(RackFilter)


def test_a_plugin_that_is_not_enabled_is_an_error(cluster: Cluster) -> None:
    with pytest.raises(ConfigurationError, match=r"no plugin X is enabled; there are .*NodeName"):
        cluster.plugin("X")


def test_a_configuration_file_names_plugins_and_folders() -> None:
    examples = Path(__file__).parents[3] / "examples" / "gate_until"
    with Cluster(config=examples / "config.yaml", plugin_dirs=[examples]) as cluster:
        cluster.add_node(node())
        later = {"example.com/not-before": "2026-01-01T00:10:00Z"}
        cluster.add_pods(pod("later", annotations=later))
        cluster.assert_unschedulable("later", plugin="example.com/NotBefore")
        cluster.tick(601.0)
        cluster.assert_scheduled("later")
        with pytest.raises(RuntimeError, match=r"enable the plugin in .*config\.yaml"):
            cluster.enable(RackFilter)


def test_decisions_show_nodes_scores_and_reasons(cluster: Cluster) -> None:
    racks(cluster).add_pods(picky("r1"))
    cluster.add_pods(pod("none", annotations={AVOID: "r1,r2"}))
    waits, placed = cluster.decisions().splitlines()
    assert waits.startswith(
        "default/none: waits, unschedulable: 0/2 nodes are available: 1 node(s)"
    )
    assert waits.endswith("(by example.com/RackFilter)")
    assert placed.startswith("default/picky: node-r2, one of 1 that fit")


def test_a_snapshot_fails_until_it_is_written_and_when_decisions_change(tmp_path: Path) -> None:
    file = tmp_path / "decisions" / "test.txt"

    def run(avoided: str, *, update: bool) -> None:
        with Cluster(snapshot=Snapshot(file, update)) as cluster:
            racks(cluster).add_pods(picky(avoided))
            cluster.assert_decisions()

    with pytest.raises(AssertionError, match="does not exist; pytest --update-decisions"):
        run("r1", update=False)
    run("r1", update=True)
    run("r1", update=False)
    with pytest.raises(AssertionError, match=r"\+default/picky: node-r1"):
        run("r2", update=False)
    run("r2", update=True)
    run("r2", update=False)


def test_a_snapshot_needs_a_file(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="name the file"):
        cluster.assert_decisions()
    file = tmp_path / "own.txt"
    Snapshot(file, update=True).check(cluster.decisions())
    cluster.assert_decisions(file)

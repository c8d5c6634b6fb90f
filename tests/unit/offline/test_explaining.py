"""Records explain themselves: scores of the next best nodes, and the numbers behind reasons."""

from __future__ import annotations

import json
from pathlib import Path

from scheduler import offline

NOTHING_REMEMBERED = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: default-scheduler}]
kubestow: {decisionHistory: {pods: 0}}
"""


def filled(config: Path | None = None) -> offline.Result:
    """Schedule a pod that has a choice, and one that fits nowhere."""
    with offline.World(config=config) as world:
        world.add_nodes(offline.node("free", cpu=8))
        world.add_nodes(offline.node("used", cpu=8))
        world.add_pods(offline.pod("there", cpu=6, memory="1Gi", node="used"))
        world.add_pods(offline.pod("web", cpu=1, memory="1Gi"))
        world.add_pods(offline.pod("big", cpu=9))
        return world.schedule()


def test_a_placement_says_how_the_next_best_node_compares() -> None:
    placed = filled()["default/web"]
    first, second = placed.explain().splitlines()
    assert first.startswith("default/web is on free (total ")
    assert first.endswith(", one of 2 nodes found to fit, after 1 attempt and 0 s")
    assert second.startswith("  next used (total ")
    assert "NodeResourcesFit -" in second
    assert placed.decision is not None
    totals = [each.total for each in placed.decision.best]
    assert totals == sorted(totals, reverse=True)
    chosen, other = placed.decision.best
    difference = sum(each.weighted for each in other.scores) - sum(
        each.weighted for each in chosen.scores
    )
    assert difference == other.total - chosen.total < 0


def test_a_waiting_pod_says_the_numbers_behind_its_reasons() -> None:
    waiting = filled()["default/big"]
    first, second = waiting.explain().splitlines()
    assert first.startswith("default/big waits, unschedulable: 0/2 nodes are available")
    assert second == "  2 nodes: Insufficient cpu: wants 9 cpu, the largest node has 8"
    assert waiting.decision is not None
    assert [each.nodes for each in waiting.decision.rejections] == [2]


def test_equal_nodes_are_called_so() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node(), count=2)
        world.add_pods(offline.pod("web"))
        lines = world.schedule()["default/web"].explain().splitlines()
    assert lines[1].endswith("equal scores, a tie")


def test_records_explain_themselves_where_no_decisions_are_remembered(tmp_path: Path) -> None:
    config = tmp_path / "profiles.yaml"
    config.write_text(NOTHING_REMEMBERED)
    result = filled(config)
    assert all(each.decision is None for each in result)
    assert result["default/web"].explain().startswith("default/web is on free, one of 2 nodes")
    assert "Insufficient cpu" in result["default/big"].explain()


def test_the_json_of_a_result_has_its_documented_fields_alone() -> None:
    content = json.loads(filled().to_json())
    assert set(content) == {"began", "ended", "placed", "waiting", "evicted", "finished"}
    records = [*content["placed"], *content["waiting"]]
    assert len(records) == 2
    assert not [name for each in records for name in each if name.startswith("_")]


def test_the_record_outlives_the_world_and_the_memory_of_it() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node(cpu=64))
        world.add_pods(offline.pod("first"))
        first = world.schedule()["default/first"]
        before = first.decision
        world.remove("Pod", "first")
        world.add_pods(offline.pod("later"), count=3)
        world.schedule()
    assert first.decision == before

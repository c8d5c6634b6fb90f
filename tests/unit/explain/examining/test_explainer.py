"""Explanations of single pods: their state, without a trace of the examination."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from scheduler.api import Pod
from scheduler.api.pod import PodStatus
from scheduler.explain.records import PodState
from scheduler.explain.records.story import tell
from scheduler.framework import Code, NominatingInfo, PostFilterResult, Status, unschedulable
from scheduler.queue import QueueState
from tests.unit.engine.harness import PROFILE, plugin
from tests.unit.explain.examining.explaining import ExplainedWorld, fail, in_tree_world, reject_if

# -- no trace ------------------------------------------------------------------------------------


class Untouchable(random.Random):
    """A random source that must not be used."""

    def randrange(self, *_: Any, **__: Any) -> int:
        raise AssertionError


def test_explaining_changes_nothing() -> None:
    never = dict.fromkeys(("reserve", "unreserve", "permit", "post_filter"), fail)
    refuse = plugin("Refuse", filter=lambda state, pod, node: reject_if(node.name != "n1", "no"))
    world = ExplainedWorld(refuse, plugin("Never", **never), plugin("S", score=lambda *_: 1))
    world.nodes("n1", "n2", "n3")
    world.pending("fits")
    world.pending("second")
    world.engine._random = Untouchable()
    world.algorithm.choose_tied = fail
    search = world.algorithm.search
    search.rotation = 2
    before = _traces(world)
    for name in ("fits", "second"):
        first = world.explain(name)
        assert world.explain(name) == first
    world.cache.remove_node("n1")
    after_removal = _traces(world)
    assert world.examined("fits").feasible == 0
    assert _traces(world) == after_removal
    assert {**before, "sequence": 0, "nodes": 0} == {**after_removal, "sequence": 0, "nodes": 0}
    world.cache.validate()
    world.queue.validate()


def _traces(world: ExplainedWorld) -> dict[str, object]:
    cache = world.cache.statistics()
    return {
        "sequence": cache.change_log_sequence,
        "nodes": cache.nodes,
        "pods": (cache.pods, cache.assumed_pods),
        "queue": (world.queue.statistics(), world.queue.views()),
        "engine": world.engine.statistics(),
        "rotation": world.algorithm.search.rotation,
        "metrics": list(world.metrics.points),
    }


# -- the state of the pod -------------------------------------------------------------------------


def test_an_unknown_pod_is_a_lookup_error_with_possible_causes() -> None:
    with pytest.raises(LookupError, match='no pod "default/ghost": it does not exist'):
        in_tree_world().explain("ghost")


@pytest.mark.parametrize(
    ("options", "text"),
    [({"top": -1}, "nodes=-1"), ({"top": 1001}, "nodes=1001"), ({"examples": 5000}, "examples")],
)
def test_limits_are_checked(options: dict[str, Any], text: str) -> None:
    world = in_tree_world()
    world.pending()
    with pytest.raises(ValueError, match=text):
        world.explain(**options)


def test_a_pod_of_another_scheduler_is_examined_as_if_it_were_ours() -> None:
    world = in_tree_world()
    world.nodes("n1")
    world.exists(world.pod(schedulerName="default-scheduler", nodeSelector={"disk": "ssd"}))
    explanation = world.explain(node="n1")
    assert (explanation.state, explanation.queue) == (PodState.NOT_OURS, None)
    assert (explanation.profile, explanation.examined_by) == ("default-scheduler", PROFILE)
    first, second, *_, last = tell(explanation)
    assert '"default-scheduler"' in first
    assert second.startswith(
        f'What if "{PROFILE}" were to place it? None of 1 node fits: 1 (n1) has'
    )
    assert last == "That is what this scheduler sees; the other one decides by rules of its own."
    assert explanation.report is not None
    assert not explanation.report.fits


def test_a_slip_in_the_name_of_the_scheduler_is_told() -> None:
    world = in_tree_world()
    world.nodes("n1")
    slip = f"{PROFILE}-".upper()
    world.exists(world.pod(schedulerName=slip))
    explanation = world.explain()
    assert (explanation.state, explanation.examined_by) == (PodState.NOT_OURS, PROFILE)
    assert tell(explanation)[0] == (
        f'Not ours: schedulerName is "{slip}"; did you mean "{PROFILE}"? The schedulerName of a '
        "pod cannot be changed: correct it in the manifest, or in the template of the pod's owner, "
        "and create the pod anew."
    )


def test_a_pod_of_another_scheduler_would_fit() -> None:
    world = in_tree_world()
    world.nodes("n1", "n2")
    world.exists(world.pod(schedulerName="default-scheduler"))
    told = " ".join(tell(world.explain()))
    assert "were to place it? It would fit on 2 of 2 nodes now, best on n1 and 1 other" in told


def test_a_pod_of_another_scheduler_that_goes_is_not_examined() -> None:
    world = in_tree_world()
    world.nodes("n1")
    pod = world.exists(world.pod(schedulerName="default-scheduler"))
    pod.metadata.deletion_timestamp = "2030-01-01T00:00:00Z"
    explanation = world.explain()
    assert (explanation.state, explanation.nodes) == (PodState.NOT_OURS, None)
    assert len(tell(explanation)) == 1


BOUND_AT = "2030-01-01T00:00:00Z"
STARTED_AT = "2030-01-01T00:00:05Z"


def _bound(
    world: ExplainedWorld, conditions: list[dict[str, Any]], start: str | None, **spec: Any
) -> Pod:
    pod = world.pod(nodeName="n1", **spec)
    pod.status = msgspec.convert({"conditions": conditions, "startTime": start}, PodStatus)
    return world.exists(pod)


@pytest.mark.parametrize(
    ("conditions", "start", "since"),
    [
        (
            [{"type": "PodScheduled", "status": "True", "lastTransitionTime": BOUND_AT}],
            STARTED_AT,
            BOUND_AT,
        ),
        ([], STARTED_AT, STARTED_AT),
        ([{"type": "PodScheduled", "status": "False", "lastTransitionTime": "x"}], None, ""),
    ],
)
def test_a_bound_pod_has_its_node_and_the_time(
    conditions: list[dict[str, Any]], start: str | None, since: str
) -> None:
    world = in_tree_world()
    world.nodes("n1")
    world.cache.add_pod(_bound(world, conditions, start))
    explanation = world.explain()
    assert (explanation.state, explanation.node, explanation.since, explanation.nodes) == (
        PodState.BOUND,
        "n1",
        since,
        None,
    )
    assert explanation.summary.startswith("bound to node n1")
    assert since in explanation.summary


def test_a_pod_bound_by_another_scheduler_has_its_name() -> None:
    world = in_tree_world()
    _bound(world, [], None, schedulerName="other")
    assert world.explain().summary == 'bound to node n1, by scheduler "other"'


def test_a_pod_that_is_being_bound_has_its_node() -> None:
    world = in_tree_world()
    world.nodes("n1")
    pod = world.exists(world.pod())
    world.cache.assume_pod(pod, "n1")
    explanation = world.explain()
    assert (explanation.state, explanation.node, explanation.nodes) == (
        PodState.BINDING,
        "n1",
        None,
    )


def test_a_pod_that_waits_at_permit_has_its_plugins_and_deadline() -> None:
    world = ExplainedWorld(plugin("Gang", permit=lambda *_: (Status(Code.WAIT), 30.0)))
    world.nodes("n1")
    world.attempt(world.exists(world.pod()))
    world.clock.time += 10
    explanation = world.explain()
    assert (explanation.state, explanation.node) == (PodState.WAITING_AT_PERMIT, "n1")
    assert explanation.summary.endswith("waits at Permit for Gang, for 20 s at most")


def _binding(*pre_binding: str, group: str = "") -> str:
    """Return the summary of a pod 6 minutes after its node was chosen."""
    quick = {"pre_bind": lambda *_: None}
    told = plugin("Told", explain_pre_bind=lambda *_: "until x is y, for at most 10m", **quick)
    broken = plugin("Broken", explain_pre_bind=fail, **quick)
    world = ExplainedWorld(told, plugin("Silent", **quick), broken)
    world.nodes("n1")
    attempt = world.attempt(world.exists(world.pod()))
    attempt.pre_binding, attempt.awaited_group = pre_binding, group
    world.bindings[attempt.info.uid] = attempt
    world.clock.time += 360
    explanation = world.explain()
    assert (explanation.state, explanation.node) == (PodState.BINDING, "n1")
    return explanation.summary.removeprefix("node n1 was chosen 6m ago; ")


def test_a_pod_whose_binding_waits_has_for_what() -> None:
    until = "until x is y, for at most 10m"
    assert _binding() == "the binding is under way"
    assert _binding("Told") == f"its binding waits {until}"
    assert _binding("Silent") == "its binding waits for PreBind of plugin Silent"
    assert _binding("Told", "Silent") == (
        f"its binding waits {until} and waits for PreBind of plugin Silent"
    )
    assert _binding("Broken").startswith(
        "its binding waits for plugin Broken, which cannot explain it: RuntimeError"
    )
    assert _binding(group="g") == "its binding waits for that of other members of pod group g"


def test_slow_bindings_are_listed_with_the_oldest_first() -> None:
    gang = plugin(
        "Gang", permit=lambda _s, pod, _n: (Status(Code.WAIT), 30.0) if pod.priority else None
    )
    world = ExplainedWorld(gang)
    world.nodes("n1")
    for name, priority in (("old", 0), ("gang", 1), ("new", 0)):
        attempt = world.attempt(world.exists(world.pod(name, priority=priority)))
        world.bindings[attempt.info.uid] = attempt
        world.clock.time += 0.75
    old, waiting = world.explainer.slow_bindings("", 9)
    assert (old.name, old.node, old.since, old.text) == (
        "old", "n1", 1_000.0, "node n1 was chosen 2s ago; the binding is under way",
    )  # fmt: skip
    assert (waiting.name, waiting.text) == (
        "gang", "node n1 was chosen; waits at Permit for Gang, for 28 s at most",
    )  # fmt: skip
    assert world.explainer.slow_bindings("", 1) == [old]
    assert world.explainer.slow_bindings("elsewhere", 9) == []


def test_a_binding_that_has_just_begun_is_under_way() -> None:
    world = ExplainedWorld()
    world.nodes("n1")
    attempt = world.attempt(world.exists(world.pod()))
    assert world.explain().summary == "node n1 was chosen; the binding is under way"
    world.bindings[attempt.info.uid] = attempt
    assert world.explain().summary == "node n1 was chosen; the binding is under way"


def test_a_permit_plugin_says_what_a_waiting_pod_waits_for() -> None:
    gang = plugin(
        "Gang",
        permit=lambda *_: (Status(Code.WAIT), 30.0),
        explain=lambda *_: ("2 of 3 members are there",),
    )
    world = ExplainedWorld(gang, plugin("Other", explain=lambda *_: ("not concerned",)))
    world.nodes("n1")
    world.attempt(world.exists(world.pod()))
    summary = world.explain().summary
    assert summary.endswith("for 30 s at most; 2 of 3 members are there")


def test_a_gated_pod_names_its_gate_and_whether_it_would_fit() -> None:
    world = in_tree_world()
    world.nodes("n1", "n2")
    world.pending(schedulingGates=[{"name": "example.com/quota"}])
    explanation = world.explain()
    assert explanation.state is PodState.QUEUED
    assert explanation.queue is not None
    assert (explanation.queue.place, explanation.queue.gating_plugin) == (
        QueueState.GATED,
        "SchedulingGates",
    )
    assert explanation.summary == (
        "held at the gate of plugin SchedulingGates (waiting for scheduling gates: "
        "[example.com/quota]); once let in, it would fit on 2 of 2 nodes now"
    )


def test_a_queued_pod_has_its_sub_queue_and_the_number_of_nodes_that_fit() -> None:
    world = in_tree_world()
    world.node("n1", allocatable={"cpu": "1", "memory": "32Gi", "pods": "110"})
    world.pending(**world.requests(2000))
    world.try_next()
    explanation = world.explain()
    assert explanation.summary == (
        "unschedulable: waits for an event that plugin(s) NodeResourcesFit registered; "
        "it fits on 0 of 1 nodes now"
    )
    assert explanation.queue is not None
    assert (explanation.queue.attempts, explanation.queue.unschedulable_plugins) == (
        1,
        ("NodeResourcesFit",),
    )


def test_an_active_pod_has_its_position_and_a_popped_pod_is_being_scheduled() -> None:
    world = in_tree_world()
    world.nodes("n1")
    world.pending("first", priority=10)
    world.pending("second")
    assert world.explain("second").summary.startswith("in the active queue, behind 1;")
    assert world.explain("first").summary.startswith("in the active queue; it fits on 1 of 1")
    world.queue.pop()
    assert world.explain("first").summary.startswith("being scheduled at this moment")


def test_a_pod_being_deleted_is_not_examined() -> None:
    world = in_tree_world()
    world.nodes("n1")
    pod = world.pending()
    pod.metadata.deletion_timestamp = "2030-01-01T00:00:00Z"
    explanation = world.explain()
    assert (explanation.state, explanation.nodes) == (PodState.TERMINATING, None)


def test_a_pod_in_no_queue_is_examined_even_if_a_queued_pod_has_its_name() -> None:
    world = in_tree_world()
    world.nodes("n1")
    world.pending()
    replaced = world.pod()
    replaced.metadata.uid = "another"
    world.exists(replaced)
    explanation = world.explain()
    assert (explanation.state, explanation.queue) == (PodState.UNKNOWN, None)
    assert (
        explanation.summary
        == "pending, but in no queue at this moment; it fits on 1 of 1 nodes now"
    )


def test_a_post_filter_that_would_evict_is_not_run() -> None:
    called = []

    def evict(*_: object) -> PostFilterResult:
        called.append("evicted")
        return PostFilterResult(None, NominatingInfo("n1"))

    world = ExplainedWorld(
        plugin("F", filter=lambda *_: unschedulable("no")), plugin("E", post_filter=evict)
    )
    world.nodes("n1")
    world.pending()
    assert world.examined().feasible == 0
    assert called == []
    assert world.queue.nominator.nominated_nodes() == ()

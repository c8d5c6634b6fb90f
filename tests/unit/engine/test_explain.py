"""The explanation equals the decision of a cycle, and leaves no trace."""

from __future__ import annotations

import random
from dataclasses import asdict
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis.stateful import rule, run_state_machine_as_test

from plugins import DEFAULT_PLUGINS, in_tree
from scheduler.api import Pod
from scheduler.api.pod import PodStatus
from scheduler.engine import Examination, Explainer, PodExplanation, PodState, Rejection
from scheduler.engine.examination import examine
from scheduler.framework import (
    SKIP,
    Code,
    NominatingInfo,
    PostFilterResult,
    PreFilterResult,
    Status,
    unresolvable,
    unschedulable,
)
from scheduler.queue import QueueState, SchedulingQueue, build_hint_map
from tests.unit.engine import test_reuse
from tests.unit.engine.harness import PROFILE, World, plugin


class Room(World):
    """A world with a queue, and what is needed to ask about a pod."""

    def __init__(self, *plugins: type[Any], **options: Any) -> None:
        super().__init__(*plugins, **options)
        self.known: dict[str, Pod] = {}
        self.queue = SchedulingQueue(
            self.clock,
            self.framework.queue_sort.sort_key,
            {PROFILE: self.framework.pre_enqueue},
            {PROFILE: build_hint_map(self.framework.event_plugins())},
            pod_lister=self.find,
        )
        self.nominations: Any = self.queue.nominator
        self.engine = self.another_engine(reuse=True)
        self.explainer = Explainer(self.engine, self.queue, self.find, clock=self.clock)

    def find(self, namespace: str, name: str) -> Pod | None:
        return self.known.get(f"{namespace}/{name}")

    def pending(self, name: str = "p", **spec: Any) -> Pod:
        """A pod that exists and was added to the queue."""
        pod = self.exists(self.pod(name, **spec))
        self.queue.add(pod)
        return pod

    def exists(self, pod: Pod) -> Pod:
        self.known[pod.key] = pod
        return pod

    def try_next(self) -> None:
        """One attempt that must fail, as the scheduling loop makes it."""
        info = self.queue.pop()
        assert info is not None
        attempt = self.engine.attempt(info)
        assert attempt.failure is not None
        attempt.failure.apply(info, self.clock.now())
        self.queue.add_unschedulable_if_not_present(info)

    def explain(self, name: str = "p", **options: Any) -> PodExplanation:
        return self.explainer.explain("default", name, **options)

    def nodes_say(self, name: str = "p", **options: Any) -> Examination:
        found = self.explain(name, **options).nodes
        assert found is not None
        return found


def real(**options: Any) -> Room:
    return Room(*in_tree(), weights=dict(DEFAULT_PLUGINS), **options)


def taint(key: str) -> dict[str, Any]:
    return {"taints": [{"key": key, "effect": "NoSchedule"}]}


# -- rejections ----------------------------------------------------------------------------------


def test_nodes_are_grouped_by_the_first_plugin_that_rejects_and_its_reasons() -> None:
    room = real()
    for index in range(5):
        room.node(f"small{index}", allocatable={"cpu": "1", "memory": "32Gi", "pods": "110"})
    room.node("tiny", allocatable={"cpu": "1", "memory": "1Mi", "pods": "110"})
    # Too small as well, but the taint is seen first.
    room.node("tainted", spec=taint("gpu"), allocatable={"cpu": "1", "pods": "110"})
    room.node("cordoned", spec={"unschedulable": True})
    room.pending(
        containers=[{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]
    )
    found = room.nodes_say(examples=2)
    assert (found.nodes, found.feasible, found.best) == (8, 0, ())
    assert found.rejections == (
        Rejection(
            "NodeResourcesFit", "UnschedulableAndUnresolvable", ("Insufficient cpu",), 5,
            ("small0", "small1"),
        ),
        Rejection(
            "NodeResourcesFit", "UnschedulableAndUnresolvable",
            ("Insufficient cpu", "Insufficient memory"), 1, ("tiny",),
        ),
        Rejection(
            "NodeUnschedulable", "UnschedulableAndUnresolvable", ("node(s) were unschedulable",),
            1, ("cordoned",),
        ),
        Rejection(
            "TaintToleration", "UnschedulableAndUnresolvable",
            ("node(s) had untolerated taint(s)",), 1, ("tainted",),
        ),
    )  # fmt: skip


def test_what_preemption_may_help_is_told_apart_from_what_it_cannot() -> None:
    room = real()
    room.node("full", allocatable={"cpu": "2", "memory": "32Gi", "pods": "110"})
    room.cache.add_pod(room.pod("placed", nodeName="full", **room.requests(1500)))
    room.pending(**room.requests(1000))
    (rejection,) = room.nodes_say().rejections
    assert (rejection.status, rejection.reasons) == ("Unschedulable", ("Insufficient cpu",))


def test_a_pod_narrowed_to_some_nodes_says_so_for_the_others() -> None:
    room = real()
    room.nodes("n1", "n2", "n3")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    room.pending(
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
            }
        }
    )
    found = room.nodes_say()
    assert [score.node for score in found.best] == ["n2"]
    assert found.rejections == (
        Rejection(
            "NodeAffinity", "UnschedulableAndUnresolvable",
            ("node(s) didn't satisfy plugin(s) [NodeAffinity]",), 2, ("n1", "n3"),
        ),
    )  # fmt: skip


def test_a_rejection_by_pre_filter_counts_for_every_node() -> None:
    room = Room(plugin("P", pre_filter=lambda state, pod, table: unschedulable("not today")))
    room.nodes("n1", "n2")
    room.pending()
    assert room.nodes_say().rejections == (
        Rejection("P", "Unschedulable", ("not today",), 2, ("n1", "n2")),
    )


def test_plugins_that_narrow_to_nothing_together_are_named_together() -> None:
    room = Room(
        plugin("P", pre_filter=lambda *_: PreFilterResult(frozenset(("n1",)))),
        plugin("Q", pre_filter=lambda *_: PreFilterResult(frozenset(("n2",)))),
    )
    room.nodes("n1", "n2")
    room.pending()
    (rejection,) = room.nodes_say().rejections
    assert (rejection.plugin, rejection.nodes) == ("P, Q", 2)
    assert rejection.reasons == ("node(s) didn't satisfy plugin(s) [P Q] simultaneously",)


def test_a_node_kept_for_nominated_pods_is_marked() -> None:
    room = real()
    room.node("full", allocatable={"cpu": "1", "memory": "32Gi", "pods": "110"})
    room.node("kept", allocatable={"cpu": "2", "memory": "32Gi", "pods": "110"})
    expected = room.exists(room.pod("expected", priority=5, **room.requests(2000)))
    room.nominations.add_nominated_pod(expected, NominatingInfo("kept"))
    # Too small anyway: who is expected there makes no difference.
    second = room.exists(room.pod("second", priority=5, **room.requests(500)))
    room.nominations.add_nominated_pod(second, NominatingInfo("full"))
    room.pending(priority=5, **room.requests(1500))
    rejections = room.nodes_say().rejections
    assert {each.examples: each.only_nominated for each in rejections} == {
        ("full",): False,
        ("kept",): True,
    }
    assert {each.reasons for each in rejections} == {("Insufficient cpu",)}


def test_scalar_plugins_are_asked_about_every_node() -> None:
    room = Room(
        plugin("A", filter=lambda state, pod, node: _when(node.name == "n1", "one")),
        plugin("B", filter=lambda state, pod, node: _when(node.name in {"n1", "n3"}, "two")),
    )
    room.nodes("n1", "n2", "n3")
    room.pending()
    found = room.nodes_say()
    assert [(each.plugin, each.examples) for each in found.rejections] == [
        ("A", ("n1",)),
        ("B", ("n3",)),
    ]
    assert found.feasible == 1


def _when(rejects: bool, reason: str) -> Status | None:
    return unresolvable(reason) if rejects else None


# -- scores --------------------------------------------------------------------------------------


def test_feasible_nodes_show_what_each_plugin_thinks_of_them() -> None:
    room = Room(
        plugin("Count", score=lambda state, pod, node: {"n1": 10, "n2": 20}.get(node.name, 0)),
        plugin(
            "Halve",
            score=lambda state, pod, node: 8 if node.name == "n1" else 2,
            normalize_scores=lambda state, pod, table, rows, scores: scores // 2,
        ),
        plugin("Idle", pre_score=lambda *_: SKIP, score=lambda *_: 99),
        weights={"Count": 1, "Halve": 3, "Idle": 1},
    )
    room.nodes("n1", "n2", "n3")
    room.pending()
    found = room.nodes_say(top=2)
    assert found.feasible == 3
    assert [(score.node, score.total) for score in found.best] == [("n2", 23), ("n1", 22)]
    assert [asdict(each) for each in found.best[1].scores] == [
        {"plugin": "Count", "raw": 10, "normalized": 10, "weighted": 10},
        {"plugin": "Halve", "raw": 8, "normalized": 4, "weighted": 12},
    ]
    assert (found.weights, found.skipped_scores) == ({"Count": 1, "Halve": 3}, ("Idle",))
    assert (found.tied, found.notes) == (1, ())


def test_equal_totals_are_counted_and_listed_by_name() -> None:
    room = Room(plugin("S", score=lambda state, pod, node: 0 if node.name == "n0" else 7))
    room.nodes("n3", "n1", "n2", "n0")
    room.pending()
    found = room.nodes_say()
    assert [score.node for score in found.best] == ["n1", "n2", "n3", "n0"]
    assert found.tied == 3


@pytest.mark.parametrize(
    ("nodes", "scores", "note"),
    [
        (0, True, "no nodes"),
        (1, True, "without scoring"),
        (2, True, ""),
        (2, False, "at random"),
        # A scalar plugin makes a cycle stop at 100 nodes.
        (120, True, "found 100 nodes"),
    ],
)
def test_notes_say_what_a_cycle_does_differently(nodes: int, scores: bool, note: str) -> None:
    filtering = plugin("F", filter=lambda *_: None)
    room = Room(filtering, *([plugin("S", score=lambda *_: 1)] if scores else []))
    room.nodes(*(f"n{index}" for index in range(nodes)))
    room.pending()
    found = room.nodes_say()
    assert found.feasible == nodes
    assert len(found.notes) == bool(note)
    assert all(note in each for each in found.notes)


def test_a_nominated_pod_is_told_that_its_node_is_taken_unseen() -> None:
    room = real()
    room.nodes("n1", "n2")
    pod = room.exists(room.pod(nominated="n2"))
    room.queue.add(pod)
    assert any("nominated to n2" in note for note in room.nodes_say().notes)


# -- failures ------------------------------------------------------------------------------------


def _fail(*_: object) -> Any:
    msg = "broken"
    raise RuntimeError(msg)


@pytest.mark.parametrize("point", ["pre_filter", "filter", "pre_score", "score"])
def test_a_plugin_that_raises_is_named(point: str) -> None:
    methods: dict[str, Any] = {point: _fail}
    if point == "pre_score":
        methods["score"] = lambda *_: 1
    room = Room(plugin("Bad", **methods), plugin("Good", score=lambda *_: 1))
    room.nodes("n1", "n2")
    room.pending()
    explained = room.explain()
    found = explained.nodes
    assert found is not None
    assert "Bad" in found.error
    assert "broken" in found.error
    assert found.best == ()
    # Scoring fails after the nodes were found; they are shown.
    assert found.feasible == (2 if "score" in point else 0)
    assert "would end with an error" in explained.summary
    room.try_next()


# -- no trace ------------------------------------------------------------------------------------


class Untouchable(random.Random):
    """A random source that may not be used."""

    def randrange(self, *_: Any, **__: Any) -> int:
        raise AssertionError


def test_explaining_changes_nothing() -> None:
    never = dict.fromkeys(("reserve", "unreserve", "permit", "post_filter"), _fail)
    refuse = plugin("Refuse", filter=lambda state, pod, node: _when(node.name != "n1", "no"))
    room = Room(refuse, plugin("Never", **never), plugin("S", score=lambda *_: 1))
    room.nodes("n1", "n2", "n3")
    room.pending("fits")
    room.pending("second")
    room.engine._random = room.algorithm._random = Untouchable()
    search = room.algorithm.search
    search._next_start = 2
    before = _traces(room)
    for name in ("fits", "second"):
        first = room.explain(name)
        assert room.explain(name) == first
    room.cache.remove_node("n1")
    after_removal = _traces(room)
    assert room.nodes_say("fits").feasible == 0
    assert _traces(room) == after_removal
    assert {**before, "sequence": 0, "nodes": 0} == {**after_removal, "sequence": 0, "nodes": 0}
    room.cache.validate()
    room.queue.validate()


def _traces(room: Room) -> dict[str, object]:
    cache = room.cache.statistics()
    return {
        "sequence": cache.change_log_sequence,
        "nodes": cache.nodes,
        "pods": (cache.pods, cache.assumed_pods),
        "queue": (room.queue.statistics(), room.queue.views()),
        "engine": room.engine.statistics(),
        "rotation": room.algorithm.search._next_start,
        "metrics": list(room.metrics.points),
    }


class Explained(test_reuse.ReuseMachine):
    """Every comparison also asks for an explanation, between the two engines."""

    @rule()
    def grow_past_the_capacity(self) -> None:
        # Once is enough; each time doubles the table.
        if self.world.cache.table.capacity < 200:
            super().grow_past_the_capacity()

    def compare(self, pod: Pod) -> None:
        table = self.world.cache.table
        if not table.node_count:
            return
        plain = self.decided(self.plain, pod)
        said = examine(
            self.world.framework,
            table,
            self.world.nominations,
            pod,
            now=0.0,
            top=1000,
            examples=1000,
        )
        super().compare(pod)
        if plain.error:
            assert plain.error == said.error
        elif plain.nominated:
            assert any(f"nominated to {plain.feasible[0]}," in note for note in said.notes)
        elif plain.feasible:
            assert {each.node: each.total for each in said.best} == plain.totals
        else:
            assert said.feasible == 0
            for rejection in said.rejections:
                for node in rejection.examples:
                    status = plain.statuses[node]
                    assert status["code"] == rejection.status
                    assert status.get("reasons", []) == sorted(rejection.reasons)
                    assert status.get("plugin", rejection.plugin) == rejection.plugin
        if not said.error:
            rejected = [node for each in said.rejections for node in each.examples]
            assert len(rejected) == len(set(rejected)) == said.nodes - said.feasible


class ExplainedInTree(Explained, test_reuse.InTree):
    pass


class ExplainedDifficult(Explained, test_reuse.Difficult):
    pass


class ExplainedFailing(Explained, test_reuse.Failing):
    pass


class ExplainedWithScalar(Explained, test_reuse.WithScalar):
    pass


@pytest.mark.parametrize(
    "machine",
    [ExplainedInTree, ExplainedDifficult, ExplainedFailing, ExplainedWithScalar],
    ids=lambda machine: machine.__name__,
)
def test_an_explanation_says_what_a_cycle_decides(machine: type[Explained]) -> None:
    examples = max(settings().max_examples // 5, 1)
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=15)
    )


# -- where the pod stands ------------------------------------------------------------------------


def test_an_unknown_pod_is_a_lookup_error_that_says_what_may_be() -> None:
    with pytest.raises(LookupError, match='no pod "default/ghost": it does not exist'):
        real().explain("ghost")


@pytest.mark.parametrize(
    ("options", "text"),
    [({"top": -1}, "nodes=-1"), ({"top": 1001}, "nodes=1001"), ({"examples": 5000}, "examples")],
)
def test_limits_are_checked(options: dict[str, Any], text: str) -> None:
    room = real()
    room.pending()
    with pytest.raises(ValueError, match=text):
        room.explain(**options)


def test_a_pod_of_another_scheduler_is_not_examined() -> None:
    room = real()
    room.nodes("n1")
    room.exists(room.pod(schedulerName="default-scheduler"))
    said = room.explain()
    assert (said.state, said.nodes, said.queue) == (PodState.NOT_OURS, None, None)
    assert '"default-scheduler"' in said.summary
    assert f'"{PROFILE}"' in said.summary


BOUND_AT = "2030-01-01T00:00:00Z"
STARTED_AT = "2030-01-01T00:00:05Z"


def _bound(room: Room, conditions: list[dict[str, Any]], start: str | None, **spec: Any) -> Pod:
    pod = room.pod(nodeName="n1", **spec)
    pod.status = msgspec.convert({"conditions": conditions, "startTime": start}, PodStatus)
    return room.exists(pod)


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
def test_a_bound_pod_says_where_and_since_when(
    conditions: list[dict[str, Any]], start: str | None, since: str
) -> None:
    room = real()
    room.nodes("n1")
    room.cache.add_pod(_bound(room, conditions, start))
    said = room.explain()
    assert (said.state, said.node, said.since, said.nodes) == (PodState.BOUND, "n1", since, None)
    assert said.summary.startswith("bound to node n1")
    assert since in said.summary


def test_a_pod_bound_by_another_scheduler_says_by_whom() -> None:
    room = real()
    _bound(room, [], None, schedulerName="other")
    assert room.explain().summary == 'bound to node n1, by scheduler "other"'


def test_a_pod_on_its_way_says_where_to() -> None:
    room = real()
    room.nodes("n1")
    pod = room.exists(room.pod())
    room.cache.assume_pod(pod, "n1")
    said = room.explain()
    assert (said.state, said.node, said.nodes) == (PodState.BINDING, "n1", None)


def test_a_pod_that_waits_at_permit_says_for_whom_and_how_long() -> None:
    room = Room(plugin("Gang", permit=lambda *_: (Status(Code.WAIT), 30.0)))
    room.nodes("n1")
    room.attempt(room.exists(room.pod()))
    room.clock.time += 10
    said = room.explain()
    assert (said.state, said.node) == (PodState.WAITING_AT_PERMIT, "n1")
    assert said.summary.endswith("waits at Permit for Gang, for 20 s at most")


def test_a_gated_pod_names_its_gate_and_whether_it_would_fit() -> None:
    room = real()
    room.nodes("n1", "n2")
    room.pending(schedulingGates=[{"name": "example.com/quota"}])
    said = room.explain()
    assert said.state is PodState.QUEUED
    assert said.queue is not None
    assert (said.queue.place, said.queue.gating_plugin) == (QueueState.GATED, "SchedulingGates")
    assert said.summary == (
        "held at the gate of plugin SchedulingGates (waiting for scheduling gates: "
        "[example.com/quota]); once let in, it would fit on 2 of 2 nodes now"
    )


def test_a_waiting_pod_says_in_which_sub_queue_and_what_the_nodes_say() -> None:
    room = real()
    room.node("n1", allocatable={"cpu": "1", "memory": "32Gi", "pods": "110"})
    room.pending(**room.requests(2000))
    room.try_next()
    said = room.explain()
    assert said.summary == (
        "unschedulable: waits for an event that plugin(s) NodeResourcesFit registered; "
        "it fits on 0 of 1 nodes now"
    )
    assert said.queue is not None
    assert (said.queue.attempts, said.queue.unschedulable_plugins) == (1, ("NodeResourcesFit",))


def test_an_active_pod_says_who_is_ahead_and_a_popped_one_that_its_turn_has_come() -> None:
    room = real()
    room.nodes("n1")
    room.pending("first", priority=10)
    room.pending("second")
    assert room.explain("second").summary.startswith("in the active queue, behind 1;")
    assert room.explain("first").summary.startswith("in the active queue; it fits on 1 of 1")
    room.queue.pop()
    assert room.explain("first").summary.startswith("being scheduled at this moment")


def test_a_pod_being_deleted_is_not_examined() -> None:
    room = real()
    room.nodes("n1")
    pod = room.pending()
    pod.metadata.deletion_timestamp = "2030-01-01T00:00:00Z"
    said = room.explain()
    assert (said.state, said.nodes) == (PodState.TERMINATING, None)


def test_a_pod_in_no_queue_is_examined_and_a_namesake_is_not_mistaken_for_it() -> None:
    room = real()
    room.nodes("n1")
    room.pending()
    replaced = room.pod()
    replaced.metadata.uid = "another"
    room.exists(replaced)
    said = room.explain()
    assert (said.state, said.queue) == (PodState.UNKNOWN, None)
    assert said.summary == "pending, but in no queue at this moment; it fits on 1 of 1 nodes now"


def test_a_post_filter_that_would_evict_is_not_run() -> None:
    called = []

    def evict(*_: object) -> PostFilterResult:
        called.append("evicted")
        return PostFilterResult(None, NominatingInfo("n1"))

    room = Room(plugin("F", filter=lambda *_: unschedulable("no")), plugin("E", post_filter=evict))
    room.nodes("n1")
    room.pending()
    assert room.nodes_say().feasible == 0
    assert called == []
    assert room.queue.nominator.nominated_nodes() == ()

"""Decisions: what is remembered equals what happened, and remembering changes nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest

from scheduler.engine import Failure
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.engine.tie_rules import RANDOM, tie_rule
from scheduler.explain.records import Decision, DecisionResult
from scheduler.framework import (
    NominatingInfo,
    PostFilterResult,
    RandomSource,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from tests.unit.engine.harness import plugin
from tests.unit.service.harness import Service


def binder(result: Any = None) -> type[Any]:
    return plugin("Binder", bind=lambda *_: result)


def scorer(name: str, scores: dict[str, int]) -> type[Any]:
    return plugin(name, score=lambda _state, _pod, node: scores[node.name])


def last(service: Service, name: str = "p") -> Decision:
    return service.decisions.history.of_pod("default", name)[-1]


async def decided(service: Service, name: str = "p", **spec: Any) -> Decision:
    service.pending(name, **spec)
    await service.attempt()
    service.inbox.apply(service.clock.monotonic, 1.0)
    return last(service, name)


async def test_a_placed_pod() -> None:
    scores = {"n1": 10, "n2": 30, "n3": 20}
    service = Service(binder(), scorer("S", scores), scorer("T", dict.fromkeys(scores, 1)))
    service.world.nodes(*scores)
    service.clock.time += 5
    decision = await decided(service)
    assert (decision.result, decision.node, decision.attempt) == (DecisionResult.PLACED, "n2", 1)
    assert (decision.nodes, decision.evaluated, decision.feasible) == (3, 3, 3)
    assert [(each.node, each.total) for each in decision.best] == [
        ("n2", 31),
        ("n3", 21),
        ("n1", 11),
    ]
    assert [(each.plugin, each.raw, each.weighted) for each in decision.best[0].scores] == [
        ("S", 30, 30),
        ("T", 1, 1),
    ]
    assert decision.score == 31
    assert decision.queue == "active"
    assert decision.event == "UnscheduledPodAdd"
    assert decision.bound == service.clock.now()
    assert {"queued", "prefilter", "filter", "score", "bind"} <= set(decision.phases)


async def test_one_feasible_node_is_not_scored() -> None:
    service = Service(binder(), scorer("S", {"n1": 10}))
    service.world.nodes("n1")
    decision = await decided(service)
    assert (decision.node, decision.best, decision.score) == ("n1", (), None)


async def test_a_pod_that_fits_nowhere() -> None:
    def reject(_state: Any, _pod: Any, node: Any) -> Status | None:
        return unschedulable("too small") if node.name != "n1" else unresolvable("wrong zone")

    service = Service(binder(), plugin("F", filter=reject))
    service.world.nodes("n1", "n2", "n3")
    decision = await decided(service)
    assert decision.result is DecisionResult.UNSCHEDULABLE
    assert decision.message == "0/3 nodes are available: 1 wrong zone, 2 too small."
    assert [
        (each.plugin, each.status, each.reason, each.nodes) for each in decision.rejections
    ] == [
        ("F", "Unschedulable", "too small", 2),
        ("F", "UnschedulableAndUnresolvable", "wrong zone", 1),
    ]
    assert (decision.evaluated, decision.feasible, decision.node, decision.bound) == (3, 0, "", 0)


async def test_a_rejection_by_pre_filter_counts_for_every_node() -> None:
    service = Service()
    service.world.nodes("n1", "n2")
    decision = await decided(service, "bystander")
    (rejection,) = decision.rejections
    assert (rejection.plugin, rejection.reason, rejection.nodes) == ("Refuser", "stay", 2)
    assert decision.evaluated == 0


async def test_preemption_names_victims_and_the_nominated_node() -> None:
    def preempt(*_: Any) -> PostFilterResult:
        return PostFilterResult(None, NominatingInfo("n1"), victims=("default/small",))

    service = Service(
        plugin("F", filter=lambda *_: unschedulable("full")), plugin("P", post_filter=preempt)
    )
    service.world.nodes("n1")
    decision = await decided(service)
    assert decision.victims == ("default/small",)
    assert decision.nominated_node == "n1"
    assert "postfilter" in decision.phases


async def test_a_nominated_pod_takes_its_node_without_scores() -> None:
    service = Service(binder(), scorer("S", {"n1": 10, "n2": 90}))
    service.world.nodes("n1", "n2")
    decision = await decided(service, nominated="n1")
    assert (decision.node, decision.best, decision.feasible) == ("n1", (), 1)


@pytest.mark.parametrize("point", ["reserve", "permit"])
async def test_a_rejection_after_the_choice_keeps_the_node(point: str) -> None:
    refuse = unschedulable("not today")
    answer = (lambda *_: (refuse, 0.0)) if point == "permit" else (lambda *_: refuse)
    methods: dict[str, Any] = {point: answer}
    if point == "reserve":
        methods["unreserve"] = lambda *_: None
    service = Service(binder(), scorer("S", {"n1": 1, "n2": 2}), plugin("R", **methods))
    service.world.nodes("n1", "n2")
    decision = await decided(service)
    assert (decision.result, decision.node) == (DecisionResult.UNSCHEDULABLE, "n2")
    assert [(each.plugin, each.reason, each.nodes) for each in decision.rejections] == [
        ("R", "not today", 1)
    ]
    assert decision.score == 2


async def test_a_refused_bind_ends_the_decision_with_an_error() -> None:
    service = Service(binder(error("the API server is away")))
    service.world.nodes("n1")
    decision = await decided(service)
    assert (decision.result, decision.node, decision.bound) == (DecisionResult.ERROR, "n1", 0)
    assert "the API server is away" in decision.message


async def test_a_plugin_that_raises() -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("boom")

    service = Service(plugin("F", filter=broken))
    service.world.nodes("n1")
    decision = await decided(service)
    assert decision.result is DecisionResult.ERROR
    assert "boom" in decision.message


async def test_attempts_follow_each_other() -> None:
    service = Service(plugin("F", filter=lambda *_: unschedulable("full")))
    service.world.nodes("n1")
    pod = service.pending("p")
    for _ in range(7):
        await service.attempt()
        service.clock.time += 100
        service.queue.activate([pod])
    decisions = service.decisions.history.of_pod("default", "p")
    assert [each.attempt for each in decisions] == [3, 4, 5, 6, 7]
    assert decisions[0].event == "ForceActivate"


async def test_a_gated_pod_is_recorded_once() -> None:
    closed = [True]
    gate = plugin("Gate", pre_enqueue=lambda _pod: unresolvable("wait") if closed[0] else None)
    service = Service(gate, binder())
    service.world.nodes("n1")
    pod = service.world.pod("p")
    recorder = service.decisions
    service.queue.signals.on_gated.subscribe(lambda info, status: recorder.gated(info, status, 7.0))
    service.informer[pod.key] = pod
    service.queue.add(pod)
    for _ in range(5):
        service.queue.recheck([pod.uid])
    (decision,) = recorder.history.of_pod("default", "p")
    assert (decision.result, decision.message) == (DecisionResult.GATED, "wait")
    assert (decision.time, decision.attempt, decision.queue) == (7.0, 0, "")
    closed[0] = False
    service.queue.recheck([pod.uid])
    await service.attempt()
    service.inbox.apply(service.clock.monotonic, 1.0)
    assert [each.result for each in recorder.history.of_pod("default", "p")] == ["gated", "placed"]


class CountingRandom:
    """A source of random numbers that counts what is drawn."""

    def __init__(self) -> None:
        self.drawn = 0
        self._random = random.Random(7)

    def randrange(self, stop: int, /) -> int:
        self.drawn += 1
        return self._random.randrange(stop)


def decide_many(*, remember: bool) -> tuple[list[str], int]:
    """Place pods on nodes of which many are equal, and return the choices and numbers drawn."""
    service = Service(scorer("S", {f"n{index}": index % 3 for index in range(20)}))
    service.world.nodes(*(f"n{index}" for index in range(20)))
    source: Any = CountingRandom()
    drawing: RandomSource = source
    service.engine._random = drawing
    for algorithm in service.engine.algorithms.values():
        algorithm.choose_tied = tie_rule(RANDOM, service.world.cache.table, drawing)
    if not remember:
        service.decisions.history.resize(0, 5)
    chosen = []
    for index in range(40):
        service.pending(f"p{index}", labels={"app": str(index % 2)})
        info = service.queue.pop()
        assert info is not None
        attempt = run_synchronously(service.loop.schedule(info))
        assert attempt is not None
        chosen.append(attempt.node_name)
    return chosen, source.drawn


def test_remembering_draws_nothing_and_changes_no_decision() -> None:
    with_history, without = decide_many(remember=True), decide_many(remember=False)
    assert with_history == without
    assert with_history[1] > 40


@pytest.mark.parametrize("method", ["record", "last", "explain"])
@pytest.mark.parametrize("outcome", ["placed", "refused", "gated", "rejected"])
async def test_a_fault_of_the_recording_costs_the_record_alone(
    monkeypatch: pytest.MonkeyPatch, method: str, outcome: str
) -> None:
    """Every hook of the scheduler goes on as if nothing were remembered."""
    gated = [outcome == "gated"]
    service = Service(
        binder(error("away") if outcome == "refused" else None),
        plugin("F", filter=lambda *_: unschedulable("full") if outcome == "rejected" else None),
        plugin("Gate", pre_enqueue=lambda _pod: unresolvable("wait") if gated[0] else None),
    )
    service.world.nodes("n1")
    problems: list[Exception] = []
    recorder = service.decisions
    recorder.on_error = problems.append
    service.queue.signals.on_gated.subscribe(lambda info, status: recorder.gated(info, status, 7.0))

    def broken(*_: object) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr(recorder.history, method, broken)
    pod = service.pending("p")
    if gated[0]:
        gated[0] = False
        service.queue.recheck([pod.uid])
    await service.attempt()
    service.inbox.apply(service.clock.monotonic, 1.0)
    assert {str(each) for each in problems} <= {"bug"}
    ends = {"refused": ["last", "explain"], "rejected": []}.get(outcome, ["last"])
    reached = {"record", *ends}
    assert problems or method not in reached
    assert service.cache.is_assumed(pod.uid) == (outcome in ("placed", "gated"))
    kinds = [note[1] for note in service.events.notes]
    assert kinds[-1] == ("Scheduled" if outcome in ("placed", "gated") else "FailedScheduling")


def test_a_failed_binding_of_a_decision_that_has_no_room_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = Service()
    service.world.nodes("n1")
    service.pending("p")
    info = service.queue.pop()
    assert info is not None
    attempt = run_synchronously(service.loop.schedule(info))
    assert attempt is not None
    history = service.decisions.history
    monkeypatch.setattr(history, "_most_bytes", history.bytes_used)
    attempt.binding_seconds = {"Permit": 1.0}
    service.decisions.failed(attempt, Failure("Error", "x" * 500, None))
    assert (len(history), history.bytes_used, history._reasons) == (0, 0, {})


def test_a_text_without_end_is_cut() -> None:
    service = Service(plugin("F", filter=lambda *_: unschedulable("x" * 100_000)))
    service.world.nodes("n1")
    service.pending("p")
    info = service.queue.pop()
    assert info is not None
    assert run_synchronously(service.loop.schedule(info)) is None
    decision = last(service)
    assert len(decision.message) == 1024
    assert len(decision.rejections[0].reason) == 1024

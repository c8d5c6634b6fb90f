"""Attendance: attempts leave out the plugins that a pod's signature does not concern."""

from __future__ import annotations

from typing import Any

from scheduler.api.pod import Pod
from scheduler.framework import (
    SKIP,
    CycleState,
    NodeToStatus,
    PostFilterResult,
    unresolvable,
    unschedulable,
)
from tests.unit.engine.harness import Calls, World, plugin

LARGE = 2_000


def is_large(pod: Pod) -> bool:
    return pod.signature.requests.milli_cpu >= LARGE


def selective(calls: Calls, concerns: Any = is_large, **methods: Any) -> type[Any]:
    """A plugin that records each call, and that large pods concern."""
    given = {
        "pre_filter": calls("PreFilter"),
        "filter": calls("Filter"),
        "score": calls("Score", 1),
        "reserve": calls("Reserve"),
        "unreserve": calls("Unreserve"),
        **methods,
    }
    return plugin("Selective", concerns=concerns, **given)


def world_of(*plugins: type[Any]) -> World:
    world = World(*plugins)
    world.nodes("n1", "n2")
    return world


def pod_of(world: World, milli: int, name: str = "p") -> Pod:
    return world.pod(name, **world.requests(milli))


def test_a_plugin_is_called_for_the_pods_that_concern_it() -> None:
    calls = Calls()
    world = world_of(selective(calls))
    attempt = world.attempt(pod_of(world, LARGE))
    world.engine.abandon(attempt)
    assert set(calls.take()) == {"PreFilter", "Filter", "Score", "Reserve", "Unreserve"}
    assert attempt.state.absent == frozenset()


def test_no_attempt_at_other_pods_calls_it() -> None:
    calls = Calls()
    world = world_of(selective(calls))
    attempt = world.attempt(pod_of(world, 100))
    assert attempt.failure is None
    world.engine.abandon(attempt)
    assert calls.made == []
    assert attempt.state.absent == {"Selective"}
    assert attempt.state.skip_filter == attempt.state.skip_score == {"Selective"}


def test_it_is_asked_once_for_a_signature() -> None:
    calls = Calls()
    world = world_of(selective(calls, concerns=calls("concerns", False)))
    for name in ("a", "b", "c"):
        world.chosen(pod_of(world, 100, name))
    assert calls.made == ["concerns"]
    world.chosen(pod_of(world, 200))
    assert calls.made == ["concerns", "concerns"]


def test_it_is_asked_again_when_an_object_changed_that_filters_read() -> None:
    calls, answers = Calls(), [False]
    world = world_of(selective(calls, concerns=lambda _pod: answers[0]))
    world.chosen(pod_of(world, 100, "a"))
    assert calls.made == []
    answers[0] = True
    world.cache.table.bump("deviceclasses")
    world.chosen(pod_of(world, 100, "b"))
    assert "PreFilter" in calls.made


def test_a_pod_with_a_node_name_of_its_own_is_attempted_with_all_plugins() -> None:
    """Answers are not kept for such a pod, so to ask would cost as much as PreFilter."""
    calls = Calls()
    world = world_of(selective(calls, pre_filter=calls("PreFilter", SKIP)))
    pin = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [pin]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    pinned = world.pod(affinity=affinity, **world.requests(100))
    assert pinned.pin
    world.chosen(pinned)
    assert "PreFilter" in calls.made


def test_postfilter_is_called_and_can_tell_that_prefilter_would_have_run() -> None:
    seen: list[bool] = []

    def post_filter(state: CycleState, _pod: Pod, _statuses: NodeToStatus) -> PostFilterResult:
        seen.append("Selective" in state.skip_filter)
        return PostFilterResult(unschedulable("nothing to do"))

    calls = Calls()
    other = plugin("Other", pre_filter=lambda *_: unresolvable("no"))
    subject = selective(calls, post_filter=post_filter)
    for plugins in ((subject, other), (other, subject)):
        world = world_of(*plugins)
        assert world.failure_message(pod_of(world, 100)).startswith("0/2 nodes are available: no.")
    assert seen == [True, False]
    assert calls.made == []


def test_a_plugin_that_raises_fails_the_attempt() -> None:
    calls = Calls()
    world = world_of(selective(calls, concerns=calls("concerns", ValueError("boom"))))
    attempt = world.attempt(pod_of(world, 100))
    assert attempt.failure is not None
    assert attempt.failure.message == 'running Concerns plugin "Selective": boom'
    assert world.plugin_errors == ["Selective Concerns p: boom"]


def test_what_ifs_leave_it_out_as_well() -> None:
    calls = Calls()
    added = calls("AddPod")
    world = world_of(selective(calls, add_pod=added))
    attempt = world.attempt(pod_of(world, 100))
    clone = attempt.state.clone()
    assert clone.absent == {"Selective"}
    world.framework.add_pod(
        clone, attempt.pod, pod_of(world, 100, "q"), world.cache.table.node_info(0)
    )
    assert calls.made == []

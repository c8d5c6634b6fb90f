"""DefaultPreemption: eligibility, writes, evictions, and the gate in PreEnqueue.

As upstream's `default_preemption.go` and `executor.go`; the search is tested with the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from plugins.default_preemption import (
    RECHECK_AFTER,
    DefaultPreemption,
    DefaultPreemptionArgs,
)
from scheduler.api import Pod
from scheduler.api.meta import Condition
from scheduler.framework import (
    CLEAR_NOMINATION,
    ActionType,
    ClusterEvent,
    Code,
    ConfigurationError,
    CycleState,
    EventResource,
    NodeToStatus,
    NominatingInfo,
    PostFilterOutcome,
    PostFilterResult,
    QueuedPodInfo,
    QueueingHint,
    Status,
    unresolvable,
    unschedulable,
)
from scheduler.framework.preemption import PreemptionFinding, PreemptionRules
from tests.unit.plugins.clusters import hint
from tests.unit.plugins.preemption_handle import (
    PreemptionHandle,
    Waiting,
    ask,
    build,
    choose,
    pod,
    preemptor,
    run,
)

DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
WAITING = "waiting for the preemption for this pod to be finished"


# -- permissions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("needed", [("list", "poddisruptionbudgets"), ("delete", "pods")])
def test_nothing_is_preempted_without_permission(needed: tuple[str, str]) -> None:
    handle = PreemptionHandle()
    choose(handle, pod("v"))
    handle.forbidden.add(needed)
    result = run(handle, preemptor(handle))
    reason = f"preemption: the scheduler may not {' '.join(needed)}"
    assert result == PostFilterResult(unschedulable(reason))
    assert handle.log == []
    handle.forbidden.clear()
    status = run(handle, preemptor(handle)).status
    assert status is not None
    assert status.success


# -- results -------------------------------------------------------------------------------------


def test_success_nominates_and_says_where() -> None:
    handle = PreemptionHandle()
    choose(handle, pod("v"))
    result = run(handle, preemptor(handle))
    nominating, outcome = NominatingInfo("n1"), PostFilterOutcome.NOMINATED
    text = "preemption: found a potential placement for pod on node n1, preempting 1 victims"
    status = Status(Code.SUCCESS, (text,))
    assert result == PostFilterResult(status, nominating, outcome, victims=("default/v",))
    assert handle.log == ["evict v", "event v"]
    assert handle.observed == [1]


def test_no_candidate_clears_the_nomination() -> None:
    handle = PreemptionHandle()
    result = run(handle, preemptor(handle))
    assert result == PostFilterResult(
        unschedulable("preemption: 0/2 nodes are available: 2 Full."),
        CLEAR_NOMINATION,
        PostFilterOutcome.FAILED,
    )
    assert handle.observed == [0]


def test_errors_leave_the_nomination_alone() -> None:
    handle = PreemptionHandle()
    handle.finding = PreemptionFinding(error="broken")
    result = run(handle, preemptor(handle))
    assert result.status is not None
    assert (result.status.code, result.status.message) == (Code.ERROR, "preemption: broken")
    assert result.nominating is None


@pytest.mark.parametrize("known", [None, "another UID"])
def test_a_pod_that_is_gone_does_not_preempt(known: str | None) -> None:
    handle = PreemptionHandle()
    if known:
        handle.pods["p"] = pod("p", metadata={"uid": known})
    result = run(handle, pod("p", 100))
    assert result.status is not None
    assert result.status.message == 'preemption: pod "p" not found'
    assert handle.rules is None
    assert handle.observed == [0]


# -- eligibility ---------------------------------------------------------------------------------


def ending(priority: int = 0, *conditions: Mapping[str, str]) -> Pod:
    return pod(
        "ending",
        priority,
        metadata={"deletionTimestamp": "2025-01-01T00:00:00Z"},
        status={"conditions": list(conditions)},
    )


def test_preemption_policy_never() -> None:
    handle = PreemptionHandle()
    result = run(handle, preemptor(handle, spec={"preemptionPolicy": "Never"}))
    assert result == PostFilterResult(
        unschedulable("preemption: not eligible due to preemptionPolicy=Never."),
        None,
        PostFilterOutcome.INELIGIBLE,
    )
    assert handle.observed == [0]


U, UU = unschedulable("x"), unresolvable("x")


@pytest.mark.parametrize(
    ("nominated", "status", "there", "eligible"),
    [
        ("n1", U, ending(0, DISRUPTED), False),
        ("n1", UU, ending(0, DISRUPTED), True),
        ("n2", U, ending(0, DISRUPTED), True),
        ("gone", U, ending(0, DISRUPTED), True),
        ("", U, ending(0, DISRUPTED), True),
        ("n1", U, ending(100, DISRUPTED), True),
        ("n1", U, ending(), True),
        ("n1", U, ending(0, {**DISRUPTED, "reason": "DeletionByTaintManager"}), True),
        ("n1", U, ending(0, {**DISRUPTED, "status": "False"}), True),
        ("n1", U, pod("staying", status={"conditions": [DISRUPTED]}), True),
    ],
)
def test_an_ending_victim_on_the_nominated_node_is_waited_for(
    nominated: str, status: Any, there: Pod, *, eligible: bool
) -> None:
    handle = PreemptionHandle()
    handle.cluster.place(there, "n1")
    incoming = preemptor(handle, status={"nominatedNodeName": nominated})
    result = run(handle, incoming, NodeToStatus(dict.fromkeys(("n1", "n2", "gone"), status)))
    assert (handle.rules is not None) == eligible
    if not eligible:
        assert result == PostFilterResult(
            unschedulable(
                "preemption: not eligible due to a terminating pod on the nominated node."
            ),
            None,
            PostFilterOutcome.NOMINATED,
        )


# -- victims -------------------------------------------------------------------------------------


def test_the_last_victim_goes_after_all_others() -> None:
    handle = PreemptionHandle()
    choose(handle, pod("a", 3), pod("b", 2), pod("c", 1))
    run(handle, preemptor(handle))
    assert handle.log == ["evict a b", "event a", "event b", "evict c", "event c"]
    assert handle.conditions[0] == Condition(
        type="DisruptionTarget",
        status="True",
        reason="PreemptionByScheduler",
        message="kubestow: preempting to accommodate a higher priority pod",
    )


def test_victims_that_are_leaving_already_are_left_alone() -> None:
    handle = PreemptionHandle()
    choose(handle, ending())
    plugin, incoming = build(handle), preemptor(handle)
    assert ask(plugin, incoming).nominating == NominatingInfo("n1")
    assert handle.log == []
    assert handle.observed == [0]
    assert plugin.pre_enqueue(incoming) is None
    choose(handle, ending(), pod("v"))
    run(handle, incoming)
    assert handle.log == ["evict v", "event v"]
    assert handle.observed == [0, 2]


def test_an_eviction_that_fails_spares_the_last_victim_and_retries() -> None:
    handle = PreemptionHandle()
    choose(handle, pod("a"), pod("b"), pod("c"))
    handle.results["a"] = RuntimeError("no")
    plugin, incoming = build(handle), preemptor(handle)
    plugin.post_filter(CycleState(), incoming, NodeToStatus())
    assert handle.log == ["evict a b", "event b", "activate p"]
    assert plugin.pre_enqueue(incoming) is None
    assert "preempting pods on node n1 for default/p" in str(handle.errors[0])


@pytest.mark.parametrize(
    ("failing", "outcome"),
    [
        ("a", PostFilterOutcome.ERROR),
        ("b", PostFilterOutcome.ERROR),
        ("", PostFilterOutcome.NOMINATED),
    ],
)
def test_failed_evictions_change_the_outcome_of_the_attempt(
    failing: str, outcome: PostFilterOutcome
) -> None:
    """KEP-3990 rule S6: known before the pod is activated."""
    handle = PreemptionHandle()
    choose(handle, pod("a"), pod("b"))
    if failing:
        handle.results[failing] = RuntimeError("no")
    plugin, incoming, state = build(handle), preemptor(handle), CycleState()
    state.info = QueuedPodInfo(incoming, 0.0, attempts=1, post_filter=PostFilterOutcome.NOMINATED)
    plugin.post_filter(state, incoming, NodeToStatus())
    assert state.info.post_filter is outcome


def test_the_last_eviction_that_fails_retries() -> None:
    handle = PreemptionHandle()
    choose(handle, pod("a"), pod("b"))
    handle.results["b"] = RuntimeError("no")
    run(handle, preemptor(handle))
    assert handle.log == ["evict a", "event a", "evict b", "activate p"]
    assert len(handle.errors) == 1


def test_a_victim_that_is_gone_is_no_failure() -> None:
    """Its deletion event may have passed already, so the preemptor is activated."""
    handle = PreemptionHandle()
    choose(handle, pod("a"), pod("b"))
    handle.results.update(a=False, b=False)
    run(handle, preemptor(handle))
    assert handle.log == ["evict a", "evict b", "activate p"]
    assert handle.errors == []


@pytest.mark.parametrize("moment", ["before the first", "before the last"])
@pytest.mark.parametrize(
    ("latest", "attempts", "nominated", "stay"),
    [
        (pod("p", 100), 1, {}, False),
        (None, 1, {}, True),
        (pod("p", 100, metadata={"uid": "another"}), 1, {}, True),
        (pod("p", 100, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), 1, {}, True),
        (pod("p", 100, spec={"nodeName": "n2"}), 1, {}, True),
        (pod("p", 100), 2, {"n1": [pod("p", 100)]}, False),
        (pod("p", 100), 2, {"n2": [pod("p", 100)]}, True),
        (pod("p", 100), 2, {}, True),
    ],
)
def test_victims_stay_if_the_preemptor_no_longer_needs_them(
    moment: str,
    latest: Pod | None,
    attempts: int,
    nominated: Mapping[str, list[Pod]],
    *,
    stay: bool,
) -> None:
    handle = PreemptionHandle()
    handle.held = []
    choose(handle, pod("a"), pod("b"))
    incoming, state = preemptor(handle), CycleState()
    state.info = QueuedPodInfo(incoming, 0.0, attempts=1)
    build(handle).post_filter(state, incoming, NodeToStatus())

    def change() -> None:
        if moment == "before the first" or handle.log:
            assert state.info is not None
            state.info.attempts = attempts
            handle.pods.pop("p", None)
            if latest is not None:
                handle.pods["p"] = latest
            handle.nominated.update(nominated)

    handle.meanwhile = change
    handle.go()
    evicted = [each for each in handle.log if each.startswith("evict")]
    first = ["evict a"] if moment == "before the last" or not stay else []
    assert evicted == first if stay else ["evict a", "evict b"]
    assert handle.errors == []


def test_victims_of_a_group_stay_once_it_needs_no_room() -> None:
    handle = PreemptionHandle()
    handle.in_pre_bind = {"binding"}
    member = QueuedPodInfo(pod("m"), 0.0)
    build(handle).evict_for_group([member], "pod group g", [pod("v"), pod("binding")], bool)
    assert handle.log == []


def test_victims_that_are_not_bound_yet_are_stopped_in_memory() -> None:
    handle = PreemptionHandle()
    choose(handle, pod("waiting"), pod("late"), pod("binding"))
    handle.waiting = {"waiting": Waiting(over=False), "late": Waiting(over=True)}
    handle.in_pre_bind = {"binding"}
    run(handle, preemptor(handle))
    assert handle.log == ["event waiting", "evict late", "event late", "event binding"]
    assert handle.waiting["waiting"].messages == ["DefaultPreemption: preempted"]


def test_lower_nominations_end_first() -> None:
    handle = PreemptionHandle()
    nominated = {"nominatedNodeName": "n1"}
    handle.nominated["n1"] = [
        pod("lower", 50, status=nominated),
        pod("only-in-memory", 50),
        pod("equal", 100, status=nominated),
        pod("broken", 1, status=nominated),
    ]
    handle.results["broken"] = RuntimeError("no")
    choose(handle, pod("v"))
    run(handle, preemptor(handle))
    assert handle.log == ["clear lower", "clear broken", "evict v", "event v", "activate p"]


# -- the gate ------------------------------------------------------------------------------------


def test_the_preemptor_is_held_until_its_last_victim_is_going() -> None:
    handle = PreemptionHandle()
    first, last = pod("first"), pod("last")
    choose(handle, first, last)
    plugin, incoming = build(handle), preemptor(handle)
    handle.held = []
    seen: list[str] = []

    def gate() -> str:
        status = plugin.pre_enqueue(incoming)
        assert plugin.held(last) == ({incoming.uid} if status else set())
        return "" if status is None else status.message

    def look() -> None:
        seen.append(gate())
        handle.pods["last"] = pod("last", metadata={"deletionTimestamp": "2025-01-01T00:00:00Z"})
        seen.append(gate())
        del handle.pods["last"]
        seen.append(gate())
        handle.pods["last"] = pod("last", metadata={"uid": "recreated"})
        seen.append(gate())
        handle.pods["last"] = last

    handle.meanwhile = look
    assert gate() == ""
    plugin.post_filter(CycleState(), incoming, NodeToStatus())
    status = plugin.pre_enqueue(incoming)
    assert status == unresolvable(WAITING, requeue_after=RECHECK_AFTER)
    assert plugin.pre_enqueue(pod("other")) is None
    handle.go()
    # While the first victim is evicted the gate stays closed, whatever becomes of the last one.
    assert seen == [WAITING] * 4 + [WAITING, "", "", ""]
    assert gate() == ""


def test_of_all_events_the_end_of_its_last_victim_frees_a_preemptor() -> None:
    handle = PreemptionHandle()
    last, others = pod("last"), pod("others")
    choose(handle, last)
    plugin = build(handle)
    first, second = preemptor(handle), pod("second", 10)
    handle.pods["second"] = second
    handle.held = []
    for incoming in (first, second):
        plugin.post_filter(CycleState(), incoming, NodeToStatus())
    seen: list[set[str]] = []

    def look() -> None:
        seen.append(set(plugin.held(last)))
        del handle.pods["last"]
        seen.extend(set(plugin.held(changed)) for changed in (None, others, last))
        handle.meanwhile = lambda: None

    handle.meanwhile = look
    assert plugin.held(last) == {first.uid, second.uid}
    handle.go()
    both = {first.uid, second.uid}
    assert seen == [both, both, both, {second.uid}]
    assert plugin.held(None) == set()


def test_the_deletion_of_its_last_victim_wakes_a_preemptor_whatever_else_rejected_it() -> None:
    handle = PreemptionHandle()
    first, last = pod("first"), pod("last")
    choose(handle, first, last)
    plugin, incoming = build(handle), preemptor(handle)
    handle.held = []
    deleted = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
    woken: list[bool] = []

    def look() -> None:
        woken.extend(hint(plugin, deleted, incoming, each, None) for each in (first, last))

    handle.meanwhile = look
    plugin.post_filter(CycleState(), incoming, NodeToStatus())
    handle.go()
    # The last victim is known once the others are evicted.
    assert woken == [False, False, False, True]
    assert not hint(plugin, deleted, pod("other"), last, None)


def test_without_the_feature_no_pod_is_held() -> None:
    handle = PreemptionHandle(SchedulerAsyncPreemption=False)
    choose(handle, pod("v"))
    plugin, incoming = build(handle), preemptor(handle)
    handle.held = []
    plugin.post_filter(CycleState(), incoming, NodeToStatus())
    assert plugin.pre_enqueue(incoming) is None
    assert plugin.events_to_register() == ()
    handle.go()
    assert handle.log == ["evict v", "event v"]


def test_its_own_event_never_wakes() -> None:
    (registered,) = build(PreemptionHandle()).events_to_register()
    assert registered.event == ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
    assert registered.hint is not None
    assert registered.hint(pod("p"), pod("v"), None) is QueueingHint.SKIP


ZERO = "Invalid value: 0: cannot be zero at the same time as"

# -- arguments -----------------------------------------------------------------------------------


def args(percentage: int = 10, absolute: int = 100) -> DefaultPreemptionArgs:
    return DefaultPreemptionArgs(
        min_candidate_nodes_percentage=percentage, min_candidate_nodes_absolute=absolute
    )


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        (args(0, 1), []),
        (args(100, 0), []),
        (
            args(-1),
            ["minCandidateNodesPercentage: Invalid value: -1: not in valid range [0, 100]"],
        ),
        (
            args(101, -1),
            [
                "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
                "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
            ],
        ),
        (
            args(0, 0),
            [
                f"minCandidateNodesPercentage: {ZERO} minCandidateNodesAbsolute",
                f"minCandidateNodesAbsolute: {ZERO} minCandidateNodesPercentage",
            ],
        ),
    ],
)
def test_arguments(given: DefaultPreemptionArgs, problems: list[str]) -> None:
    found = [f"{path}: {message}" for path, message in DefaultPreemption.validate_args(given)]
    assert found == problems
    if problems:
        with pytest.raises(ConfigurationError) as refused:
            build(PreemptionHandle(), given)
        assert list(refused.value.problems) == problems


def test_arguments_reach_the_search() -> None:
    assert build(PreemptionHandle()).rules == PreemptionRules()
    given = DefaultPreemptionArgs(victim_schedulers="All", min_candidate_nodes_absolute=7)
    assert build(PreemptionHandle(), given).rules == PreemptionRules(10, 7, own_victims_only=False)

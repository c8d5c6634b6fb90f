"""Decisions on writes: promises, suspicion, expiry, merging, races and idempotence."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.pod import Pod
from scheduler.api.policy import CoreEvent
from scheduler.controllers.node_provisioning.condition_selector import ConditionSelector
from scheduler.controllers.node_provisioning.decisions import (
    MAX_CONFLICTS,
    MAX_IN_FLIGHT,
    MESSAGE_SECONDS,
    NEVER,
    Decisions,
    Patch,
)
from scheduler.controllers.node_provisioning.ownership import CONDITION
from tests.unit.controllers.node_provisioning.world import (
    BACKOFF,
    NO_GROUP,
    TOO_BIG,
    TRIGGERED,
    TWO_GROUPS,
    Stage,
    condition,
    event,
    failed,
    gated,
    having,
    pod,
    rfc,
)

YES = event("TriggeredScaleUp", TRIGGERED)
NO = event("NotTriggerScaleUp", BACKOFF)


def yes(time: float, text: str = TRIGGERED, name: str = "a") -> CoreEvent:
    return event("TriggeredScaleUp", text, time, name=name)


def no(time: float, text: str = BACKOFF, name: str = "a") -> CoreEvent:
    return event("NotTriggerScaleUp", text, time, name=name)


def nominated(time: float, claim: str = "x") -> CoreEvent:
    return event("Nominated", f"Pod should schedule on: nodeclaim/{claim}", time,
                 source="karpenter")  # fmt: skip


def refused(time: float) -> CoreEvent:
    return event("FailedScheduling", "Failed to schedule pod, no", time, source="karpenter")


def no_capacity(claim: str, time: float) -> CoreEvent:
    return event("InsufficientCapacityError", f"NodeClaim {claim} event: no", time,
                 kind="NodeClaim", name=claim, source="karpenter")  # fmt: skip


# -- a plain verdict -------------------------------------------------------------------------------


def test_a50_a_refusal_becomes_false() -> None:
    stage = Stage(pod())
    stage.hear(no(0))
    assert stage.act(0.5) == [("False", "ScaleUpBackoff")]
    (patch,) = stage.patches
    assert patch.condition.type == CONDITION
    assert patch.condition.last_transition_time == rfc(0.5)
    assert patch.source == "cluster-autoscaler"
    assert not patch.verify


def test_silence_is_no_verdict() -> None:
    stage = Stage(pod())
    assert stage.plan(10_000).patches == ()
    assert stage.plan(10_000).wake == NEVER


def test_the_time_of_transition_stays_while_the_status_does() -> None:
    stage = Stage(pod())
    stage.hear(no(0))
    stage.act(0)
    stage.hear(no(10, TOO_BIG))
    assert stage.act(10) == [("False", "MaxSizeReached")]
    assert stage.patches[-1].condition.last_transition_time == rfc(0)
    stage.hear(yes(20))
    stage.act(20)
    assert stage.patches[-1].condition.last_transition_time == rfc(20)


# -- order -----------------------------------------------------------------------------------------


def test_a51_a_newer_promise_wins_and_an_older_refusal_is_ignored() -> None:
    stage = Stage(pod())
    stage.hear(no(0))
    stage.act(0)
    stage.hear(yes(10))
    assert stage.act(10) == [("True", "TriggeredScaleUp")]
    stage.hear(no(5))
    assert stage.act(11) == []


@pytest.mark.parametrize("events", [(YES, NO), (NO, YES)], ids=["yes first", "no first"])
def test_at_the_same_time_the_promise_wins(events: tuple[CoreEvent, CoreEvent]) -> None:
    stage = Stage(pod())
    stage.hear(*events)
    assert stage.act(0) == [("True", "TriggeredScaleUp")]


def test_a57_a_repeated_event_with_a_later_time_counts_again() -> None:
    stage = Stage(pod())
    stage.hear(no(0), yes(10))
    assert stage.act(10) == [("True", "TriggeredScaleUp")]
    stage.hear(msgspec.structs.replace(no(20), count=2))
    assert stage.act(20) == [("False", "ScaleUpBackoff")]


HISTORY = (
    no(0), yes(10), yes(12, TWO_GROUPS), no(30, TOO_BIG), yes(40, TWO_GROUPS), failed("g1", 41),
    failed("g2", 50), failed("g1", 5), nominated(35), no_capacity("x", 36),
)  # fmt: skip


@given(st.permutations(HISTORY), st.integers(0, len(HISTORY)), st.sampled_from([60, 120, 2000]))
def test_the_order_in_which_events_arrive_does_not_matter(
    order: list[CoreEvent], known: int, later: float
) -> None:
    """Whatever arrives first, and whenever the pod becomes known."""
    stage = Stage()
    stage.now = 55.0
    stage.hear(*order[:known])
    stage.decisions.pod_changed(pod())
    stage.hear(*order[known:])
    straight = Stage(pod())
    straight.now = 55.0
    straight.hear(*HISTORY)
    for when in (55.0, 55.0 + later):
        assert stage.act(when) == straight.act(when)


# -- suspicion, expiry -----------------------------------------------------------------------------


def test_a_group_that_failed_makes_the_pod_suspect_for_a_minute() -> None:
    stage = Stage(pod())
    stage.hear(yes(0))
    stage.act(0)
    stage.now = 5
    stage.hear(failed("g1", 5))
    assert stage.plan(5).wake == 65
    assert stage.act(64.9) == []
    assert stage.act(65) == [("False", "ProvisioningFailed")]
    assert "Scale-up failed for group g1" in stage.patches[-1].condition.message


def test_a_newer_promise_ends_suspicion() -> None:
    stage = Stage(pod())
    stage.hear(yes(0), failed("g1", 5))
    stage.act(5)
    stage.now = 30
    stage.hear(yes(30))
    assert stage.act(200) == []


def test_a_failure_before_the_promise_does_not_count() -> None:
    stage = Stage(pod())
    stage.hear(failed("g1", -1), yes(0))
    assert stage.act(0) == [("True", "TriggeredScaleUp")]
    assert stage.act(500) == []


def test_all_groups_must_have_failed() -> None:
    stage = Stage(pod())
    stage.hear(yes(0, TWO_GROUPS), failed("g1", 5))
    stage.act(5)
    assert stage.act(500) == []
    stage.now = 500
    stage.hear(failed("g2", 500))
    assert stage.act(560) == [("False", "ProvisioningFailed")]


def test_a_failure_that_repeats_does_not_put_the_end_off() -> None:
    stage = Stage(pod())
    stage.hear(yes(0))
    stage.act(0)
    for time in range(5, 65, 10):
        stage.now = time
        stage.hear(failed("g1", time))
        assert stage.act(time) == []
    assert stage.act(65) == [("False", "ProvisioningFailed")]


def test_a_promise_that_names_no_group_is_never_suspect() -> None:
    stage = Stage(pod())
    stage.hear(yes(0, "words of a later version"), failed("g1", 5))
    stage.act(5)
    assert stage.act(1000) == []


def test_a_failure_of_another_group_leaves_the_pod_alone() -> None:
    stage = Stage(pod())
    stage.hear(yes(0), failed("g9", 5))
    stage.act(5)
    assert stage.act(1000) == []


def test_a55_a_claim_without_capacity() -> None:
    stage = Stage(pod())
    stage.hear(nominated(0), no_capacity("y", 1), no_capacity("x", 2))
    assert stage.act(2) == [("True", "Nominated")]
    assert stage.act(62) == [("False", "ProvisioningFailed")]


def test_a53_a_promise_expires() -> None:
    stage = Stage(pod())
    stage.hear(yes(0))
    stage.act(0)
    assert stage.plan(1).wake == 1200
    assert stage.act(1199.9) == []
    assert stage.act(1200) == [("False", "ProvisioningTimedOut")]
    stage.hear(yes(1300))
    assert stage.act(1300) == [("True", "TriggeredScaleUp")]


def test_a_promise_that_is_repeated_does_not_expire() -> None:
    stage = Stage(pod())
    for time in range(0, 5000, 600):
        stage.now = time
        stage.hear(yes(time))
        stage.act(time)
    assert [patch.condition.status for patch in stage.patches] == ["True"]


def test_durations_run_on_our_clock() -> None:
    """The autoscaler's own clock only orders what it says."""
    for skew in (-7200.0, 7200.0):
        stage = Stage(pod())
        stage.hear(yes(skew))
        assert stage.act(0) == [("True", "TriggeredScaleUp")]
        assert stage.act(1199) == []
        assert stage.act(1200) == [("False", "ProvisioningTimedOut")]


def test_the_age_of_a_promise_counts() -> None:
    stage = Stage(pod())
    stage.hear(yes(-1000), age=1000)
    stage.act(0)
    assert stage.act(200) == [("False", "ProvisioningTimedOut")]


# -- several autoscalers ---------------------------------------------------------------------------


@pytest.mark.parametrize("order", [0, 1])
def test_a60_one_promise_is_enough(order: int) -> None:
    events = (no(0), nominated(0)) if order else (nominated(0), no(0))
    stage = Stage(pod())
    stage.hear(*events)
    assert stage.act(0) == [("True", "Nominated")]


def test_when_the_promise_breaks_the_refusal_of_the_other_stands() -> None:
    stage = Stage(pod())
    stage.hear(nominated(0))
    stage.act(0)
    stage.hear(no(100), refused(200))
    assert stage.act(200) == [("False", "KarpenterFailedScheduling")]


def test_sources_are_ordered_apart() -> None:
    """A newer word of one does not make an older one of the other stale."""
    stage = Stage(pod())
    stage.hear(refused(100), yes(50))
    assert stage.act(100) == [("True", "TriggeredScaleUp")]


# -- which pods ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "item",
    [
        pod(node_name="n1"),
        gated(),
        pod(scheduler_name="default-scheduler"),
        pod(topology_spread_constraints=()),
        having(pod(), phase="Succeeded"),
        having(pod(), phase="Failed"),
        msgspec.structs.replace(
            pod(), metadata=msgspec.structs.replace(pod().metadata, deletion_timestamp=rfc(0))
        ),
    ],
    ids=["bound", "gated", "another scheduler's", "no criterion", "done", "failed", "deleting"],
)
def test_a_pod_that_is_left_alone(item: Pod) -> None:
    stage = Stage(item)
    stage.hear(no(0))
    assert stage.act(0) == []
    assert not stage.decisions.needed


def test_a_gate_that_opens_makes_it_ours() -> None:
    stage = Stage(gated())
    stage.hear(no(0))
    assert stage.act(0) == []
    stage.decisions.pod_changed(pod())
    assert stage.act(1) == [("False", "ScaleUpBackoff")]


def test_an_event_about_another_uid_is_about_another_pod() -> None:
    stage = Stage(pod(uid="new"))
    stage.hear(no(0))
    assert stage.act(0) == []


def test_a_pod_that_is_known_later_than_its_event() -> None:
    stage = Stage()
    stage.hear(no(0))
    assert stage.act(0) == []
    stage.decisions.pod_changed(pod())
    assert stage.act(1) == [("False", "ScaleUpBackoff")]


def test_a_criterion_that_is_added_later() -> None:
    stage = Stage(pod(topology_spread_constraints=()))
    stage.hear(no(0))
    assert stage.act(0) == []
    stage.decisions.pod_changed(pod())
    assert stage.act(1) == [("False", "ScaleUpBackoff")]


def test_once_bound_nobody_looks_after_it() -> None:
    stage = Stage(pod())
    stage.hear(yes(0))
    stage.act(0)
    stage.decisions.pod_changed(pod(node_name="n1"))
    assert stage.act(5000) == []
    statistics = stage.decisions.statistics()
    assert (statistics.pods, statistics.signals) == (0, 0)


def test_all_pods_of_ours_if_so_configured() -> None:
    stage = Stage(
        pod(topology_spread_constraints=()),
        pod("b", topology_spread_constraints=(), scheduler_name="other"),
        wanted=ConditionSelector(every_pod=True),
    )
    stage.hear(no(0), no(0, name="b"))
    assert stage.act(0) == [("False", "ScaleUpBackoff")]
    assert stage.patches[0].pod.metadata.name == "a"


# -- economy ---------------------------------------------------------------------------------------


def test_the_same_news_is_written_once() -> None:
    stage = Stage(pod())
    for time in range(10):
        stage.hear(no(time))
        stage.act(time)
    assert len(stage.patches) == 1


def test_what_the_pod_says_already_is_not_written() -> None:
    """After a restart: our own words, read back."""
    stage = Stage(pod())
    stage.hear(no(0))
    stage.act(0)
    again = Stage(having(pod(), stage.patches[0].condition))
    again.hear(no(0), age=30)
    assert again.act(30) == []


def test_words_alone_are_written_once_a_minute() -> None:
    stage = Stage(pod())
    written = []
    for time in range(0, 200, 5):
        stage.now = time
        stage.hear(no(time, f"{BACKOFF}, {time} node(s) didn't match"))
        if stage.act(time):
            written.append(time)
    assert written == [0, 60, 120, 180]


def test_the_newest_words_are_written_when_the_minute_is_over() -> None:
    stage = Stage(pod())
    stage.hear(no(0))
    stage.act(0)
    stage.hear(no(10, f"{BACKOFF}, 7 node(s) didn't match"))
    assert stage.plan(10).wake == MESSAGE_SECONDS
    assert stage.act(MESSAGE_SECONDS) == [("False", "ScaleUpBackoff")]
    assert "7 node(s)" in stage.patches[-1].condition.message


def test_only_one_patch_of_a_pod_is_under_way() -> None:
    stage = Stage(pod())
    stage.hear(no(0))
    (first,) = stage.plan(0).patches
    stage.hear(yes(1))
    assert stage.plan(1).patches == ()
    stage.decisions.written(first, 2)
    assert stage.act(2) == [("True", "TriggeredScaleUp")]


def test_a_patch_cut_off_by_an_error_is_made_again() -> None:
    stage = Stage(pod())
    stage.hear(no(0))
    assert stage.plan(0).patches
    stage.decisions.forget_events()
    stage.decisions.begin()
    stage.hear(no(0))
    assert stage.act(1) == [("False", "ScaleUpBackoff")]


def test_a_patch_that_failed_is_tried_again_later_and_later() -> None:
    stage = Stage(pod())
    stage.hear(no(0))
    waits = []
    for _ in range(9):
        (patch,) = stage.plan().patches
        stage.decisions.failed(patch, stage.now)
        plan = stage.plan()
        assert plan.patches == ()
        waits.append(plan.wake - stage.now)
        stage.now = plan.wake
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert stage.act() == [("False", "ScaleUpBackoff")]


def test_a_retry_writes_what_is_true_by_then() -> None:
    stage = Stage(pod())
    stage.hear(no(0))
    (patch,) = stage.plan(0).patches
    stage.decisions.failed(patch, 0)
    stage.hear(yes(0.5))
    assert stage.act(1) == [("True", "TriggeredScaleUp")]


@pytest.mark.parametrize(
    "answer",
    [
        lambda decisions, patch: decisions.written(patch, 1),
        lambda decisions, patch: decisions.failed(patch, 1),
        lambda decisions, patch: decisions.concede(patch),
    ],
    ids=["written", "failed", "another writer"],
)
def test_a_pod_that_is_gone_is_forgotten_whatever_is_under_way(
    answer: Callable[[Decisions, Patch], None],
) -> None:
    stage = Stage(pod())
    stage.hear(no(0))
    (patch,) = stage.plan(0).patches
    stage.decisions.forget(patch.pod.uid)
    answer(stage.decisions, patch)
    assert stage.plan(100).patches == ()
    assert stage.decisions.statistics().under_way == 0
    assert stage.decisions.conflicting_managers == 0


def test_an_event_that_expires_is_forgotten_unless_its_pod_waits() -> None:
    stage = Stage(pod())
    stage.hear(yes(0), no(0, name="stranger"))
    stage.act(0)
    stage.decisions.event_deleted(yes(0))
    stage.decisions.event_deleted(no(0, name="stranger"))
    assert stage.decisions.statistics().signals == 1
    assert stage.act(1200) == [("False", "ProvisioningTimedOut")]


def test_ending_to_listen_forgets_events_and_keeps_what_was_written() -> None:
    stage = Stage(pod())
    stage.hear(no(0), failed("g1", 0))
    stage.act(0)
    stage.decisions.forget_events()
    assert stage.plan(5000).wake == NEVER
    stage.hear(no(0), age=5000)
    assert stage.act(5000) == []


def test_what_waits_for_its_turn_is_decided_when_it_comes() -> None:
    names = [f"p{number}" for number in range(MAX_IN_FLIGHT + 1)]
    stage = Stage(*map(pod, names))
    stage.hear(*(no(0, name=name) for name in names))
    first = stage.plan(0).patches
    assert [each.pod.metadata.name for each in first] == names[:MAX_IN_FLIGHT]
    assert stage.plan(1).patches == ()
    stage.hear(yes(2, name=names[-1]))
    stage.decisions.written(first[0], 2)
    (last,) = stage.plan(2).patches
    assert (last.pod.metadata.name, last.condition.status) == (names[-1], "True")


# -- other writers ---------------------------------------------------------------------------------


def test_a58_a_condition_that_we_do_not_know_is_looked_into_first() -> None:
    stage = Stage(having(pod(), condition("True", "Native")))
    stage.hear(no(0))
    (patch,) = stage.plan(0).patches
    assert patch.verify
    stage.decisions.concede(patch)
    stage.hear(no(100, NO_GROUP))
    assert stage.plan(100).patches == ()
    assert not stage.decisions.stopped


def test_our_own_condition_is_not_looked_into() -> None:
    stage = Stage(pod())
    stage.hear(no(0))
    stage.act(0)
    stage.hear(yes(1))
    (patch,) = stage.plan(1).patches
    assert not patch.verify


def test_a_condition_that_somebody_changed_behind_us_is_looked_into() -> None:
    stage = Stage(pod())
    stage.hear(no(0))
    stage.act(0)
    stage.decisions.pod_changed(having(pod(), condition("True", "Native")))
    assert stage.plan(1).patches == (), "only an autoscaler's word makes us write"
    stage.hear(yes(2))
    (patch,) = stage.plan(2).patches
    assert patch.verify


@pytest.mark.parametrize("led_before", [True, False])
def test_what_came_up_while_we_led_is_told_from_what_was_there(led_before: bool) -> None:
    """The condition of a leader before us looks like our own."""
    stage = Stage(pod())
    if led_before:
        stage.plan(0)
    stage.decisions.pod_changed(having(pod(), condition("True", "TriggeredScaleUp")))
    stage.hear(no(1))
    (patch,) = stage.plan(1).patches
    assert patch.verify
    assert patch.seen_without is led_before


def test_after_three_pods_it_ends_for_good() -> None:
    names = [f"p{number}" for number in range(MAX_CONFLICTS)]
    stage = Stage(*(having(pod(name), condition("True", "Native")) for name in names))
    for number, name in enumerate(names):
        assert not stage.decisions.stopped
        stage.hear(no(number, name=name))
        (patch,) = stage.plan(number).patches
        stage.decisions.concede(patch)
    assert stage.decisions.stopped


def test_mode_on_looks_into_nothing() -> None:
    stage = Stage(having(pod(), condition("True", "Native")), backs_off=False)
    stage.hear(no(0))
    (patch,) = stage.plan(0).patches
    assert not patch.verify


# -- many ------------------------------------------------------------------------------------------


def test_pods_do_not_touch_each_other() -> None:
    names = "abc"
    expected = {
        "a": ("False", "ScaleUpBackoff"),
        "b": ("True", "TriggeredScaleUp"),
        "c": ("False", "NoNodeGroup"),
    }
    for order in permutations(names):
        stage = Stage(*map(pod, names))
        events = {"a": no(0), "b": yes(0, name="b"), "c": no(0, NO_GROUP, name="c")}
        stage.hear(*(events[name] for name in order))
        stage.act(0)
        written = {
            patch.pod.metadata.name: (patch.condition.status, patch.condition.reason)
            for patch in stage.patches
        }
        assert written == expected

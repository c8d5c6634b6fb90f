"""Counts of the members of a group, and when it is ready."""

from __future__ import annotations

import pytest

from scheduler.groups import (
    MAX_MEMBERS,
    MEMBER_TRANSITIONS,
    Group,
    GroupKey,
    MemberEvent,
    MemberState,
    PodGroups,
    terms_of,
)
from tests.unit.groups.objects import member, pod_group


def groups_with(minimum: int, *pods: str, node: str = "") -> tuple[PodGroups, Group]:
    groups = PodGroups()
    group = groups.set_object(pod_group(minimum))
    for name in pods:
        groups.observe(member(name, node=node), ours=True)
    return groups, group


@pytest.mark.parametrize(("written", "read"), [(4, 4), (1, 1), (0, 1), (-3, 1)])
def test_a_minimum_below_one_counts_as_one(written: int, read: int) -> None:
    assert terms_of(pod_group(written)).minimum == read


def test_a_group_larger_than_one_decision_is_refused_with_its_numbers() -> None:
    terms = terms_of(pod_group(MAX_MEMBERS + 1))
    assert terms.refused == "spec.minMember is 10001; at most 10000 pods can start together"
    groups, group = groups_with(MAX_MEMBERS + 1, "a")
    groups.observe(member("b"), ours=True)
    assert not group.ready


def test_every_event_has_a_result_in_every_state() -> None:
    assert set(MEMBER_TRANSITIONS) == {None, *MemberState}
    for state, transitions in MEMBER_TRANSITIONS.items():
        assert state not in transitions.values() or state in (
            MemberState.FOREIGN,
            MemberState.GATED,
            MemberState.PENDING,
        )
    assert not MEMBER_TRANSITIONS[MemberState.BOUND], "only the end of a pod ends a binding"


def test_g2_a_group_is_ready_when_its_last_member_comes() -> None:
    groups, group = groups_with(4, "a", "b", "c")
    assert (group.ready, group.need, group.counts.existing) == (False, 4, 3)
    assert groups.observe(member("d"), ours=True) is group
    assert (group.ready, group.need) == (True, 4)


def test_g3_members_without_an_object_are_not_ready() -> None:
    groups = PodGroups()
    group = groups.observe(member("a"), ours=True)
    assert group is not None
    assert not group.ready
    groups.set_object(pod_group(1))
    assert group.ready


def test_g5_a_gated_member_exists_and_is_not_counted() -> None:
    groups, group = groups_with(3, "a", "b")
    groups.observe(member("c", gated=True), ours=True)
    assert (group.ready, group.counts.gated, group.counts.existing) == (False, 1, 3)
    groups.observe(member("c"), ours=True)
    assert group.ready


def test_g9_a_group_that_lost_three_needs_three_at_once() -> None:
    groups, group = groups_with(8, *"abcdefgh", node="n")
    for name in "abc":
        groups.forget(f"uid-{name}")
    groups.observe(member("x"), ours=True)
    groups.observe(member("y"), ours=True)
    assert (group.need, group.ready) == (3, False)
    groups.observe(member("z"), ours=True)
    assert (group.need, group.ready) == (3, True)


def test_g7_members_that_succeeded_count_and_others_do_not() -> None:
    groups, group = groups_with(4, *"abcd", node="n")
    for name in "ab":
        groups.forget(f"uid-{name}")
        group.succeed(f"uid-{name}")
    groups.forget("uid-c")
    assert (group.have, group.need) == (3, 1)
    groups.observe(member("e"), ours=True)
    assert group.ready


def test_successes_beyond_the_minimum_do_not_add_up() -> None:
    _, group = groups_with(2)
    for number in range(5):
        group.succeed(f"uid-{number}")
    assert (group.have, group.need, group.succeeded) == (2, 0, 2)


def test_a_success_counts_once_however_often_it_is_heard_of() -> None:
    _, group = groups_with(6)
    group.succeeded_earlier(2)
    group.succeed("uid-a")
    group.succeed("uid-a")
    assert group.succeeded == 3
    group.name_succeeded(["uid-a", "uid-b"])
    assert group.succeeded == 3, "b is one of the two that were counted before"
    group.name_succeeded(["uid-b", "uid-c", "uid-d"])
    assert group.succeeded == 4


def test_g10_a_changed_minimum_counts_at_once() -> None:
    groups, group = groups_with(4, *"abcd")
    groups.set_object(pod_group(6))
    assert (group.need, group.ready) == (6, False)
    groups.set_object(pod_group(2))
    assert (group.need, group.ready) == (2, True)


def test_g39_a_recreated_object_forgets_what_was_reached_under_the_old_one() -> None:
    groups, group = groups_with(4, "a", node="n")
    groups.observe(member("b"), ours=True)
    group.succeed("uid-x")
    groups.set_object(pod_group(2, uid="pg-2"))
    assert (group.succeeded, group.need) == (0, 1)


def test_a_deleted_object_leaves_its_members_waiting() -> None:
    groups, group = groups_with(1, "a")
    assert groups.remove_object(pod_group(1)) is group
    assert not group.ready
    assert groups.forget("uid-a") is None
    assert len(groups) == 0


def test_members_of_two_profiles_are_not_ready() -> None:
    groups, group = groups_with(2, "a")
    groups.observe(member("b", profile="other"), ours=True)
    assert (group.ready, group.profiles) == (False, ("kubestow", "other"))
    groups.forget("uid-b")
    groups.observe(member("c"), ours=True)
    assert (group.ready, group.profiles) == (True, ("kubestow",))


def test_a_pending_member_of_another_scheduler_counts_once_it_is_bound() -> None:
    groups, group = groups_with(2, "a")
    groups.observe(member("b", profile="default-scheduler"), ours=False)
    assert (group.ready, group.counts.foreign) == (False, 1)
    groups.observe(member("b", profile="default-scheduler", node="n"), ours=False)
    assert (group.ready, group.need) == (True, 1)


def test_room_that_is_reserved_counts_until_it_is_given_back() -> None:
    groups, group = groups_with(2, "a", "b")
    groups.reserved("uid-a")
    groups.reserved("uid-b")
    assert (group.have, group.need) == (2, 0)
    # The watch shows the status that was written meanwhile, without a node.
    groups.observe(member("a"), ours=True)
    assert group.have == 2
    groups.unreserved("uid-a")
    assert (group.have, group.need, group.ready) == (1, 1, True)


def test_unreserve_of_a_pod_that_is_bound_after_all_changes_nothing() -> None:
    groups, group = groups_with(1, "a", node="n")
    groups.unreserved("uid-a")
    assert group.have == 1


def test_a_started_group_without_replacements_goes_on_with_those_it_has() -> None:
    groups, group = groups_with(4, "a", node="n")
    groups.observe(member("b"), ours=True)
    assert (group.short_after_start, group.need) == (True, 3)
    group.resume()
    assert (group.ready, group.need) == (True, 1)
    groups.observe(member("c"), ours=True)
    assert not group.ready, "another one came, so more may come"


def test_a_group_that_never_started_does_not_go_on_below_its_minimum() -> None:
    _, group = groups_with(4, "a")
    group.resume()
    assert not group.ready


def test_a_pending_pod_whose_label_changed_moves_and_a_bound_one_stays() -> None:
    groups, group = groups_with(1, "a")
    groups.observe(member("b", node="n"), ours=True)
    groups.observe(member("a", "other"), ours=True)
    groups.observe(member("b", "other", node="n"), ours=True)
    assert list(group.members(*MemberState)) == ["uid-b"]
    other = groups.of("uid-a")
    assert other is not None
    assert other.key == GroupKey("default", "other")


def test_equal_names_in_two_namespaces_are_two_groups() -> None:
    groups, group = groups_with(2, "a")
    groups.observe(member("b", namespace="other"), ours=True)
    assert not group.ready
    assert len(groups) == 2


def test_pods_without_the_label_are_not_kept() -> None:
    groups = PodGroups()
    assert groups.observe(member("a", ""), ours=True) is None
    groups.reserved("uid-a")
    groups.unreserved("uid-a")
    assert groups.forget("uid-a") is None
    assert (len(groups), groups.statistics().members) == (0, 0)


def test_events_of_pods_that_are_not_members_any_more_are_ignored() -> None:
    groups, group = groups_with(1, "a")
    assert groups.of("uid-a") is group
    groups.forget("uid-a")
    groups.reserved("uid-a")
    assert (group.have, len(group)) == (0, 0)


def test_the_event_table_names_only_known_events() -> None:
    named = {event for each in MEMBER_TRANSITIONS.values() for event in each}
    assert named == set(MemberEvent)

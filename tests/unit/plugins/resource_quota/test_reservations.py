"""Reservations, and the quota that is kept for nominated pods (docs/deferred-quota.md, Q7)."""

from __future__ import annotations

import pytest

from tests.unit.plugins.resource_quota.objects import Desk, pod, quota

CPU = "requests.cpu-millis"


def test_reserve_checks_and_reserves_in_one_step() -> None:
    desk = Desk(quota())
    a, b = pod("a", "2", deferred=True), pod("b", "1", deferred=True)
    assert desk.enqueue(a, b) == ["a", "b"]
    assert not desk.ledger.reserve(a)
    assert [each.resource for each in desk.ledger.reserve(b)] == ["requests.cpu"]
    assert desk.used() == {CPU: "2000"}
    desk.ledger.unreserve("a")
    desk.ledger.unreserve("a")
    assert desk.used() == {CPU: "0"}
    assert not desk.ledger.reserve(b)
    desk.see(pod("b", "1", node="n"))
    assert desk.used() == {CPU: "1000"}
    desk.ledger.unreserve("b")
    assert desk.used() == {CPU: "1000"}
    assert desk.ledger.statistics().reserved == 0


def test_a_reservation_ends_with_the_pod() -> None:
    desk = Desk(quota())
    a = pod("a", "2", deferred=True)
    desk.enqueue(a)
    desk.ledger.reserve(a)
    desk.ledger.forget("a")
    desk.ledger.unreserve("a")
    desk.ledger.validate()
    assert desk.used() == {CPU: "0"}
    assert not desk.ledger.reserve(a)
    assert desk.used() == {CPU: "0"}


def test_b29_a_nominated_deferred_pod_keeps_its_quota_and_does_not_block_itself() -> None:
    desk = Desk(quota(hard={CPU: 2000}))
    preemptor = pod("preemptor", "2", deferred=True)
    desk.enqueue(preemptor)
    desk.ledger.nominate(preemptor, "n")
    assert desk.enqueue(pod("small", deferred=True), pod("plain")) == []
    assert not desk.ledger.violations(preemptor)
    assert not desk.ledger.reserve(preemptor)
    desk.ledger.unreserve("preemptor")
    assert desk.used() == {CPU: "2000"}  # still nominated; "plain" is held and charged nothing
    desk.ledger.nominate(preemptor, "")
    assert desk.run() == ["small", "plain"]


def test_a_nomination_books_nothing_that_does_not_fit() -> None:
    desk = Desk(quota(hard={CPU: 1000}))
    a, b = pod("a", deferred=True), pod("b", deferred=True)
    desk.enqueue(a, b)
    for each in (a, b):
        desk.ledger.nominate(each, "n")
    assert desk.used() == {CPU: "1000"}


def test_b29_reserve_honours_the_nomination_that_has_just_ended() -> None:
    desk = Desk(quota(hard={CPU: 2000}))
    preemptor = pod("preemptor", "2", deferred=True)
    desk.enqueue(preemptor)
    desk.ledger.nominate(preemptor, "n")
    assert desk.enqueue(pod("plain")) == []
    assert not desk.ledger.violations(preemptor)
    desk.ledger.nominate(preemptor, "")
    assert desk.run() == ["plain"]
    assert not desk.ledger.reserve(preemptor)
    assert desk.run() == []


@pytest.mark.parametrize("judged", ["reserved", "given up", "held", "attempted"])
def test_b29_an_ended_nomination_is_honoured_until_the_pod_is_judged(judged: str) -> None:
    desk = Desk(quota(hard={CPU: 2000}))
    preemptor = pod("preemptor", "2", deferred=True)
    desk.enqueue(preemptor)
    desk.ledger.nominate(preemptor, "n")
    desk.enqueue(pod("plain"))
    desk.ledger.nominate(preemptor, "")
    assert desk.run() == ["plain"]
    match judged:
        case "reserved":
            assert not desk.ledger.reserve(preemptor)
            desk.ledger.unreserve(preemptor.uid)
        case "given up":
            desk.ledger.unreserve(preemptor.uid)
        case "held":
            assert desk.enqueue(preemptor) == []
        case "attempted":
            desk.ledger.attempted(preemptor.uid)
    assert desk.ledger.reserve(preemptor)


def test_b29_an_ended_nomination_reserves_nothing_that_others_have_taken() -> None:
    desk = Desk(quota(hard={CPU: 2000}))
    preemptor = pod("preemptor", "2", deferred=True)
    desk.enqueue(preemptor)
    desk.ledger.nominate(preemptor, "n")
    desk.ledger.nominate(preemptor, "")
    desk.see(pod("bound", node="n"))
    assert desk.ledger.reserve(preemptor)


def test_a_nomination_granted_before_everything_was_known_is_looked_at_again() -> None:
    desk = Desk(quota(hard={CPU: 3000}), synced=False)
    nominated = pod("nominated", "2", deferred=True)
    desk.see(nominated)
    desk.ledger.nominate(nominated, "n")
    desk.see(pod("bound", "2", node="n"))
    desk.ledger.mark_synced()
    assert desk.used() == {CPU: "2000"}
    assert desk.enqueue(nominated, pod("one", deferred=True)) == ["one"]


def test_no_quota_is_kept_for_a_nominated_pod_that_is_held() -> None:
    desk = Desk(quota(hard={CPU: 3000}))
    nominated = pod("nominated", "2", deferred=True)
    desk.see(nominated)
    desk.ledger.nominate(nominated, "n")
    desk.see(pod("bound", "2", node="n"))
    assert desk.used() == {CPU: "4000"}
    assert desk.enqueue(nominated, pod("one", deferred=True)) == ["one"]
    assert desk.used() == {CPU: "2000"}

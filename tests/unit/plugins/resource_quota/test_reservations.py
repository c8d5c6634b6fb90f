"""Reservations, and the quota that is kept for nominated pods (docs/deferred-quota.md, Q7)."""

from __future__ import annotations

import pytest

from tests.unit.plugins.resource_quota.objects import LedgerFixture, pod, quota

CPU = "requests.cpu-millis"


def test_reserve_checks_and_reserves_in_one_step() -> None:
    fixture = LedgerFixture(quota())
    a, b = pod("a", "2", deferred=True), pod("b", "1", deferred=True)
    assert fixture.enqueue(a, b) == ["a", "b"]
    assert not fixture.ledger.reserve(a)
    assert [each.resource for each in fixture.ledger.reserve(b)] == ["requests.cpu"]
    assert fixture.used() == {CPU: "2000"}
    fixture.ledger.unreserve("a")
    fixture.ledger.unreserve("a")
    assert fixture.used() == {CPU: "0"}
    assert not fixture.ledger.reserve(b)
    fixture.observe(pod("b", "1", node="n"))
    assert fixture.used() == {CPU: "1000"}
    fixture.ledger.unreserve("b")
    assert fixture.used() == {CPU: "1000"}
    assert fixture.ledger.statistics().reserved == 0


def test_a_reservation_ends_with_the_pod() -> None:
    fixture = LedgerFixture(quota())
    a = pod("a", "2", deferred=True)
    fixture.enqueue(a)
    fixture.ledger.reserve(a)
    fixture.ledger.forget("a")
    fixture.ledger.unreserve("a")
    fixture.ledger.validate()
    assert fixture.used() == {CPU: "0"}
    assert not fixture.ledger.reserve(a)
    assert fixture.used() == {CPU: "0"}


def test_b29_a_nominated_deferred_pod_keeps_its_quota_and_does_not_block_itself() -> None:
    fixture = LedgerFixture(quota(hard={CPU: 2000}))
    preemptor = pod("preemptor", "2", deferred=True)
    fixture.enqueue(preemptor)
    fixture.ledger.nominate(preemptor, "n")
    assert fixture.enqueue(pod("small", deferred=True), pod("plain")) == []
    assert not fixture.ledger.violations(preemptor)
    assert not fixture.ledger.reserve(preemptor)
    fixture.ledger.unreserve("preemptor")
    assert fixture.used() == {CPU: "2000"}  # still nominated; "plain" is held and charged nothing
    fixture.ledger.nominate(preemptor, "")
    assert fixture.run() == ["small", "plain"]


def test_no_quota_is_kept_for_a_nomination_that_does_not_fit() -> None:
    fixture = LedgerFixture(quota(hard={CPU: 1000}))
    a, b = pod("a", deferred=True), pod("b", deferred=True)
    fixture.enqueue(a, b)
    for each in (a, b):
        fixture.ledger.nominate(each, "n")
    assert fixture.used() == {CPU: "1000"}


def test_b29_reserve_honours_the_nomination_that_has_just_ended() -> None:
    fixture = LedgerFixture(quota(hard={CPU: 2000}))
    preemptor = pod("preemptor", "2", deferred=True)
    fixture.enqueue(preemptor)
    fixture.ledger.nominate(preemptor, "n")
    assert fixture.enqueue(pod("plain")) == []
    assert not fixture.ledger.violations(preemptor)
    fixture.ledger.nominate(preemptor, "")
    assert fixture.run() == ["plain"]
    assert not fixture.ledger.reserve(preemptor)
    assert fixture.run() == []


@pytest.mark.parametrize("judged", ["reserved", "given up", "held", "attempted"])
def test_b29_an_ended_nomination_is_honoured_until_the_pod_is_judged(judged: str) -> None:
    fixture = LedgerFixture(quota(hard={CPU: 2000}))
    preemptor = pod("preemptor", "2", deferred=True)
    fixture.enqueue(preemptor)
    fixture.ledger.nominate(preemptor, "n")
    fixture.enqueue(pod("plain"))
    fixture.ledger.nominate(preemptor, "")
    assert fixture.run() == ["plain"]
    match judged:
        case "reserved":
            assert not fixture.ledger.reserve(preemptor)
            fixture.ledger.unreserve(preemptor.uid)
        case "given up":
            fixture.ledger.unreserve(preemptor.uid)
        case "held":
            assert fixture.enqueue(preemptor) == []
        case "attempted":
            fixture.ledger.attempted(preemptor.uid)
    assert fixture.ledger.reserve(preemptor)


def test_b29_an_ended_nomination_reserves_nothing_that_others_have_taken() -> None:
    fixture = LedgerFixture(quota(hard={CPU: 2000}))
    preemptor = pod("preemptor", "2", deferred=True)
    fixture.enqueue(preemptor)
    fixture.ledger.nominate(preemptor, "n")
    fixture.ledger.nominate(preemptor, "")
    fixture.observe(pod("bound", node="n"))
    assert fixture.ledger.reserve(preemptor)


def test_a_nomination_made_before_the_first_lists_are_complete_is_checked_again() -> None:
    fixture = LedgerFixture(quota(hard={CPU: 3000}), synced=False)
    nominated = pod("nominated", "2", deferred=True)
    fixture.observe(nominated)
    fixture.ledger.nominate(nominated, "n")
    fixture.observe(pod("bound", "2", node="n"))
    fixture.ledger.mark_synced()
    assert fixture.used() == {CPU: "2000"}
    assert fixture.enqueue(nominated, pod("one", deferred=True)) == ["one"]


def test_no_quota_is_kept_for_a_nominated_pod_that_is_held() -> None:
    fixture = LedgerFixture(quota(hard={CPU: 3000}))
    nominated = pod("nominated", "2", deferred=True)
    fixture.observe(nominated)
    fixture.ledger.nominate(nominated, "n")
    fixture.observe(pod("bound", "2", node="n"))
    assert fixture.used() == {CPU: "4000"}
    assert fixture.enqueue(nominated, pod("one", deferred=True)) == ["one"]
    assert fixture.used() == {CPU: "2000"}

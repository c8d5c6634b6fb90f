"""B36 and claims: quota is kept for a pod that small pods starve; claims decide labels."""

from __future__ import annotations

import pytest

from plugins.resource_quota.messages import message
from tests.unit.plugins.resource_quota.objects import LedgerFixture, pod, quota

CPU = "requests.cpu-millis"
HARD = {CPU: 8000}


def stream(fixture: LedgerFixture, rounds: int) -> int | None:
    """One-core pods run for a while, each replaced by a new one; the round in which `big` ran."""
    running = [f"old{number}" for number in range(8)]
    fixture.observe(*(pod(uid, node="n") for uid in running))
    big = pod("big", "8", deferred=True)
    assert fixture.enqueue(big) == []
    for number in range(rounds):
        if running:
            fixture.ledger.forget(running.pop(0))
        fixture.run(10)
        fresh = pod(f"new{number}", deferred=True)
        if "big" in fixture.released or not fixture.ledger.violations(big):
            assert fixture.enqueue(big) == ["big"]
            assert not fixture.ledger.reserve(big)
            fixture.ledger.validate()
            return number
        if fixture.enqueue(fresh):
            assert not fixture.ledger.reserve(fresh)
            fixture.observe(pod(fresh.uid, node="n"))
            running.append(fresh.uid)
    return None


def test_b36_without_fairness_small_pods_may_starve_a_big_one() -> None:
    assert stream(LedgerFixture(quota(hard=HARD)), 100) is None


def test_b36_with_hold_after_the_big_pod_runs_when_the_others_have_drained() -> None:
    # Held for 60 s, that is 6 rounds; then the 8 pods that run must end.
    assert stream(LedgerFixture(quota(hard=HARD), hold_after=60.0), 100) in range(12, 16)


def holding(max_hold: float = 1800.0) -> LedgerFixture:
    """`big` has been held for so long that quota is kept for it."""
    fixture = LedgerFixture(quota(hard=HARD), hold_after=60.0, max_hold=max_hold)
    fixture.observe(pod("running", "4", node="n"))
    assert fixture.enqueue(pod("big", "8", deferred=True)) == []
    fixture.run(61)
    return fixture


def test_the_message_of_later_pods_names_the_pod_they_wait_for() -> None:
    fixture = holding()
    small = pod("small", deferred=True)
    fixture.observe(small)
    assert message(fixture.ledger.violations(small)) == (
        "quota exceeded: q, requested: requests.cpu=1, used: requests.cpu=4, "
        "limited: requests.cpu=8, reserved for older pod default/big"
    )


def test_pods_of_higher_priority_and_never_gated_ones_go_on() -> None:
    fixture = holding()
    assert fixture.enqueue(pod("vip", deferred=True, spec={"priority": 5}), pod("plain")) == [
        "vip",
        "plain",
    ]


@pytest.mark.parametrize("end", ["deleted", "rejected by nodes", "infeasible", "max hold"])
def test_the_reservation_ends(end: str) -> None:
    fixture = holding(max_hold=100.0)
    assert fixture.enqueue(pod("small", deferred=True)) == []
    if end == "deleted":
        fixture.ledger.forget("big")
    elif end == "rejected by nodes":
        fixture.ledger.attempted("big")
    elif end == "infeasible":
        fixture.ledger.set_quota(quota(hard={CPU: 7000}))
    else:
        assert fixture.run(30) == []
        fixture.now += 80
    assert fixture.run() == ["small"]


def test_after_max_hold_the_quota_is_open_to_all_for_hold_after() -> None:
    fixture = holding(max_hold=100.0)
    fixture.run(101)
    assert fixture.enqueue(pod("first", deferred=True)) == ["first"]
    fixture.run(61)
    assert fixture.enqueue(pod("second", deferred=True)) == []


def test_b36_no_quota_is_kept_for_a_pod_larger_than_the_limit() -> None:
    fixture = LedgerFixture(quota(hard=HARD), hold_after=60.0)
    assert fixture.enqueue(pod("huge", "9", deferred=True)) == []
    fixture.run(61)
    assert fixture.enqueue(pod("small", deferred=True)) == ["small"]


def test_claims_are_for_labelling_only() -> None:
    fixture = LedgerFixture(quota(hard=HARD))
    first, second = pod("first", "6", deferred=True), pod("second", "6", deferred=True)
    assert fixture.enqueue(first, second) == ["first", "second"]
    fixture.ledger.claims.add("first")
    assert fixture.ledger.claims.violations(second)
    assert not fixture.ledger.claims.violations(first)
    # It may try, and whoever has a node is not kept from it.
    assert not fixture.ledger.violations(second)
    assert not fixture.ledger.reserve(second)
    fixture.ledger.unreserve("second")
    fixture.ledger.forget("first")
    assert not fixture.ledger.claims.violations(second)
    fixture.ledger.validate()


def test_claims_are_withdrawn_newest_first_but_not_more_than_needed() -> None:
    fixture = LedgerFixture(quota(hard=HARD))
    pods = [
        pod(name, cpu, deferred=True)
        for name, cpu in (("old", "3"), ("large", "4"), ("small", "1"), ("taker", "3"))
    ]
    assert len(fixture.enqueue(*pods)) == 4
    account = fixture.ledger.account("default", "q")
    assert account is not None
    for name in ("old", "large", "small"):
        fixture.ledger.claims.add(name)
    assert not fixture.ledger.claims.withdraw(account)
    assert not fixture.ledger.reserve(pods[3])
    # Without the small one there is not room enough yet; without the large one there is for it.
    assert list(fixture.ledger.claims.withdraw(account)) == ["large"]
    assert list(account.claims) == ["old", "small"]
    fixture.ledger.validate()
    assert fixture.ledger.claims.take_claimable(account) == []
    fixture.ledger.unreserve("taker")
    assert [each.uid for each in fixture.ledger.claims.take_claimable(account)] == ["large"]
    assert fixture.ledger.claims.take_claimable(account) == []


def test_a_claim_follows_the_reservation_and_the_request_of_its_pod() -> None:
    fixture = LedgerFixture(quota(hard=HARD))
    subject = pod("subject", "2", deferred=True)
    assert fixture.enqueue(subject) == ["subject"]
    account = fixture.ledger.account("default", "q")
    assert account is not None
    fixture.ledger.claims.add("subject")
    assert account.claimed == [2 * 10**9]
    fixture.ledger.observe(pod("subject", "3", deferred=True))
    assert account.claimed == [3 * 10**9]
    fixture.ledger.nominate(subject, "n")
    assert account.claimed == [0]
    fixture.ledger.validate()

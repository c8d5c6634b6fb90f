"""The release of held pods when quota is freed, and its order."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.plugins.resource_quota.objects import LedgerFixture, pod, quota

CPU = "requests.cpu-millis"


def test_b31_one_freed_unit_releases_one_pod_in_queue_order() -> None:
    fixture = LedgerFixture(quota(hard={CPU: 1000}))
    fixture.observe(pod("running", node="n"))
    waiting = [pod(f"p{number}", deferred=True) for number in range(20)]
    assert fixture.enqueue(*waiting) == []
    assert fixture.run() == []
    fixture.ledger.forget("running")
    assert fixture.run() == ["p0"]
    assert fixture.run() == []
    assert not fixture.ledger.reserve(waiting[0])
    assert fixture.run(60) == []


def test_b35_the_higher_priority_goes_first() -> None:
    fixture = LedgerFixture(quota(hard={CPU: 1000}))
    fixture.observe(pod("running", node="n"))
    fixture.enqueue(pod("low", deferred=True), pod("high", deferred=True, spec={"priority": 10}))
    fixture.ledger.forget("running")
    assert fixture.run() == ["high"]


def test_a_pod_that_does_not_fit_does_not_block_those_behind_it() -> None:
    fixture = LedgerFixture(quota(hard={CPU: 2000}))
    fixture.observe(pod("a", node="n"), pod("b", node="n"))
    fixture.enqueue(pod("big", "2", deferred=True), pod("small", deferred=True))
    fixture.ledger.forget("a")
    assert fixture.run() == ["small"]


def test_released_pods_that_do_not_use_the_quota_make_room_for_others() -> None:
    fixture = LedgerFixture(quota(hard={CPU: 1000}))
    fixture.observe(pod("running", node="n"))
    waiting = [pod(f"p{number}", deferred=True) for number in range(60)]
    fixture.enqueue(*waiting)
    fixture.ledger.forget("running")
    assert fixture.run() == ["p0"]
    # Its attempt failed on the nodes: the next one's turn comes at once.
    fixture.ledger.attempted("p0")
    assert fixture.run() == ["p1"]
    # Nothing reports its attempt: after a while more are let out, and more each time.
    assert fixture.run(0.3) == [f"p{number}" for number in range(2, 19)]
    assert len(fixture.run(0.3)) == 33


@pytest.mark.parametrize(
    "free",
    [
        pytest.param(lambda fixture: fixture.ledger.forget("running"), id="B8: pod gone"),
        pytest.param(
            lambda fixture: fixture.observe(
                pod("running", node="n", status={"phase": "Succeeded"})
            ),
            id="B20: pod finished",
        ),
        pytest.param(
            lambda fixture: fixture.ledger.set_quota(quota(hard={CPU: 2000})), id="B32: hard raised"
        ),
        pytest.param(
            lambda fixture: fixture.ledger.set_quota(quota(hard={"requests.memory": 1})),
            id="B32: key removed",
        ),
        pytest.param(
            lambda fixture: fixture.ledger.remove_quota("default", "q"), id="B32: quota gone"
        ),
        pytest.param(
            lambda fixture: fixture.ledger.set_quota(
                quota(hard={CPU: 1000}, scopes=["Terminating"])
            ),
            id="scope matches no longer",
        ),
        pytest.param(
            lambda fixture: fixture.observe(pod("running", "0", node="n")), id="resized down"
        ),
        pytest.param(
            lambda fixture: fixture.observe(pod("held", "0", deferred=True)), id="own size lowered"
        ),
    ],
)
def test_freed(free: Any) -> None:
    fixture = LedgerFixture(quota(hard={CPU: 1000}), quota("other", "elsewhere", hard={CPU: 0}))
    fixture.observe(pod("running", node="n"))
    fixture.enqueue(
        pod("held", deferred=True), pod("stranger", deferred=True, namespace="elsewhere")
    )
    free(fixture)
    assert fixture.run() == ["held"]


def test_b30_what_frees_nothing_releases_nobody() -> None:
    fixture = LedgerFixture(quota(hard={CPU: 1000}))
    running = pod("running", node="n")
    fixture.observe(running)
    fixture.enqueue(*(pod(f"p{number}", deferred=True) for number in range(5)))
    fixture.run()
    fixture.observe(pod("running", node="n", metadata={"labels": {"a": "b"}}))
    fixture.observe(pod("new", namespace="elsewhere"))
    fixture.ledger.forget("new")
    fixture.ledger.forget("unknown")
    assert fixture.ledger.next_due() is None
    assert fixture.run() == []

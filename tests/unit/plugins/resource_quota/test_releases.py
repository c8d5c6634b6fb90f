"""Which held pods are released when quota is freed, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.plugins.resource_quota.objects import Desk, pod, quota

CPU = "requests.cpu-millis"


def test_b31_one_freed_unit_releases_one_pod_in_queue_order() -> None:
    desk = Desk(quota(hard={CPU: 1000}))
    desk.see(pod("running", node="n"))
    waiting = [pod(f"p{number}", deferred=True) for number in range(20)]
    assert desk.enqueue(*waiting) == []
    assert desk.run() == []
    desk.ledger.forget("running")
    assert desk.run() == ["p0"]
    assert desk.run() == []
    assert not desk.ledger.reserve(waiting[0])
    assert desk.run(60) == []


def test_b35_the_higher_priority_goes_first() -> None:
    desk = Desk(quota(hard={CPU: 1000}))
    desk.see(pod("running", node="n"))
    desk.enqueue(pod("low", deferred=True), pod("high", deferred=True, spec={"priority": 10}))
    desk.ledger.forget("running")
    assert desk.run() == ["high"]


def test_a_pod_that_does_not_fit_does_not_block_those_behind_it() -> None:
    desk = Desk(quota(hard={CPU: 2000}))
    desk.see(pod("a", node="n"), pod("b", node="n"))
    desk.enqueue(pod("big", "2", deferred=True), pod("small", deferred=True))
    desk.ledger.forget("a")
    assert desk.run() == ["small"]


def test_pods_that_do_not_use_what_they_were_let_out_for_make_room_for_others() -> None:
    desk = Desk(quota(hard={CPU: 1000}))
    desk.see(pod("running", node="n"))
    waiting = [pod(f"p{number}", deferred=True) for number in range(60)]
    desk.enqueue(*waiting)
    desk.ledger.forget("running")
    assert desk.run() == ["p0"]
    # Its attempt failed on the nodes: the next one's turn comes at once.
    desk.ledger.attempted("p0")
    assert desk.run() == ["p1"]
    # Nothing reports its attempt: after a while more are let out, and more each time.
    assert desk.run(0.3) == [f"p{number}" for number in range(2, 19)]
    assert len(desk.run(0.3)) == 33


@pytest.mark.parametrize(
    "free",
    [
        pytest.param(lambda desk: desk.ledger.forget("running"), id="B8: pod gone"),
        pytest.param(
            lambda desk: desk.see(pod("running", node="n", status={"phase": "Succeeded"})),
            id="B20: pod finished",
        ),
        pytest.param(
            lambda desk: desk.ledger.set_quota(quota(hard={CPU: 2000})), id="B32: hard raised"
        ),
        pytest.param(
            lambda desk: desk.ledger.set_quota(quota(hard={"requests.memory": 1})),
            id="B32: key removed",
        ),
        pytest.param(lambda desk: desk.ledger.remove_quota("default", "q"), id="B32: quota gone"),
        pytest.param(
            lambda desk: desk.ledger.set_quota(quota(hard={CPU: 1000}, scopes=["Terminating"])),
            id="scope matches no longer",
        ),
        pytest.param(lambda desk: desk.see(pod("running", "0", node="n")), id="resized down"),
        pytest.param(lambda desk: desk.see(pod("held", "0", deferred=True)), id="own size lowered"),
    ],
)
def test_freed(free: Any) -> None:
    desk = Desk(quota(hard={CPU: 1000}), quota("other", "elsewhere", hard={CPU: 0}))
    desk.see(pod("running", node="n"))
    desk.enqueue(pod("held", deferred=True), pod("stranger", deferred=True, namespace="elsewhere"))
    free(desk)
    assert desk.run() == ["held"]


def test_b30_what_frees_nothing_releases_nobody() -> None:
    desk = Desk(quota(hard={CPU: 1000}))
    running = pod("running", node="n")
    desk.see(running)
    desk.enqueue(*(pod(f"p{number}", deferred=True) for number in range(5)))
    desk.run()
    desk.see(pod("running", node="n", metadata={"labels": {"a": "b"}}))
    desk.see(pod("new", namespace="elsewhere"))
    desk.ledger.forget("new")
    desk.ledger.forget("unknown")
    assert desk.ledger.next_due() is None
    assert desk.run() == []

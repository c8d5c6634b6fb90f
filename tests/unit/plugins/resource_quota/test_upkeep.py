"""Labels that became wrong, and the recount."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.resource_quota.callbacks import LedgerCallbacks
from plugins.resource_quota.ledger import Ledger
from plugins.resource_quota.upkeep import ROUND_SECONDS, SWEEP_BATCH, SWEEP_SECONDS, Audit, Sweep
from scheduler.api import Pod
from tests.unit.plugins.resource_quota.objects import pod, quota

CPU = "requests.cpu-millis"


def unplaced(name: str, **parts: Any) -> Pod:
    """A deferred pod that no node had room for."""
    conditions = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
        {"type": "kubestow.io/QuotaDeferred", "status": "True"},
    ]
    return pod(name, status={"conditions": conditions}, **parts)


class Scene:
    """A sweep that receives the changes of a ledger."""

    def __init__(self, limit: int) -> None:
        callbacks = LedgerCallbacks(
            on_changed=lambda account: self.sweep.changed(account.namespace, self.now)
        )
        self.ledger = Ledger(callbacks=callbacks)
        self.rechecked: list[list[str]] = []
        self.sweep = Sweep(self.ledger, lambda uids: self.rechecked.append(list(uids)))
        self.now = 0.0
        self.ledger.set_quota(quota("q", hard={CPU: limit}))
        self.ledger.mark_synced()

    def observe(self, *pods: Pod) -> None:
        for each in pods:
            self.ledger.observe(each)
            self.sweep.observe(each, self.now)

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while (due := self.sweep.next_due()) is not None and due <= end:
            self.now = max(self.now, due)
            self.sweep.run_due(self.now)
        self.now = end


def test_b40_a_pod_that_fits_no_longer_is_asked_again_within_one_sweep() -> None:
    scene = Scene(1000)
    scene.observe(unplaced("p"))
    scene.advance(60)
    assert scene.rechecked == []
    scene.observe(pod("taker", node="n"))
    scene.advance(SWEEP_SECONDS)
    assert scene.rechecked == [["p"]]


def test_a_label_that_arrives_after_the_rise_is_looked_at_as_well() -> None:
    scene = Scene(1000)
    scene.observe(pod("taker", node="n"))
    scene.advance(60)
    scene.observe(unplaced("late"))
    scene.advance(SWEEP_SECONDS)
    assert scene.rechecked == [["late"]]


@pytest.mark.parametrize(
    "subject",
    [
        pytest.param(pod("p"), id="never gated"),
        pytest.param(pod("p", deferred=True), id="gates just gone"),
        pytest.param(unplaced("p", node="n"), id="bound"),
    ],
)
def test_others_are_left_alone(subject: Pod) -> None:
    scene = Scene(1000)
    scene.observe(subject, pod("taker", node="n"))
    scene.advance(60)
    assert scene.rechecked == []


def test_held_pods_and_those_that_are_gone_are_left_alone() -> None:
    scene = Scene(1000)
    scene.observe(unplaced("held"), unplaced("gone"))
    scene.observe(pod("taker", node="n"))
    violations = scene.ledger.violations(unplaced("held"))
    scene.ledger.hold("held", violations, 0.0)
    scene.ledger.forget("gone")
    scene.sweep.forget(unplaced("gone"))
    scene.advance(60)
    assert scene.rechecked == []


def test_a_multitude_is_looked_at_in_turns() -> None:
    scene = Scene(1000)
    scene.observe(*(unplaced(f"p{number}") for number in range(2 * SWEEP_BATCH + 1)))
    scene.observe(pod("taker", node="n"))
    scene.advance(SWEEP_SECONDS + 1)
    assert [len(each) for each in scene.rechecked] == [SWEEP_BATCH, SWEEP_BATCH, 1]


def test_changes_during_a_sweep_begin_another() -> None:
    scene = Scene(2000)
    scene.observe(unplaced("p"), pod("a", node="n"))
    scene.advance(SWEEP_SECONDS)
    assert scene.rechecked == []
    scene.observe(pod("b", node="n"))
    scene.advance(SWEEP_SECONDS)
    assert scene.rechecked == [["p"]]


def test_the_recount_reports_differences_and_their_absence() -> None:
    scene = Scene(5000)
    reports: list[int] = []
    audit = Audit(scene.ledger, reports.append)
    scene.observe(pod("a", node="n"))

    def rounds(number: int, now: float) -> float:
        for _ in range(number):
            now = audit.next_due(now)
            audit.run_due(now)
        return now

    now = rounds(1, 0.0)
    assert (now, reports) == (ROUND_SECONDS, [0])
    account = scene.ledger.account("default", "q")
    assert account is not None
    account.sums[0][0] += 1
    now = rounds(1, now)
    account.sums[0][0] -= 1
    rounds(1, now)
    assert reports == [0, 1, 0]


def test_the_recount_has_nothing_to_say_of_an_empty_ledger_but_that() -> None:
    reports: list[int] = []
    audit = Audit(Ledger(), reports.append)
    audit.run_due(audit.next_due(0.0))
    assert reports == [0]

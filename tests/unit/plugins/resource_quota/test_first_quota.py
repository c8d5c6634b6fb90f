"""Pods are counted from the first quota on: what happened to them before must not be lost.

The same story runs against an enforcement that is active from the start, because another namespace
has a quota, and against one that becomes active in the middle. Both must end with one account.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.pod import Pod
from scheduler.framework import CycleState
from tests.unit.plugins.resource_quota.objects import pod, quota
from tests.unit.plugins.resource_quota.plugin_fixture import PluginFixture

CPU = "requests.cpu-millis"
UNPLACED = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
NAMES = ("a", "b")


class Story:
    """Events of pods and of the scheduler, passed to one plugin."""

    def __init__(self, *, early: bool) -> None:
        self.fixture = PluginFixture()
        self.pods: dict[str, Pod] = {}
        self._nominated: set[str] = set()
        if early:
            self.fixture.deliver(quota("elsewhere", "elsewhere"))

    def step(self, name: str, choice: int, number: int) -> None:
        """Apply one of the events that may follow for the pod of this name."""
        known = self.pods.get(name)
        if known is None:
            self._show(name, number, gates=choice % 2 == 0)
            return
        steps: list[Callable[[], object]] = [
            lambda: self._delete(known),
            lambda: self._replace(known, number),
        ]
        if known.spec.node_name:
            steps.append(lambda: self._change(known, node="n", status={"phase": "Succeeded"}))
        elif known.spec.scheduling_gates:
            steps = [lambda: self._change(known, deferred=True)] * 6 + steps
        else:
            steps += [
                lambda: self._change(known, status=UNPLACED),
                lambda: self._bind(known),
                lambda: self.fixture.plugin.reserve(CycleState(0.0), known, "n"),
                lambda: self.fixture.plugin.unreserve(CycleState(0.0), known, "n"),
                lambda: self._nominate(known, "n"),
                lambda: self._nominate(known, ""),
            ]
        steps[choice % len(steps)]()

    def _delete(self, known: Pod) -> None:
        self._forget(known)
        self.fixture.handle.callbacks["pods"](known, None)

    def _replace(self, known: Pod, number: int) -> None:
        # A watch that was interrupted shows the new pod in place of the old one.
        self._forget(known)
        self._show(known.uid[0], number, before=known)

    def _forget(self, known: Pod) -> None:
        del self.pods[known.uid[0]]
        del self.fixture.handle.pods[known.uid]
        self._end_nomination(known)

    def _bind(self, known: Pod) -> None:
        self._end_nomination(known)
        self._change(known, node="n")

    def _end_nomination(self, known: Pod) -> None:
        if known.uid in self._nominated:
            self._nominate(known, "")

    def account(self) -> list[list[int]]:
        """Sums by role."""
        account = self.fixture.ledger.account("default", "q")
        assert account is not None
        self.fixture.ledger.validate()
        return [list(each) for each in account.sums]

    def _nominate(self, subject: Pod, node: str) -> None:
        (self._nominated.add if node else self._nominated.discard)(subject.uid)
        self.fixture.handle.callbacks["nomination"](subject, node)

    def _show(self, name: str, number: int, before: Pod | None = None, **parts: Any) -> None:
        made = pod(f"{name}{number}", str(number + 1), **parts)
        self.pods[name] = made
        self.fixture.handle.pods[made.uid] = made
        self.fixture.handle.callbacks["pods"](before, made)

    def _change(self, known: Pod, **parts: Any) -> None:
        cpu = str(int(known.metadata.uid[1:]) + 1)
        new = pod(known.uid, cpu, **parts)
        self.pods[known.uid[0]] = new
        self.fixture.deliver_change(known, new)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 7)), min_size=3, max_size=12),
    st.integers(2, 12),
)
def test_enforcement_that_starts_late_ends_with_the_same_account(
    steps: list[tuple[str, int]], quota_at: int
) -> None:
    early, late = Story(early=True), Story(early=False)
    for story in (early, late):
        for number, (name, choice) in enumerate(steps):
            if number == quota_at:
                story.fixture.deliver(quota(hard={CPU: 10**9}))
            story.step(name, choice, number)
        if quota_at >= len(steps):
            story.fixture.deliver(quota(hard={CPU: 10**9}))
    assert late.account() == early.account()

"""Random arrivals, deletions, nodes and failures: no gang is bound in part, and none is stuck."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduler.api.pod import Pod
from scheduler.framework import CycleState, Handle, NoArgs, Status, unschedulable
from scheduler.testing import node
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster

GROUPS: Final = ("a", "b", "c")
MINIMUM: Final = {"a": 2, "b": 3, "c": 5}


class FailsSometimes:
    """Fails PreBind as often as a test has ordered."""

    name = "example.com/FailsSometimes"

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        self.failures = 0

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if not self.failures:
            return None
        self.failures -= 1
        return unschedulable("ordered by the test")


class GangMachine(RuleBasedStateMachine):
    """After each step time passes, so that bindings end; deletions are steps of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = GangCluster(1, FailsSometimes)
        self.fails: FailsSometimes = self.cluster.plugin(FailsSometimes.name)
        self.nodes = 1
        self.objects: set[str] = set()
        self.bound: dict[str, set[str]] = {group: set() for group in GROUPS}

    def teardown(self) -> None:
        self.cluster.close()

    def members(self, group: str) -> list[str]:
        pods = self.cluster.world._assembly.tables.stores["pods"].list()
        return [pod.key for pod in pods if pod.metadata.name.startswith(f"{group}-")]

    def bound_now(self, group: str) -> set[str]:
        placed = self.cluster.world.placements()
        return {key for key in self.members(group) if key in placed}

    def passes(self, seconds: float) -> None:
        """Let time pass, and check that what is bound for the first time is a whole gang."""
        self.cluster.tick(seconds)
        for group in GROUPS:
            now = self.bound_now(group)
            if now and not self.bound[group]:
                assert len(now) >= MINIMUM[group], f"{group} is bound in part: {now}"
            self.bound[group] = now

    @rule(group=st.sampled_from(GROUPS))
    def add_object(self, group: str) -> None:
        self.cluster.add_group(MINIMUM[group], group)
        self.objects.add(group)
        self.passes(0.5)

    @rule(
        group=st.sampled_from(GROUPS),
        count=st.integers(1, 4),
        cpu=st.sampled_from((1, 2, 4)),
        priority=st.sampled_from((0, 5)),
    )
    def add_members(self, group: str, count: int, cpu: int, priority: int) -> None:
        name = f"{group}-{cpu}-{priority}"
        self.cluster.add_members(count, group, name=name, cpu=cpu, priority=priority)
        self.passes(0.5)

    @rule()
    def add_node(self) -> None:
        self.cluster.add_node(node(f"m{self.nodes}", cpu=4))
        self.nodes += 1
        self.passes(0.5)

    @rule(group=st.sampled_from(GROUPS), data=st.data())
    def delete_member(self, group: str, data: st.DataObject) -> None:
        found = self.members(group)
        if found:
            key = data.draw(st.sampled_from(sorted(found)))
            self.cluster.world.remove("Pod", key.partition("/")[2], "default")
            self.bound[group].discard(key)
        self.passes(0.5)

    @precondition(lambda self: self.objects)
    @rule(data=st.data())
    def delete_object(self, data: st.DataObject) -> None:
        group = data.draw(st.sampled_from(sorted(self.objects)))
        self.cluster.world.remove("PodGroup.scheduling.x-k8s.io", group, "default")
        self.objects.discard(group)
        self.passes(0.5)

    @rule(count=st.integers(1, 5))
    def fail_bindings(self, count: int) -> None:
        self.fails.failures = count

    @rule()
    def wait(self) -> None:
        self.passes(40)

    @invariant()
    def nothing_is_broken(self) -> None:
        self.cluster.validate()


class FinishingMachine(GangMachine):
    """At the end there is room for all, and whoever can be complete is bound."""

    def teardown(self) -> None:
        try:
            self.fails.failures = 0
            for group in GROUPS:
                self.cluster.add_group(MINIMUM[group], group)
            for _ in range(60):
                self.add_node()
            # Less than the time after which everything is tried without an event.
            self.passes(90)
            for group in GROUPS:
                members, started = self.members(group), self.bound[group]
                if len(members) >= MINIMUM[group] or started:
                    assert set(members) == self.bound_now(group), f"{group} is stuck"
                else:
                    assert not self.bound_now(group)
            self.cluster.validate()
        finally:
            super().teardown()


FinishingMachine.TestCase.settings = settings(
    max_examples=20, stateful_step_count=14, deadline=None
)
TestGangs: Any = FinishingMachine.TestCase

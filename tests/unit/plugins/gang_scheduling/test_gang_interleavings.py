"""Random interleavings of arrivals, deletions, faults, thieves and restarts.

After each step: no gang is bound in part for the first time, no node is oversold, and nothing is
broken. At the end there is room for all, and no complete gang waits.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scheduler.api.pod import Pod
from scheduler.framework import CycleState, Handle, NoArgs, Status, unschedulable
from scheduler.testing import node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster

MINIMUM: Final = {"a": 2, "b": 3, "c": 5}
CPU: Final = 4


class FailsSometimes:
    """Fails Reserve or PreBind as often as a test has ordered."""

    name = "example.com/FailsSometimes"

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        self.reservations = self.bindings = 0

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if not self.reservations:
            return None
        self.reservations -= 1
        return unschedulable("ordered by the test")

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if not self.bindings:
            return None
        self.bindings -= 1
        return unschedulable("ordered by the test")


class Interleavings(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[str] = []
        self.objects: set[str] = set()
        #: Groups of which a member was ever bound: they may go on with fewer.
        self.started: set[str] = set()
        self.serial = 0
        self.cluster = GangCluster(0, FailsSometimes)
        self.add_node()

    def teardown(self) -> None:
        try:
            self._room_for_all()
        finally:
            self.cluster.close()

    def _room_for_all(self) -> None:
        fails: FailsSometimes = self.cluster.plugin(FailsSometimes.name)
        fails.reservations = fails.bindings = 0
        for group, minimum in MINIMUM.items():
            self.cluster.add_group(minimum, group)
        # A node for each: small pods may be spread over nodes that large ones need whole.
        for _ in range(sum(len(self.members(group)) for group in MINIMUM)):
            self.add_node()
        # Less than the time after which everything is tried without an event.
        self.passes(120)
        for group, minimum in MINIMUM.items():
            members = self.members(group)
            if len(members) >= minimum:
                assert set(members) == self.bound(group), f"{group} is stuck"

    # -- what is there ---------------------------------------------------------------------------

    def pods(self) -> list[Pod]:
        return list(self.cluster.world._assembly.tables.stores["pods"].list())

    def members(self, group: str) -> list[str]:
        prefix = f"{group}-"
        return [each.key for each in self.pods() if each.metadata.name.startswith(prefix)]

    def bound(self, group: str) -> set[str]:
        placed = self.cluster.world.placements()
        return {key for key in self.members(group) if key in placed}

    def passes(self, seconds: float) -> None:
        """Let time pass, and look at what is bound."""
        self.cluster.tick(seconds)
        for group, minimum in MINIMUM.items():
            found = self.bound(group)
            if found and group not in self.started:
                assert len(found) >= minimum, f"{group} is bound in part: {found}"
                self.started.add(group)

    # -- steps -----------------------------------------------------------------------------------

    @rule()
    def add_node(self) -> None:
        self.serial += 1
        self.nodes.append(f"n{self.serial}")
        self.cluster.add_node(node(self.nodes[-1], cpu=CPU))

    @rule(data=st.data())
    def drop_node(self, data: st.DataObject) -> None:
        if len(self.nodes) > 1:
            name = data.draw(st.sampled_from(self.nodes))
            self.nodes.remove(name)
            self.cluster.world.drop_node(name)
        self.passes(0.5)

    @rule(group=st.sampled_from(sorted(MINIMUM)))
    def add_object(self, group: str) -> None:
        self.cluster.add_group(MINIMUM[group], group)
        self.objects.add(group)
        self.passes(0.5)

    @rule(
        group=st.sampled_from(sorted(MINIMUM)),
        count=st.integers(1, 5),
        cpu=st.sampled_from((1, 2, 4)),
        priority=st.sampled_from((0, 5, 100)),
        seconds=st.sampled_from((0.0, 0.5)),
    )
    def add_members(self, group: str, count: int, cpu: int, priority: int, seconds: float) -> None:
        self.serial += 1
        name = f"{group}-{self.serial}"
        self.cluster.add_members(count, group, name=name, cpu=cpu, priority=priority)
        self.passes(seconds)

    @rule(group=st.sampled_from(sorted(MINIMUM)), data=st.data())
    def delete_member(self, group: str, data: st.DataObject) -> None:
        found = self.members(group)
        if found:
            key = data.draw(st.sampled_from(sorted(found)))
            self.cluster.world.remove("Pod", key.partition("/")[2], "default")
        self.passes(0.5)

    @rule(data=st.data(), cpu=st.sampled_from((1, 2, 4)))
    def take_room(self, data: st.DataObject, cpu: int) -> None:
        """Another scheduler binds a pod where there is room for it."""
        name = data.draw(st.sampled_from(self.nodes))
        if self.used(name) + cpu <= CPU:
            self.serial += 1
            self.cluster.world.add(pod(f"thief-{self.serial}", cpu=cpu, node=name))
        self.passes(0.5)

    @rule(reservations=st.integers(0, 3), bindings=st.integers(0, 3))
    def order_failures(self, reservations: int, bindings: int) -> None:
        fails: FailsSometimes = self.cluster.plugin(FailsSometimes.name)
        fails.reservations, fails.bindings = reservations, bindings

    @rule()
    def restart(self) -> None:
        """Start another scheduler on what the API server has."""
        before, kept = self.cluster, self.pods()
        placed = before.world.placements()
        self.cluster = GangCluster(0, FailsSometimes)
        for name in self.nodes:
            self.cluster.add_node(node(name, cpu=CPU))
        for group in sorted(self.objects):
            self.cluster.add_group(MINIMUM[group], group)
        for each in kept:
            if each.terminating:
                continue
            again = pod(
                each.metadata.name,
                cpu=self.cpu(each),
                priority=each.priority,
                labels=dict(each.metadata.labels),
                node=each.spec.node_name or placed.get(each.key, ""),
            )
            again["spec"]["schedulerName"] = each.spec.scheduler_name
            self.cluster.add(again)
        before.close()
        self.passes(0.5)

    @rule()
    def wait(self) -> None:
        self.passes(40)

    # -- invariants ------------------------------------------------------------------------------

    @staticmethod
    def cpu(found: Pod) -> float:
        return found.signature.requests.milli_cpu / 1000

    def used(self, name: str) -> float:
        return sum(self.cpu(each) for each in self.pods() if each.spec.node_name == name)

    @invariant()
    def nothing_is_oversold_or_broken(self) -> None:
        for name in self.nodes:
            assert self.used(name) <= CPU, f"{name} is oversold"
        self.cluster.validate()


Interleavings.TestCase.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
TestInterleavings: Any = pytest.mark.slow(Interleavings.TestCase)

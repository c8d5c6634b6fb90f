"""Members of a group use one allocation, which the first of them stores for all."""

from __future__ import annotations

import pytest

from plugins.dynamic_resources.sharers import MAX_SHARERS
from scheduler.api import Pod
from scheduler.framework import CycleState
from tests.unit.plugins.dynamic_resources.objects import DeviceCluster, device

GROUP = "pod group default/g"
IN_FLIGHT = "resource claim default/c is in the process of being allocated"
NOT_STORED = "claim default/c: another member of the group has not stored its allocation"


class Members(DeviceCluster):
    """Two nodes with a device each, and pods that use the claim `c`."""

    def __init__(self) -> None:
        super().__init__("n1", "n2")
        self.group = GROUP
        self.add_class()
        for name in ("n1", "n2"):
            self.add_slice(name, device("d"))
        self.add_claim()
        self.pods: dict[str, tuple[Pod, CycleState]] = {}

    def state(self, pod: Pod) -> CycleState:
        """Return the state of an attempt within the cycle of the group."""
        state = super().state(pod)
        state.group = self.group
        return state

    def place(self, *names: str) -> None:
        """Reserve pods on n1."""
        for name in names:
            pod = self.pod("c", name=name)
            self.pods[name] = pod, self.reserved(pod)

    def undo(self, *names: str) -> None:
        """Undo pods."""
        for name in names:
            pod, state = self.pods[name]
            self.plugin.unreserve(state, pod, "n1")

    def bind(self, name: str) -> str:
        """Run PreBind of a pod; return the text of its failure."""
        pod, state = self.pods[name]
        status = self.pre_bind(state, pod)
        return "" if status is None else status.message

    def users(self) -> list[str]:
        """Return the pods that the claim is reserved for."""
        return sorted(each["name"] for each in self.status_of("c").get("reservedFor", ()))


@pytest.fixture
def world() -> Members:
    return Members()


def test_members_follow_the_first_one_to_its_node(world: Members) -> None:
    world.place("p")
    state, rejected = world.filtered(world.pod("c", name="q"))
    assert rejected == {"n2": "resourceclaim not available on the node"}
    assert state.tied_to == ("uid-p",)
    assert world.taken() == {"n1/d"}


def test_one_write_stores_the_reservations_of_all(world: Members) -> None:
    world.place("p", "q", "r")
    assert [world.bind(name) for name in "pqr"] == ["", "", ""]
    assert world.users() == ["p", "q", "r"]
    writes = [each for each in world.api.log if each[1] == "resourceclaims/status"]
    assert len(writes) == 1
    assert len(world.devices.group_claims) == 0
    assert not world.devices.allocated.any_in_flight


def test_an_allocated_claim_is_reserved_for_all_by_one_write(world: Members) -> None:
    world.place("p")
    assert world.bind("p") == ""
    world.place("q", "r")
    assert [world.bind(name) for name in "qr"] == ["", ""]
    assert world.users() == ["p", "q", "r"]
    writes = [each for each in world.api.log if each[1] == "resourceclaims/status"]
    assert len(writes) == 2


def test_undoing_all_leaves_nothing_and_wakes_nobody(world: Members) -> None:
    world.place("p", "q")
    world.devices.rejected(world.pod("c", name="r"), GROUP)
    world.undo("q", "p")
    assert not world.taken()
    assert len(world.devices.group_claims) == 0
    assert world.woken == []
    world.finish()
    assert world.api.log == []


def test_a_member_fails_when_the_first_one_was_undone(world: Members) -> None:
    world.place("p", "q")
    world.undo("p")
    assert world.bind("q") == NOT_STORED
    world.undo("q")
    world.finish()
    assert world.users() == []


def test_a_member_fails_when_the_first_one_cannot_write(world: Members) -> None:
    world.place("p", "q")
    world.api.failures = [(False, RuntimeError("refused"))]
    assert "refused" in world.bind("p")
    world.undo("p")
    assert world.bind("q") == NOT_STORED
    assert not world.taken()


def test_reservations_are_taken_back_with_their_members(world: Members) -> None:
    world.place("p", "q", "r")
    # This one is undone while the first write is on its way.
    pod, state = world.pods["q"]
    world.api.meanwhile.append(lambda: world.plugin.unreserve(state, pod, "n1"))
    world.api.lagging = True
    patch = world.api.patch

    async def patched(*arguments: object, **options: object) -> object:
        written = await patch(*arguments, **options)  # type: ignore[arg-type]
        if world.api.meanwhile:
            world.api.meanwhile.pop()()
        return written

    world.api.patch = patched  # type: ignore[method-assign]
    assert world.bind("p") == ""
    world.undo("r")
    world.finish()
    assert world.users() == ["p"]


def test_pods_of_no_group_or_of_another_one_do_not_share(world: Members) -> None:
    world.place("p")
    for group in ("", "pod group default/other"):
        world.group = group
        _, rejected = world.filtered(world.pod("c", name="q"))
        assert rejected == {"*": IN_FLIGHT}
    # They wait for the devices.
    world.undo("p")
    assert world.woken == ["uid-q"]


def test_members_that_come_after_the_decision_do_not_share(world: Members) -> None:
    world.place("p")
    world.devices.group_claims.begin_write("uid-c")
    _, rejected = world.filtered(world.pod("c", name="late"))
    assert rejected == {"*": IN_FLIGHT}


def test_a_claim_has_no_more_users_than_it_can_be_reserved_for(world: Members) -> None:
    names = [f"p{number}" for number in range(MAX_SHARERS)]
    world.place(*names)
    _, rejected = world.filtered(world.pod("c", name="late"))
    assert rejected == {"*": IN_FLIGHT}
    assert world.bind("p0") == ""
    assert len(world.users()) == MAX_SHARERS


def test_pods_that_share_with_a_group_are_held_while_its_claim_is_written(world: Members) -> None:
    other = world.pod("c", name="other")
    assert world.plugin.pre_enqueue(other) is None
    world.place("p")
    assert world.cluster.rechecked == []
    held = world.plugin.pre_enqueue(other)
    assert held is not None
    assert held.message == IN_FLIGHT
    assert world.bind("p") == ""
    assert "uid-other" in world.cluster.rechecked
    assert world.plugin.pre_enqueue(other) is None

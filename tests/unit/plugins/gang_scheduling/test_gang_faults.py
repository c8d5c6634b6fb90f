"""Gangs whose binding fails or whose nodes are taken by others."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from scheduler.api.pod import Pod
from scheduler.client.errors import ApiError, StatusBody
from scheduler.framework import Code, CycleState, Handle, NoArgs, NodeTableView, Status
from scheduler.testing import node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster, notes
from tests.unit.plugins.gang_scheduling.test_gang_metrics import sampled
from tests.unit.plugins.gang_scheduling.test_statuses import conditions


class Waits:
    """Lets pods with the label `wait` wait at Permit."""

    name = "example.com/Waits"

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        self.handle = handle

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        waits = "wait" in pod.metadata.labels
        return (Status(Code.WAIT), 600.0) if waits else (None, 0.0)

    def allow_all(self) -> None:
        for waiting in list(self.handle.waiting_pods()):
            waiting.allow(self.name)


def test_g22_a_node_that_another_scheduler_takes_undoes_all() -> None:
    with GangCluster(2, Waits) as cluster:
        waits: Waits = cluster.plugin(Waits.name)
        cluster.add_group(4)
        cluster.add_members(4, labels={"wait": ""})
        cluster.tick(1)
        assert not cluster.bound()
        cluster.world.add(pod("thief", cpu=2, node="n0"))
        waits.allow_all()
        assert set(cluster.bound()) == {"default/thief"}
        cluster.validate()
        cluster.add_node(node("n2", cpu=4))
        cluster.tick(30)
        waits.allow_all()
        assert len(cluster.bound("g-pod")) == 4
        cluster.validate()


def test_g22_members_on_a_deleted_node_undo_all() -> None:
    with GangCluster(2, Waits) as cluster:
        waits: Waits = cluster.plugin(Waits.name)
        cluster.add_group(4)
        cluster.add_members(4, labels={"wait": ""})
        cluster.tick(1)
        cluster.world.drop_node("n1")
        waits.allow_all()
        assert not cluster.bound()
        cluster.validate()


@pytest.mark.parametrize("late", [False, True], ids=["together", "later"])
def test_g22_members_beyond_the_minimum_are_not_bound_before_it(late: bool) -> None:
    with GangCluster(3, Waits) as cluster:
        waits: Waits = cluster.plugin(Waits.name)
        cluster.add_group(3)
        cluster.add_members(3, labels={"wait": ""}, priority=5)
        if late:
            cluster.tick(1)
        cluster.add_members(2, name="more")
        cluster.tick(1)
        assert not cluster.bound()
        waits.allow_all()
        assert len(cluster.bound()) == 5
        cluster.validate()


def test_g22_members_beyond_the_minimum_are_undone_with_it() -> None:
    with GangCluster(2, Waits) as cluster:
        waits: Waits = cluster.plugin(Waits.name)
        cluster.add_group(3)
        cluster.add_members(3, labels={"wait": ""}, priority=5)
        cluster.add_members(1, name="more")
        cluster.tick(1)
        cluster.world.remove("Pod", "g-pod-0", "default")
        waits.allow_all()
        assert not cluster.bound()
        cluster.validate()
        cluster.tick(30)
        waits.allow_all()
        assert len(cluster.bound()) == 3
        cluster.validate()


def test_g23_a_bind_that_is_refused_is_retried_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with GangCluster() as cluster:
        server = type(cluster.world._assembly.server)
        bind = server.bind
        refused: list[str] = []

        async def refuse_once(self: Any, pod: Pod, node_name: str, *args: Any, **kw: Any) -> None:
            if pod.metadata.name == "g-native-1" and not refused:
                refused.append(pod.key)
                body = StatusBody(status="Failure", message="no", reason="Forbidden", code=403)
                raise ApiError("POST", pod.key, status=403, body=body)
            await bind(self, pod, node_name, *args, **kw)

        monkeypatch.setattr(server, "bind", refuse_once)
        cluster.add_native_group(4)
        cluster.add_native_members(4)
        assert len(cluster.bound()) == 3
        # Another pod takes its place, so that the group stays as it is until that is gone.
        cluster.add(pod("thief", cpu=2, priority=100))
        status, reason, text = conditions(cluster)["kubestow.io/Satisfied"]
        assert (status, reason) == ("False", "Partial")
        assert text.startswith("3 of 4 pods have a node")
        assert sampled(cluster)["partial_groups"] == 1
        assert sampled(cluster)['unbound_total{result="partial"}'] == 1
        note, *_ = notes(cluster, "GangPartial")
        assert note.startswith("default/g-native-1 could not be bound: ")
        assert not notes(cluster, "GangScheduled"), "only three are bound"
        cluster.world.remove("Pod", "thief", "default")
        cluster.tick(10)
        assert len(cluster.bound("g-native")) == 4
        assert refused == ["default/g-native-1"]
        assert notes(cluster, "GangScheduled") == ["1 pod is bound"]
        assert conditions(cluster)["kubestow.io/Satisfied"][:2] == ("True", "AllBound")
        assert "partial_groups" not in sampled(cluster)
        cluster.validate()


class Fails:
    """PreBind of pods whose names end with `-3` fails until `repaired`, after a second."""

    name = "example.com/Fails"

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        self.repaired = False
        self.clock, self.tried = handle.clock, list[float]()

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if not pod.metadata.name.endswith("-3"):
            return None
        self.tried.append(self.clock.monotonic())
        await asyncio.sleep(1)
        return None if self.repaired else Status(Code.ERROR, ("no volume",))


def test_a_gang_is_said_to_be_scheduled_once_it_is_bound() -> None:
    with GangCluster(2, Fails) as cluster:
        fails: Fails = cluster.plugin(Fails.name)
        cluster.add_group(4)
        cluster.add_members(4)
        cluster.tick(0.5)
        assert standing(cluster) == ("Pending", "0 of 4 pods have a node, 4 are being bound")
        cluster.tick(120)
        why = (
            "there is room, but no member was bound, because default/g-pod-3 could not be: "
            f'running PreBind plugin "{Fails.name}": no volume'
        )
        assert standing(cluster) == ("Unschedulable", why)
        assert notes(cluster, "FailedScheduling").count(why) == 1, "it is not repeated"
        assert not notes(cluster, "GangScheduled")
        pauses = [after - before for before, after in pairwise(fails.tried)]
        assert pauses == sorted(pauses)
        assert pauses[-1] > 10
        assert sampled(cluster)['unbound_total{result="undone"}'] == len(fails.tried)
        fails.repaired = True
        cluster.tick(12)
        assert len(cluster.bound()) == 4
        assert notes(cluster, "GangScheduled") == ["4 pods are bound together"]
        assert standing(cluster)[0] == "AllBound"
        cluster.validate()


def test_a_member_deleted_before_the_first_bind_is_named_on_the_group() -> None:
    with GangCluster(2, Waits) as cluster:
        waits: Waits = cluster.plugin(Waits.name)
        cluster.add_group(4)
        cluster.add_members(4, labels={"wait": ""})
        cluster.tick(1)
        cluster.world.remove("Pod", "g-pod-2", "default")
        waits.allow_all()
        assert not cluster.bound()
        assert not notes(cluster, "GangScheduled")
        assert any("default/g-pod-2" in each for each in notes(cluster, "FailedScheduling"))
        cluster.add_members(1)
        cluster.tick(30)
        waits.allow_all()
        assert len(cluster.bound()) == 4
        assert notes(cluster, "GangScheduled") == ["4 pods are bound together"]


def test_members_beyond_the_minimum_do_not_delay_the_event() -> None:
    with GangCluster(2, Waits) as cluster:
        cluster.add_group(3)
        cluster.add_members(3)
        cluster.tick(1)
        cluster.add_members(1, name="more", labels={"wait": ""})
        cluster.tick(1)
        assert notes(cluster, "GangScheduled") == ["3 pods are bound together"]


def standing(cluster: GangCluster) -> tuple[str, str]:
    """Return the state of the only group."""
    ((view,), _) = cluster.plugin("GangScheduling").group_views("", 9)
    return view.stage, view.text


def test_g38_a_gang_that_is_bound_in_part_needs_the_rest_at_once() -> None:
    with GangCluster() as cluster:
        cluster.add_group(4)
        for number in range(2):
            label = {"scheduling.x-k8s.io/pod-group": "g"}
            cluster.world.add(pod(f"old-{number}", cpu=2, node="n0", labels=label))
        cluster.add(pod("other", cpu=3, node="n1"))
        cluster.add_members(2)
        assert not cluster.bound("g-pod")
        message = cluster.message("default/g-pod-0")
        assert "needs 4 pods, 2 fit (2 placed before, 0 now)" in message
        cluster.world.remove("Pod", "other", "default")
        cluster.tick(20)
        assert len(cluster.bound("g-pod")) == 2
        cluster.validate()


def test_members_of_two_profiles_wait_and_the_text_names_both() -> None:
    with GangCluster() as cluster:
        cluster.add_group(2)
        cluster.add_members(1)
        gangs = cluster.plugin("GangScheduling").gangs
        gangs.profiles.add("second")
        cluster.world.add(
            {
                **pod("x", cpu=1, labels={"scheduling.x-k8s.io/pod-group": "g"}),
                "spec": {"schedulerName": "second", "containers": [{"name": "c"}]},
            }
        )
        text = cluster.message("default/g-pod-0")
        assert "schedulerNames" in text
        assert text.endswith("and second; all of them need the same one")


class Slow:
    """Awaits in PreFilter, so that every cycle is suspended."""

    name = "example.com/Slow"

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        self.calls = 0

    async def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        self.calls += 1
        await asyncio.sleep(0.05)
        return None


def test_a_gang_is_decided_in_one_piece_while_its_cycle_is_suspended() -> None:
    with GangCluster(2, Slow) as cluster:
        for name in "ab":
            cluster.add_group(4, name)
        for name in "abab":
            cluster.add_members(2, name)
        cluster.tick(5)
        assert sorted(len(cluster.bound(name)) for name in "ab") == [0, 4]
        cluster.validate()
        for number in range(2):
            cluster.add_node(node(f"m{number}", cpu=4))
        cluster.tick(30)
        assert len(cluster.bound()) == 8
        cluster.validate()


def test_a_member_deleted_while_the_cycle_is_suspended_undoes_all() -> None:
    with GangCluster(2, Slow) as cluster:
        cluster.add_group(4)
        cluster.add_members(4)
        cluster.tick(0.12)
        assert cluster.plugin(Slow.name).calls > 1, "this is the middle"
        cluster.world.remove("Pod", "g-pod-0", "default")
        cluster.tick(10)
        assert not cluster.bound()
        cluster.validate()
        cluster.add_members(1)
        cluster.tick(30)
        assert len(cluster.bound()) == 4
        cluster.validate()

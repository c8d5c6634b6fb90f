"""Gangs and plugins of others that raise, refuse or wait between the decision and the bind."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.api.pod import Pod
from scheduler.framework import Code, CycleState, Handle, NoArgs, NodeInfo, Status
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster


class Fussy:
    """Raises for one pod."""

    name = "example.com/Fussy"

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        pass

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if pod.metadata.labels.get("raises"):
            raise ValueError("no such thing")
        return None


def test_g20_a_plugin_that_raises_fails_the_group_and_nothing_else() -> None:
    with GangCluster(2, Fussy) as cluster:
        cluster.add_group(3)
        cluster.add_members(2, cpu=1)
        (bad,) = cluster.add_members(1, name="bad", cpu=1, labels={"raises": "yes"})
        cluster.add_group(2, "h")
        cluster.add_members(2, "h", cpu=1)
        assert set(cluster.bound()) == {"default/h-pod-0", "default/h-pod-1"}
        assert "no such thing" in cluster.message(bad)
        cluster.validate()


class Refuses:
    """Rejects at Permit the pod that it is told to."""

    name = "example.com/Refuses"

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        self.handle = handle

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        verdict = pod.metadata.labels.get("permit", "")
        if verdict == "reject":
            return Status(Code.UNSCHEDULABLE, ("not this one",)), 0.0
        return (Status(Code.WAIT), 30.0) if verdict == "wait" else (None, 0.0)


def test_g24_a_rejection_at_permit_undoes_all() -> None:
    with GangCluster(2, Refuses) as cluster:
        cluster.add_group(3)
        cluster.add_members(2, cpu=1)
        cluster.add_members(1, name="bad", cpu=1, labels={"permit": "reject"})
        assert not cluster.bound()
        assert cluster.world._assembly.state.cache.statistics().assumed_pods == 0
        cluster.validate()


def test_g24_a_rejection_while_others_wait_at_permit_undoes_all() -> None:
    with GangCluster(2, Refuses) as cluster:
        cluster.add_group(4)
        cluster.add_members(2, cpu=1)
        cluster.add_members(2, name="slow", cpu=1, labels={"permit": "wait"})
        assert not cluster.bound()
        first, second = cluster.plugin("example.com/Refuses").handle.waiting_pods()
        first.allow("example.com/Refuses")
        assert not cluster.bound()
        second.reject("example.com/Refuses", "not this one")
        assert not cluster.bound()
        cluster.validate()


def test_g24_nobody_is_bound_while_one_waits_at_permit() -> None:
    with GangCluster(2, Refuses) as cluster:
        cluster.add_group(3)
        cluster.add_members(2, cpu=1)
        (slow,) = cluster.add_members(1, name="slow", cpu=1, labels={"permit": "wait"})
        assert not cluster.bound()
        (waiting,) = cluster.plugin("example.com/Refuses").handle.waiting_pods()
        assert waiting.pod.key == slow
        waiting.allow("example.com/Refuses")
        assert len(cluster.bound()) == 3
        cluster.validate()


def test_g24_a_timeout_at_permit_undoes_all() -> None:
    with GangCluster(2, Refuses) as cluster:
        cluster.add_group(3)
        cluster.add_members(2, cpu=1)
        cluster.add_members(1, name="slow", cpu=1, labels={"permit": "wait"})
        cluster.tick(30.5)
        assert not cluster.bound()
        cluster.validate()


class Prepares:
    """Fails PreBind of the pod that it is told to, once."""

    name = "example.com/Prepares"

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        self.failed = False

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if pod.metadata.labels.get("prebind") and not self.failed:
            self.failed = True
            return Status(Code.UNSCHEDULABLE, ("not now",))
        return None


def test_g21_a_failure_at_pre_bind_undoes_all_and_is_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with GangCluster(2, Prepares) as cluster:
        binds: list[str] = []
        server = type(cluster.world._assembly.server)
        bind = server.bind

        async def counted(self: Any, pod: Pod, *arguments: Any, **more: Any) -> None:
            binds.append(pod.key)
            await bind(self, pod, *arguments, **more)

        monkeypatch.setattr(server, "bind", counted)
        cluster.add_group(3)
        cluster.add_members(2, cpu=1)
        cluster.add_members(1, name="bad", cpu=1, labels={"prebind": "fail"})
        assert not cluster.bound()
        assert binds == []
        cluster.validate()
        cluster.tick(30)
        assert len(cluster.bound()) == 3
        assert len(binds) == 3


def test_a_member_deleted_while_others_wait_at_permit_undoes_all() -> None:
    with GangCluster(2, Refuses) as cluster:
        cluster.add_group(3)
        cluster.add_members(2, cpu=1)
        cluster.add_members(1, name="slow", cpu=1, labels={"permit": "wait"})
        cluster.tick(1)
        cluster.world.remove("Pod", "g-pod-0", "default")
        cluster.tick(1)
        for waiting in list(cluster.plugin("example.com/Refuses").handle.waiting_pods()):
            waiting.allow("example.com/Refuses")
        cluster.tick(30)
        assert not cluster.bound()
        cluster.validate()

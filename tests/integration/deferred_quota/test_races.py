"""KEP-5465 acceptance: usage never exceeds the limit, and nothing leaks, in any order of events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from devtools.embedded_service import BindLog, find, node, plugin, pod, until
from scheduler.framework import Code, Status, unschedulable
from simulator import EmbeddedCluster, FaultRule
from simulator.objects import priority_class
from tests.integration.deferred_quota.stage import CPU, Stage, staged


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(controllers=(), seed=1) as running:
        running.create(priority_class("high", 1000))
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [200, pytest.param(1000, marks=pytest.mark.soak)])
async def test_b23_two_pods_for_one_unit_one_is_bound(
    cluster: EmbeddedCluster, rounds: int
) -> None:
    binds = BindLog(cluster)
    async with staged(cluster, [node("n1"), node("n2")]) as stage:
        await stage.quota(cpu=1000)
        for number in range(rounds):
            names = [f"{side}{number}" for side in "ab"]
            stage.released(*names)
            await until(partial(_bound, stage, names, 1))
            await stage.quiet()
            assert [stage.is_bound(name) for name in names].count(True) == 1
            assert stage.used() == {CPU: "1000"}
            for name in names:
                stage.delete(name)
            await until(lambda: stage.ledger.statistics().pods == 0)
        assert len(binds.entries) == rounds


async def test_b25_a_bind_that_fails_gives_the_unit_to_the_other(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await stage.quota(cpu=1000)
        cluster.faults.add(
            FaultRule(action="error", verb="create", resource="pods/binding", code=403, times=1)
        )
        stage.released("a", "b")
        await until(lambda: stage.is_bound("a") or stage.is_bound("b"))
        await stage.quiet()
        assert stage.is_bound("a") != stage.is_bound("b")
        assert stage.used() == {CPU: "1000"}
        await until(lambda: stage.ledger.statistics().reserved == 0, "seen bound")


async def test_b29_a_preemptor_keeps_the_quota_it_was_nominated_with(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster, [node("n1", "4")]) as stage:
        cluster.create(pod("victim", "4", terminationGracePeriodSeconds=600))
        await stage.bound("victim")
        await stage.quota(cpu=8000)
        stage.released("preemptor", cpu="4", priorityClassName="high")
        await until(lambda: _nominated(cluster, "preemptor"), "nominated")
        stage.released("small", cpu="1")
        await stage.held("small")
        stage.delete("victim")
        stage.advance()
        await stage.bound("preemptor")
        # The victim's share is free now.
        stage.advance()
        await stage.quiet()
        assert stage.used() == {CPU: "4000"}


async def test_b29_pods_that_came_after_the_nomination_do_not_matter_at_reserve(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster, [node("n1", "4")]) as stage:
        cluster.create(pod("victim", "4", terminationGracePeriodSeconds=600))
        await stage.bound("victim")
        await stage.quota(cpu=8000)
        stage.released("preemptor", cpu="4", priorityClassName="high")
        await until(lambda: _nominated(cluster, "preemptor"), "nominated")
        # Never gated: charged although held, and with the preemptor it is more than the limit.
        cluster.create(pod("plain", "5"))
        await stage.held("plain")
        stage.delete("victim")
        stage.advance()
        await stage.bound("preemptor")


def _nominated(cluster: EmbeddedCluster, name: str) -> bool:
    # The ledger's reservations say less: the victim has one until its binding is seen.
    return bool((find(cluster, name) or {}).get("status", {}).get("nominatedNodeName"))


def _bound(stage: Stage, names: list[str], number: int) -> bool:
    """Whether so many of the pods are bound."""
    return [stage.is_bound(name) for name in names].count(True) == number


class Gang:
    """Lets pods wait at Permit until `size` of them do; while it is closed nobody may."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.closed = False
        self.waiting: set[str] = set()
        self.handle: Any = None

    def permit(self, state: Any, pod: Any, node_name: str) -> tuple[Status | None, float]:
        if self.closed:
            return unschedulable("the gang is not complete"), 0.0
        self.waiting.add(pod.uid)
        if len(self.waiting) < self.size:
            return Status(Code.WAIT), 600.0
        for uid in self.waiting - {pod.uid}:
            self.handle.waiting_pod(uid).allow("Gang")
        return None, 0.0

    def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
        self.waiting.discard(pod.uid)

    def give_up(self) -> None:
        self.closed = True
        for uid in list(self.waiting):
            self.handle.waiting_pod(uid).reject("Gang", "the gang is not complete")

    def plugin(self) -> type[Any]:
        def begin(inner: Any, args: Any, handle: Any) -> None:
            self.handle = handle

        made = plugin("Gang", permit=self.permit, unreserve=self.unreserve, reserve=_pass)
        made.__init__ = begin
        return made


def _pass(state: Any, pod: Any, node_name: str) -> None: ...


async def test_b42_a_gang_that_does_not_fit_binds_nobody_and_keeps_nothing(
    cluster: EmbeddedCluster,
) -> None:
    gang = Gang(4)
    async with staged(cluster, plugins=[gang.plugin()]) as stage:
        await stage.quota(cpu=3000)
        names = [f"g{number}" for number in range(4)]
        stage.released(*names)
        await until(lambda: len(gang.waiting) == 3 and sum(map(stage.is_held, names)) == 1)
        assert stage.used() == {CPU: "3000"}
        gang.give_up()
        await until(lambda: not list(stage.ledger.reserved()), "nothing reserved")
        await stage.patch_quota("q", {CPU: 4000})
        await stage.quiet()
        assert not any(map(stage.is_bound, names))
        assert stage.used() == {CPU: "0"}
        gang.closed = False
        # An event that the gang's plugin would send: its pods may be tried again.
        stage.activate(*names)
        await stage.bound(*names)
        await stage.quiet()
        assert stage.used() == {CPU: "4000"}


async def test_pods_come_and_go_and_the_limit_is_never_exceeded(cluster: EmbeddedCluster) -> None:
    taken: list[int] = []

    def look(stage: Stage) -> None:
        account = stage.ledger.account("default", "q")
        if account is not None:
            taken.append(account.taken(0, pending=False))

    async with staged(cluster) as stage:
        await stage.quota(cpu=3000)
        cluster.store.subscribe("pods", lambda _table, _change: look(stage))
        for wave in range(6):
            names = [f"w{wave}-{number}" for number in range(6)]
            stage.released(*names)
            await until(partial(_bound, stage, names, 3))
            for name in names:
                stage.delete(name)
        await until(lambda: stage.ledger.statistics().pods == 0)
        assert max(taken) == 3 * 10**9
        assert stage.used() == {CPU: "0"}

"""Binds that fail, hang or lose their response: no pod is lost or bound twice, no node overfull."""

from __future__ import annotations

from devtools.embedded_service import (
    BindLog,
    bind,
    bound_to,
    condition,
    delete,
    event_notes,
    find,
    node,
    pod,
    sample,
    scheduling,
    settled,
    until,
)
from devtools.loop_time import pass_time
from simulator import EmbeddedCluster, FaultRule


def bind_fault(action: str, **more: object) -> FaultRule:
    return FaultRule(action=action, verb="create", resource="pods/binding", **more)  # type: ignore[arg-type]


async def test_rejected_binds_are_retried(cluster: EmbeddedCluster) -> None:
    binds = BindLog(cluster)
    cluster.create(node("n1", cpu="10"))
    names = [f"status-{code}" for code in (409, 422, 429, 500, 503)]
    for name in names:
        code = int(name.removeprefix("status-"))
        cluster.faults.add(bind_fault("error", name=name, code=code, times=1))
    async with scheduling(cluster) as scheduler:
        for name in names:
            cluster.create(pod(name))
        await until(lambda: all(bound_to(cluster, name) for name in names), "all bound")
        await settled(scheduler)
        assert sorted(binds.entries) == [(name, "n1") for name in names]
        await until(
            lambda: not scheduler.state.cache.statistics().assumed_pods, "watch confirmed all"
        )
        # 429 carries Retry-After, so the client itself retries; 422 is certain without a GET.
        assert scheduler.connections.dispatcher.statistics().settled == 3


async def test_a_bind_without_permission_frees_the_node_and_is_retried(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create(node("n1", cpu="1"))
    rule = cluster.faults.add(bind_fault("error", code=403, name="a", message="no"))
    async with scheduling(cluster) as scheduler:
        cluster.create(pod("a"))
        await until(lambda: condition(cluster, "a"), "condition of a")
        assert condition(cluster, "a")["reason"] == "SchedulerError"
        assert "403" in condition(cluster, "a")["message"]
        cluster.create(pod("b"))
        await until(lambda: bound_to(cluster, "b"), "b bound: the node is free")
        cluster.faults.remove(rule)
        cluster.create(node("n2", cpu="1"))
        await until(lambda: bound_to(cluster, "a"), "a bound")
        await settled(scheduler)


async def test_a_slow_bind_holds_its_node_and_delays_no_other_pod(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1", cpu="1", labels={"pool": "slow"}))
    cluster.create(node("n2", labels={"pool": "quick"}))
    cluster.clock.set_rate(0)
    cluster.faults.add(bind_fault("delay", name="slow", seconds=60))
    async with scheduling(cluster) as scheduler:
        cluster.create(pod("slow", nodeSelector={"pool": "slow"}))
        await until(
            lambda: scheduler.connections.dispatcher.statistics().bind.in_flight == 1,
            "slow in flight",
        )
        cluster.create(pod("waiting", nodeSelector={"pool": "slow"}))
        cluster.create(pod("quick", nodeSelector={"pool": "quick"}))
        await until(lambda: bound_to(cluster, "quick"), "quick bound")
        await until(lambda: condition(cluster, "waiting"), "waiting pod rejected")
        assert "Insufficient cpu" in condition(cluster, "waiting")["message"]
        cluster.clock.advance(61)
        await until(lambda: bound_to(cluster, "slow") == "n1", "slow bound")
        assert not bound_to(cluster, "waiting")


async def test_a_bind_whose_response_is_lost_keeps_its_node(cluster: EmbeddedCluster) -> None:
    # The only CPU of the cluster. Until the first bind's outcome is known, no other pod may use it.
    binds = BindLog(cluster)
    cluster.create(node("n1", cpu="1"))
    cluster.faults.add(bind_fault("drop-answer", name="first", times=1))
    # Hide the outcome from the watch, so that only the GET shows it.
    hidden = cluster.faults.add(
        FaultRule(action="hide", verb="watch", resource="pods", name="first")
    )
    cluster.create(pod("first", priorityClassName="system-node-critical"))
    async with scheduling(cluster) as scheduler:
        cluster.create(pod("second"))
        await until(lambda: bound_to(cluster, "first"), "first bound")
        await until(lambda: condition(cluster, "second"), "second rejected")
        await settled(scheduler)
        statistics = scheduler.connections.dispatcher.statistics()
        assert statistics.settled == 1
        assert binds.entries == [("first", "n1")]
        assert sample(scheduler, "scheduler_schedule_attempts_total", result="scheduled") == 1
        # The watch never confirms it, yet the pod stays assumed: there is no expiry.
        assert scheduler.state.cache.statistics().assumed_pods == 1
        cluster.faults.remove(hidden)


async def test_the_node_stays_reserved_as_long_as_the_outcome_is_unknown(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create(node("n1", cpu="1"))
    cluster.faults.add(bind_fault("cut", name="first", times=1))
    gets = cluster.faults.add(FaultRule(action="error", verb="get", resource="pods", code=500))
    async with scheduling(cluster) as scheduler:
        cluster.create(pod("first", priorityClassName="system-node-critical"))
        await until(lambda: scheduler.connections.dispatcher.statistics().settling == 1, "settling")
        cluster.create(pod("second"))
        await until(lambda: condition(cluster, "second"), "second rejected")
        assert scheduler.state.cache.statistics().assumed_pods == 1
        cluster.faults.remove(gets)
        # The GET shows that the bind never happened, and the pod is retried. Another pod may take
        # its place during the backoff, as upstream.
        await until(lambda: bound_to(cluster, "first") or bound_to(cluster, "second"), "one bound")
        await settled(scheduler)
        assert [bound_to(cluster, "first"), bound_to(cluster, "second")].count("n1") == 1


async def test_a_hanging_bind_is_abandoned_and_settled(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    cluster.faults.add(bind_fault("silence", name="a", times=1))
    async with scheduling(cluster, kubestow={"bindTimeout": "4s"}) as scheduler:
        cluster.create(pod("a"))
        await until(lambda: cluster.faults.describe()[0]["acted"] == 1, "bind sent")
        pass_time(4.0)
        await until(lambda: bound_to(cluster, "a"), "a bound")
        assert scheduler.connections.dispatcher.statistics().settled == 1


async def test_a_pod_that_another_scheduler_bound_meanwhile_is_left_alone(
    cluster: EmbeddedCluster,
) -> None:
    binds = BindLog(cluster)
    cluster.create(node("n1", cpu="1"))
    cluster.clock.set_rate(0)
    cluster.faults.add(bind_fault("delay", name="a", seconds=60))
    # The outcome must not come from the watch, only from the 409 and the GET.
    hidden = cluster.faults.add(FaultRule(action="hide", verb="watch", resource="pods", name="a"))
    async with scheduling(cluster) as scheduler:
        cluster.faults.remove(hidden)
        cluster.create(pod("a"))
        await until(
            lambda: scheduler.connections.dispatcher.statistics().bind.in_flight == 1, "bind sent"
        )
        hidden = cluster.faults.add(
            FaultRule(action="hide", verb="watch", resource="pods", name="a")
        )
        bind(cluster, "a", "somewhere-else")
        cluster.clock.advance(61)
        await until(lambda: scheduler.connections.dispatcher.statistics().settled == 1, "settled")
        await settled(scheduler)
        # The pod is bound: a condition that it is not scheduled would be wrong.
        assert condition(cluster, "a")["status"] == "True"
        assert event_notes(cluster, "FailedScheduling") == []
        cluster.create(pod("b"))
        await until(lambda: bound_to(cluster, "b") == "n1", "the resources of a are free")
        assert binds.entries == [("a", "somewhere-else"), ("b", "n1")]


async def test_a_pod_deleted_while_it_is_bound_frees_its_place(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1", cpu="1"))
    cluster.clock.set_rate(0)
    cluster.faults.add(bind_fault("delay", name="a", seconds=60))
    async with scheduling(cluster) as scheduler:
        cluster.create(pod("a"))
        await until(
            lambda: scheduler.connections.dispatcher.statistics().bind.in_flight == 1, "bind sent"
        )
        delete(cluster, "a")
        cluster.create(pod("b"))
        await until(lambda: bound_to(cluster, "b") == "n1", "b bound at once")
        cluster.clock.advance(61)
        await settled(scheduler)
        assert scheduler.state.cache.statistics().pods == 1
        assert len(scheduler.scheduling.queue) == 0
        assert find(cluster, "a") is None


async def test_a_pod_recreated_under_its_name_while_it_is_bound_is_another_pod(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create(node("n1", cpu="1"))
    cluster.clock.set_rate(0)
    cluster.faults.add(bind_fault("delay", name="a", seconds=60, times=1))
    async with scheduling(cluster) as scheduler:
        cluster.create(pod("a"))
        await until(
            lambda: scheduler.connections.dispatcher.statistics().bind.in_flight == 1, "bind sent"
        )
        delete(cluster, "a")
        recreated = cluster.create(pod("a"))
        await until(lambda: bound_to(cluster, "a") == "n1", "the new one bound")
        cluster.clock.advance(61)
        await settled(scheduler)
        found = find(cluster, "a")
        assert found is not None
        assert found["metadata"]["uid"] == recreated["metadata"]["uid"]
        assert condition(cluster, "a")["status"] == "True"
        assert scheduler.state.cache.statistics().pods == 1

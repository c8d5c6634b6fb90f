"""Traces of pods, as a collector receives them over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from devtools.embedded_service import bound_to, condition, node, plugin, pod, sample, scheduling
from devtools.embedded_service import until as until_on_loop
from scheduler.client.http.request import Request
from scheduler.client.http.response import Response
from scheduler.client.transport import Transport
from scheduler.framework import Code, Status, error
from scheduler.stages.wiring import Wiring
from simulator import EmbeddedCluster
from simulator.objects import priority_class
from tests.otlp_receiver import Behaviour, Json, Receiver, otlp_receiver

MILLION = 1_000_000


@pytest.fixture(autouse=True)
def _exported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Export every 20 ms, and give up what is not accepted at the first attempt."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")


@asynccontextmanager
async def traced(
    cluster: EmbeddedCluster,
    *plugins: type[Any],
    behaviour: Behaviour = "accept",
    rate: int = MILLION,
) -> AsyncIterator[tuple[Receiver, Wiring]]:
    with otlp_receiver(behaviour) as receiver:
        tracing = {"endpoint": receiver.url, "samplingRatePerMillion": rate}
        async with scheduling(cluster, plugins, kubestow={"tracing": tracing}) as wiring:
            yield receiver, wiring


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that another thread does, which cannot set an event of this loop."""
    try:
        async with asyncio.timeout(60):
            for _ in iter(condition, True):
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"not within 60 s: {what}") from None


async def trace_of(receiver: Receiver, name: str) -> list[Json]:
    await until(lambda: bool(receiver.trace_of(name)), f"the trace of {name}")
    return receiver.trace_of(name)


def refers_to(span: Json, header: str) -> bool:
    """Whether a `traceparent` has this span as its parent, sampled (W3C Trace Context)."""
    version, trace, parent, flags = header.split("-")
    return (version, trace, parent) == ("00", span["trace"], span["id"]) and bool(int(flags) & 1)


def counted(wiring: Wiring, result: str) -> float:
    """Return the number of spans with a result, as the metrics have it now."""
    wiring.connections.metrics.refresh()
    return sample(wiring, "kubestow_trace_spans_total", result=result)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Every request that is sent to the API server."""
    sent: list[Request] = []
    exchange = Transport.exchange

    async def recorded(self: Transport, request: Request, timeout: float) -> Response:
        sent.append(request)
        return await exchange(self, request, timeout)

    monkeypatch.setattr(Transport, "exchange", recorded)
    return sent


async def test_a_bound_pod_is_one_trace_from_the_queue_to_the_bind(
    cluster: EmbeddedCluster, requests: list[Request]
) -> None:
    async with traced(cluster) as (receiver, wiring):
        cluster.create(node("n1"))
        cluster.create(node("n2"))
        cluster.create(pod("web"))
        root, *steps = await trace_of(receiver, "web")
        assert root["attributes"]["k8s.node.name"] == bound_to(cluster, "web")
        assert root["attributes"]["kubestow.result"] == "scheduled"
        assert root["attributes"]["kubestow.attempt"] == 1
        assert root["attributes"]["kubestow.nodes.feasible"] == 2
        assert root["attributes"]["kubestow.queue.wait"] >= 0.0
        assert not root["failed"]
        names = [span["name"] for span in steps]
        assert names == ["PreFilter", "Filter", "PreScore", "Score", "Reserve", "Bind"]
        for span in steps:
            assert span["parent"] == root["id"]
            assert root["start"] <= span["start"] <= span["end"] <= root["end"]
        (request,) = [each for each in requests if each.path.endswith("/binding")]
        bind = steps[-1]
        assert refers_to(bind, request.headers.fields["traceparent"])
        assert receiver.resource["service.name"] == "kubestow"
        await until(
            lambda: counted(wiring, "exported") == len(receiver.spans) == len(steps) + 1,
            "all spans counted",
        )


async def test_an_unschedulable_pod_shows_the_reasons(cluster: EmbeddedCluster) -> None:
    async with traced(cluster) as (receiver, _):
        cluster.create(node("n1", cpu="1"))
        cluster.create(pod("large", cpu="2"))
        root, *steps = await trace_of(receiver, "large")
        assert root["failed"]
        # The status is written after the cycle, and may come later than its trace.
        await until(lambda: "message" in condition(cluster, "large"), "the condition")
        assert root["message"] == condition(cluster, "large")["message"]
        assert "1 Insufficient cpu" in root["message"]
        assert root["attributes"]["kubestow.result"] == "unschedulable"
        assert root["attributes"]["kubestow.unschedulable_plugins"] == ["NodeResourcesFit"]
        assert [span["name"] for span in steps] == ["PreFilter", "Filter", "PostFilter"]
        assert steps[-1]["attributes"]["kubestow.status"] == "Unschedulable"


async def test_preemption_names_the_node_and_the_evictions_carry_the_trace(
    cluster: EmbeddedCluster, requests: list[Request]
) -> None:
    def deletions() -> list[str]:
        return [
            each.headers.fields.get("traceparent", "")
            for each in requests
            if each.method == "DELETE"
        ]

    cluster.create(priority_class("high", 1000))
    async with traced(cluster) as (receiver, _):
        cluster.create(node("n1", cpu="1"))
        cluster.create(pod("victim"))
        await until_on_loop(lambda: bound_to(cluster, "victim"))
        cluster.create(pod("urgent", priorityClassName="high"))
        await until(lambda: bool(deletions()), "an eviction")
        root, *_ = await trace_of(receiver, "urgent")
        assert root["attributes"]["kubestow.nominated_node"] == "n1"
        assert root["attributes"]["kubestow.preemption.victims"] == 1
        (header,) = deletions()
        assert refers_to(root, header)


async def test_a_failed_pre_bind_ends_its_span_and_the_trace(cluster: EmbeddedCluster) -> None:
    async def pre_bind(state: object, pod: object, name: str) -> Status:
        await asyncio.sleep(0)
        return error("no volume yet")

    async with traced(cluster, plugin("Disk", pre_bind=pre_bind)) as (receiver, _):
        cluster.create(node("n1"))
        cluster.create(pod("web"))
        root, *steps = await trace_of(receiver, "web")
        last = steps[-1]
        assert (last["name"], last["attributes"]["kubestow.plugin"]) == ("PreBind", "Disk")
        assert last["failed"]
        assert "no volume yet" in last["message"]
        assert root["failed"]
        assert root["attributes"]["kubestow.result"] == "error"


async def test_a_wait_at_permit_and_a_suspended_cycle_belong_to_the_trace(
    cluster: EmbeddedCluster,
) -> None:
    class Gate:
        name = "Gate"
        handle: Any

        def __init__(self, args: object, handle: Any) -> None:
            type(self).handle = handle

        async def pre_filter(self, state: object, pod: object, nodes: object) -> None:
            await asyncio.sleep(0)

        def permit(self, state: object, pod: object, name: str) -> tuple[Status, float]:
            return Status(Code.WAIT), 600.0

    async with traced(cluster, Gate) as (receiver, _):
        cluster.create(node("n1"))
        cluster.create(pod("web"))
        await until_on_loop(lambda: list(Gate.handle.waiting_pods()))
        for waiting in Gate.handle.waiting_pods():
            waiting.reject("Gate", "closed")
        root, *steps = await trace_of(receiver, "web")
        names = [span["name"] for span in steps]
        assert names[0] == "PreFilter"
        assert names[-2:] == ["Permit", "WaitOnPermit"]
        assert steps[-2]["attributes"]["kubestow.status"] == "Wait"
        assert steps[-1]["failed"]
        assert root["failed"]
        assert "closed" in root["message"]


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", ["refuse", "hang"])
async def test_a_collector_that_takes_nothing_keeps_no_pod_waiting(
    cluster: EmbeddedCluster, behaviour: Behaviour
) -> None:
    async with traced(cluster, behaviour=behaviour) as (receiver, wiring):
        cluster.create(node("n1"))
        for number in range(20):
            cluster.create(pod(f"p{number}", cpu="100m"))
        await until_on_loop(lambda: all(bound_to(cluster, f"p{number}") for number in range(20)))
        await until(lambda: receiver.requests > 0, "a request")
        await until(lambda: counted(wiring, "failed") > 0, "spans counted")
        assert receiver.spans == []


async def test_nothing_is_sent_about_attempts_that_are_not_sampled(
    cluster: EmbeddedCluster,
) -> None:
    # One in a million, so this test fails by chance about as often.
    async with traced(cluster, rate=1) as (receiver, wiring):
        tracing = wiring.connections.tracing
        assert tracing is not None
        cluster.create(node("n1"))
        cluster.create(pod("web"))
        await until_on_loop(lambda: bound_to(cluster, "web"))
        assert tracing.attempts.binding == {}
    assert receiver.spans == []

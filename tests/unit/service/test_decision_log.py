"""The lines about decisions: one each, and no flood about a pod."""

from __future__ import annotations

from typing import Any

import structlog.testing

from scheduler.framework import unschedulable
from tests.unit.engine.harness import plugin
from tests.unit.service.harness import Service


def binding_service(*plugins: type[Any]) -> Service:
    service = Service(plugin("Binder", bind=lambda *_: None), *plugins)
    service.world.nodes("n1", "n2")
    return service


async def attempts(service: Service, times: int, seconds: float) -> list[dict[str, Any]]:
    """Attempt a pod again and again, so many seconds apart, and return the lines about it."""
    with structlog.testing.capture_logs() as lines:
        pod = service.pending("p")
        for _ in range(times):
            await service.attempt()
            service.inbox.apply(service.clock.monotonic, 1.0)
            service.clock.time += seconds
            service.queue.activate([pod])
    return [dict(line) for line in lines if line.get("pod") == pod.key]


async def test_a_placement_is_one_line() -> None:
    score = plugin("S", score=lambda _state, _pod, node: 7 if node.name == "n2" else 3)
    assert await attempts(binding_service(score), 1, 0.0) == [
        {
            "event": "pod bound",
            "log_level": "info",
            "pod": "default/p",
            "node": "n2",
            "score": 7,
            "attempts": 1,
            "seconds": 0.0,
        }
    ]


async def test_equal_rejections_are_one_line_a_minute() -> None:
    service = binding_service(plugin("F", filter=lambda *_: unschedulable("full")))
    lines = await attempts(service, 70, 1.0)
    assert [(line["attempts"], line.get("suppressed")) for line in lines] == [(1, None), (61, 59)]
    assert lines[0]["message"] == "0/2 nodes are available: 2 full."


async def test_other_numbers_are_no_other_rejection() -> None:
    counts = iter(range(100))
    service = binding_service(
        plugin("F", pre_filter=lambda *_: unschedulable(f"wants {next(counts)} cpu"))
    )
    assert len(await attempts(service, 10, 2.0)) == 1


async def test_another_reason_is_a_line_at_most_once_a_second() -> None:
    words = iter("ab" * 50)
    service = binding_service(plugin("F", pre_filter=lambda *_: unschedulable(f"no {next(words)}")))
    lines = await attempts(service, 9, 0.25)
    assert [(line["attempts"], line.get("suppressed")) for line in lines] == [(1, None), (6, 4)]


async def test_a_pod_that_is_bound_at_last_has_its_line_at_once() -> None:
    full = [True]
    service = binding_service(
        plugin("F", filter=lambda *_: unschedulable("full") if full[0] else None)
    )
    pod = service.pending("p")
    with structlog.testing.capture_logs() as lines:
        await service.attempt()
        full[0] = False
        service.queue.activate([pod])
        await service.attempt()
        service.inbox.apply(service.clock.monotonic, 1.0)
    assert [line["event"] for line in lines if line.get("pod") == pod.key] == [
        "pod not scheduled",
        "pod bound",
    ]

"""The gauge of binding cycles counts each one while it runs."""

from __future__ import annotations

from typing import Any

from scheduler.framework import unschedulable
from tests.unit.engine.harness import plugin
from tests.unit.service.harness import Service


async def test_a_binding_cycle_is_counted_until_it_ends() -> None:
    seen: list[float | None] = []

    def bind(*_: Any) -> Any:
        seen.append(count())
        return None if len(seen) == 1 else unschedulable("not now")

    service = Service(plugin("Binder", bind=bind))
    service.world.nodes("n")

    def count() -> float | None:
        registry = service.metrics.registry
        return registry.get_sample_value("scheduler_goroutines", {"operation": "binding"})

    for name in ("bound", "refused"):
        service.pending(name)
        await service.attempt()
    assert (seen, count()) == ([1, 1], 0)

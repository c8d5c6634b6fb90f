"""An attempt knows for what its binding waits: plugins at PreBind, or members of its group."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler.api import Pod
from scheduler.engine import Attempt
from scheduler.framework import Status, error
from tests.unit.engine.harness import plugin
from tests.unit.service.harness import Service


async def attempted(service: Service, name: str) -> Attempt:
    """Return the attempt of a new pod whose binding cycle is next."""
    service.pending(name)
    info = service.queue.pop()
    assert info is not None
    (attempt,) = await service.loop.schedule_popped(info)
    return attempt


@pytest.mark.parametrize("result", [None, error("oh")])
async def test_the_plugins_whose_pre_bind_is_under_way_are_known(result: Status | None) -> None:
    seen: list[tuple[str, ...]] = []

    async def pre_bind(*_: Any) -> Status | None:
        seen.append(attempt.pre_binding)
        return result

    service = Service(
        plugin("P", pre_bind=pre_bind, bind=lambda *_: None),
        plugin("Q", pre_bind=lambda *_: None),
    )
    service.world.nodes("n1")
    attempt = await attempted(service, "p")
    await service.binding.run(attempt)
    assert (seen, attempt.pre_binding) == ([("P",)], ())


async def test_the_group_that_is_bound_together_is_known() -> None:
    opened = asyncio.Event()

    async def pre_bind(_state: Any, pod: Pod, _node: str) -> None:
        if pod.metadata.name == "slow":
            await opened.wait()

    service = Service(plugin("P", pre_bind=pre_bind, bind=lambda *_: None))
    service.world.nodes("n1")
    quick, slow = await attempted(service, "quick"), await attempted(service, "slow")
    service.binding.bind_together("g", (quick, slow), lambda *_: None)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(service.binding.run(quick))
        tasks.create_task(service.binding.run(slow))
        for _ in range(10):
            await asyncio.sleep(0)
        assert (quick.awaited_group, slow.awaited_group) == ("g", "")
        assert (quick.pre_binding, slow.pre_binding) == ((), ("P",))
        opened.set()
    assert (quick.awaited_group, slow.awaited_group) == ("", "")

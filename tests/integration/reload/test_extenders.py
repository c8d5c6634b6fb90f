"""Reloads of extenders and of backoff."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.integration.extenders.extender import ExtenderServer, hanging, only
from tests.integration.extenders.setup import BY_NAME, entry
from tests.integration.reload.running import PROFILE, running, until


@pytest.fixture
async def first() -> AsyncIterator[ExtenderServer]:
    async with ExtenderServer() as server:
        yield server


@pytest.fixture
async def second() -> AsyncIterator[ExtenderServer]:
    async with ExtenderServer() as server:
        yield server


def calling(*servers: ExtenderServer, verb: str = "filter", **options: object) -> str:
    entries = [entry(each, verb, **BY_NAME, **options) for each in servers]
    return f"{PROFILE}extenders: {json.dumps(entries)}\n"


async def test_other_extenders_are_called_after_a_reload(
    tmp_path: Path, first: ExtenderServer, second: ExtenderServer
) -> None:
    first.responses["filter"], second.responses["filter"] = only("a"), only("b")
    async with running(tmp_path, calling(first)) as world:
        for name in "ab":
            world.node(name)
        world.pod("before")
        await until(lambda: world.node_of("before") == "a")
        assert await world.reload(calling(second)) == "success"
        world.pod("after")
        await until(lambda: world.node_of("after") == "b")
        assert await world.reload(PROFILE) == "success"
        world.pod("without")
        await until(lambda: world.node_of("without"))
        assert (len(first.calls), len(second.calls)) == (1, 1)


async def test_extender_that_does_not_change_keeps_its_state(
    tmp_path: Path, first: ExtenderServer, second: ExtenderServer
) -> None:
    async with running(tmp_path, calling(first)) as world:
        transport = world.reloader.wiring.state.extender_transport
        (kept,) = transport.clients_of(world.reloader.configuration.effective.extenders)
        assert await world.reload(calling(second, first)) == "success"
        clients = transport.clients_of(world.reloader.configuration.effective.extenders)
        assert [each is kept for each in clients] == [False, True]


async def test_no_client_is_made_for_an_extender_that_does_not_change(
    tmp_path: Path, first: ExtenderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, calling(first)) as world:
        transport = world.reloader.wiring.state.extender_transport
        made: list[str] = []
        monkeypatch.setattr(
            "scheduler.extenders.transport.ExtenderHttp", lambda url, **_: made.append(url)
        )
        present = world.reloader.configuration.effective.extenders
        other = replace(present[0], url_prefix="http://127.0.0.1:9")
        transport.clients_of([other, *present])
        assert made == ["http://127.0.0.1:9"]


async def test_pod_that_an_extender_rejected_is_retried_without_it(
    tmp_path: Path, first: ExtenderServer
) -> None:
    first.responses["filter"] = only()
    async with running(tmp_path, calling(first)) as world:
        world.node("a")
        world.pod("waiting")
        await until(lambda: first.calls)
        assert await world.reload(PROFILE) == "success"
        await until(lambda: world.node_of("waiting") == "a")


async def test_bind_through_an_extender_that_was_removed_ends_as_it_began(
    tmp_path: Path, first: ExtenderServer
) -> None:
    first.responses["bind"] = hanging
    async with running(tmp_path, calling(first, verb="bind")) as world:
        world.node("a")
        world.pod("binding")
        await until(lambda: first.calls)
        assert await world.reload(PROFILE) == "success"
        first.release(lambda call: {})
        await until(lambda: not world.reloader.wiring.scheduling.binding.under_way)
        assert world.sample("kubestow_bind_outcomes_total") == 1
        world.pod("next")
        await until(lambda: world.node_of("next") == "a")
        assert len(first.calls) == 1


async def test_further_reload_cuts_no_bind_through_an_extender_that_was_removed(
    tmp_path: Path, first: ExtenderServer
) -> None:
    first.responses["bind"] = hanging
    async with running(tmp_path, calling(first, verb="bind")) as world:
        world.node("a")
        world.pod("binding")
        await until(lambda: first.calls)
        assert await world.reload(PROFILE) == "success"
        assert await world.reload(f"{PROFILE}percentageOfNodesToScore: 50\n") == "success"
        first.release(lambda call: {})
        await until(lambda: not world.reloader.wiring.scheduling.binding.under_way)
        await until(lambda: {"Scheduled", "FailedScheduling"} & {*world.events()})
        assert "FailedScheduling" not in world.events()


async def test_extender_that_is_sent_what_was_not_kept_needs_a_restart(
    tmp_path: Path, first: ExtenderServer
) -> None:
    async with running(tmp_path) as world:
        text = calling(first).replace('"nodeCacheCapable": true', '"nodeCacheCapable": false')
        assert await world.reload(text) == "restart_required"
        assert world.problems().splitlines() == [
            "extenders: nodes are sent to one, and to none at the start: needs a restart",
            "extenders: pods are sent to one, and to none at the start: needs a restart",
        ]


async def test_other_backoff_applies_to_failures_from_then_on(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        text = f"{PROFILE}podInitialBackoffSeconds: 300\npodMaxBackoffSeconds: 600\n"
        assert await world.reload(text) == "success"
        world.pod("first")
        await until(lambda: world.sample("scheduler_schedule_attempts_total"))
        world.node("n")
        queue = world.reloader.wiring.scheduling.queue
        await until(lambda: queue.statistics().backoff == 1)
        wakeup, now = queue.next_wakeup(), world.reloader.wiring.connections.clock.now()
        assert wakeup is not None
        assert 200 < wakeup - now <= 301

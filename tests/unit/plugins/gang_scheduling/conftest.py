"""Fixtures of tests of gangs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from scheduler.engine import Engine
from scheduler.groups.cycles.cycle import GroupCycle
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster


@pytest.fixture
def cluster() -> Iterator[GangCluster]:
    with GangCluster() as found:
        yield found
        found.validate()


@pytest.fixture
def cycles(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each cycle of a group scheduled it."""
    results: list[bool] = []
    run = GroupCycle.run

    async def counted(cycle: GroupCycle) -> Any:
        result = await run(cycle)
        results.append(result.outcome.scheduled)
        return result

    monkeypatch.setattr(GroupCycle, "run", counted)
    return results


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods that were attempted."""
    tried: list[str] = []
    decide = Engine.decide

    def counted(engine: Engine, info: Any, **options: Any) -> Any:
        tried.append(info.key)
        return decide(engine, info, **options)

    monkeypatch.setattr(Engine, "decide", counted)
    return tried

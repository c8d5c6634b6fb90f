"""DefaultBinder passes the binding to the handle's writer and its answer back."""

from __future__ import annotations

import pytest

from plugins import DefaultBinder
from scheduler.api import Pod
from scheduler.framework import CycleState, Status, error
from tests.unit.plugins.clusters import Cluster, pod


class Writer:
    def __init__(self, answer: Status | None) -> None:
        self.answer = answer
        self.bound: list[tuple[str, str]] = []

    async def bind(self, pod: Pod, node_name: str) -> Status | None:
        self.bound.append((pod.uid, node_name))
        return self.answer


@pytest.mark.parametrize("answer", [None, error("conflict")])
async def test_bind(answer: Status | None) -> None:
    writer = Writer(answer)
    plugin = DefaultBinder(None, Cluster().handle(api=writer))

    assert await plugin.bind(CycleState(), pod(), "node-1") is answer
    assert writer.bound == [("u", "node-1")]

"""DefaultBinder passes the binding to the handle's writer and returns its status."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from plugins import DefaultBinder
from scheduler.api import Pod
from scheduler.framework import CycleState, Status, error
from tests.unit.plugins.clusters import Cluster, pod


class Writer:
    def __init__(self, status: Status | None) -> None:
        self.status = status
        self.bound: list[tuple[str, str, Mapping[str, str] | None]] = []

    async def bind(
        self, pod: Pod, node_name: str, annotations: Mapping[str, str] | None = None
    ) -> Status | None:
        self.bound.append((pod.uid, node_name, annotations))
        return self.status


@pytest.mark.parametrize("status", [None, error("conflict")])
async def test_bind(status: Status | None) -> None:
    writer = Writer(status)
    plugin = DefaultBinder(None, Cluster().handle(api=writer))

    assert await plugin.bind(CycleState(), pod(), "node-1") is status
    assert writer.bound == [("u", "node-1", None)]


async def test_annotations_of_the_attempt_are_sent_with_the_binding() -> None:
    writer, state = Writer(None), CycleState()
    state.annotate_binding({"example.com/a": "1"})
    state.annotate_binding({"example.com/b": "2"})
    await DefaultBinder(None, Cluster().handle(api=writer)).bind(state, pod(), "node-1")
    assert writer.bound == [("u", "node-1", {"example.com/a": "1", "example.com/b": "2"})]

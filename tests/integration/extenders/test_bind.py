"""Extenders that bind in place of the Bind plugins."""

from __future__ import annotations

from typing import Any

import pytest

from devtools.embedded_service import (
    bind,
    bound_to,
    event_notes,
    node,
    pod,
    sample,
    scheduling,
    settled,
    until,
)
from simulator import EmbeddedCluster
from tests.integration.extenders.extender import ExtenderServer
from tests.integration.extenders.setup import QUICK, entry, message, uid


def binder(cluster: EmbeddedCluster, then: Any = None) -> Any:
    """Binds as an extender does, then responds."""

    def respond(call: dict[str, Any]) -> Any:
        bind(cluster, call["PodName"], call["Node"])
        return {"Error": ""} if then is None else then

    return respond


async def test_an_extender_binds_instead_of_the_plugins(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    cluster.create(node("n1"))
    extender.responses["bind"] = binder(cluster)
    async with scheduling(cluster, extenders=[entry(extender, "bind")]) as scheduler:
        cluster.create(pod("p"))
        await until(lambda: event_notes(cluster, "Scheduled"), "event")
        assert bound_to(cluster, "p") == "n1"
        assert sample(scheduler, "rest_client_requests_total", method="POST", code="409") == 0
    expected = {
        "PodName": "p", "PodNamespace": "default", "PodUID": uid(cluster, "p"), "Node": "n1",
    }  # fmt: skip
    assert extender.sent("bind") == [expected]


@pytest.mark.parametrize("response", [500, b"garbage", {"Error": "lost my connection"}])
async def test_an_error_response_after_the_bind_does_not_undo_it(
    cluster: EmbeddedCluster, extender: ExtenderServer, response: Any
) -> None:
    cluster.create(node("n1"))
    extender.responses["bind"] = binder(cluster, then=response)
    async with scheduling(cluster, extenders=[entry(extender, "bind")]) as scheduler:
        cluster.create(pod("p"))
        await until(lambda: event_notes(cluster, "Scheduled"), "event")
        await settled(scheduler)
    assert event_notes(cluster, "FailedScheduling") == []
    assert extender.verbs() == ["bind"]


async def test_a_failed_bind_is_tried_again(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    cluster.create(node("n1"))
    extender.responses["bind"] = lambda _: {"Error": "not today"}
    document = {**QUICK, "extenders": [entry(extender, "bind")]}
    async with scheduling(cluster, **document):
        cluster.create(pod("p"))
        await until(lambda: message(cluster), "condition")
        assert message(cluster) == f'extender "{extender.url}/bind": not today'
        extender.responses["bind"] = binder(cluster)
        await until(lambda: bound_to(cluster, "p") == "n1", "bound")


async def test_the_plugins_bind_when_an_ignorable_binder_fails(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    cluster.create(node("n1"))
    extender.responses["bind"] = lambda _: 500
    mine = entry(extender, "bind", ignorable=True)
    async with scheduling(cluster, extenders=[mine]):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "n1", "bound")
    assert extender.verbs() == ["bind"]

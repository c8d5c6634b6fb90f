"""Resources that the server can list and not watch, such as those of metrics APIs."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from scheduler.client.custom_resources import CustomResource
from scheduler.client.deltas import ReflectorOptions
from scheduler.client.reflector import Reflector
from scheduler.client.rest import ApiClient
from tests.integration.client.faulty_server import FaultyServer
from tests.integration.client.reflecting import Recorder, consistent, names, running

USAGE = "metrics.example.com/v1/nodes"
PATH = "/apis/metrics.example.com/v1/nodes"


def usage(name: str, cpu: str) -> dict[str, Any]:
    """Return an object as aggregated APIs do: without uid and resourceVersion."""
    return {"metadata": {"name": name}, "spec": {"cpu": cpu}}


@pytest.mark.parametrize(
    ("version", "watches"), [("", 0), ("5", 1)], ids=["unversioned list", "no watch"]
)
async def test_they_are_listed_from_time_to_time(
    server: FaultyServer, client: ApiClient, recorder: Recorder, version: str, watches: int
) -> None:
    server.on(
        "GET",
        PATH,
        server.page([usage("n1", "1"), usage("n2", "1")], version=version),
        server.page([usage("n1", "2"), usage("n2", "1")], version=version),
        server.page([usage("n1", "2")], version=version),
    )
    server.on("WATCH", PATH, server.status(405, "MethodNotAllowed"))
    contacts: list[object] = []

    def contacted(error: object) -> bool:
        contacts.append(error)
        return False

    reflector: Reflector[Any] = Reflector(
        client,
        CustomResource(USAGE),
        recorder,
        options=ReflectorOptions(poll_seconds=0.001),
        random=Random(1),
        on_contact=contacted,
    )
    async with running(reflector):
        await recorder.until(lambda: ("DELETED", "n2") in recorder.deltas)
    # An object that did not change is not delivered again.
    assert recorder.deltas[:4] == [
        ("ADDED", "n1"),
        ("ADDED", "n2"),
        ("MODIFIED", "n1"),
        ("DELETED", "n2"),
    ]
    assert names(reflector) == ["n1"]
    assert len(server.requests("WATCH")) == watches
    assert contacts
    assert set(contacts) == {None}
    consistent(reflector, recorder)


async def test_a_failure_ends_the_polling_with_another_watch(
    server: FaultyServer, client: ApiClient, recorder: Recorder
) -> None:
    server.on(
        "GET",
        PATH,
        server.page([usage("n1", "1")], version="5"),
        server.status(404, "NotFound"),
        server.page([usage("n1", "1"), usage("n3", "1")], version="7"),
    )
    server.on("WATCH", PATH, server.status(405, "MethodNotAllowed"), server.hang())
    reflector: Reflector[Any] = Reflector(
        client,
        CustomResource(USAGE),
        recorder,
        options=ReflectorOptions(poll_seconds=0.001, backoff_initial=0.001),
        random=Random(1),
    )
    async with running(reflector):
        await recorder.until(lambda: len(server.requests("WATCH")) == 2)
    assert names(reflector) == ["n1", "n3"]

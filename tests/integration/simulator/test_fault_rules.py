"""Faults and the control endpoint, over HTTP."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from simulator import EmbeddedCluster, FaultRule
from tests.integration.simulator.client import PODS, Client, until
from tests.unit.simulator.objects import START, binding, pod

FAULTS = "/_kubestow/faults"


@pytest.mark.parametrize("code", [409, 410, 429, 500, 503])
async def test_an_error_is_returned_and_nothing_done(client: Client, code: int) -> None:
    rule = {"action": "error", "verb": "create", "resource": "pods", "code": code, "times": 1}
    assert (await client.post(FAULTS, {**rule, "retry_after": 7}))[0] == 200
    status, response = await client.post(PODS, pod("a"))
    assert (status, response["code"]) == (code, code)
    assert client.headers.get("Retry-After") == ("7" if code in (429, 503) else None)
    assert (await client.get(f"{PODS}/a"))[0] == 404
    assert (await client.post(PODS, pod("a")))[0] == 201


async def test_a_bind_is_committed_and_its_response_lost(client: Client) -> None:
    await client.post(PODS, pod("a"))
    await client.post(FAULTS, {"action": "drop-answer", "resource": "pods/binding", "times": 1})
    with pytest.raises(aiohttp.ClientConnectionError):
        await client.post(f"{PODS}/a/binding", binding("a", "n1"))
    _, bound = await client.get(f"{PODS}/a")
    assert bound["spec"]["nodeName"] == "n1"


async def test_a_cut_request_does_nothing(client: Client) -> None:
    await client.post(PODS, pod("a"))
    await client.post(FAULTS, {"action": "cut", "resource": "pods/binding", "name": "a"})
    with pytest.raises(aiohttp.ClientConnectionError):
        await client.post(f"{PODS}/a/binding", binding("a", "n1"))
    _, unbound = await client.get(f"{PODS}/a")
    assert "nodeName" not in unbound["spec"]


async def test_a_delay_is_by_the_clusters_clock(client: Client, cluster: EmbeddedCluster) -> None:
    cluster.faults.add(FaultRule(action="delay", verb="get", seconds=60))
    await client.post(PODS, pod("a"))
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(client.get(f"{PODS}/a"))
        await until(lambda: cluster.faults.describe()[0]["acted"] == 1)
        cluster.clock.advance(59)
        await client.post(PODS, pod("b"))
        assert not waiting.done()
        cluster.clock.advance(1)
    assert waiting.result()[0] == 200


async def test_a_silenced_request_is_held_until_the_rule_goes(
    client: Client, cluster: EmbeddedCluster
) -> None:
    # Not a GET: aiohttp repeats those by itself when a kept-alive connection is closed.
    cluster.faults.add(FaultRule(action="silence", verb="create", resource="pods", name="a"))
    waiting = asyncio.create_task(client.post(PODS, pod("a")))
    await until(lambda: cluster.faults.describe()[0]["acted"] == 1)
    await client.post(PODS, pod("b"))
    assert not waiting.done()
    await client.call("DELETE", FAULTS)
    with pytest.raises(aiohttp.ClientConnectionError):
        await waiting
    assert (await client.get(f"{PODS}/a"))[0] == 404


async def test_open_watches_are_cut(client: Client, cluster: EmbeddedCluster) -> None:
    async with client.watch(PODS) as watch:
        await client.post(PODS, pod("a"))
        assert await watch.take(1) == [("ADDED", "a")]
        await client.post(FAULTS, {"action": "cut", "verb": "watch", "times": 1})
        with pytest.raises(aiohttp.ClientPayloadError):
            await watch.next()
    async with client.watch(PODS) as watch:
        assert await watch.take(1) == [("ADDED", "a")]


async def test_open_watches_are_expired(client: Client) -> None:
    async with client.watch(PODS) as watch:
        await client.post(FAULTS, {"action": "error", "verb": "watch", "code": 410, "times": 1})
        kind, status = await watch.next()
        assert (kind, status["reason"]) == ("ERROR", "Expired")
        assert await watch.ended()
    async with client.watch(PODS):
        pass


async def test_new_watches_are_refused(client: Client) -> None:
    await client.post(FAULTS, {"action": "error", "verb": "watch", "code": 500, "times": 1})
    status, _ = await client.get(f"{PODS}?watch=1")
    assert status == 500
    async with client.watch(PODS):
        pass


async def test_a_silenced_watch_sends_nothing_and_then_everything(
    client: Client, cluster: EmbeddedCluster
) -> None:
    async with client.watch(PODS) as watch:
        await client.post(PODS, pod("a"))
        assert await watch.take(1) == [("ADDED", "a")]
        await client.post(FAULTS, {"action": "silence", "verb": "watch", "resource": "pods"})
        await client.post(PODS, pod("b"))
        await client.post("/_kubestow/bookmarks", {})
        pending = asyncio.create_task(watch.next())
        await client.get(PODS)
        assert not pending.done()
        await client.call("DELETE", FAULTS)
        assert (await pending)[1]["metadata"]["name"] == "b"


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("duplicate", [("ADDED", "a"), ("ADDED", "a"), ("ADDED", "b")]),
        ("no-op", [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b")]),
        ("hide", [("ADDED", "b")]),
    ],
)
async def test_events_are_tampered_with(
    client: Client, action: str, expected: list[tuple[str, str]]
) -> None:
    await client.post(FAULTS, {"action": action, "verb": "watch", "name": "a"})
    async with client.watch(PODS) as watch:
        await client.post(PODS, pod("a"))
        await client.post(PODS, pod("b"))
        assert await watch.take(len(expected)) == expected


async def test_held_back_events_come_in_order(client: Client, cluster: EmbeddedCluster) -> None:
    rule = {"action": "delay", "verb": "watch", "name": "a", "seconds": 5}
    await client.post(FAULTS, rule)
    async with client.watch(PODS) as watch:
        await client.post(PODS, pod("a"))
        await client.post(PODS, pod("b"))
        pending = asyncio.create_task(watch.take(2))
        await until(lambda: cluster.faults.describe()[0]["acted"] == 1)
        assert not pending.done()
        await client.post("/_kubestow/clock", {"advance": 5})
        assert await pending == [("ADDED", "a"), ("ADDED", "b")]


async def test_the_control_endpoint_explains_itself(client: Client) -> None:
    status, text = await client.get("/_kubestow/")
    assert status == 200
    for call in text:
        method, path = call.split(" ", 1)
        if method == "GET":
            assert (await client.get(path))[0] == 200
    assert set(text["POST /_kubestow/faults"]["fields"]) >= {"action", "verb", "times"}


async def test_rules_are_listed_and_removed_one_by_one(client: Client) -> None:
    _, made = await client.post(FAULTS, {"action": "cut", "resource": "leases"})
    _, listed = await client.get(FAULTS)
    assert [rule["id"] for rule in listed["faults"]] == [made["id"]]
    assert (await client.call("DELETE", f"{FAULTS}/{made['id']}"))[1] == {"faults": []}
    assert (await client.call("DELETE", f"{FAULTS}/{made['id']}"))[0] == 404


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("faults", {"action": "explode"}, "actions are"),
        ("faults", [], "no JSON object"),
        ("clock", {"advance": -1}, "does not go backwards"),
        ("clock", {"forward": 1}, "use advance and rate"),
        ("clock", {"rate": "fast"}, "could not convert"),
        ("controllers", {"autopilot": True}, "one of kubelet, workloads"),
        ("controllers", {"kubelet": 1}, "true or false"),
    ],
)
async def test_control_calls_that_make_no_sense(
    client: Client, path: str, body: object, message: str
) -> None:
    status, response = await client.post(f"/_kubestow/{path}", body)
    assert status == 400
    assert message in response["message"]


async def test_clock_and_controllers_are_driven_from_outside(
    client: Client, cluster: EmbeddedCluster
) -> None:
    _, found = await client.post("/_kubestow/clock", {"advance": 5})
    assert found["epoch"] == START + 5
    await client.post("/_kubestow/controllers", {"kubelet": False})
    await client.post(PODS, pod("a", restartPolicy="Never"))
    await client.post(f"{PODS}/a/binding", binding("a", "n1"))
    _, held = await client.get(f"{PODS}/a")
    assert held["status"]["phase"] == "Pending"
    await client.post("/_kubestow/controllers", {"kubelet": True})
    await until(lambda: cluster.get("v1", "Pod", "a")["status"]["phase"] == "Running")
    await client.post("/_kubestow/clock", {"advance": 10})
    await until(lambda: cluster.get("v1", "Pod", "a")["status"]["phase"] == "Succeeded")
    _, numbers = await client.get("/_kubestow/statistics")
    assert numbers["requests"]["create pods/binding"] == 1
    assert numbers["store"]["objects"]["pods"] == 1

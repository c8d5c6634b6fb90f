"""The autoscaler simulator from outside, over HTTP: configure, watch, break, switch off."""

from __future__ import annotations

from typing import Any

import pytest

from simulator import EmbeddedCluster
from simulator.objects import JsonObject
from tests.integration.simulator.client import PODS, Client, until
from tests.unit.simulator.autoscaling import UNSCHEDULABLE, ZONE
from tests.unit.simulator.objects import pod

BASE = "/_kubestow/autoscaler"
EVENTS = "/api/v1/events?fieldSelector=source%3Dcluster-autoscaler"
GROUP: JsonObject = {"name": "zone-b", "zone": "b", "state": "stockout", "provisionSeconds": 20}


async def wait_for_zone_b(client: Client, name: str) -> None:
    await client.post(PODS, pod(name, nodeSelector={ZONE: "b"}))
    patch = {"status": {"conditions": [UNSCHEDULABLE]}}
    await client.patch(f"{PODS}/{name}/status", patch)


async def reasons(client: Client) -> list[str]:
    _, found = await client.get(EVENTS)
    return [event["reason"] for event in found["items"]]


async def test_a_stock_out_is_played_with_curl_alone(
    cluster: EmbeddedCluster, client: Client
) -> None:
    status, made = await client.post(f"{BASE}/groups", GROUP)
    assert (status, made["size"], made["state"]) == (200, 0, "stockout")
    await wait_for_zone_b(client, "a")
    await client.post("/_kubestow/clock", {"advance": 10})
    await until(lambda: cluster.store.count("events") == 3)
    _, seen = await client.get(BASE)
    assert seen["lastLoop"]["result"] == "triggered"
    assert seen["groups"][0]["coming"] == ["zone-b-1"]
    await client.post("/_kubestow/clock", {"advance": 20})
    await until(lambda: cluster.store.count("events") == 5)
    assert set(await reasons(client)) == {
        "ScaledUpGroup", "TriggeredScaleUp", "ScaleUpFailed", "NotTriggerScaleUp"
    }  # fmt: skip
    _, one = await client.post(f"{BASE}/groups/zone-b", {"state": "ok"})
    assert (one["state"], one["zone"], one["backoffUntil"]) == ("ok", "b", None)
    _, done = await client.post(f"{BASE}/loop", {})
    assert (done["result"], done["group"]) == ("triggered", "zone-b")
    await client.post("/_kubestow/clock", {"advance": 20})
    await until(lambda: cluster.store.get("nodes", "", "zone-b-1"))


async def test_an_autoscaler_that_is_down_does_nothing(
    cluster: EmbeddedCluster, client: Client
) -> None:
    await client.post("/_kubestow/controllers", {"autoscaler": False})
    await client.post(f"{BASE}/groups", GROUP)
    await wait_for_zone_b(client, "a")
    await client.post("/_kubestow/clock", {"advance": 600})
    _, seen = await client.get(BASE)
    assert (seen["loops"], await reasons(client)) == (0, [])
    await client.post("/_kubestow/controllers", {"autoscaler": True})
    await until(lambda: cluster.store.count("events") == 3)


async def test_karpenter_is_a_matter_of_one_setting(
    cluster: EmbeddedCluster, client: Client
) -> None:
    status, _ = await client.get("/apis/karpenter.sh/v1/nodeclaims")
    assert status == 404, "no CustomResourceDefinition of it"
    await client.post(BASE, {"flavor": "karpenter", "groups": [GROUP]})
    await wait_for_zone_b(client, "a")
    await client.post("/_kubestow/clock", {"advance": 10})
    await until(lambda: cluster.store.count("nodeclaims.karpenter.sh") == 1)
    _, found = await client.get("/apis/karpenter.sh/v1/nodeclaims")
    [claim] = found["items"]
    assert claim["metadata"]["labels"] == {"karpenter.sh/nodepool": "zone-b"}
    await client.post("/_kubestow/clock", {"advance": 20})
    await until(lambda: cluster.store.count("nodeclaims.karpenter.sh") == 0)
    _, shown = await client.get("/api/v1/events?fieldSelector=source%3Dkarpenter")
    assert {event["reason"] for event in shown["items"]} >= {
        "Nominated",
        "InsufficientCapacityError",
    }


async def test_settings_are_changed_one_by_one_and_forgotten_together(client: Client) -> None:
    await client.post(f"{BASE}/groups", GROUP)
    await client.post(f"{BASE}/groups", {"name": "zone-c"})
    _, seen = await client.post(BASE, {"backoff": 60, "limitEvents": False})
    assert (seen["backoff"], seen["limitEvents"], seen["scanInterval"]) == (60, False, 10)
    assert [group["name"] for group in seen["groups"]] == ["zone-b", "zone-c"]
    _, left = await client.call("DELETE", f"{BASE}/groups/zone-b")
    assert [group["name"] for group in left["groups"]] == ["zone-c"]
    _, seen = await client.call("DELETE", BASE)
    assert (seen["groups"], seen["backoff"]) == ([], 300)


async def test_the_help_shows_every_call_with_an_example_that_works(client: Client) -> None:
    _, shown = await client.get("/_kubestow/")
    for path in (BASE, f"{BASE}/groups", f"{BASE}/groups/NAME"):
        example = shown[f"POST {path}"]["example"]
        status, response = await client.post(path.replace("NAME", "zone-b"), example)
        assert status == 200, response
    assert set(shown[f"POST {BASE}/groups"]["states"]) == {
        "ok",
        "refuse",
        "stockout",
        "hang",
        "off",
    }


@pytest.mark.parametrize(
    ("path", "body", "shown"),
    [
        ("", {"backof": 1}, "autoscaler: backof: no such field"),
        ("", {"backoff": "long"}, "autoscaler: backoff: Expected `float`, got `str`"),
        ("", {"backoff": 0}, "autoscaler: backoff: 0 is no time; want seconds above 0"),
        ("", {"scanInterval": -1}, "autoscaler: scanInterval: -1"),
        ("", {"flavor": "magic"}, "autoscaler: flavor: Invalid enum value 'magic'; want one of"),
        ("", {"maxNodesTotal": -1}, "autoscaler: maxNodesTotal: -1 is negative"),
        ("", {"groups": [{"name": "a"}, {"name": "a"}]}, "groups[1].name: a second group a"),
        ("", {"groups": [{"name": "a", "max": -1}]}, "groups[0].max: -1 is less than min, 0"),
        ("", {"groups": [{"zone": "b"}]}, "groups[0]: Object missing required field `name`"),
        ("/groups", {}, "autoscaler: name: missing"),
        ("/groups", {"name": "UP"}, "autoscaler: name: 'UP'; want lower case"),
        ("/groups", {"name": "a", "state": "broken"}, "autoscaler: state: Invalid enum value"),
        ("/groups", {"name": "a", "min": -1}, "autoscaler: min: -1 is negative"),
        ("/groups", {"name": "a", "provisionSeconds": -1}, "autoscaler: provisionSeconds: -1"),
        (
            "/groups",
            {"name": "a", "template": {"allocatable": {"cpu": "lots"}}},
            "autoscaler: template.allocatable[cpu]: ",
        ),
        (
            "/groups",
            {"name": "a", "template": {"taints": [{"key": "k", "effect": "Never"}]}},
            "autoscaler: template.taints[0].effect: 'Never'; want one of NoSchedule",
        ),
        ("/groups/zone-b", {"name": "other"}, "autoscaler: name: 'other' is not the group"),
        ("/groups/zone-b", {"stat": "ok"}, "autoscaler: stat: no such field"),
    ],
)
async def test_bad_input_is_400_and_names_the_field(
    client: Client, path: str, body: Any, shown: str
) -> None:
    await client.post(f"{BASE}/groups", GROUP)
    _, before = await client.get(BASE)
    status, response = await client.post(BASE + path, body)
    assert (status, response["reason"]) == (400, "BadRequest")
    assert shown in response["message"]
    assert (await client.get(BASE))[1] == before, "nothing is half-applied"


@pytest.mark.parametrize("body", [b"[1]", b"{", b'"x"'])
async def test_a_body_that_is_no_object_is_400(client: Client, body: bytes) -> None:
    status, _ = await client.call("POST", f"{BASE}/groups", body)
    assert status == 400


async def test_an_unknown_group_is_404_with_the_known_names(client: Client) -> None:
    await client.post(f"{BASE}/groups", GROUP)
    for method in ("GET", "POST", "DELETE"):
        status, response = await client.call(method, f"{BASE}/groups/nope", {})
        assert (status, response["message"]) == (404, "no node group nope; there are: zone-b")
    status, response = await client.call("PUT", f"{BASE}/groups", {})
    assert (status, "lists all calls" in response["message"]) == (404, True)

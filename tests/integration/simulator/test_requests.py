"""Requests over HTTP: paths, codes, lists and pages, patches, discovery."""

from __future__ import annotations

import re

import pytest

from simulator import EmbeddedCluster
from tests.integration.simulator.client import PODS, Client, until
from tests.unit.simulator.objects import binding, pod

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def test_a_pod_from_creation_to_running(client: Client, cluster: EmbeddedCluster) -> None:
    status, made = await client.post(PODS, pod("a"))
    assert (status, made["status"]["phase"]) == (201, "Pending")
    status, response = await client.post(f"{PODS}/a/binding", binding("a", "n1"))
    assert (status, response["status"]) == (201, "Success")
    await until(lambda: cluster.get("v1", "Pod", "a")["status"]["phase"] == "Running")
    status, again = await client.post(f"{PODS}/a/binding", binding("a", "n1"))
    assert (status, again["reason"]) == (409, "Conflict")
    assert 'already assigned to node "n1"' in again["message"]
    status, deleted = await client.call("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert (status, deleted["kind"]) == (200, "Pod")
    status, gone = await client.get(f"{PODS}/a")
    assert (status, gone["details"]) == (404, {"name": "a", "kind": "pods"})


async def test_status_is_patched_apart_from_the_spec(client: Client) -> None:
    await client.post(PODS, pod("a", gates=("g",)))
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status, shown = await client.patch(f"{PODS}/a/status", {"status": {"conditions": [condition]}})
    assert status == 200
    assert shown["status"]["conditions"][0]["reason"] == "Unschedulable"
    remove = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    status, free = await client.patch(f"{PODS}/a", remove, "json-patch+json")
    assert (status, "schedulingGates" in free["spec"]) == (200, False)
    status, refused = await client.patch(
        f"{PODS}/a", {"spec": {"schedulingGates": [{"name": "h"}]}}, "merge-patch+json"
    )
    assert (status, refused["reason"]) == (422, "Invalid")


async def test_pages_of_a_list_are_one_consistent_state(client: Client) -> None:
    for number in range(5):
        await client.post(PODS, pod(f"p{number}"))
    _, first = await client.get(f"{PODS}?limit=2")
    assert [item["metadata"]["name"] for item in first["items"]] == ["p0", "p1"]
    assert first["metadata"]["remainingItemCount"] == 3
    await client.call("DELETE", f"{PODS}/p3")
    await client.post(PODS, pod("p9"))
    token = first["metadata"]["continue"]
    _, second = await client.get(f"{PODS}?limit=10&continue={token}")
    assert [item["metadata"]["name"] for item in second["items"]] == ["p2", "p3", "p4"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]
    await client.post("/_kubestow/compact", {})
    status, expired = await client.get(f"{PODS}?limit=10&continue={token}")
    assert (status, expired["reason"]) == (410, "Expired")


async def test_a_list_at_an_exact_version_shows_the_past(client: Client) -> None:
    _, made = await client.post(PODS, pod("a"))
    rv = made["metadata"]["resourceVersion"]
    await client.post(PODS, pod("b"))
    _, past = await client.get(f"{PODS}?resourceVersion={rv}&resourceVersionMatch=Exact")
    assert [item["metadata"]["name"] for item in past["items"]] == ["a"]
    _, present = await client.get(f"{PODS}?resourceVersion={rv}")
    assert len(present["items"]) == 2


async def test_selectors_narrow_lists_and_deletions(client: Client) -> None:
    for name, label in (("a", "1"), ("b", "2")):
        await client.post(PODS, {**pod(name), "metadata": {"name": name, "labels": {"l": label}}})
    await client.post(f"{PODS}/a/binding", binding("a", "n1"))
    _, unbound = await client.get("/api/v1/pods?fieldSelector=spec.nodeName%3D")
    assert [item["metadata"]["name"] for item in unbound["items"]] == ["b"]
    _, deleted = await client.call("DELETE", f"{PODS}?labelSelector=l%20in%20(2)")
    assert [item["metadata"]["name"] for item in deleted["items"]] == ["b"]
    _, left = await client.get(PODS)
    assert [item["metadata"]["name"] for item in left["items"]] == ["a"]


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "reason"),
    [
        ("GET", "/api/v1/foos", None, 404, "NotFound"),
        ("GET", "/nowhere", None, 404, "NotFound"),
        ("GET", "/apis/apps/v9/deployments", None, 404, "NotFound"),
        ("GET", f"{PODS}/a/log", None, 404, "NotFound"),
        ("PUT", "/api/v1/nodes", {}, 405, "MethodNotAllowed"),
        ("POST", "/api/v1/pods", {}, 405, "MethodNotAllowed"),
        ("GET", "/apis/authentication.k8s.io/v1/tokenreviews", None, 405, "MethodNotAllowed"),
        ("POST", PODS, b'{"a":', 400, "BadRequest"),
        ("POST", PODS, [1], 400, "BadRequest"),
        ("POST", PODS, {"metadata": 1}, 400, "BadRequest"),
        ("POST", PODS, {"spec": 1, "metadata": {"name": "x"}}, 400, "BadRequest"),
        ("POST", PODS, pod("x", containers="c"), 400, "BadRequest"),
        ("POST", PODS, pod("x", tolerations=[1]), 400, "BadRequest"),
        ("POST", PODS, {**pod("x"), "metadata": {"name": "x", "labels": [1]}}, 400, "BadRequest"),
        ("GET", f"{PODS}?fieldSelector=spec.foo%3D1", None, 400, "BadRequest"),
        ("GET", f"{PODS}?resourceVersion=abc", None, 400, "BadRequest"),
        ("GET", f"{PODS}?continue=abc", None, 400, "BadRequest"),
        ("GET", f"{PODS}?limit=x", None, 400, "BadRequest"),
        ("GET", f"{PODS}?resourceVersion=99999999", None, 504, "Timeout"),
        ("GET", f"{PODS}?resourceVersionMatch=Exact", None, 422, "Invalid"),
        ("GET", f"{PODS}?watch=1&sendInitialEvents=true", None, 422, "Invalid"),
        ("POST", f"{PODS}?dryRun=x", {}, 422, "Invalid"),
        ("POST", f"{PODS}?fieldValidation=x", {}, 422, "Invalid"),
        ("POST", "/_kubestow/nope", {}, 404, "NotFound"),
    ],
)
async def test_requests_that_are_refused(
    client: Client, method: str, path: str, body: object, code: int, reason: str
) -> None:
    status, response = await client.call(method, path, body)
    assert (status, response["reason"]) == (code, reason)
    assert response["kind"] == "Status"


async def test_bodies_in_other_forms(client: Client) -> None:
    text = b"apiVersion: v1\nkind: Pod\nmetadata: {name: y}\nspec: {containers: [{name: c}]}\n"
    assert (await client.call("POST", PODS, text, "application/yaml"))[0] == 201
    status, _ = await client.call("POST", PODS, b"\x00", "application/vnd.kubernetes.protobuf")
    assert status == 415
    status, _ = await client.get(PODS, "application/vnd.kubernetes.protobuf")
    assert status == 406
    status, _ = await client.call("PATCH", f"{PODS}/y", {}, "application/json")
    assert status == 415


async def test_unknown_fields_are_warned_about(client: Client) -> None:
    status, made = await client.post(PODS, pod("a", foo=1))
    assert (status, "foo" in made["spec"]) == (201, False)
    assert client.headers["Warning"] == '299 - "unknown field \\"spec.foo\\""'
    status, refused = await client.post(f"{PODS}?fieldValidation=Strict", pod("b", foo=1))
    assert (status, refused["reason"]) == (400, "BadRequest")


async def test_tables_for_kubectl(client: Client) -> None:
    await client.post(PODS, pod("a", gates=("g",)))
    _, table = await client.get(PODS, _TABLE)
    assert table["kind"] == "Table"
    *cells, age = table["rows"][0]["cells"][:5]
    assert cells == ["a", "0/1", "SchedulingGated", "0"]
    assert re.fullmatch(r"\d+s", age), "a second may begin between the two requests"
    _, one = await client.get(f"{PODS}/a", _TABLE)
    assert one["rows"][0]["object"]["metadata"]["name"] == "a"


async def test_discovery_names_every_resource(client: Client) -> None:
    _, groups = await client.get("/apis")
    names = {group["name"] for group in groups["groups"]}
    assert {"apps", "batch", "policy", "coordination.k8s.io", "events.k8s.io"} <= names
    _, core = await client.get("/api/v1")
    found = {entry["name"]: entry for entry in core["resources"]}
    assert found["pods"]["shortNames"] == ["po"]
    assert found["pods/binding"]["kind"] == "Binding"
    _, version = await client.get("/version")
    assert version["gitVersion"].startswith("v1.37.")
    _, index = await client.get("/openapi/v3")
    for entry in index["paths"].values():
        status, document = await client.get(entry["serverRelativeURL"])
        assert (status, document["openapi"]) == (200, "3.0.0")


async def test_reviews_scale_eviction_and_apply(client: Client) -> None:
    review = {"spec": {"token": "x"}}
    status, shown = await client.post("/apis/authentication.k8s.io/v1/tokenreviews", review)
    assert (status, shown["status"]["authenticated"]) == (201, True)
    await client.post(PODS, pod("a"))
    assert (await client.post(f"{PODS}/a/eviction", {}))[0] == 201
    assert (await client.get(f"{PODS}/a"))[0] == 404
    path = "/apis/apps/v1/namespaces/default/deployments/d"
    body = {
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c"}]},
            },
        }
    }
    status, _ = await client.patch(f"{path}?fieldManager=me", body, "apply-patch+yaml")
    assert status == 201
    status, scale = await client.patch(f"{path}/scale", {"spec": {"replicas": 2}})
    assert (status, scale["spec"]) == (200, {"replicas": 2})
    status, _ = await client.patch(f"{path}?fieldManager=me", body, "apply-patch+yaml")
    assert status == 200


async def test_events_are_seen_through_both_groups(client: Client) -> None:
    event = {"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "a"}, "note": "hi"}
    path = "namespaces/default/events"
    assert (await client.post(f"/apis/events.k8s.io/v1/{path}", event))[0] == 201
    _, old = await client.get(f"/api/v1/{path}?fieldSelector=involvedObject.name%3Da")
    assert [item["message"] for item in old["items"]] == ["hi"]
    _, new = await client.get(f"/apis/events.k8s.io/v1/{path}")
    assert (new["items"][0]["note"], new["items"][0]["apiVersion"]) == ("hi", "events.k8s.io/v1")


async def test_a_world_can_be_loaded_with_its_status(cluster: EmbeddedCluster) -> None:
    made = cluster.create({**pod("a", nodeName="n1"), "status": {"phase": "Running"}})
    assert made["status"]["phase"] == "Running"
    with pytest.raises(LookupError, match="no resource serves v9 Thing"):
        cluster.create({"apiVersion": "v9", "kind": "Thing", "metadata": {"name": "x"}})

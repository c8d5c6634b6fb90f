"""Watches over HTTP: order, resume, selectors, bookmarks, 410."""

from __future__ import annotations

from simulator import EmbeddedCluster
from tests.integration.simulator.client import PODS, Client, until
from tests.unit.simulator.objects import binding, pod


async def test_a_watch_from_a_list_sees_every_later_change_in_order(client: Client) -> None:
    await client.post(PODS, pod("a"))
    _, listed = await client.get(PODS)
    rv = listed["metadata"]["resourceVersion"]
    await client.post(PODS, pod("b"))
    async with client.watch(PODS, resourceVersion=rv) as watch:
        assert await watch.take(1) == [("ADDED", "b")]
        await client.patch(f"{PODS}/a", {"metadata": {"labels": {"l": "1"}}})
        await client.call("DELETE", f"{PODS}/b")
        await client.post(PODS, pod("c"))
        assert await watch.take(3) == [("MODIFIED", "a"), ("DELETED", "b"), ("ADDED", "c")]


async def test_a_watch_resumes_where_another_stopped(client: Client) -> None:
    seen: list[str] = []
    async with client.watch(PODS) as watch:
        for name in ("a", "b"):
            await client.post(PODS, pod(name))
        _, first = await watch.next()
        seen.append(first["metadata"]["name"])
    rv = first["metadata"]["resourceVersion"]
    async with client.watch(PODS, resourceVersion=rv) as watch:
        await client.post(PODS, pod("c"))
        for _ in range(2):
            _, obj = await watch.next()
            seen.append(obj["metadata"]["name"])
    assert seen == ["a", "b", "c"]


async def test_a_watch_from_nowhere_begins_with_the_present(client: Client) -> None:
    await client.post(PODS, pod("a"))
    for version in ({}, {"resourceVersion": 0}):
        async with client.watch(PODS, **version) as watch:
            assert await watch.take(1) == [("ADDED", "a")]


async def test_a_streamed_list_ends_with_a_marked_bookmark(client: Client) -> None:
    await client.post(PODS, pod("a"))
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with client.watch(PODS, **query) as watch:
        assert await watch.take(1) == [("ADDED", "a")]
        kind, obj = await watch.next()
        assert kind == "BOOKMARK"
        assert obj["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        await client.post(PODS, pod("b"))
        assert await watch.take(1) == [("ADDED", "b")]


async def test_bookmarks_carry_the_version_to_resume_from(
    client: Client, cluster: EmbeddedCluster
) -> None:
    async with client.watch(PODS, allowWatchBookmarks="true") as watch:
        await client.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}})
        _, body = await client.post("/_kubestow/bookmarks", {})
        assert body == {"watches": 1}
        kind, obj = await watch.next()
    assert kind == "BOOKMARK"
    assert obj["metadata"] == {"resourceVersion": str(cluster.store.rv)}


async def test_what_enters_and_leaves_a_selection(client: Client) -> None:
    await client.post(PODS, pod("a"))
    async with client.watch(PODS, fieldSelector="spec.nodeName=") as watch:
        assert await watch.take(1) == [("ADDED", "a")]
        await client.post(f"{PODS}/a/binding", binding("a", "n1"))
        kind, obj = await watch.next()
        assert kind == "DELETED"
        assert "nodeName" not in obj["spec"]
        await client.post(PODS, pod("b"))
        assert await watch.take(1) == [("ADDED", "b")]
    async with client.watch(PODS, labelSelector="l=1", resourceVersion=1) as watch:
        await client.patch(f"{PODS}/b", {"metadata": {"labels": {"l": "1"}}})
        await client.patch(f"{PODS}/b", {"metadata": {"annotations": {"x": "1"}}})
        await client.call("DELETE", f"{PODS}/b")
        assert await watch.take(3) == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]


async def test_a_watch_of_one_namespace_gets_no_changes_of_others(client: Client) -> None:
    async with client.watch(PODS) as watch:
        await client.post("/api/v1/namespaces/kube-system/pods", pod("other"))
        await client.post(PODS, pod("mine"))
        assert await watch.take(1) == [("ADDED", "mine")]


async def test_a_version_that_was_compacted_is_gone(client: Client) -> None:
    _, made = await client.post(PODS, pod("a"))
    await client.post(PODS, pod("b"))
    await client.post("/_kubestow/compact", {})
    async with client.watch(PODS, resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        kind, status = await watch.next()
        assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
        assert await watch.ended()


async def test_tables_are_watched_too(client: Client) -> None:
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    await client.post(PODS, pod("a"))
    client.session.headers.update(accept)
    async with client.watch(PODS) as watch:
        kind, table = await watch.next()
        assert (kind, table["kind"], bool(table["columnDefinitions"])) == ("ADDED", "Table", True)
        await client.post(PODS, pod("b"))
        _, table = await watch.next()
        assert (table["rows"][0]["cells"][0], table["columnDefinitions"]) == ("b", [])


async def test_a_client_that_leaves_leaves_nothing_behind(
    client: Client, cluster: EmbeddedCluster
) -> None:
    subscribers = cluster.store.statistics().subscribers
    async with client.watch(PODS):
        assert cluster.store.statistics().subscribers == subscribers + 1
    await until(lambda: cluster.store.statistics().subscribers == subscribers)

"""`kubestow queue` and `kubestow explain` against a running scheduler, over HTTPS."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from devtools.embedded_service import (
    PATIENCE_SECONDS,
    bound_to,
    condition,
    node,
    plugin,
    pod,
    until,
)
from scheduler.framework import Code, Status
from simulator import EmbeddedCluster
from simulator.objects import JsonObject
from tests.integration.explain.conftest import STRANGER, Open, Site


async def waiting(site: Site, name: str) -> None:
    """Wait until the pod was rejected and its condition is written."""
    await until(lambda: condition(site.cluster, name).get("status") == "False", f"{name} rejected")


def row(table: str, start: str) -> list[str]:
    """Return the cells of the only line that begins with this text."""
    (line,) = [line for line in table.splitlines() if line.startswith(start)]
    return re.split(r"\s{2,}", line.strip())


# -- what is shown -------------------------------------------------------------------------------


async def test_the_queue_shows_one_line_for_each_pod(scheduling: Open) -> None:
    async with scheduling() as site:
        site.cluster.create(node("n1", cpu="2"))
        site.cluster.create(pod("held", gates=["example.com/quota", "example.com/data"]))
        site.cluster.create(pod("big", cpu="8"))
        await waiting(site, "big")
        shown = await site.output("queue")
    lines = shown.splitlines()
    assert lines[0] == "active 0, backoff 0, unschedulable 1, gated 1, in flight 0"
    assert row(shown, "PLACE")[:2] == ["PLACE", "#"]
    place, name, tries, retry, held = row(shown, "unschedulable")
    assert (place, name, tries) == ("unschedulable", "default/big", "1")
    assert re.fullmatch(r"in (4m\d+s|5m): periodic flush", retry)
    assert held == "NodeResourcesFit: 0/1 nodes are available: 1 Insufficient cpu"
    assert row(shown, "gated") == [
        "gated",
        "default/held",
        "0",
        "when the gate opens",
        "gate SchedulingGates: waiting for scheduling gates: [example.com/quota example.com/data]",
    ]


async def test_the_queue_names_the_event_and_the_hint_that_requeued_a_pod(scheduling: Open) -> None:
    slow = {"podInitialBackoffSeconds": 3600, "podMaxBackoffSeconds": 3600}
    # Otherwise a pod in backoff is popped while there is nothing else to do.
    async with scheduling(gates="SchedulerPopFromBackoffQ=false", **slow) as site:
        site.cluster.create(node("n1", cpu="2"))
        site.cluster.create(pod("big", cpu="8"))
        await waiting(site, "big")
        # Still too small, so the hint skips the pod; then large enough.
        site.cluster.create(node("n2", cpu="2"))
        site.cluster.create(node("n3", cpu="9"))
        view = await view_of(site, "big", place="backoff")
        shown = await site.output("queue", "-o", "wide")
    assert (view["last_event"], view["last_hint"]) == ("NodeAdd", "NodeResourcesFit")
    assert (view["position"], view["attempts"]) == (0, 1)
    place, number, name, _, retry, event, _ = row(shown, "backoff  ")
    assert (place, number, name) == ("backoff", "0", "default/big")
    assert re.fullmatch(r"in (1h|59m\d+s|1h0?m?): backoff", retry)
    assert event == "NodeAdd (hint of NodeResourcesFit)"


async def view_of(site: Site, name: str, **wanted: str) -> dict[str, Any]:
    """Return the queue's record of a pod once it is as expected."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            page = json.loads(await site.output("queue", "-o", "json"))
            for view in page["pods"]:
                if view["name"] == name and wanted.items() <= view.items():
                    return dict(view)


async def test_the_queue_can_be_filtered(scheduling: Open) -> None:
    async with scheduling() as site:
        for name in ("a", "b", "c"):
            site.cluster.create(pod(name, gates=["g"]))
        elsewhere = pod("d", gates=["g"])
        elsewhere["metadata"]["namespace"] = "kube-system"
        site.cluster.create(elsewhere)
        await until_gated(site, 4)
        first = await site.output("queue", "--limit", "1")
        assert first.splitlines()[-1] == "not shown: 3 gated (--limit)"
        only = await site.output("queue", "-n", "kube-system")
        assert [row(only, "gated")[1], "default" in only] == ["kube-system/d", False]
        assert "gated 1," in only.splitlines()[0]
        counts, none, *hint = (await site.output("queue", "-n", "nowhere")).splitlines()
        assert counts == "active 0, backoff 0, unschedulable 0, gated 0, in flight 0"
        assert none == "no pod waits in namespace nowhere"
        assert hint[1].startswith("  kubestow explain NAMESPACE/POD --server=")
        page = json.loads(await site.output("queue", "-o", "json"))
        assert len(page["pods"]) == page["statistics"]["gated"] == 4
        assert page["leading"] is True


async def until_gated(site: Site, number: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            page = json.loads(await site.output("queue", "-o", "json"))
            if page["statistics"]["gated"] == number:
                return


async def test_a_pod_that_fits_nowhere_is_explained_by_plugin_and_reason(
    scheduling: Open,
) -> None:
    async with scheduling() as site:
        for index in range(5):
            site.cluster.create(node(f"small{index}", cpu="1"))
        tainted = node("tainted", cpu="1")
        tainted["spec"] = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
        site.cluster.create(tainted)
        site.cluster.create(pod("web", cpu="2"))
        await waiting(site, "web")
        short = await site.output("explain", "default/web")
        shown = await site.output("explain", "default/web", "--examples", "2", "-v")
        again = await site.output("explain", "pod/web", "-o", "json")
    lines = short.splitlines()
    assert lines[0] == "default/web  queued, profile kubestow, priority 0"
    assert lines[1].startswith("None of 6 nodes fits: 5 lack CPU (wants 2 cpu, the largest node ")
    assert "; 1 (tainted) has a taint it does not tolerate (" in lines[1]
    assert re.fullmatch(r"It is unschedulable, after 1 attempt, the last \d+s ago.", lines[2])
    assert lines[3] == "Evicting other pods would not help."
    assert lines[4].startswith("It is tried again when a placed pod goes or requests less; ")
    assert re.search(r"; and in (4m\d+s|5m) at the latest \(periodic flush\)\.$", lines[4])
    assert lines[5:7] == ["", "It would be scheduled after one of these changes, least first"]
    assert lines[7].startswith("1. request at most 1 cpu (goes to small")
    assert re.match(r"2\. give node small\d 1 more cpu \(goes to small\d\)$", lines[8])
    lines = shown.splitlines()
    assert lines[0].startswith("default/web  queued, profile kubestow, priority 0, uid ")
    assert row(shown, "NodeResourcesFit awaits")[1].startswith("AssignedPodDelete, ")
    assert row(shown, "Queue")[1].startswith("unschedulable; 1 attempt, there for ")
    assert row(shown, "Held by")[1] == "NodeResourcesFit, TaintToleration"
    assert "6 of 6 nodes reject the pod" in lines
    first, second = (re.split(r"\s{2,}", line.strip()) for line in lines if "cannot" in line)
    assert first[:2] + first[3:] == ["5", "NodeResourcesFit", "cannot help", "small0, small1, ..."]
    assert second[:2] + second[3:] == ["1", "TaintToleration", "cannot help", "tainted"]
    # The reason, and the numbers behind it.
    assert re.match(r"Insufficient cpu \(wants 2 cpu, ", first[2])
    assert second[2].startswith("node(s) had untolerated taint(s) (")
    explained = json.loads(again)["pod"]
    assert (explained["state"], explained["nodes"]["feasible"]) == ("queued", 0)
    assert explained["nodes"]["rejections"][0]["examples"] == ["small0", "small1", "small2"]


async def test_a_gated_pod_shows_its_gate_and_the_scores_of_nodes(scheduling: Open) -> None:
    async with scheduling() as site:
        site.cluster.create(node("large", cpu="8"))
        site.cluster.create(node("small", cpu="2"))
        site.cluster.create(node("tiny", cpu="1"))
        site.cluster.create(pod("held", cpu="2", gates=["quota"]))
        await until_gated(site, 1)
        shown = await site.output("explain", "default/held", "--nodes", "1", "-v")
    lines = shown.splitlines()
    assert lines[1] == (
        "Plugin SchedulingGates does not let it be scheduled yet: "
        "waiting for scheduling gates: [quota]."
    )
    assert lines[2] == "Once let in, it would fit on 2 of 3 nodes now, best on large."
    assert lines[3] == "The plugin is asked again when the pod itself loses its scheduling gates."
    assert "It fits on 2 of 3 nodes" in lines
    heading = row(shown, "NODE ")
    assert heading[:2] == ["NODE", "TOTAL"]
    assert "NodeResourcesFit x1" in heading
    assert row(shown, "large")[0] == "large"
    assert "note: 1 more fit (--nodes)" in lines
    assert row(shown, "    1  NodeResourcesFit")[-1] == "tiny"


async def test_a_bound_pod_and_a_pod_of_another_scheduler_are_explained(scheduling: Open) -> None:
    async with scheduling() as site:
        site.cluster.create(node("n1"))
        site.cluster.create(pod("mine"))
        site.cluster.create(pod("theirs", schedulerName="default-scheduler"))
        await until(lambda: bound_to(site.cluster, "mine"), "bound")
        mine = await explanation_of(site, "mine", "bound to node n1")
        theirs = await explanation_of(site, "theirs", "not ours")
    assert mine["node"] == "n1"
    assert mine["since"]
    assert mine["nodes"] is None
    assert (theirs["examined_by"], theirs["nodes"]["feasible"]) == ("kubestow", 1)
    assert 'schedulerName is "default-scheduler"' in theirs["summary"]


async def explanation_of(site: Site, name: str, summary: str) -> dict[str, Any]:
    """Return the explanation of a pod once its summary begins with this text."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            result = await site.query("explain", name, "-o", "json")
            try:
                pod: dict[str, Any] = json.loads(result.out)["pod"]
            except ValueError:
                # An error, which is written to standard error.
                continue
            if pod.get("summary", "").startswith(summary):
                return pod


async def test_a_pod_that_waits_at_permit_is_explained(scheduling: Open) -> None:
    gang = plugin("Gang", permit=lambda *_: (Status(Code.WAIT), 600.0))
    async with scheduling(gang) as site:
        site.cluster.create(node("n1"))
        site.cluster.create(pod("member"))
        explanation = await explanation_of(
            site, "member", "node n1 was chosen; waits at Permit for Gang"
        )
        assert explanation["state"] == "waiting-at-permit"


@pytest.mark.slow
async def test_a_pod_that_waits_for_its_volume_is_explained(scheduling: Open) -> None:
    async with scheduling() as site:
        site.cluster.create(node("n1"))
        site.cluster.create(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": "fastt"},
                "provisioner": "example.com/none",
                "volumeBindingMode": "WaitForFirstConsumer",
            }
        )
        site.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data", "namespace": "default"},
                "spec": {
                    "storageClassName": "fastt",
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }
        )
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
        site.cluster.create(pod("web", volumes=[claim]))
        explanation = await explanation_of(site, "web", "node n1 was chosen 1s ago")
        queue = await site.output("queue")
    waits = (
        "; its binding waits until PersistentVolumeClaim data is provisioned "
        "(StorageClass fastt, provisioner example.com/none), for at most 10m"
    )
    assert explanation["state"] == "binding"
    assert explanation["summary"].endswith(waits)
    assert "1 pod in no queue any more, not bound yet:" in queue
    assert queue.split("default/web: node n1 was chosen ")[1].endswith(f"{waits}\n")


async def test_a_plugin_that_fails_is_named(scheduling: Open) -> None:
    def fail(*_: object) -> None:
        msg = "the database is down"
        raise RuntimeError(msg)

    async with scheduling(plugin("Licences", filter=fail)) as site:
        site.cluster.create(node("n1"))
        site.cluster.create(pod("web"))
        await waiting(site, "web")
        shown = await site.output("explain", "default/web")
        queue = await site.output("queue")
    assert "An attempt now would end with an error: " in shown
    assert 'running "Licences" filter plugin: the database is down' in shown
    assert "(1 after an error)" in queue
    assert "backoff after an error" in queue


async def test_a_standby_replica_is_noted(scheduling: Open) -> None:
    election = {"leaderElect": True, "resourceName": "taken", "resourceNamespace": "default"}
    async with scheduling(leaderElection=election, before=another_replica_leads) as site:
        site.cluster.create(pod("web", gates=["g"]))
        await until_gated(site, 1)
        queue = await site.query("queue")
        explained = await site.query("explain", "web")
    assert "gated" in queue.out
    assert "does not let it be scheduled yet" in explained.out
    assert "this replica stands by" in queue.err
    assert "this replica stands by" in explained.err


def another_replica_leads(cluster: EmbeddedCluster) -> None:
    """Store a Lease that another replica holds for an hour."""
    spec = {
        "holderIdentity": "another",
        "leaseDurationSeconds": 3600,
        "renewTime": "2030-01-01T00:00:00.000000Z",
    }
    metadata = {"name": "taken", "namespace": "default"}
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    cluster.create({**kind, "metadata": metadata, "spec": spec})


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["explain", "default/ghost"], 'no pod "default/ghost": it does not exist, or'),
        (["explain", "ghost", "-n", "kube-system"], 'no pod "kube-system/ghost"'),
    ],
)
async def test_unknown_pods_are_an_error(scheduling: Open, arguments: list[str], text: str) -> None:
    async with scheduling() as site:
        result = await site.query(*arguments)
    assert (result.code, result.out) == (4, "")
    assert text in result.err


@pytest.mark.parametrize(
    "words", [["web"], ["deploy/web"], ["deployment", "web"], ["default/web"], ["wep-1"]]
)
async def test_pods_that_may_be_meant_are_named(scheduling: Open, words: list[str]) -> None:
    async with scheduling() as site:
        for number in range(2):
            site.cluster.create(pod(f"web-{number}", gates=["quota"]))
        site.cluster.create(pod("other", gates=["quota"]))
        await until_gated(site, 3)
        result = await site.query("explain", *words)
        elsewhere = await site.query("explain", *words, token=STRANGER)
    assert result.code == 4
    (names,) = re.findall(r"^Pods that wait, with such a name: (.*)$", result.err, re.MULTILINE)
    assert sorted(names.split(", ")) == ["default/web-0", "default/web-1"]
    assert "web-0" not in elsewhere.err, "whoever may not list them learns nothing"


def replica(name: str, **changes: Any) -> JsonObject:
    """Return a pod of the Deployment `web`."""
    made = pod(name, **changes)
    made["metadata"]["labels"] = {"pod-template-hash": "5f7d8c"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5f7d8c", "uid": "u"}
    made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return made


@pytest.mark.slow
async def test_all_pods_of_a_deployment_are_explained_at_once(scheduling: Open) -> None:
    async with scheduling() as site:
        site.cluster.create(node("n1", cpu="4"))
        site.cluster.create(replica("web-0", cpu="1"))
        await until(lambda: bound_to(site.cluster, "web-0"), "bound")
        for number in range(1, 4):
            site.cluster.create(replica(f"web-{number}", cpu="8"))
            await waiting(site, f"web-{number}")
        site.cluster.create(replica("web-gated", cpu="8", gates=["quota"]))
        site.cluster.create(pod("other", cpu="8"))
        await waiting(site, "other")
        shown = await site.output("explain", "deploy", "web")
        same = [
            await site.output("explain", each)
            for each in ("deployment.apps/web", "default/Deployment/web", "rs/web-5f7d8c")
        ]
        page = json.loads(await site.output("explain", "deploy/web", "-o", "json"))
        one_node = await site.query("explain", "deploy/web", "--node", "n1")
    lines = shown.splitlines()
    assert lines[0] == "default/Deployment/web: 5 pods, 1 has a node, 4 wait"
    assert lines[2].startswith("3 lack CPU, the longest for ")
    assert lines[3].startswith("default/web-1  ")
    assert lines[4].startswith("None of 1 node fits: 1 (n1) lacks CPU")
    assert shown.count("1. request at most 3 cpu") == 2
    heading = "would be scheduled after one of these changes, least first\n1. "
    assert f"\n\nThis pod, one of 3, {heading}request" in shown
    assert "\n1 is gated, " in shown
    gate = "First remove scheduling gate quota. Then it"
    assert f"\n\n{gate} {heading}request at most" in shown
    assert "default/other" not in shown
    first = [each.splitlines()[0].partition(":")[2] for each in same]
    assert first == [lines[0].partition(":")[2]] * 3
    assert (page["apiVersion"], page["kind"]) == ("debug.kubestow.io/v1", "OwnerExplanation")
    assert (page["waiting"], page["placed"]) == (4, 1)
    assert [each["pods"] for each in page["groups"]] == [3, 1]
    assert (one_node.code, "deploy/web has several" in one_node.err) == (2, True)


async def test_a_kind_and_a_name_may_be_two_words(scheduling: Open) -> None:
    async with scheduling() as site:
        site.cluster.create(pod("web", gates=["quota"]))
        await until_gated(site, 1)
        explained = await site.output("explain", "pod", "web")
        asked = await site.query("whatif", "pods", "default/web")
        two = await site.query("explain", "web", "other")
    assert explained.startswith("default/web  ")
    assert asked.out.startswith("default/web ")
    assert (two.code, "give one pod, not 2: web other" in two.err) == (2, True)


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("queue?limit=0", 400, "limit=0: give a number from 1 to 10000"),
        ("queue?limit=many", 400, "limit=many: not a number"),
        ("explain", 400, "say which pod: /debug/explain?pod=NAMESPACE/NAME"),
        ("explain?pod=web", 400, "say which pod"),
        ("explain?pod=default/web&nodes=1001", 400, "nodes=1001: give a number from 0 to 1000"),
        ("explain?pod=default/web&nodes=-1", 400, "nodes=-1: not a number"),
        ("explain?pod=default/ghost", 404, 'no pod "default/ghost"'),
        ("explain?pod=a/b/c", 404, 'no pod "a/b/c"'),
    ],
)
async def test_the_pages_reject_invalid_queries(
    scheduling: Open, path: str, status: int, text: str
) -> None:
    async with scheduling() as site:
        site.cluster.create(pod("web", gates=["g"]))
        await until_gated(site, 1)
        response = await site.get(f"/debug/{path}")
    assert (response.code, text in response.out) == (status, True)

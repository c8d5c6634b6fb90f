"""Users who may get the pods of one namespace: what the commands show them, and what not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from devtools.embedded_service import PATIENCE_SECONDS, node, pod, until
from simulator.objects import JsonObject
from tests.integration.explain.conftest import (
    NODE_TENANT,
    READER,
    STRANGER,
    TENANT,
    CommandResult,
    Open,
    Site,
)


async def prepared(site: Site) -> None:
    """Let a pod of each of two tenants wait."""
    site.cluster.create(node("secret-node-1", cpu="2"))
    for namespace in ("team-a", "team-b"):
        site.cluster.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        )
        site.cluster.create(_of(pod("big", cpu="8"), namespace))
    await until(lambda: all(map(_rejected(site), ("team-a", "team-b"))), "rejections")


def _of(pod: JsonObject, namespace: str) -> JsonObject:
    return {**pod, "metadata": {**pod["metadata"], "namespace": namespace}}


def _rejected(site: Site) -> Callable[[str], bool]:
    def rejected(namespace: str) -> bool:
        found = site.cluster.get("v1", "Pod", "big", namespace)
        return bool(found.get("status", {}).get("conditions"))

    return rejected


async def test_a_tenant_gets_answers_about_the_own_namespace_without_names_of_nodes(
    scheduling: Open,
) -> None:
    async with scheduling() as site:
        await prepared(site)
        shown = await site.query("explain", "team-a/big", "-o", "json", token=TENANT)
        with_nodes = await site.query("explain", "team-a/big", "-o", "json", token=NODE_TENANT)
        queue = await site.query("queue", "-n", "team-a", "-o", "json", token=TENANT)
        table = await site.query("explain", "team-a/big", token=TENANT)
    assert (shown.code, shown.err) == (0, "")
    assert (with_nodes.code, queue.code, table.code) == (0, 0, 0)
    assert "secret-node-1" in with_nodes.out
    for each in (shown, queue, table):
        assert "secret-node-1" not in each.out
        assert "Insufficient cpu" in each.out or "1 lacks CPU (wants 8 cpu)" in each.out
    (own,) = json.loads(queue.out)["pods"]
    assert (own["namespace"], own["name"], own["position"]) == ("team-a", "big", None)
    assert json.loads(queue.out)["statistics"]["unschedulable"] == 1


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"nodeName": "secret-node-1"}, "Bound to node secret-node-1"),
        ({"schedulerName": "kubestw"},
         'Not ours: schedulerName is "kubestw"; did you mean "kubestow"?'),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "my-data"}}]},
         'the PersistentVolumeClaim "my-data" does not exist in namespace team-a'),
        ({"schedulingGates": [{"name": "example.com/quota"}]},
         "waiting for scheduling gates: [example.com/quota]"),
    ],
)  # fmt: skip
async def test_a_tenant_reads_what_stands_in_the_own_pod(
    scheduling: Open, spec: JsonObject, told: str
) -> None:
    async with scheduling() as site:
        await prepared(site)
        made = _of(pod("own"), "team-a")
        site.cluster.create({**made, "spec": {**made["spec"], **spec}})

        async def ask() -> str:
            return " ".join((await site.query("explain", "team-a/own", token=TENANT)).out.split())

        async with asyncio.timeout(PATIENCE_SECONDS):
            while told.lower() not in (found := await ask()).lower():
                pass
    assert told in found or f"{told[0].upper()}{told[1:]}" in found


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("podAffinity", "1 has no pod that it must be near (wants app=cache by host)"),
        ("podAntiAffinity", "1 has a pod that it must not be near (wants no app=cache by host)"),
        ("claim", "is not bound to a volume (claim my-data). Look at"),
        ("others", "1 has a pod that must not be near it."),
    ],
)
async def test_a_tenant_reads_which_part_of_the_own_pod_is_in_the_way_and_no_name_of_others(
    scheduling: Open, kind: str, told: str
) -> None:
    async with scheduling() as site:
        site.cluster.create(node("secret-node-1", cpu="2", labels={"host": "secret-host"}))
        for namespace in ("team-a", "team-b"):
            site.cluster.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            )
        site.cluster.create(_storage_class("secret-class"))
        site.cluster.create(_claim("my-data", "secret-class"))
        near = _near("podAntiAffinity", "own", "team-a") if kind == "others" else {}
        other = _of(pod("secret-pod", nodeName="secret-node-1", **near), "team-b")
        other["metadata"]["labels"] = {"app": "cache"}
        site.cluster.create(other)
        match kind:
            case "claim":
                volume = {"name": "v", "persistentVolumeClaim": {"claimName": "my-data"}}
                made = pod("own", volumes=[volume])
            case "others":
                made = pod("own")
            case _:
                # Only the other namespace has such a pod, so it is in the way of anti-affinity.
                namespace = "team-b" if kind == "podAntiAffinity" else "team-a"
                made = pod("own", **_near(kind, "cache", namespace))
        made["metadata"]["labels"] = {"app": "own"}
        site.cluster.create(_of(made, "team-a"))

        async def ask(*options: str) -> str:
            query = await site.query("explain", "team-a/own", *options, token=TENANT)
            return " ".join(query.out.split())

        async with asyncio.timeout(PATIENCE_SECONDS):
            while told not in await ask():
                pass
        found = await ask("-o", "json") + await ask("-v")
    for secret in ("secret-node", "secret-host", "secret-pod", "secret-class", "team-b"):
        assert secret not in found


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _near(kind: str, app: str, namespace: str) -> JsonObject:
    selector = {"matchLabels": {"app": app}}
    term = {"labelSelector": selector, "topologyKey": "host", "namespaces": [namespace]}
    return {"affinity": {kind: {REQUIRED: [term]}}}


def _storage_class(name: str) -> JsonObject:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "example.com/secret",
        "volumeBindingMode": "Immediate",
    }


def _claim(name: str, class_name: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {
            "storageClassName": class_name,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


async def test_a_tenant_asks_about_all_pods_of_an_owner(scheduling: Open) -> None:
    async with scheduling() as site:
        await prepared(site)
        for namespace in ("team-a", "team-b"):
            job = _of(pod("sort-0", gates=["quota"]), namespace)
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "sort", "uid": "u"}
            job["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
            site.cluster.create(job)

        async def own() -> CommandResult:
            return await site.query("explain", "job/sort", "-n", "team-a", token=TENANT)

        async with asyncio.timeout(PATIENCE_SECONDS):
            while (shown := await own()).code:
                pass
        other = await site.query("explain", "job/sort", "-n", "team-b", token=TENANT)
    assert shown.out.startswith("team-a/Job/sort: 1 pod, 0 have a node, 1 waits\n")
    assert "secret-node" not in shown.out
    assert (other.code, other.out) == (6, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "command"),
    [(("only-b",), "only-b"), (("job/sort",), "job/sort"), (("sort",), "job/sort")],
)
async def test_the_namespace_of_a_name_is_told_only_to_those_who_see_all(
    scheduling: Open, names: tuple[str, ...], command: str
) -> None:
    async with scheduling() as site:
        await prepared(site)
        job = _of(pod("sort-0", gates=["quota"]), "team-b")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "sort", "uid": "u"}
        job["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        site.cluster.create(job)
        site.cluster.create(_of(pod("only-b", gates=["quota"]), "team-b"))

        async def ask(token: str) -> CommandResult:
            return await site.query("explain", *names, "-n", "team-a", token=token)

        async with asyncio.timeout(PATIENCE_SECONDS):
            while "team-b" not in (told := await ask(READER)).err:
                pass
        refused = await ask(TENANT)
    assert (told.code, refused.code) == (4, 4)
    assert told.err.rstrip().splitlines()[-2] == "Waiting in another namespace:"
    assert f"  kubestow explain {command} -n team-b --server=" in told.err
    assert "team-b" not in refused.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "team-b/big"),
        ("explain", "team-b/no-such-pod"),
        ("queue",),
        ("queue", "--namespace", "team-b"),
    ],
)
async def test_a_tenant_gets_nothing_about_others(
    scheduling: Open, arguments: tuple[str, ...]
) -> None:
    async with scheduling() as site:
        await prepared(site)
        refused = await site.query(*arguments, token=TENANT)
        stranger = await site.query("explain", "team-a/big", token=STRANGER)
    assert (refused.code, refused.out) == (6, "")
    assert 'User "tenant" cannot get path' in refused.err
    assert (stranger.code, stranger.out) == (6, "")


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        (("explain", "tema-a/big"),
         'you may not get pods in namespace "tema-a"; your context has team-a'),
        (("explain", "deployment/web", "-n", "tema-a"),
         'you may not get pods in namespace "tema-a"; your context has team-a'),
        (("queue", "-n", "tema-a"),
         'you may not get pods in namespace "tema-a"; your context has team-a'),
        (("queue",), "about one namespace, if you may get its pods:  kubestow queue -n team-a "),
        (("top",), "about one namespace, if you may get its pods:  kubestow queue -n team-a "),
    ],
)  # fmt: skip
async def test_a_tenant_who_asks_about_others_is_told_so_first(
    scheduling: Open, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], first: str
) -> None:
    async with scheduling() as site:
        monkeypatch.setenv("KUBECONFIG", _with_namespace(site.kubeconfig(TENANT)))
        refused = await site.query(*arguments, token=TENANT)
    assert (refused.code, refused.out) == (6, "")
    assert refused.err.removeprefix("Error: ").startswith(first)


def _with_namespace(kubeconfig: str) -> str:
    path = Path(kubeconfig)
    config = yaml.safe_load(path.read_text())
    config["contexts"][0]["context"]["namespace"] = "team-a"
    path.write_text(yaml.safe_dump(config))
    return kubeconfig


async def test_options_without_effect_are_named_and_what_is_hidden_is_a_dash(
    scheduling: Open,
) -> None:
    options = ("--node", "secret-node-1", "--history")
    async with scheduling() as site:
        await prepared(site)
        told = await site.query("explain", "team-a/big", *options, token=TENANT)
        searched = await site.query("explain", "team-a/big", "--remedies", "all", token=TENANT)
        plain = await site.query("explain", "team-a/big", token=TENANT)
        answered = await site.query("explain", "team-a/big", *options)
    left_out = "left out, as you may not get /debug/explain (ClusterRole kubestow-explainer)."
    assert f"--node: {left_out}" in " ".join(told.out.split())
    assert f"--remedies all: {left_out}" in " ".join(searched.out.split())
    assert "left out, as" not in plain.out + answered.out
    assert "0.0ms" not in told.out
    (attempt,) = (each for each in told.out.splitlines() if "1 Insufficient cpu" in each)
    assert attempt.split().count("-") == 2, "for what woke the pod, and how long it took"

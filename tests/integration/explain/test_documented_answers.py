"""Samples of `kubestow explain` in the documents are what the command answers."""

from __future__ import annotations

import asyncio
import re

import pytest

from devtools.markdown import blocks
from simulator.objects import JsonObject
from tests.integration.explain.conftest import READER, TENANT, TENANTS_NAMESPACE, Open, Site
from tests.unit.repository.tree import ROOT

ZONE = "topology.kubernetes.io/zone"
SAMPLES = {
    (document, block.text.partition("\n")[0].partition(" ")[2]): block.text.partition("\n")[2]
    for document in ("README.md", "docs/explain.md", "docs/asking-the-scheduler.md")
    for block in blocks(ROOT / document, ROOT)
    if block.text.startswith("$ kubestow explain")
}
"""The answers by document and command line."""


def node(name: str, zone: str, *taints: JsonObject) -> JsonObject:
    """Return a node of 8 cores."""
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {ZONE: zone}},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod(name: str, cpu: str, namespace: str = "shop") -> JsonObject:
    """Return a pod of one container."""
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulerName": "kubestow", "containers": [container]},
    }


async def settled(site: Site, name: str, text: str) -> None:
    """Wait until the explanation of a pod has a text."""
    async with asyncio.timeout(60):
        while text not in (await site.query("explain", name)).out:
            pass


def pattern(sample: str) -> str:
    """Return a regular expression for a sample: any line breaks, and anything for `...`."""
    words = (re.escape(word).replace(r"\.\.\.", r"\S+") for word in sample.split())
    return r"\s+".join(words)


@pytest.mark.slow
async def test_the_samples_of_explain_are_its_answers(scheduling: Open) -> None:
    async with scheduling() as site:
        for name in ("shop", TENANTS_NAMESPACE):
            metadata = {"name": name}
            site.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        site.cluster.create(node("n1", "a"))
        site.cluster.create(pod("web-0", "4"))
        await settled(site, "shop/web-0", "n1")
        site.cluster.create(node("n2", "b"))
        site.cluster.create(pod("web-1", "3"))
        await settled(site, "shop/web-1", "n2")
        taint = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
        site.cluster.create(node("n3", "b", taint))
        site.cluster.create(pod("report", "6"))
        await settled(site, "shop/report", "2 lack CPU")
        site.cluster.create(pod("report", "6", TENANTS_NAMESPACE))
        await settled(site, f"{TENANTS_NAMESPACE}/report", "2 lack CPU")
        for (document, line), sample in SAMPLES.items():
            user = TENANT if TENANTS_NAMESPACE in line else READER
            answer = await site.query(*line.split()[1:], token=user)
            assert re.fullmatch(pattern(sample), answer.out.strip()), (document, answer.out)
    assert len(SAMPLES) >= 3

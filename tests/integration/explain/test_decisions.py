"""Pages of decisions of a running scheduler: answers of an extender, and no history."""

from __future__ import annotations

import json
from typing import Any

from devtools.embedded_service import bound_to, condition, node, pod, until
from tests.integration.explain.conftest import Open, Site
from tests.integration.extenders.extender import ExtenderServer


async def decisions(site: Site, name: str) -> list[dict[str, Any]]:
    page = await site.get(f"/debug/decisions?pod=default/{name}")
    assert page.code == 200, page.out
    return list(json.loads(page.out)["decisions"])


def extended(extender: ExtenderServer, **verbs: Any) -> dict[str, Any]:
    return {"extenders": [{"urlPrefix": extender.url, "nodeCacheCapable": True, **verbs}]}


async def test_the_scores_of_an_extender_count(scheduling: Open) -> None:
    async with ExtenderServer() as extender:
        extender.responses["prioritize"] = lambda call: [
            {"Host": name, "Score": 10 if name == "n2" else 0} for name in call["NodeNames"]
        ]
        settings = extended(extender, prioritizeVerb="prioritize", weight=1000)
        async with scheduling(**settings) as site:
            for name in ("n1", "n2", "n3"):
                site.cluster.create(node(name, cpu="2"))
            site.cluster.create(pod("p", cpu="1"))
            await until(lambda: bound_to(site.cluster, "p") == "n2")
            (decision,) = await decisions(site, "p")
    best = decision["best"]
    assert [best[0]["node"], len(best)] == ["n2", 3]
    assert best[0]["total"] - best[1]["total"] >= 10_000


async def test_a_rejection_by_an_extender(scheduling: Open) -> None:
    async with ExtenderServer() as extender:
        extender.responses["filter"] = lambda call: {
            "NodeNames": [],
            "FailedNodes": dict.fromkeys(call["NodeNames"], "no licence"),
        }
        async with scheduling(**extended(extender, filterVerb="filter")) as site:
            for name in ("n1", "n2"):
                site.cluster.create(node(name, cpu="2"))
            site.cluster.create(pod("p", cpu="1"))
            await until(lambda: condition(site.cluster, "p").get("status") == "False")
            decision, *_ = await decisions(site, "p")
    assert decision["result"] == "unschedulable"
    assert [(each["reason"], each["nodes"]) for each in decision["rejections"]] == [
        ("no licence", 2)
    ]


async def test_a_history_that_is_off_says_so(scheduling: Open) -> None:
    async with scheduling(kubestow={"decisionHistory": {"pods": 0}}) as site:
        site.cluster.create(node("n1", cpu="2"))
        site.cluster.create(pod("p", cpu="1"))
        await until(lambda: bound_to(site.cluster, "p") == "n1")
        page = await site.get("/debug/decisions?pod=default/p")
    assert page.code == 404
    assert "kubestow.decisionHistory.pods is 0" in page.out

"""Scores of extenders, added to those of the plugins."""

from __future__ import annotations

from typing import Any

import pytest

from devtools.embedded_service import (
    bound_to,
    node,
    pod,
    scheduling,
    until,
)
from simulator import EmbeddedCluster
from tests.integration.extenders.extender import ExtenderServer, names
from tests.integration.extenders.setup import BY_NAME, entry


def scoring(**scores: int) -> Any:
    return lambda call: [{"Host": name, "Score": scores.get(name, 0)} for name in names(call)]


async def test_scores_count_ten_times_their_weight(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    # The plugins prefer the big node by less than 100 a plugin; 10 * 10 * 20 is more.
    cluster.create(node("big", cpu="64"))
    cluster.create(node("small", cpu="2"))
    extender.responses["prioritize"] = scoring(small=10)
    mine = entry(extender, "prioritize", **BY_NAME, weight=20)
    async with scheduling(cluster, extenders=[mine]):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "small", "bound")


@pytest.mark.parametrize(
    "response",
    [
        lambda call: 503,
        lambda call: [{"Host": "small", "Score": "high"}],
        lambda call: {"Host": "small"},
    ],
)
async def test_scores_that_cannot_be_used_are_ignored(
    cluster: EmbeddedCluster, extender: ExtenderServer, response: Any
) -> None:
    cluster.create(node("big", cpu="64"))
    cluster.create(node("small", cpu="2"))
    extender.responses["prioritize"] = response
    mine = entry(extender, "prioritize", **BY_NAME, weight=20)
    async with scheduling(cluster, extenders=[mine]):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "big", "bound")


@pytest.mark.parametrize(
    "response",
    [
        scoring(small=50),
        scoring(big=-10),
        lambda call: [{"Host": "elsewhere", "Score": 10}, {"Host": "small", "Score": 10}],
    ],
)
async def test_unusual_scores_count_as_upstream_and_are_reported_once(
    cluster: EmbeddedCluster,
    extender: ExtenderServer,
    response: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster.create(node("big", cpu="64"))
    cluster.create(node("small", cpu="2"))
    extender.responses["prioritize"] = response
    mine = entry(extender, "prioritize", **BY_NAME, weight=20)
    async with scheduling(cluster, extenders=[mine]):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "small", "bound")
        cluster.create(pod("q"))
        await until(lambda: bound_to(cluster, "q") == "small", "bound")
    assert capsys.readouterr().out.count("unusual scores of an extender") == 1


async def test_scores_of_two_extenders_add_up(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    for name in ("n1", "n2", "n3"):
        cluster.create(node(name))
    extender.responses["p1"] = scoring(n1=10, n2=6)
    extender.responses["p2"] = scoring(n3=10, n2=6)
    both = [
        entry(extender, **BY_NAME, prioritizeVerb="p1", weight=100),
        entry(extender, **BY_NAME, prioritizeVerb="p2", weight=100),
    ]
    async with scheduling(cluster, extenders=both):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "n2", "bound")

"""`/debug/decisions`: queries, limits, and errors that say what to do."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.explain.pages.decisions import DecisionPages
from scheduler.explain.records import DecisionList
from scheduler.framework import unschedulable
from tests.unit.engine.harness import plugin
from tests.unit.service.harness import Service


async def decided(*names: str) -> tuple[Service, DecisionPages]:
    """Decide about these pods, of which those called `big` fit nowhere."""
    service = Service(
        plugin("Binder", bind=lambda *_: None),
        plugin(
            "F",
            filter=lambda _state, pod, _node: (
                unschedulable("full") if pod.metadata.name.startswith("big") else None
            ),
        ),
        plugin("S", score=lambda _state, _pod, node: 9 if node.name == "n1" else 1),
    )
    service.world.nodes("n1", "n2")
    for name in names:
        service.pending(name)
        await service.attempt()
        service.inbox.apply(service.clock.monotonic, 1.0)
    history = service.decisions.history
    return service, DecisionPages(history, clock=service.clock, leading=lambda: True)


async def test_the_last_decisions_the_oldest_first() -> None:
    _, pages = await decided("a", "big", "c")
    page = pages.decisions({})
    assert [(each.pod, each.result) for each in page.decisions] == [
        ("default/a", "placed"),
        ("default/big", "unschedulable"),
        ("default/c", "placed"),
    ]
    assert (page.last_seq, page.remembered_pods, page.leading) == (3, 3, True)
    assert [each.seq for each in pages.decisions({"since": "1"}).decisions] == [2, 3]
    assert [each.seq for each in pages.decisions({"limit": "1"}).decisions] == [3]
    assert not pages.decisions({"namespace": "other"}).decisions


async def test_the_decisions_about_one_pod() -> None:
    _, pages = await decided("a", "b")
    (decision,) = pages.decisions({"pod": "default/a"}).decisions
    assert (decision.node, decision.score) == ("n1", 9)


async def test_the_page_is_json_with_kind_and_version() -> None:
    _, pages = await decided("a", "big")
    page = pages.decisions({})
    text = msgspec.json.encode(page)
    assert msgspec.json.decode(text, type=DecisionList) == page
    assert msgspec.json.decode(text)["kind"] == "DecisionList"
    assert msgspec.json.decode(text)["apiVersion"] == "debug.kubestow.io/v1"


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"pod": "a"}, "say which pod"),
        ({"pod": "default/"}, "say which pod"),
        ({"limit": "0"}, "limit=0: give a number from 1 to 500"),
        ({"limit": "501"}, "limit=501: give a number from 1 to 500"),
        ({"since": "x"}, "since=x: not a number"),
    ],
)
async def test_bad_queries(query: dict[str, str], problem: str) -> None:
    _, pages = await decided()
    with pytest.raises(ValueError, match=problem):
        pages.decisions(query)


async def test_an_unknown_pod() -> None:
    service, pages = await decided("a")
    with pytest.raises(LookupError, match='about pod "default/x" is remembered: there was none'):
        pages.decisions({"pod": "default/x"})
    service.decisions.history.resize(0, 5)
    with pytest.raises(LookupError, match="decisionHistory"):
        pages.decisions({"pod": "default/a"})


async def test_the_last_placements_newest_first() -> None:
    _, pages = await decided("a", "big", "c", "d")
    assert [(each.pod, each.node, each.score) for each in pages.placements(2)] == [
        ("default/d", "n1", 9),
        ("default/c", "n1", 9),
    ]

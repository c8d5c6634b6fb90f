"""Every record of an offline world is short in a Python prompt, and words in a notebook."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from html.parser import HTMLParser
from typing import Any, Final

import msgspec
import pytest

from scheduler import offline
from scheduler.explain.records.shown import MAX_LINE, MAX_SHOWN, Shown, ShownTuple

HOSTILE: Final = "<script>\x1b[2J\u202e\n" + "x" * 10_000
ALLOWED: Final = {"p", "b", "table", "tr", "td", "th"}


@pytest.fixture(scope="module")
def records() -> Mapping[str, Any]:
    """Return one record of every public kind, from a cluster where many pods wait."""
    with offline.World() as world:
        world.add_nodes(offline.node("n", cpu=4), count=3)
        world.add_pods(offline.pod("web", cpu=1), count=5)
        world.add_pods(offline.pod("giant", cpu=9), count=40)
        result = world.run(until=60.0, samples=3)
        with world.trial() as trial:
            refused = trial.place("default/giant-0")
            trial.add_nodes(offline.node("large", cpu=32))
            fits = trial.place("default/giant-0")
            about_trial = repr(trial)
        found = offline.consolidate(world, force=True)
        remedies = world.remedies("default/giant-0")
        return {
            "result": result,
            "placed": result.placed,
            "placement": result.placed[0],
            "waiting": result.waiting,
            "waits": result["default/giant-0"],
            "now": world.waiting(),
            "decision": result["default/giant-0"].decision,
            "choice": result["default/web-0"].decision,
            "eviction": offline.Eviction("default/old", "n-1", 3.0),
            "explanation": world.explain("default/giant-0"),
            "remedies": remedies,
            "remedy": remedies.remedies[0],
            "step": remedies.remedies[0].steps[0],
            "capacity": world.how_many_fit(offline.pod(cpu=1)),
            "refused": refused,
            "fits": fits,
            "consolidation": found,
            "emptied": found.emptied[0],
            "kept": found.kept[0],
            "nodes": offline.nodes_needed(world, offline.node("more", cpu=4)),
            "kind": offline.node_like(world, "n-0"),
            "arrival": offline.Arrival(60.0, offline.pod("job"), 600.0, count=3),
            "world": world,
            "trial": about_trial,
        }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("result", "<Result 0 s to 60 s: 5 placed, 40 waiting, 0 evicted, 0 finished>"),
        (
            "waits",
            (
                "<Waiting default/giant-0 waits, unschedulable, after 1 attempt and 60 s: "
                "0/3 nodes are available: 3 Insufficient cpu>"
            ),
        ),
        ("eviction", "<Eviction default/old was evicted from n-1 at 3 s>"),
        (
            "decision",
            (
                "<Decision attempt 1 of default/giant-0: unschedulable, 0/3 nodes are available: "
                "3 Insufficient cpu>"
            ),
        ),
        (
            "explanation",
            (
                "<PodExplanation default/giant-0: None of 3 nodes fits: 3 lack CPU (wants 9 cpu, "
                "the largest node has 4).>"
            ),
        ),
        ("remedy", "<Remedy request at most 3 cpu (goes to n-0)>"),
        (
            "capacity",
            "<Capacity 7 more fit, on 3 nodes; then 0/3 nodes are available: 3 Insufficient cpu.>",
        ),
        (
            "refused",
            (
                "<Verdict default/giant-0 fits on no node: 0/3 nodes are available: "
                "3 Insufficient cpu.>"
            ),
        ),
        ("fits", "<Verdict default/giant-0 fits on large>"),
        ("consolidation", "<Consolidation 1 of 3 nodes could be emptied, by 1 move>"),
        ("emptied", "<Emptied n-0 could be emptied by 1 move: 25 % of it is requested>"),
        (
            "nodes",
            "<NodesNeeded more such nodes place no pod; 40 pods would still fit on no node>",
        ),
        ("kind", "<NodeKind n-0, with 0 pods of its own>"),
        ("arrival", "<Arrival at 60 s: 3 of job, for 600 s>"),
    ],
)
def test_a_record_is_one_line_of_words(records: Mapping[str, Any], name: str, text: str) -> None:
    assert repr(records[name]) == text


def test_no_record_prints_its_fields(records: Mapping[str, Any]) -> None:
    for name, record in records.items():
        text = repr(record)
        assert len(text) <= (MAX_SHOWN + 1) * (MAX_LINE + 40), name
        assert "=" not in text.replace("skew=", ""), (name, text)


def test_every_public_record_shows_itself() -> None:
    public = [getattr(offline, name) for name in offline.__all__]
    kinds = [each for each in public if isinstance(each, type) and is_dataclass(each)]
    assert {each.__name__ for each in kinds if not issubclass(each, Shown)} == {"Objects"}
    assert "<lambda>" not in {each.__repr__.__name__ for each in kinds}
    assert all(each.__repr__.__qualname__.startswith(("Shown.", "Objects.")) for each in kinds)


def test_many_records_show_the_first_of_them(records: Mapping[str, Any]) -> None:
    lines = repr(records["waiting"]).splitlines()
    assert len(lines) == MAX_SHOWN + 1
    assert lines[0].startswith("(<Waiting default/giant-0 waits")
    assert lines[-1] == " ... and 30 more)"
    assert "and 30 more" in records["waiting"]._repr_html_()
    assert records["now"] == records["waiting"]
    assert ShownTuple()._repr_html_() == "<p>none</p>"


def test_a_notebook_shows_the_numbers_behind_a_reason(records: Mapping[str, Any]) -> None:
    assert "wants 9 cpu" in records["waits"]._repr_html_()
    assert "Insufficient cpu" in records["decision"]._repr_html_()
    assert "It is tried again" in records["explanation"]._repr_html_()


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, _attributes: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)


def _hostile(record: Any) -> Any:
    """Return a record all of whose texts are hostile, also those of the records in it."""
    if isinstance(record, tuple):
        return type(record)(_hostile(each) for each in record)
    if isinstance(record, msgspec.Struct):
        names = record.__struct_fields__
        return type(record)(**{each: _hostile(getattr(record, each)) for each in names})
    if is_dataclass(record) and not isinstance(record, type):
        given = [each.name for each in fields(record) if each.init and each.name[0] != "_"]
        return type(record)(**{each: _hostile(getattr(record, each)) for each in given})
    if isinstance(record, dict):
        return {f"{HOSTILE}{key}": _hostile(value) for key, value in record.items()}
    return HOSTILE if type(record) is str else record


def test_hostile_texts_are_text_in_a_prompt_and_in_a_notebook(
    records: Mapping[str, Any],
) -> None:
    for name in records.keys() - {"world", "trial", "kind", "arrival"}:
        record = _hostile(records[name])
        text, html = repr(record), record._repr_html_()
        for shown in (text, html):
            bad = {each for each in shown if unicodedata.category(each) in {"Cc", "Cf"}} - {"\n"}
            assert not bad, name
        assert len(html) <= 20 * 6 * (MAX_LINE + 100), name
        tags = _Tags()
        tags.feed(html)
        assert tags.found <= ALLOWED, name

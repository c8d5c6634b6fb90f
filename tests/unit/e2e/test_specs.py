"""The table of specs, and what is chosen from it."""

from __future__ import annotations

import pytest

from tests.e2e.specs import SELECTED, SPECS, Spec, choose, read_table

A = Spec("a", short=True)
B = Spec("b")
FAILING = Spec("c", fails="no gangs")
SKIPPED = Spec("d", skip="needs ssh")
TABLE = (A, B, FAILING, SKIPPED)


def test_the_whole_set_is_all_that_can_run() -> None:
    assert choose(TABLE) == [A, B, FAILING]
    assert choose(TABLE, short=True) == [A]
    assert choose(TABLE, only=["B", "c"]) == [B, FAILING]
    assert choose(TABLE, only=["d"]) == []


def test_nothing_excuses_the_scheduler_that_is_compared_with() -> None:
    assert choose(TABLE, scheduler="kube-scheduler") == [A, B, FAILING._replace(fails="")]


def test_a_spec_is_described_with_its_set_and_reason() -> None:
    assert [spec.describe() for spec in TABLE] == [
        "short  a",
        "whole  b",
        "fails  c  (no gangs)",
        "skip   d  (needs ssh)",
    ]


def test_a_table_is_read() -> None:
    text = """
        short = ["a"]
        whole = ["b"]
        [[fails]]
        reason = "no gangs"
        specs = ["c"]
        [[skip]]
        reason = "needs ssh"
        specs = ["d"]
    """
    assert read_table(text) == TABLE


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("fail = []", r"specs\.toml: unknown keys fail; want short"),
        ("[[skip]]\nspecs = []", r"each \[\[skip\]\] has a reason and specs"),
        ("[[fails]]\nreason = ''\nspecs = []", r"each \[\[fails\]\] has a reason"),
        ("short", "Expected '='"),
    ],
)
def test_a_broken_table_is_refused(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        read_table(text)


def test_no_spec_is_there_twice() -> None:
    names = [spec.name for spec in SPECS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("spec", SPECS, ids=[spec.name for spec in SPECS])
def test_a_spec_of_the_table_is_selected_and_in_one_state(spec: Spec) -> None:
    assert SELECTED.search(spec.name)
    assert bool(spec.fails) + bool(spec.skip) + spec.short <= 1

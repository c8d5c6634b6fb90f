"""The benchmark of gangs measures what it says; its figures are for people."""

from __future__ import annotations

import pytest

from benchmarks.gangs import decisions, event_seconds


@pytest.mark.slow
def test_decisions_end_as_their_cases_say() -> None:
    figures = decisions(nodes=20, members=8, rounds=2)
    assert {each.case for each in figures} >= {"all fit", "refused by the bound"}
    assert all(each.value > 0 for each in figures)


@pytest.mark.slow
def test_events_are_measured_while_gangs_wait() -> None:
    assert event_seconds(nodes=3, gangs=2, templates=2, events=4) > 0

"""A demo tells what became of the plugins that were saved while it runs."""

from __future__ import annotations

import pytest

from simulator.demos.scheduling import InForce

PROBLEM = "racks.py:3: SyntaxError: invalid syntax"


@pytest.mark.parametrize(
    ("before", "now", "line"),
    [
        (InForce(1), InForce(2), "took over the saved files"),
        (InForce(1), InForce(1, (PROBLEM, "another")), PROBLEM),
        (InForce(1, (PROBLEM,)), InForce(1), "those in force again"),
        (InForce(1, (PROBLEM,)), InForce(2), "took over the saved files"),
    ],
)
def test_a_reload_is_one_line(before: InForce, now: InForce, line: str) -> None:
    assert line in now.news(before)
    assert "another" not in now.news(before)

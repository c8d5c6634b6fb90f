"""The calls of Python functions for an arrival in an offline world, which are exact.

Where a change is worth more calls, measure it (`python -m benchmarks.arrivals`) and raise the
limits; where it saves some, lower them.
"""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks import arrivals

NODES = 50
COUNT = 100
CALLS = {"BestFit": (535, 207), "long run": (646, 235)}
"""For each arrival, in all and in its attempts, with Python 3.11; later versions make fewer."""
ROOM = 1.03


@pytest.mark.parametrize("kind", arrivals.KINDS)
def test_an_arrival_takes_no_more_calls_than_before(kind: str) -> None:
    made = arrivals.calls(kind, NODES, COUNT)
    for number, limit in zip(made, CALLS[kind], strict=True):
        assert number <= ROOM * limit, f"{number:.0f} calls: see the module's docstring"


def test_equal_runs_take_equally_many_calls() -> None:
    first, second = (arrivals.calls("BestFit", 10, 20) for _ in range(2))
    assert first == pytest.approx(second, abs=1.0)


def test_the_command_prints_both_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "NODES", dict.fromkeys(arrivals.KINDS, 5))
    outcome = CliRunner().invoke(arrivals.main, ["--count", "10"])
    assert outcome.exit_code == 0, outcome.output
    assert [line.split(":")[0] for line in outcome.output.splitlines()] == [*arrivals.KINDS]

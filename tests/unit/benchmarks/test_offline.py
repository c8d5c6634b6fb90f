"""The benchmark of offline worlds runs, and both ways give one result."""

from __future__ import annotations

from click.testing import CliRunner

from benchmarks.offline import main


def test_both_ways_are_measured_and_give_one_result() -> None:
    outcome = CliRunner().invoke(main, ["--nodes", "3", "--count", "20", "--rounds", "1"])
    assert outcome.exit_code == 0, outcome.output
    assert "1 distinct result" in outcome.output
    assert outcome.output.count("ms") == 3

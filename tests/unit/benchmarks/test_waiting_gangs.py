"""The benchmark of waiting gangs measures what it says; its figures are for people."""

from __future__ import annotations

from click.testing import CliRunner

from benchmarks.waiting_gangs import churn_seconds, main


def test_small_pods_are_measured_while_gangs_wait() -> None:
    assert churn_seconds(gangs=2, templates=2, seconds=2) > 0


def test_each_case_is_printed() -> None:
    result = CliRunner().invoke(main, ["--gangs=2", "--seconds=1", "--rounds=1"])
    assert result.exit_code == 0
    names = [line[:14].strip() for line in result.output.splitlines()]
    assert names == ["none", "one template", "2 templates"]

"""The benchmark of waiting gangs measures what it says; its figures are for people."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks.waiting_gangs import churn_seconds, main


@pytest.mark.slow
def test_small_pods_are_measured_while_gangs_wait() -> None:
    none, some = churn_seconds([(0, 1), (2, 2)], seconds=6)
    assert len(none) == len(some) == 6
    assert min(none + some) > 0


@pytest.mark.slow
def test_each_case_is_printed() -> None:
    result = CliRunner().invoke(main, ["--gangs=2", "--seconds=1"])
    assert result.exit_code == 0
    names = [line[:14].strip() for line in result.output.splitlines()]
    assert names == ["none", "one template", "2 templates"]

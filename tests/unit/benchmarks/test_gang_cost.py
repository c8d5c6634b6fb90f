"""The parts of `benchmarks.gang_cost` that need no Valgrind."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks.gang_cost import attempt_pods, main, schedule_pods


@pytest.mark.parametrize("gangs", [True, False])
def test_pods_are_attempted_with_the_plugin_and_without(gangs: bool) -> None:
    world = attempt_pods(3, 2, gangs=gangs)
    assert bool(world.engine.grouping) is gangs
    assert world.nodes == 3


@pytest.mark.parametrize("gangs", [True, False])
def test_pods_are_scheduled_with_the_plugin_and_without(gangs: bool) -> None:
    assert schedule_pods(3, 5, gangs=gangs) == 5


def test_the_longer_run_must_be_longer() -> None:
    result = CliRunner().invoke(main, ["--pods", "100"])
    assert result.exit_code == 2
    assert "must be more than 100" in result.output

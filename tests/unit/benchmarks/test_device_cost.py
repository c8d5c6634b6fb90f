"""The parts of `benchmarks.device_cost` that need no Valgrind."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks.device_cost import attempt_pods, main


@pytest.mark.parametrize("devices", [True, False])
def test_pods_are_placed_with_the_plugin_and_without(devices: bool) -> None:
    world = attempt_pods(3, 2, devices=devices)
    assert world.nodes == 3


def test_the_longer_run_must_be_longer() -> None:
    result = CliRunner().invoke(main, ["--pods", "100"])
    assert result.exit_code == 2
    assert "must be more than 100" in result.output

"""The count of bytecodes of `benchmarks.device_cost`, and its bar."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks.device_cost import bytecodes, main


def test_counts_hardly_vary() -> None:
    first, second = (bytecodes(3, 20, devices=True) for _ in range(2))
    assert first == pytest.approx(second, rel=0.003)
    assert first > 1_000


def test_pods_without_claims_cost_less_than_the_bar() -> None:
    result = CliRunner().invoke(main, ["--nodes", "20", "--pods", "50"])
    assert result.exit_code == 0, result.output
    assert "cost of the plugin for a pod without claims: 0." in result.output

"""The counts of `benchmarks.device_cost`, and their bar."""

from __future__ import annotations

import gc
import re
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.device_cost import bytecodes, main


def test_counts_hardly_vary() -> None:
    first, second = (bytecodes(3, 20, "with") for _ in range(2))
    assert first == pytest.approx(second, rel=0.003)
    assert first > 1_000


def test_pods_without_claims_cost_less_than_the_bar() -> None:
    result = CliRunner().invoke(main, ["--nodes", "20", "--pods", "50"])
    assert result.exit_code == 0, result.output
    # The counts vary by a tenth of the bar, and the cost may be less than that.
    assert re.search(r"for a pod without claims: -?0\.\d\d%\n", result.output), result.output


@pytest.mark.parametrize(("more", "code"), [(9, 0), (11, 1)])
def test_instructions_are_those_that_further_pods_take(
    monkeypatch: pytest.MonkeyPatch, more: int, code: int
) -> None:
    """Start-up takes a million, and more with the plugin."""

    def run(command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        pods, plugin = int(command[-1]), "with" in command
        count = pods * (1000 + plugin * more) + 1_000_000 * (1 + plugin)
        return subprocess.CompletedProcess(command, 0, "", f"==1== I   refs:      {count:,}")

    monkeypatch.setattr(subprocess, "run", run)
    result = CliRunner().invoke(main, ["--instructions", "--pods", "1000"])
    assert result.exit_code == code
    assert f"instructions of an attempt with DynamicResources:    1,0{more:02}" in result.output


def test_the_run_for_valgrind_collects_no_garbage() -> None:
    enabled = gc.isenabled()
    try:
        result = CliRunner().invoke(main, ["--run", "without", "--nodes", "3", "--pods", "2"])
        assert not gc.isenabled()
    finally:
        if enabled:
            gc.enable()
    assert result.exit_code == 0, result.output
    assert not result.output

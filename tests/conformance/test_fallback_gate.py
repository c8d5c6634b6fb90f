"""Rule A1: without fallback criteria, the gate of KEP-3990 changes no decision."""

from __future__ import annotations

from typing import Any

import pytest

from devtools.conformance import world
from devtools.conformance.comparing import select_aspects
from devtools.conformance.reading import VECTORS, VectorFile
from devtools.conformance.running import run_file
from devtools.conformance.units import SUFFIX

GATE = "PodTopologySpreadFallbackMode"


@pytest.mark.slow
@pytest.mark.parametrize("family", ["spread", "mixed", "preemption", "nominated"])
def test_a01_the_gate_alone_changes_no_decision(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(world.GATES, GATE, True)
    result = run_file(VectorFile(VECTORS / f"{family}{SUFFIX}", family), select_aspects(()))
    assert result.findings == []
    assert result.agree == result.total > 0


def test_the_gate_is_on_in_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the change of `GATES` in the test above reaches the plugin."""
    monkeypatch.setitem(world.GATES, GATE, True)
    vector: Any = next(iter(VectorFile(VECTORS / f"spread{SUFFIX}", "spread").vectors()))
    plugin = world.World(vector).framework.plugins["PodTopologySpread"]
    assert plugin._fallback is not None

"""Rule A1: without fallback criteria, the gate of KEP-3990 changes no decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from testing.conformance import world
from testing.conformance.comparing import select_aspects
from testing.conformance.reading import VECTORS, VectorFile
from testing.conformance.running import run_file
from testing.conformance.units import SUFFIX


class _Gated(world.VectorHandle):
    def __init__(self, made: world.World, profile_name: str, gates: Mapping[str, bool]) -> None:
        super().__init__(made, profile_name, {**gates, "PodTopologySpreadFallbackMode": True})
        gated_profiles.append(profile_name)


gated_profiles: list[str] = []


@pytest.mark.parametrize("family", ["spread", "mixed", "preemption", "nominated"])
def test_a01_the_gate_alone_changes_no_decision(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world, "VectorHandle", _Gated)
    gated_profiles.clear()
    result = run_file(VectorFile(VECTORS / f"{family}{SUFFIX}", family), select_aspects(()))
    assert gated_profiles, "the gate was on"
    assert result.findings == []
    assert result.agree == result.total > 0


def test_the_gate_is_on_in_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the class `_Gated` of the test above switches the gate on."""
    monkeypatch.setattr(world, "VectorHandle", _Gated)
    vector: Any = next(iter(VectorFile(VECTORS / f"spread{SUFFIX}", "spread").vectors()))
    plugin = world.World(vector).framework.plugins["PodTopologySpread"]
    assert plugin._fallback is not None

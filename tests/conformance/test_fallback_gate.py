"""A1 of KEP-3990: without criteria its gate changes nothing that kube-scheduler decides."""

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
        asked.append(profile_name)


asked: list[str] = []


@pytest.mark.parametrize("family", ["spread", "mixed", "preemption", "nominated"])
def test_a01_the_gate_alone_changes_no_decision(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world, "VectorHandle", _Gated)
    asked.clear()
    result = run_file(VectorFile(VECTORS / f"{family}{SUFFIX}", family), select_aspects(()))
    assert asked, "the gate was on"
    assert result.findings == []
    assert result.agree == result.total > 0


def test_the_gate_is_on_in_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves that the test above tests something."""
    monkeypatch.setattr(world, "VectorHandle", _Gated)
    vector: Any = next(iter(VectorFile(VECTORS / f"spread{SUFFIX}", "spread").vectors()))
    plugin = world.World(vector).framework.plugins["PodTopologySpread"]
    assert plugin._fallback is not None

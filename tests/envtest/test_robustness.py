"""A short robustness run; `make robustness` is the long one."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from benchmarks.robustness.faults import FAULTS
from benchmarks.robustness.replicas import site
from benchmarks.robustness.rounds import Report, Rounds
from devtools.control_plane.binaries import Binaries

pytestmark = pytest.mark.envtest

CHOSEN = (
    "kill the leader",
    "stop and continue the leader",
    "stall the leader's connections",
    "set all clocks",
    "kill the API server",
)


def test_pods_are_bound_once_whatever_fails(envtest_binaries: Binaries, tmp_path: Path) -> None:
    """All faults hit one cluster, so that each meets the state that earlier ones left."""
    named = {fault.name: fault for fault in FAULTS}
    with site(tmp_path, envtest_binaries) as running:
        rounds = Rounds(running, Random(1), Report())
        rounds.prepare()
        for name in CHOSEN:
            rounds.run(named[name])
    assert rounds.report.problems == []
    assert json.loads(rounds.report.json())["faults"] == dict.fromkeys(CHOSEN, 1)
    assert rounds.report.rounds == len(CHOSEN)
    assert rounds.report.takeovers > 0, "a leader was killed"

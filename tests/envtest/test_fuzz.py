"""A few seeds of `benchmarks.fuzz`, so that agreement with kube-scheduler is not lost unnoticed."""

from __future__ import annotations

import re

import pytest

from tests.envtest.test_benchmarks import run

pytestmark = pytest.mark.envtest

_PODS = 6


def test_every_decision_about_random_pods_is_kube_schedulers() -> None:
    families = ("spread", "interpod", "volumes", "resources", "preemption", "crossed-mixed")

    printed = run(
        "benchmarks.fuzz", "--seed", "7", "--pods", str(_PODS), "--tries", "0",
        *(argument for family in families for argument in ("--only", family)),
    )  # fmt: skip

    (total,) = re.findall(r"│ all +│ +(\d+) │ +(\d+) │ +\d+ │ +(\d+) │", printed)
    compared, scheduled, different = map(int, total)
    assert compared >= len(families) * _PODS * 2 // 3
    assert 0 < scheduled < compared
    assert different == 0

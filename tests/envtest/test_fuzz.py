"""A few random clusters of `benchmarks.fuzz`, so that `make` notices a lost agreement.

kube-scheduler, the engine in this process and a kubestow process each decide about every pod.
"""

from __future__ import annotations

import re

import pytest

from tests.envtest.test_benchmarks import run

pytestmark = pytest.mark.envtest

_PODS = 6


def test_every_decision_about_random_pods_is_kube_schedulers() -> None:
    families = (
        "spread", "interpod", "volumes", "resources", "preemption", "nominated", "changing",
        "crossed-mixed",
    )  # fmt: skip

    printed = run(
        "benchmarks.fuzz", "--seed", "7", "--pods", str(_PODS), "--tries", "0", "--process",
        *(argument for family in families for argument in ("--only", family)),
    )  # fmt: skip

    (total,) = re.findall(r"│ all +│ +(\d+) │ +(\d+) │ +\d+ │ +(\d+) │", printed)
    compared, scheduled, different = map(int, total)
    assert compared >= len(families) * _PODS * 2 // 3
    assert 0 < scheduled < compared
    assert different == 0

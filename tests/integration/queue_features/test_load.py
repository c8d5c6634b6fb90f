"""The benchmark of the queue runs and prints every figure; the figures are not checked."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

SMALL = (
    "--nodes=20",
    "--gated=20",
    "--unschedulable=20",
    "--many-gated=20",
    "--rounds=1",
    "--seconds=0.2",
)


@pytest.mark.slow
def test_the_benchmark_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "benchmarks.queue_load", *SMALL],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert [
        line.partition(":")[0] for line in lines if re.search(r"without:? .*\d\.\d\d", line)
    ] == [
        "events, unrelated",
        "events, registered, no help",
        "live, 500 events/s and 20 pods/s",
        "live, arrival to bind p50",
        "live, arrival to bind p99",
        "throughput with gated pods / without",
    ]

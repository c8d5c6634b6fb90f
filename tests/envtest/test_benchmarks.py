"""The benchmark harness itself, at its smallest size, on the real control plane."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.envtest


def run(*arguments: str) -> str:
    """Run a benchmark module; return its standard output."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("workload", ["SchedulingCSIPVs", "EventHandlingNodeAdd"])
def test_a_family_runs_for_both_schedulers_and_ends_with_ratios(workload: str) -> None:
    printed = run("benchmarks", "--size", "smoke", "--workload", workload)

    assert "NOT COMPARED" not in printed
    assert printed.splitlines()[-1].startswith("ratio pods/s: geometric mean ")
    assert f"({workload}); CPU per pod: " in printed.splitlines()[-1]


def test_with_a_backlog_the_generator_is_no_bottleneck() -> None:
    printed = run(
        "benchmarks", "--size", "smoke", "--workload", "SchedulingBasic", "--backlog",
        "--contender", "kubestow",
    )  # fmt: skip

    assert "no ratio for SchedulingBasic: no run of kube-scheduler" in printed


def test_both_schedulers_write_the_same_for_pods_that_fit_nowhere() -> None:
    printed = run(
        "benchmarks.differential", "--worlds", "1", "--nodes", "12", "--workloads", "12",
        "--seed", "4",
    )  # fmt: skip

    first = printed.splitlines()[0]
    assert first.startswith("world 4: ")
    equal, compared = first.split("; ")[1].split(" messages equal")[0].split(" of ")
    assert int(equal) == int(compared) > 0

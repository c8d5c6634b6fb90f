"""Ratios are against the fastest rival, and refused where runs must not be compared."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from benchmarks.measure import Run
from benchmarks.report import all_cpu, compare, other_measures, report, summary, worse
from benchmarks.throughput import sampled

WORK = "pods, size smoke, created 10 Pod"


def run(contender: str, rate: float = 100.0, **changes: Any) -> Run:
    base = Run(
        workload="W", size="smoke", contender=contender, backlog=False, pods=10,
        pods_per_second=rate, creations_per_second=1.0, sampled=None, latency_p50=0.1,
        latency_p99=0.2, scheduler_cpu_per_pod=0.001, drained_cpu_per_pod=0.001,
        events_before=0, events_in_window=0, events=10, pods_per_second_with_events=rate / 2,
        attempts={"scheduled": 10}, window=1.0, apiserver_cpu=1.0, etcd_cpu=1.0,
        generator_cpu=1.0, drained_server_cpu=3.0, peak_memory_mib=100.0, created={"Pod": 10},
        pods_left=10, most_pods_on_a_node=1, nodes_used=10, problems=(),
    )  # fmt: skip
    return msgspec.structs.replace(base, **changes)


def test_the_ratio_is_of_medians_against_the_fastest_rival() -> None:
    runs = [
        run("kubestow", 100.0), run("kubestow", 300.0), run("kubestow", 200.0),
        run("kube-scheduler", 50.0), run("kube-scheduler, batching off", 100.0),
    ]  # fmt: skip

    (ratio,), refused = compare(runs)

    assert (ratio.rival, ratio.pods_per_second) == ("kube-scheduler, batching off", 2.0)
    assert not refused


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        ([run("kubestow")], "no run of kube-scheduler"),
        ([run("kube-scheduler")], "no run of kubestow"),
        (
            [run("kubestow", problems=("3 pods were never bound",)), run("kube-scheduler")],
            "kubestow: 3 pods were never bound",
        ),
        (
            [run("kubestow"), run("kube-scheduler", problems=("bound twice: a/b",))],
            "kube-scheduler: bound twice: a/b",
        ),
        (
            [run("kubestow"), run("kube-scheduler", pods=9)],
            f"different work: kube-scheduler 9 {WORK}; kubestow 10 {WORK}",
        ),
        (
            [run("kubestow"), run("kube-scheduler", created={"Node": 1, "Pod": 10})],
            f"different work: kube-scheduler 10 {WORK[:-6]}1 Node, 10 Pod; kubestow 10 {WORK}",
        ),
    ],
)
def test_no_ratio_where_runs_must_not_be_compared(runs: list[Run], reason: str) -> None:
    ratios, refused = compare(runs)

    assert not ratios
    assert refused == {"W": reason}
    assert summary(ratios, refused) == "ratio pods/s: nothing to compare (no ratio for W)"


def test_a_failed_run_leaves_its_family_without_a_ratio() -> None:
    runs = [run("kubestow"), run("kube-scheduler"), run("kubestow", workload="V")]

    found = report(runs, {}, {"W": "a run of kubestow failed: 3 pods not Scheduled"})

    assert not found.ratios
    assert found.refused == {
        "W": "a run of kubestow failed: 3 pods not Scheduled",
        "V": "no run of kube-scheduler",
    }


def test_where_kubestow_is_behind_is_said() -> None:
    runs = [
        run("kubestow", 50.0, latency_p99=0.3), run("kube-scheduler", 100.0),
        run("kubestow", 200.0, workload="V", peak_memory_mib=150.0),
        run("kube-scheduler", 100.0, workload="V"),
    ]  # fmt: skip

    assert worse(compare(runs)[0]) == [
        "pods/s lower: W (2.00)",
        "p99 latency higher: W (1.50)",
        "peak memory higher: V (1.50)",
    ]
    assert worse(compare(runs[2:3] + runs[3:])[0]) == ["peak memory higher: V (1.50)"]


def test_events_have_a_fastest_rival_of_their_own() -> None:
    runs = [
        run("kubestow", 300.0, pods_per_second_with_events=150.0),
        run("kube-scheduler", 100.0, pods_per_second_with_events=100.0),
        run("kube-scheduler, batching off", 120.0, pods_per_second_with_events=60.0),
    ]  # fmt: skip
    (ratio,), _ = compare(runs)
    assert (ratio.rival, ratio.with_events) == ("kube-scheduler, batching off", 1.5)
    assert other_measures([ratio])[0].endswith("geometric mean 1.50, lowest 1.50 (W)")
    assert not other_measures([])


def test_the_cpu_of_all_processes_is_that_of_the_line_that_needs_least() -> None:
    runs = [
        run("kubestow", drained_cpu_per_pod=0.1, drained_server_cpu=8.0, generator_cpu=1.0),
        run("kube-scheduler", drained_cpu_per_pod=1.0, drained_server_cpu=9.0, generator_cpu=1.0),
        run("kube-scheduler, all nodes", drained_cpu_per_pod=1.4, generator_cpu=3.0),
    ]

    (ratio,), _ = compare(runs)

    assert all_cpu(runs[0]) == pytest.approx(1.0)
    assert ratio.by_all_cpu == pytest.approx(2.0)
    assert other_measures([ratio])[1].endswith("geometric mean 2.00, lowest 2.00 (W)")


@pytest.mark.parametrize(
    ("bound", "rates"),
    [
        # The first tick that saw a binding is left out, and so is the one that is not whole.
        ([0.5, 1.5, 1.6, 2.5, 2.6, 2.7, 3.1], [2.0, 3.0]),
        ([0.5, 1.5, 3.5, 4.1], [1.0, 0.5, 0.5]),
    ],
)
def test_samples_of_whole_seconds(bound: list[float], rates: list[float]) -> None:
    found = sampled(bound, 0.0)
    assert found is not None
    assert found.samples == len(rates)
    assert found.average == pytest.approx(sum(rates) / len(rates))


@pytest.mark.parametrize("bound", [[], [0.5], [0.5, 1.5]])
def test_too_short_for_a_sample(bound: list[float]) -> None:
    assert sampled(bound, 0.0) is None


def test_the_last_line() -> None:
    runs = [
        run("kubestow", 400.0), run("kube-scheduler", 100.0),
        run("kubestow", 100.0, workload="V", drained_cpu_per_pod=0.004),
        run("kube-scheduler", 100.0, workload="V", peak_memory_mib=400.0),
    ]  # fmt: skip

    assert summary(*compare(runs)) == (
        "ratio pods/s: geometric mean 2.00, lowest 1.00 (V); CPU per pod: 2.00; memory: 0.50"
    )

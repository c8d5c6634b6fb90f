"""The table of gangs under contention measures what it says; its figures are for people."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks.gang_contention import (
    STRATEGIES,
    Job,
    Outcome,
    Run,
    Size,
    main,
    measure,
    reference,
    scheduled,
    workload,
)

SMALL = Size(nodes=4, node_cpu=8, largest=4, load=1.0, seconds=600)
ONE_NODE = Size(nodes=1, node_cpu=4, largest=4, load=1.0, seconds=100)


def test_every_job_starts_in_all_three_ways() -> None:
    outcome = measure(SMALL, seed=1)
    names = {job.name for job in outcome.jobs}
    assert any(job.is_gang for job in outcome.jobs)
    assert names == outcome.own.starts.keys() == outcome.in_order.starts.keys()
    assert 0 < outcome.own.utilisation <= 1


def test_a_workload_brings_about_the_load_that_was_asked_for() -> None:
    size = Size(nodes=100, node_cpu=8, largest=8, load=1.0, seconds=3_600)
    work = sum(job.seconds * job.cpu * job.members for job in workload(size, seed=0))
    assert work / (100 * 8 * 3_600) == pytest.approx(1.0, abs=0.15)


def test_in_order_nobody_overtakes_a_gang() -> None:
    jobs = [Job("a", 0, 50, 3, 1), Job("gang", 1, 10, 2, 2), Job("late", 2, 10, 1, 1)]
    in_order = reference(ONE_NODE, jobs, in_order=True)
    assert in_order.starts == {"a": 0, "gang": 50, "late": 60}
    singles = reference(ONE_NODE, jobs, in_order=False)
    assert singles.starts == {"a": 0, "late": 2, "gang": 50}


def test_utilisation_counts_the_time_after_the_warm_up_only() -> None:
    jobs = [Job("a", 0, 55, 4, 1), Job("b", 56, 1_000, 2, 1)]
    found = reference(ONE_NODE, jobs, in_order=True).utilisation
    assert found == pytest.approx((45 * 4 + 44 * 2) / (90 * 4))


def test_a_gang_that_waits_longer_than_its_fair_share_misses_the_bar() -> None:
    gang = Job("gang", 0, 10, 2, 2)
    quick, slow = Run({"gang": 5}, 0.9), Run({"gang": 31}, 0.9)
    assert Outcome([gang], quick, quick, quick).passed
    assert not Outcome([gang], quick, quick, slow).passed
    assert not Outcome([gang], Run({}, 0.95), quick, quick).passed


def test_single_pods_are_placed_by_the_strategy_that_was_asked_for() -> None:
    runs = [scheduled(SMALL, workload(SMALL, seed=1), 1, strategy) for strategy in STRATEGIES]
    assert runs[0].starts.keys() == runs[1].starts.keys()
    assert runs[0].starts != runs[1].starts


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_command_prints_a_line_for_each_workload(strategy: str) -> None:
    small = ["--nodes", "4", "--node-cpu", "8", "--largest", "3", "--minutes", "5", "--seeds", "2"]
    result = CliRunner().invoke(main, [*small, "--load", "0.3", "--strategy", strategy])
    assert result.exit_code == 0, result.output
    assert len(result.output.splitlines()) == 3

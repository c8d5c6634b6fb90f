"""The report of `python -m benchmarks.hostile`, and what its command line refuses."""

from __future__ import annotations

import math

import msgspec
from click.testing import CliRunner

from benchmarks.hostile.__main__ import main
from benchmarks.hostile.measuring import Measured
from benchmarks.hostile.reporting import beyond, markdown

GOOD = Measured(
    case="pods-resource-names",
    scheduler="kubestow",
    pods=100,
    nodes=5000,
    bytes=1_500_000,
    idle_block=0.001,
    longest_block=0.05,
    delivery_delay=2.0,
    ordinary_delay=0.25,
    cpu=1.5,
    memory_before=100.0,
    memory_peak=500.0,
    memory_after=150.0,
    alive=True,
)
LIMITS = {"block": 0.1, "delay": 1.0, "left": 100.0}


def test_the_markdown_names_a_case_once() -> None:
    other = msgspec.structs.replace(GOOD, scheduler="kube-scheduler", ordinary_delay=math.nan)
    *_, ours, theirs = markdown([GOOD, other]).splitlines()
    cells = [cell.strip() for cell in ours.strip("|").split("|")]
    assert cells[:6] == ["100 resource-names, 1.50 MB each", "kubestow", "50", "1", "2.00", "0.25"]
    assert theirs.startswith("|  | kube-scheduler | 50 | 1 | 2.00 | never |")


def test_only_what_kubestow_misses_is_beyond_a_limit() -> None:
    assert not beyond([GOOD], **LIMITS)
    bad = msgspec.structs.replace(
        GOOD, longest_block=0.2, ordinary_delay=math.nan, memory_after=300.0, alive=False
    )
    assert len(beyond([bad], **LIMITS)) == 4
    assert not beyond([msgspec.structs.replace(bad, scheduler="kube-scheduler")], **LIMITS)


def test_an_unknown_case_is_refused_before_anything_starts() -> None:
    result = CliRunner().invoke(main, ["--case", "pods-nonsense"])
    assert result.exit_code == 2
    assert "no case 'pods-nonsense'" in result.output


def test_the_cases_can_be_listed() -> None:
    result = CliRunner().invoke(main, ["--list"])
    assert "pods-resource-names: 20000 resource-names" in result.output

"""Output and command line errors of `python -m benchmarks.hostile.memory`."""

from __future__ import annotations

from click.testing import CliRunner

from benchmarks.hostile.memory import DEFAULT_CASES, Round, line, main
from devtools.hostile.catalogue import CASES


def test_a_line_has_what_was_measured_beside_what_is_accounted_for() -> None:
    each = Round(
        case="pods-large-labels",
        nodes=500,
        pods=100,
        live=200.4,
        left=120.0,
        peak=250.0,
        growth=35.0,
        accounted_live={"signatures": 0.0, "labels": 90.0, "results": 3.5},
        accounted_left={"results": 3.5},
    )
    assert line(each) == (
        "pods-large-labels 500 nodes, 100 pods: live 200 MiB (accounted 93.5: labels 90.0, "
        "results 3.5), left 120 MiB, +35 since the start (accounted 3.5: results 3.5), peak 250 MiB"
    )


def test_an_unknown_case_and_one_of_another_kind_are_refused_before_anything_starts() -> None:
    for name in ("pods-nonsense", "services-managed-fields-deep"):
        result = CliRunner().invoke(main, ["--case", name])
        assert result.exit_code == 2
        assert f"no case {name!r} of pods" in result.output


def test_the_default_cases_are_large_and_unlike_each_other() -> None:
    assert len(DEFAULT_CASES) == 8
    for name in DEFAULT_CASES:
        assert CASES[name].dimension == "uniqueness"

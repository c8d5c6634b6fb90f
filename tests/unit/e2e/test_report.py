"""Reading the report of Ginkgo, and judging it by the table of specs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.report import (
    Report,
    ReportError,
    compare,
    describe_faults,
    merge,
    print_table,
    read_report,
)
from tests.e2e.specs import Spec

CONTAINERS = ["[sig-scheduling] Things", ""]


def spec_report(text: str, state: str, *, kind: str = "It", message: str = "") -> dict[str, Any]:
    """Return a report as Ginkgo writes it, with fields that are not read."""
    return {
        "ContainerHierarchyTexts": CONTAINERS if kind == "It" else None,
        "LeafNodeType": kind,
        "LeafNodeText": text,
        "State": state,
        "RunTime": 1_500_000_000,
        "Failure": {
            "Message": message,
            "Location": {"FileName": "things.go", "LineNumber": 7},
        },
        "CapturedGinkgoWriterOutput": "...",
    }


def encoded(*reports: dict[str, Any], reasons: list[str] | None = None) -> bytes:
    suite = {
        "SuiteSucceeded": False,
        "SpecReports": list(reports),
        "SpecialSuiteFailureReasons": reasons,
    }
    return json.dumps([suite]).encode()


def report_of(**states: str) -> Report:
    return read_report(
        encoded(
            *(
                spec_report(name, state, message=f"{name} {state}\nsecond line")
                for name, state in states.items()
            )
        )
    )


def spec(name: str, **fields: Any) -> Spec:
    return Spec(f"[sig-scheduling] Things {name}", **fields)


def faults(report: Report, *run: Spec, table: tuple[Spec, ...] = ()) -> list[tuple[str, str]]:
    """The end of the name and the fault of each spec that is not as expected."""
    return [
        (verdict.outcome.name.split()[-1], verdict.fault)
        for verdict in compare(report, run, table or run)
        if verdict.fault
    ]


def test_a_spec_is_named_as_focus_sees_it_and_timed() -> None:
    report = read_report(encoded(spec_report("a [Slow]", "passed")))
    (outcome,) = report.outcomes
    assert outcome.name == "[sig-scheduling] Things a [Slow]"
    assert (outcome.state, outcome.seconds) == ("passed", 1.5)
    assert outcome.place == "things.go:7"


def test_what_fails_besides_specs_is_told() -> None:
    report = read_report(
        encoded(
            spec_report("", "failed", kind="SynchronizedBeforeSuite", message="no nodes"),
            spec_report("", "passed", kind="ReportAfterSuite"),
            reasons=["Suite Timeout Elapsed"],
        )
    )
    assert report.outcomes == []
    assert report.problems == [
        "Suite Timeout Elapsed",
        "SynchronizedBeforeSuite: no nodes (things.go:7)",
    ]


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'[{"SuiteSucceeded": 1}]'])
def test_what_is_no_report_is_refused(data: bytes) -> None:
    with pytest.raises(ReportError, match="report"):
        read_report(data)


def test_passing_specs_are_fine() -> None:
    assert faults(report_of(a="passed", b="passed"), spec("a"), spec("b", short=True)) == []


@pytest.mark.parametrize("state", ["failed", "panicked", "timedout", "interrupted", "aborted"])
def test_a_failing_spec_is_a_fault_with_its_message(state: str) -> None:
    assert faults(report_of(a=state), spec("a")) == [("a", f"a {state}\nsecond line")]


def test_an_expected_failure_is_fine_and_its_pass_is_not() -> None:
    expected = spec("a", fails="no gangs")
    assert faults(report_of(a="failed"), expected) == []
    (fault,) = faults(report_of(a="passed"), expected)
    assert fault == ("a", "expected to fail (no gangs), but it passes: take `fails` off")


def test_a_spec_that_skipped_itself_did_not_run() -> None:
    assert faults(report_of(a="skipped"), spec("a")) == [
        ("a", "it did not run: a skipped\nsecond line")
    ]


def test_specs_that_were_not_asked_for_are_no_matter() -> None:
    table = (spec("a"), spec("b", skip="needs ssh"), spec("c"))
    assert faults(report_of(a="passed", b="skipped", c="skipped"), table[0], table=table) == []


def test_a_spec_that_the_binary_lacks_is_a_fault_even_if_it_was_not_asked_for() -> None:
    table = (spec("a"), spec("gone"))
    (fault,) = faults(report_of(a="passed"), table[0], table=table)
    assert fault[0] == "gone"
    assert "correct its name" in fault[1]
    assert faults(report_of(), table[0])[0][0] == "a"


def test_a_selected_spec_that_the_table_lacks_is_a_fault() -> None:
    other = spec_report("elsewhere", "skipped") | {"ContainerHierarchyTexts": ["[sig-node]"]}
    report = read_report(encoded(spec_report("a", "passed"), spec_report("new", "skipped"), other))
    (fault,) = faults(report, spec("a"))
    assert fault == ("new", "it is not in tests/e2e/specs.py: add it")


def test_the_table_has_a_line_for_each_spec_and_a_summary() -> None:
    specs = [spec("a"), spec("b"), spec("c", fails="no gangs")]
    results = compare(report_of(a="passed", b="failed", c="failed"), specs, specs)
    lines = print_table(results).splitlines()
    assert [line.split("  ")[0].strip() for line in lines[:3]] == [
        "passed",
        "failed",
        "failed as expected",
    ]
    assert lines[3] == "1 passed, 1 failed, 1 failed as expected; 4 s in specs"


def test_a_fault_is_described_by_name_message_and_place() -> None:
    specs = [spec("a"), spec("b")]
    results = compare(report_of(a="passed", b="failed"), specs, specs)
    assert describe_faults(results) == (
        "[sig-scheduling] Things b:\n    b failed\n    second line\n    at things.go:7"
    )


def test_a_long_message_is_cut() -> None:
    report = read_report(encoded(spec_report("a", "failed", message="line\n" * 40)))
    text = describe_faults(compare(report, [spec("a")], [spec("a")]))
    assert text.count("line") == 26
    assert "... (15 more lines)" in text


def test_reports_of_several_processes_are_merged_by_what_each_was_to_run() -> None:
    first, second = report_of(a="passed", b="skipped"), report_of(a="skipped", b="failed")
    broken = Report([], ["SynchronizedBeforeSuite: no nodes"])
    whole = merge([(first, [spec("a")]), (second, [spec("b")]), (broken, []), (broken, [])])
    assert {one.name.split()[-1]: one.state for one in whole.outcomes} == {
        "a": "passed",
        "b": "failed",
    }
    assert whole.problems == ["SynchronizedBeforeSuite: no nodes"]

"""Reads the JSON report of Ginkgo and compares it with the table of specs. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from tests.e2e.specs import SELECTED, Spec

FAILED_STATES: Final = ("failed", "panicked", "timedout", "interrupted", "aborted")
NANOSECONDS: Final = 1e9
MESSAGE_LINES: Final = 25


class ReportError(ValueError):
    """The file is not a complete report of Ginkgo."""


class Outcome(NamedTuple):
    """Result of one spec."""

    name: str
    state: str
    seconds: float = 0.0
    message: str = ""
    """Why it failed, or why it was skipped."""
    place: str = ""
    """File and line of the failure."""


class SpecResult(NamedTuple):
    """Outcome of one spec against the table; `fault` is empty if it is as expected."""

    outcome: Outcome
    result: str
    fault: str = ""


class _Location(msgspec.Struct, rename="pascal"):
    file_name: str = ""
    line_number: int = 0


class _Failure(msgspec.Struct, rename="pascal"):
    message: str = ""
    location: _Location = msgspec.field(default_factory=_Location)


class _SpecReport(msgspec.Struct, rename="pascal"):
    leaf_node_text: str
    state: str
    leaf_node_type: str = ""
    container_hierarchy_texts: list[str] | None = None
    run_time: int = 0
    failure: _Failure = msgspec.field(default_factory=_Failure)


class _Suite(msgspec.Struct, rename="pascal"):
    suite_succeeded: bool
    spec_reports: list[_SpecReport] | None = None
    special_suite_failure_reasons: list[str] | None = None


_decoder = msgspec.json.Decoder(list[_Suite])


class Report(NamedTuple):
    """One run of the suite."""

    outcomes: list[Outcome]
    """Of every spec in the binary; those that were not selected are `skipped`."""

    problems: list[str]
    """What failed apart from the specs, such as the set-up of the suite."""


def read_report(data: bytes) -> Report:
    """Read what `--ginkgo.json-report` wrote.

    Raises:
        ReportError: it is no report of exactly one suite.
    """
    try:
        suites = _decoder.decode(data)
    except msgspec.DecodeError as error:
        msg = f"this is not a JSON report of Ginkgo: {error}"
        raise ReportError(msg) from error
    if len(suites) != 1:
        msg = f"a report of one suite is wanted, this one has {len(suites)}"
        raise ReportError(msg)
    suite = suites[0]
    outcomes, problems = [], list(suite.special_suite_failure_reasons or ())
    for report in suite.spec_reports or ():
        outcome = _outcome(report)
        if report.leaf_node_type == "It":
            outcomes.append(outcome)
        elif outcome.state in FAILED_STATES:
            problems.append(f"{report.leaf_node_type}: {outcome.message} ({outcome.place})")
    return Report(outcomes, problems)


def _outcome(report: _SpecReport) -> Outcome:
    texts = [*(report.container_hierarchy_texts or ()), report.leaf_node_text]
    where = report.failure.location
    return Outcome(
        # As Ginkgo's own --focus sees it.
        name=" ".join(text for text in texts if text),
        state=report.state,
        seconds=report.run_time / NANOSECONDS,
        message=report.failure.message,
        place=f"{where.file_name}:{where.line_number}" if where.file_name else "",
    )


def merge(parts: Sequence[tuple[Report, Sequence[Spec]]]) -> Report:
    """Make one report of those of several processes, each with the specs that it was to run."""
    outcomes: dict[str, Outcome] = {}
    problems: list[str] = []
    for report, _ in parts:
        outcomes |= {outcome.name: outcome for outcome in report.outcomes}
        problems += [each for each in report.problems if each not in problems]
    for report, specs in parts:
        selected = {spec.name for spec in specs}
        outcomes |= {each.name: each for each in report.outcomes if each.name in selected}
    return Report([*outcomes.values()], problems)


def compare(report: Report, run: Sequence[Spec], table: Sequence[Spec]) -> list[SpecResult]:
    """Compare the specs that were `run` with the results that the table expects.

    Also finds specs that the table should have and has not, and those it has and the binary has
    not: both come with another release of Kubernetes.
    """
    outcomes = {outcome.name: outcome for outcome in report.outcomes}
    results = [_compare_spec(spec, outcomes.get(spec.name)) for spec in run]
    known = {spec.name for spec in table}
    missing = Outcome("", "missing")
    selected = {spec.name for spec in run}
    results += [
        _compare_spec(spec, None)
        for spec in table
        if spec.name not in outcomes and spec.name not in selected
    ]
    results += [
        SpecResult(
            missing._replace(name=name), "unknown", "it is not in tests/e2e/specs.py: add it"
        )
        for name in outcomes
        if name not in known and SELECTED.search(name)
    ]
    return results


def _compare_spec(spec: Spec, outcome: Outcome | None) -> SpecResult:
    if outcome is None:
        fault = "the binary has no such spec: correct its name in tests/e2e/specs.py"
        return SpecResult(Outcome(spec.name, "missing"), "missing", fault)
    if outcome.state == "passed":
        if spec.fails:
            fault = f"expected to fail ({spec.fails}), but it passes: take `fails` off"
            return SpecResult(outcome, "passed unexpectedly", fault)
        return SpecResult(outcome, "passed")
    if outcome.state in FAILED_STATES:
        if spec.fails:
            return SpecResult(outcome, "failed as expected")
        return SpecResult(outcome, outcome.state, outcome.message or "no message")
    fault = f"it did not run: {outcome.message or 'no reason given'}"
    return SpecResult(outcome, outcome.state, fault)


def print_table(results: Sequence[SpecResult]) -> str:
    """Return the results, one line each, and the sum of the seconds."""
    lines = [
        f"{each.result:20} {each.outcome.seconds:6.1f} s  {each.outcome.name}" for each in results
    ]
    counts: Mapping[str, int] = {
        result: sum(1 for each in results if each.result == result)
        for result in dict.fromkeys(each.result for each in results)
    }
    seconds = sum(each.outcome.seconds for each in results)
    summary = ", ".join(f"{count} {result}" for result, count in counts.items()) or "nothing ran"
    return "\n".join([*lines, f"{summary}; {seconds:.0f} s in specs"])


def describe_faults(results: Sequence[SpecResult]) -> str:
    """Return message and place of each spec whose result is not as expected."""
    parts = []
    for each in results:
        if not each.fault:
            continue
        lines = each.fault.splitlines()
        shown = lines[:MESSAGE_LINES]
        if len(lines) > MESSAGE_LINES:
            shown.append(f"... ({len(lines) - MESSAGE_LINES} more lines)")
        place = f"    at {each.outcome.place}" if each.outcome.place else ""
        text = "\n".join(f"    {line}" for line in shown)
        parts.append("\n".join(filter(None, [f"{each.outcome.name}:", text, place])))
    return "\n\n".join(parts)

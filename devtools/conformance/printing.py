"""The report: a table of families by groups of aspects, then the first differences."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from devtools.conformance.comparing import GROUPS
from devtools.conformance.running import FamilyResult

_NOT_APPLICABLE = "-"
_MAX_TEXT = 1_500


def report(results: Sequence[FamilyResult], limit: int) -> Iterator[str]:
    """Lines of the whole report; the last one is the verdict."""
    yield from table(results)
    yield from partial(results)
    yield from differences(results, limit)
    agree, total = sum(each.agree for each in results), sum(each.total for each in results)
    yield f"conformance: agree {agree} of {total}"


def table(results: Sequence[FamilyResult]) -> Iterator[str]:
    """Agree/total per family: whole vectors, then groups of aspects; `*` marks partial ones."""
    shown = [name for name in GROUPS if any(name in each.groups for each in results)]
    lines = [["family", "vectors", *shown]]
    for result in results:
        cells = [result.family, f"{result.agree}/{result.total}"]
        for name in shown:
            tally = result.groups.get(name)
            cells.append(
                _NOT_APPLICABLE
                if tally is None
                else f"{tally.agree}/{tally.total}{'*' if tally.without else ''}"
            )
        lines.append(cells)
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        yield "  ".join(cells)
    yield ""


def partial(results: Sequence[FamilyResult]) -> Iterator[str]:
    """Explain `*`, if the table has one."""
    without = {
        name for result in results for tally in result.groups.values() for name in tally.without
    }
    if without:
        text = (
            f"* partial: without {', '.join(sorted(without))}. These plugins do not exist here; "
            "only vectors in which kube-scheduler's own plugins returned Skip can agree."
        )
        yield from textwrap.wrap(text, 100)
        yield ""


def differences(results: Sequence[FamilyResult], limit: int) -> Iterator[str]:
    """The first `limit` differences of each family."""
    for result in results:
        shown = result.findings[:limit]
        for finding in shown:
            note = f" ({finding.note})" if finding.note else ""
            yield f"{result.family}: {finding.vector}{note}: {finding.aspect}"
            text = (
                finding.text if len(finding.text) <= _MAX_TEXT else finding.text[:_MAX_TEXT] + "…"
            )
            yield textwrap.indent(text, "    ")
        if len(result.findings) > len(shown):
            yield f"{result.family}: {len(result.findings) - len(shown)} more differences"
        if shown:
            yield ""

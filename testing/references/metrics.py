"""The page `docs/metrics.md`: every metric, from the definitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from scheduler.metrics import DEFINITIONS, NOT_SERVED
from scheduler.metrics.definitions import Definition, Kind

_INTRODUCTION: Final = """\
# Metrics

Generated from `scheduler/metrics/definitions.toml` by `make references`; do not edit. What
deserves an alert or a panel is in [monitoring](monitoring.md#metrics).

`[STABLE]`, `[BETA]` and `[ALPHA]` mark metrics of kube-scheduler v1.36, which keep their names,
types, labels and buckets here. A histogram `NAME` has the series `NAME_bucket` (with the label
`le`), `NAME_sum` and `NAME_count`. Metrics without any observation have no series. `process_*`
describes the process itself.
"""


def page(definitions: Iterable[Definition] = DEFINITIONS) -> str:
    """Return the text of the page."""
    known = list(definitions)
    ours = [each for each in known if each.name.startswith("kubestow_")]
    others = [each for each in known if not each.name.startswith("kubestow_")]
    sections = (
        _INTRODUCTION,
        "## Names of kube-scheduler and of its KEPs\n\n" + _table(others),
        "## kubestow's own\n\n" + _table(ours),
        "## Metrics of kube-scheduler that kubestow does not have\n\n"
        "| metric | reason |\n|---|---|\n"
        + "".join(f"| `{name}` | {reason} |\n" for name, reason in NOT_SERVED.items()),
    )
    return "\n".join(sections)


def _table(definitions: Iterable[Definition]) -> str:
    return "".join(
        ["| metric | type | labels | meaning |\n|---|---|---|---|\n", *_rows(definitions)]
    )


def _rows(definitions: Iterable[Definition]) -> Iterator[str]:
    for each in definitions:
        kind = each.kind.value
        if each.kind is Kind.HISTOGRAM:
            kind += f", {each.buckets[0]:g} to {each.buckets[-1]:.6g}"
        labels = ", ".join(f"`{label}`" for label in each.labels) or "-"
        meaning = " ".join(each.help.split()).replace("|", "\\|")
        yield f"| `{each.name}` | {kind} | {labels} | {meaning} |\n"

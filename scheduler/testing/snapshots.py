"""Snapshots of decisions: text files beside a test, compared with what the scheduler does now.

A snapshot shows in a review which placements a change of a plugin moves. Scores are those of the
chosen node by plugin, weighted; times are left out, so that a slower cycle changes nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from scheduler.offline.records import Placement, Waiting


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The file of one snapshot."""

    file: Path
    update: bool = False
    """Write the file instead of comparing with it."""

    def check(self, text: str) -> None:
        """Compare `text` with the file. Raises AssertionError with the difference."""
        if self.update:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text(text, encoding="utf-8")
            return
        advice = "pytest --update-decisions writes the file anew"
        try:
            before = self.file.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise AssertionError(
                f"{self.file} does not exist; {advice}. It would have:\n{text}"
            ) from None
        if before != text:
            difference = difflib.unified_diff(
                before.splitlines(), text.splitlines(), str(self.file), "now", lineterm="", n=1
            )
            raise AssertionError("\n".join([f"decisions changed; {advice}:", *difference]))


def decision_lines(records: Mapping[str, Placement | Waiting]) -> Iterator[str]:
    """Yield a line for each pod, in order of their keys."""
    for key, record in sorted(records.items()):
        if isinstance(record, Placement):
            yield f"{key}: {record.node}, one of {record.feasible} that fit{_scores(record)}"
        else:
            by = f" (by {', '.join(record.plugins)})" if record.plugins else ""
            yield f"{key}: waits, {record.state}: {record.reason or 'no attempt'}{by}"


def _scores(record: Placement) -> str:
    decision = record.decision
    best = () if decision is None else decision.best
    chosen = next((each for each in best if each.node == record.node), None)
    if chosen is None:
        return ""
    parts = ", ".join(f"{each.plugin} {each.weighted}" for each in chosen.scores)
    return f"; score {chosen.total}: {parts}"

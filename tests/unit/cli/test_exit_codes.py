"""The exit codes of commands that ask a scheduler: each has one meaning, which the docs state."""

from __future__ import annotations

import re

from scheduler.cli import exit_codes
from tests.unit.repository.tree import ROOT

DOCUMENT = ROOT / "docs" / "asking-the-scheduler.md"
CODES = [
    value
    for name, value in vars(exit_codes).items()
    if name.isupper() and name != "EXIT_FAILED" and isinstance(value, int)
]


def test_every_exit_code_has_one_meaning_and_stands_in_the_docs() -> None:
    _, _, section = DOCUMENT.read_text(encoding="utf-8").partition("## Exit codes")
    documented = [int(found) for found in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)]
    assert documented == sorted(set(CODES)) == sorted(CODES)

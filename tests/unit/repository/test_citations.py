"""Every document that the code cites can be opened by its reader.

A citation is an upstream symbol (`schedule_one.go: findNodesThatPassFilters`), a KEP and the title
of one of its sections, an RFC, or a file of this repository.
`tests/envtest/test_upstream_citations.py` looks up the symbols in the sources of Kubernetes.
"""

from __future__ import annotations

import re
from typing import Final

from tests.unit.repository.tree import ROOT, tracked_texts

UNRESOLVABLE: Final = re.compile(
    r"framework-cycle-config|queue-and-event[s]|plugins\.md,? \d|\bDESIG[N]\b|\bdesign \d"
    r"|\bfacts? \d|(?<=[a-z] )\(O\d+\)"
)
"""Documents and numbers that only their authors knew."""

PATH: Final = re.compile(
    r"(?<![\w/.-])((?:docs|scheduler|plugins|config|simulator|devtools|tests|benchmarks|manifests"
    r"|examples)/[\w./-]*\w\.(?:py|md|yaml|toml|c))\b"
)


def lines() -> list[tuple[str, int, str]]:
    """Return each line of the code and the documents with its place."""
    return [
        (path, number, line)
        for path, text in tracked_texts().items()
        if path.endswith((".py", ".md")) and path != "tests/unit/repository/test_citations.py"
        for number, line in enumerate(text.splitlines(), 1)
    ]


def test_no_citation_is_of_what_is_not_here() -> None:
    found = [
        f"{path}:{number}: {line.strip()[:110]}"
        for path, number, line in lines()
        if UNRESOLVABLE.search(line)
    ]
    assert not found, "cite an upstream symbol, a KEP, an RFC or docs/:\n" + "\n".join(found)


def test_every_path_that_is_named_exists() -> None:
    missing = [
        f"{path}:{number}: {name}"
        for path, number, line in lines()
        if not path.startswith(("CHANGELOG", "docs/decisions", "tests/unit/repository"))
        for name in PATH.findall(line)
        if not (ROOT / name).exists()
    ]
    assert not missing, "\n".join(missing)

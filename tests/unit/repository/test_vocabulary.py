"""The code uses the field's terms: words that were replaced do not come back.

`docs/glossary.md` defines the terms that are ours; every other term is that of Kubernetes, HTTP,
TLS, asyncio or Prometheus.
"""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.unit.repository.tree import ROOT, tracked_texts

RETIRED: Final = {
    r"_?(?:MOST|LONGEST)_(?!ALLOCATED\b|USED\b)[A-Z]\w*": "MAX_…",
    r"\w*_TRIE[S]": "…_ATTEMPTS",
    r"turned[_ ]down": "rejected, or unschedulable",
    r"Unschedulable[P]ool": "UnschedulablePods",
    r"_?[Hh]eed(?:s|ed|ing)?(?:_\w+)?": "honor, merge_…, add_…",
    r"likenes[s]": "pod_signature",
    r"[Ff]ruitles[s]": "RetrySuppressor, negative cache",
    r"[Ss]uspended(?:Search|Algorithm)": "the one scheduling cycle, schedule_one.py",
    r"CrowdingM\w+|Crowdin[g]": "RowCache, NominatedPodsFit",
    r"DryRunMemor[y]|FallbackMemor[y]": "RowCache, FallbackState",
    r"EmptiedTabl[e]|filter_emptied_row[s]": "WithoutPotentialVictims, filter_without_victims",
    r"removals_matter_row[s]": "removal_sensitive_rows",
    r"PodShap[e]s?|Shape[R]esults?|pod[.]shap[e]|per_shap[e]": "PodSignature, ResultCache",
    r"passed_ove[r]": "log_ignored_failure",
    r"outside_change[s]|speaking_o[f]": "external_changes, matching_terms",
    r"OwnedTer[m]": "ExistingPodTerm",
    r"unfit_reaso[n]": "unschedulable_reason",
    r"\w+Face[t]": "…Recorder",
    r"lean_import[s]|pod_word[s]": "import_without, pod_format",
    r"extender_wir[e]": "scheduler.extenders.protocol",
    r"kubestow_reus[e]_total": "kubestow_result_cache_requests_total",
    r"kubestow_watch_ende[d]_total": "kubestow_watch_terminations_total",
    r"bridge_yielde[d]": "bridge_conflicting_managers",
}
"""Patterns of whole words, and what takes their place. Written so that none matches itself."""

EXEMPT: Final = frozenset({"CHANGELOG.md", "config/types.py"})
"""Files that name former names on purpose: they tell users what replaced them."""


def word(pattern: str) -> re.Pattern[str]:
    """Return what finds the words of a pattern."""
    return re.compile(rf"(?<![\w-])(?:{pattern})(?!\w)")


@pytest.fixture(scope="module")
def suspects() -> list[tuple[str, str]]:
    """Search all patterns at once; return the lines with a match of any, and their places."""
    any_of_them = word("|".join(RETIRED))
    found: list[tuple[str, str]] = []
    for path, text in tracked_texts().items():
        if path.endswith((".py", ".md", ".yaml")) and path not in EXEMPT:
            lines = text.splitlines() if any_of_them.search(text) else ()
            found.extend((f"{path}:{number}", line) for number, line in enumerate(lines, 1))
    return found


@pytest.mark.parametrize(("pattern", "replacement"), RETIRED.items())
def test_a_retired_word_does_not_come_back(
    suspects: list[tuple[str, str]], pattern: str, replacement: str
) -> None:
    found = [
        f"{place}: {line.strip()[:100]}" for place, line in suspects if word(pattern).search(line)
    ]
    assert not found, f"write {replacement} instead:\n" + "\n".join(found)


def terms() -> list[tuple[str, str]]:
    """Return each term of the glossary with its row."""
    text = (ROOT / "docs" / "glossary.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \|.*\|.*\|$", text, re.MULTILINE)
    return [(row.strip(), row) for row in rows if row.strip(" -") not in ("", "term")]


def test_the_terms_of_the_glossary_are_those_of_the_code() -> None:
    """A term in backticks is an identifier in the code."""
    source = "\n".join(
        text
        for path, text in tracked_texts().items()
        if path.endswith(".py") and path.startswith(("scheduler/", "plugins/", "config/"))
    )
    missing = [
        name
        for term, _ in terms()
        for name in re.findall(r"`([^`]+)`", term)
        if not re.search(rf"\b{re.escape(name)}\b", source)
    ]
    assert terms()
    assert not missing

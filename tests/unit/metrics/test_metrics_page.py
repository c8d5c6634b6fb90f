"""The generated page of the metrics."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from devtools.references.metrics import page
from scheduler.metrics.definitions import Definition, Kind

DOCS = Path(__file__).parents[3] / "docs"


def test_a_row_has_type_bounds_labels_and_the_help_in_one_line() -> None:
    definition = Definition("kubestow_x", Kind.HISTOGRAM, "One\nor | two.", ("a", "b"), (0.5, 8.0))
    row = "| `kubestow_x` | histogram, 0.5 to 8 | `a`, `b` | One or \\| two. |"
    assert row in page([definition]).splitlines()


def test_every_metric_without_series_has_its_reason() -> None:
    assert "| `scheduler_pending_async_api_calls` | its feature gate is off" in page()


@pytest.mark.parametrize(
    ("prefix", "guide"),
    [
        ("kubestow_gang_", "gang-scheduling.md"),
        ("kubestow_node_provisioning_", "node-provisioning-bridge.md"),
    ],
)
def test_the_guide_of_a_feature_names_its_metrics(prefix: str, guide: str) -> None:
    names = set(re.findall(rf"^\| `({prefix}\w+)`", page(), re.MULTILINE))
    text = (DOCS / guide).read_text()
    assert names
    assert {each for each in names if f"`{each}" not in text} == set()

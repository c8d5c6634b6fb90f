"""The generated page of the metrics."""

from __future__ import annotations

from devtools.references.metrics import page
from scheduler.metrics.definitions import Definition, Kind


def test_a_row_has_type_bounds_labels_and_the_help_in_one_line() -> None:
    definition = Definition("kubestow_x", Kind.HISTOGRAM, "One\nor | two.", ("a", "b"), (0.5, 8.0))
    row = "| `kubestow_x` | histogram, 0.5 to 8 | `a`, `b` | One or \\| two. |"
    assert row in page([definition]).splitlines()


def test_every_metric_without_series_has_its_reason() -> None:
    assert "| `scheduler_pending_async_api_calls` | its feature gate is off" in page()

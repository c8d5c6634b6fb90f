"""Every row of the requeueing table whose plugins exist: exactly the expected pods are retried.

With hints the pods that move are those of the table. Without them (feature gate
SchedulerQueueingHints) kubestow queues for every registered event, so a row of mode B may move
more pods, but never fewer.
"""

from __future__ import annotations

from typing import Final

import pytest
from _pytest.mark import ParameterSet

from tests.integration.requeueing.replay import HINTS_OFF, woken_by
from tests.integration.requeueing.rows import Row
from tests.integration.requeueing.table import TABLE, missing

MAY_BE_MISSING: Final = frozenset(("70",))
"""Row 70 needs a feature that an update of the pod can do without."""


def rows(*modes: str) -> list[ParameterSet]:
    """Return the rows of these modes; those that cannot run yet are skipped with the reason."""
    return [
        pytest.param(row, id=row.number, marks=_unless_missing(row))
        for row in TABLE
        if row.mode in modes
    ]


def _unless_missing(row: Row) -> list[pytest.MarkDecorator]:
    absent = missing(row)
    return [pytest.mark.skip(f"row {row.number} needs {absent}")] if absent else []


@pytest.mark.parametrize("row", rows("H", "B"))
async def test_hints_move_exactly_the_pods_that_the_trigger_can_help(row: Row) -> None:
    assert await woken_by(row, {}) == row.requeued


@pytest.mark.parametrize("row", rows("B"))
async def test_without_hints_no_expected_pod_stays(row: Row) -> None:
    assert await woken_by(row, HINTS_OFF) >= row.requeued


@pytest.mark.parametrize("row", rows("N"))
async def test_without_hints_every_registered_event_moves_pods(row: Row) -> None:
    assert await woken_by(row, HINTS_OFF) == row.requeued


def test_the_table_is_complete() -> None:
    numbers = {row.number.rstrip("abc") for row in TABLE}
    # Those two were about extended resources that no class serves because of a gate, now locked.
    assert numbers == {str(number) for number in range(1, 72)} - {"13", "15"}
    assert len({row.number for row in TABLE}) == len(TABLE)


def test_no_row_is_skipped_that_once_ran() -> None:
    absent = {row.number: missing(row) for row in TABLE if missing(row)}
    assert absent.keys() <= MAY_BE_MISSING, absent


@pytest.mark.parametrize(
    "row", [each for each in TABLE if each.requeued], ids=lambda row: row.number
)
def test_a_row_refers_to_its_own_pods(row: Row) -> None:
    assert row.requeued <= set(row.pod_names)
    assert set(row.rejected_by) <= set(row.pod_names)
    assert row.trigger or row.needs

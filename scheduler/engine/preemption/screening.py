"""Screening: rules out nodes for preemption with columnar filters, before any dry run.

It rules out nodes without potential victims, and nodes on which a columnar filter rejects the pod
even without all potential victims.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from scheduler.cache import NodeTable
from scheduler.engine.plugin_slots import POD_COLUMNS, FilterSlot
from scheduler.engine.preemption.trial import (
    AFFECTED_FILTERS,
    ALL_FILTERS,
    VICTIMLESS,
    PreemptionTrial,
    ScreenedRows,
)
from scheduler.engine.preemption.without_victims import WithoutPotentialVictims
from scheduler.engine.runtime import Framework
from scheduler.framework import BoolColumn, Codes, Columns, Int64Column, Rows

_UNKNOWABLE: Final = POD_COLUMNS & ~Columns.USAGE


class Screening:
    """Screens nodes for the searches of one profile."""

    def __init__(self, framework: Framework, table: NodeTable) -> None:
        self._framework = framework
        self._table = table

    def screen(self, trial: PreemptionTrial, rows: Rows) -> ScreenedRows:
        """Rule out those of `rows` that need no dry run."""
        table = self._table
        without_victims: Any = WithoutPotentialVictims(table, trial.victims)
        rejected_by = np.zeros(len(rows), dtype=np.int32)
        codes = np.zeros(len(rows), dtype=np.int32)
        rejected_by[without_victims.potential_victims[rows] == 0] = VICTIMLESS
        rejected_by[table.priorities.unbanded[rows] != 0] = ALL_FILTERS
        if len(trial.nominated):
            nominated = np.zeros(table.capacity, dtype=np.bool_)
            nominated[trial.nominated] = True
            rejected_by[nominated[rows] & (rejected_by == AFFECTED_FILTERS)] = ALL_FILTERS
        not_tried = False
        for slot in trial.slots:
            left = np.flatnonzero(rejected_by == AFFECTED_FILTERS)
            if not len(left):
                break
            found = self._filter_by_columns(slot, trial, without_victims, rows[left])
            if found is None:
                not_tried = True
                continue
            rejected = found != 0
            # A filter that could not run on columns might have rejected the row first.
            rejected_by[left[rejected]] = ALL_FILTERS if not_tried else slot.index + 1
            codes[left[rejected]] = found[rejected]
        return ScreenedRows(
            rows, rejected_by, codes, self._unfollowed(trial, without_victims, rows, rejected_by)
        )

    def _unfollowed(
        self, trial: PreemptionTrial, table: Any, rows: Rows, rejected_by: np.ndarray
    ) -> BoolColumn:
        """Find remaining rows where RemovePod of every plugin would change nothing.

        Their results for the node without victims are then valid for any subset of the victims.
        """
        unfollowed: BoolColumn = rejected_by == AFFECTED_FILTERS
        following = self._framework.pod_followers - trial.state.skip_filter
        for plugin in self._framework.pre_filter:
            if plugin.name not in following or not unfollowed.any():
                continue
            method = getattr(plugin, "removal_sensitive_rows", None)
            left = np.flatnonzero(unfollowed)
            try:
                if method is None:
                    return np.zeros(len(rows), dtype=np.bool_)
                codes = plugin.filter_without_victims(trial.state, trial.pod, table, rows[left])
                matter = method(trial.state, trial.pod, table, rows[left])
                unfollowed[left] = (codes == 0) & ~matter
            except Exception:  # noqa: BLE001 - plugin boundary: a true fault shows again in scalar form
                return np.zeros(len(rows), dtype=np.bool_)
        return unfollowed

    def _filter_by_columns(
        self, slot: FilterSlot, trial: PreemptionTrial, table: Any, rows: Rows
    ) -> Codes | None:
        method = getattr(slot.plugin, "filter_without_victims", None)
        if method is None:
            if not self._tells_by_columns(slot):
                return None
            method = slot.plugin.filter_rows
        try:
            codes: Codes = method(trial.state, trial.pod, table, rows)
        except Exception:  # noqa: BLE001 - plugin boundary: a true fault shows again in scalar form
            return None
        return codes if len(codes) == len(rows) else None

    def _tells_by_columns(self, slot: FilterSlot) -> bool:
        """Whether a filter can evaluate many nodes without their victims at once."""
        return (
            slot.reusable
            and not slot.columns & _UNKNOWABLE
            and slot.name not in self._framework.pod_followers
        )


def ruled_out(screen: ScreenedRows) -> Iterator[tuple[int, int, int]]:
    """Yield (rejected_by, code, number of rows) for the rows that screening ruled out."""
    out = (screen.rejected_by > 0) | (screen.rejected_by == VICTIMLESS)
    if not out.any():
        return
    pairs: Int64Column = (screen.rejected_by[out].astype(np.int64) << 32) | screen.codes[
        out
    ].astype(np.int64)
    values, counts = np.unique(pairs, return_counts=True)
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        yield value >> 32, value & 0xFFFFFFFF, count

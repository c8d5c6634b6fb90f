"""Slots: how each Filter and Score plugin of a profile is called, and its results reused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from scheduler.cache import NodeTable
from scheduler.cache.change_log import Changes
from scheduler.engine.plugin_calls import FEW_ROWS
from scheduler.engine.runtime import Framework
from scheduler.framework import Columns, NormalizeScorePlugin, ReuseRule

POD_COLUMNS: Final = Columns.USAGE | Columns.PORTS | Columns.VOLUMES | Columns.NOMINATIONS
"""Column groups that depend on the pods of a node, including nominated pods."""

_FULL_REFRESH_SHARE: Final = 4
"""If more than one row in this many has changed, evaluating all rows is cheaper."""
_MAX_ENTRIES: Final = 256
"""If the change log has more than this many new entries plus one per node, it is not read, since
evaluating all rows is cheaper."""


@dataclass(slots=True, frozen=True)
class PluginSlot:
    """One plugin of a profile at one extension point."""

    index: int
    plugin: Any
    name: str
    #: Whether it evaluates many rows in one call.
    columnar: bool
    #: Whether its results are cached for other pods of the signature.
    reusable: bool
    #: Column groups whose changes invalidate a row, including EXISTENCE; 0 if not reusable.
    columns: int
    #: Named versions of its `ReuseRule`; without a rule, the resources that a Filter plugin reads.
    versions: tuple[str, ...]
    #: `ReuseRule.amounts_only`.
    amounts_only: bool

    def present_versions(self, table: NodeTable) -> tuple[int, ...]:
        """Return the current value of each of `versions`."""
        return tuple([table.version(name) for name in self.versions])


class FilterSlot(PluginSlot):
    """One Filter plugin of a profile."""

    __slots__ = ()

    @property
    def depends_on_pods(self) -> bool:
        """Whether other pods can change the plugin's result for a node."""
        return not self.reusable or bool(self.versions) or bool(self.columns & POD_COLUMNS)


@dataclass(slots=True, frozen=True)
class ScoreSlot(PluginSlot):
    """One Score plugin of a profile."""

    weight: int
    normalizer: NormalizeScorePlugin | None


def filter_slots(framework: Framework) -> tuple[FilterSlot, ...]:
    """Return the slots of a profile's Filter plugins, in profile order."""
    slots = []
    for index, plugin in enumerate(framework.filter):
        rule: ReuseRule | None = getattr(plugin, "filter_reuse", None)
        columnar = callable(getattr(plugin, "filter_rows", None))
        if not columnar:
            rule = None
        read = tuple(getattr(plugin, "required_resources", ()))
        slots.append(
            FilterSlot(
                index,
                plugin,
                plugin.name,
                columnar=columnar,
                reusable=rule is not None,
                columns=0 if rule is None else int(rule.columns | Columns.EXISTENCE),
                versions=read if rule is None else rule.versions,
                amounts_only=rule is not None and rule.amounts_only,
            )
        )
    return tuple(slots)


def score_slots(framework: Framework) -> tuple[ScoreSlot, ...]:
    """Return the slots of a profile's Score plugins, in profile order.

    A plugin whose PreScore must run for every pod is not reusable.
    """
    slots = []
    for index, plugin in enumerate(framework.score):
        rule: ReuseRule | None = getattr(plugin, "score_reuse", None)
        columnar = callable(getattr(plugin, "score_rows", None))
        prepared = callable(getattr(plugin, "pre_score", None))
        if not columnar or (prepared and not getattr(plugin, "pre_score_reusable", False)):
            rule = None
        slots.append(
            ScoreSlot(
                index,
                plugin,
                plugin.name,
                columnar=columnar,
                reusable=rule is not None,
                columns=0 if rule is None else int(rule.columns | Columns.EXISTENCE),
                versions=() if rule is None else rule.versions,
                amounts_only=rule is not None and rule.amounts_only,
                weight=framework.weights[index],
                normalizer=plugin if callable(getattr(plugin, "normalize_scores", None)) else None,
            )
        )
    return tuple(slots)


def named_versions(slots: Iterable[PluginSlot], table: NodeTable) -> tuple[int, ...]:
    """Return the current versions on which filters depend (`ReuseRule.versions`)."""
    return tuple([table.version(name) for slot in slots for name in slot.versions])


def changed_rows(table: NodeTable, sequence: int) -> Changes | None:
    """Return the rows changed since `sequence` of the change log, with their column groups.

    None if the caller should evaluate all rows: `sequence` is negative, or too many rows changed.
    """
    if sequence < 0:
        return None
    # The log may have many entries for few rows, but beyond this it rarely pays to find out.
    changes = table.change_log.since(sequence, table.node_count + _MAX_ENTRIES)
    if changes is not None and len(changes) * _FULL_REFRESH_SHARE > table.node_count + FEW_ROWS:
        return None
    return changes

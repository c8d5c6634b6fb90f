"""Slots: how each PreFilter, Filter and Score plugin is called, and its results reused."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scheduler.cache import NodeTable
from scheduler.framework import Columns, NormalizeScorePlugin, ReuseRule

POD_COLUMNS: Final = Columns.USAGE | Columns.PORTS | Columns.VOLUMES | Columns.NOMINATIONS
"""Column groups that depend on the pods of a node, including nominated pods."""


@dataclass(frozen=True, slots=True)
class PreFilterSlot:
    """One PreFilter plugin of a profile, and how it is called."""

    plugin: Any
    name: str
    #: Whether its result is cached for other pods of the signature.
    reusable: bool
    #: Whether its PreFilter is async, so that it runs only in cycles that may be suspended.
    awaited: bool


def pre_filter_slots(plugins: Iterable[Any]) -> tuple[PreFilterSlot, ...]:
    """Return the slots of PreFilter plugins, in the given order."""
    return tuple(
        PreFilterSlot(
            plugin,
            plugin.name,
            bool(getattr(plugin, "pre_filter_reusable", False)),
            inspect.iscoroutinefunction(plugin.pre_filter),
        )
        for plugin in plugins
    )


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


def filter_slots(plugins: Iterable[Any]) -> tuple[FilterSlot, ...]:
    """Return the slots of Filter plugins, in the given order."""
    slots = []
    for index, plugin in enumerate(plugins):
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


def score_slots(plugins: Iterable[Any], weights: Sequence[int]) -> tuple[ScoreSlot, ...]:
    """Return the slots of Score plugins, in the given order.

    A plugin whose PreScore must run for every pod is not reusable.
    """
    slots = []
    for index, plugin in enumerate(plugins):
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
                weight=weights[index],
                normalizer=plugin if callable(getattr(plugin, "normalize_scores", None)) else None,
            )
        )
    return tuple(slots)


def named_versions(slots: Iterable[PluginSlot], table: NodeTable) -> tuple[int, ...]:
    """Return the current versions on which filters depend (`ReuseRule.versions`)."""
    return tuple([table.version(name) for slot in slots for name in slot.versions])

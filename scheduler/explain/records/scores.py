"""Scores of nodes, in explanations and in remembered decisions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PluginScore:
    """The scores of one plugin for one node; `weighted` is the part of the total."""

    plugin: str
    raw: int
    normalized: int
    weighted: int


@dataclass(frozen=True, slots=True)
class NodeScore:
    """A feasible node; `scores` in the order of the profile, without plugins that were skipped."""

    node: str
    total: int
    scores: tuple[PluginScore, ...]

"""Score of VolumeBinding: usage of a node's storage (feature gate StorageCapacityScoring).

Upstream: `scorer.go: buildScorerFunction`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from plugins.node_resources.arguments import MAX_SHAPE_SCORE, ShapePoint
from plugins.node_resources.strategies import broken_linear
from plugins.volume_binding.claims import claim_class, requested_storage
from plugins.volume_binding.matching import VolumePlan
from plugins.volume_binding.volumes import volume_class, volume_size
from scheduler.api.quantity import value
from scheduler.framework import MAX_NODE_SCORE

_FULL = 100


class StorageScorer:
    """Scores a plan, 0 to 100."""

    def __init__(self, shape: Sequence[ShapePoint]) -> None:
        scale = MAX_NODE_SCORE // MAX_SHAPE_SCORE
        self._points = tuple((point.utilization, point.score * scale) for point in shape)

    def score(self, plan: VolumePlan) -> int:
        """Return the rounded mean over storage classes; 0 without amounts to compare."""
        amounts = _static(plan) if plan.bindings else _dynamic(plan)
        if not amounts:
            return 0
        total = sum(self._class_score(*each) for each in amounts.values())
        return math.floor(total / len(amounts) + 0.5)

    def _class_score(self, requested: int, capacity: int) -> int:
        percent = _FULL
        if capacity and requested <= capacity:
            percent = requested * 100 // capacity
        return broken_linear(self._points, percent)


def _static(plan: VolumePlan) -> dict[str, tuple[int, int]]:
    """Return (requested, capacity) by class, both summed over the volumes to bind."""
    amounts: dict[str, tuple[int, int]] = {}
    for claim, volume in plan.bindings:
        name = volume_class(volume)
        requested, capacity = amounts.get(name, (0, 0))
        amounts[name] = (
            requested + (requested_storage(claim) or 0),
            capacity + volume_size(volume),
        )
    return amounts


def _dynamic(plan: VolumePlan) -> dict[str, tuple[int, int]]:
    """Return the same for volumes to provision; the capacity of a shared object counts once."""
    amounts: dict[str, tuple[int, int]] = {}
    for claim, source in plan.provisions:
        # One without an amount ends kube-scheduler v1.37.2 by a nil pointer; it is not known.
        if source is None or source.capacity is None:
            continue
        name = claim_class(claim)
        requested, _ = amounts.get(name, (0, 0))
        capacity = value(source.capacity)
        amounts[name] = (requested + (requested_storage(claim) or 0), capacity)
    return amounts

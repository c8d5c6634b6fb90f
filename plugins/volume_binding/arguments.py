"""Arguments of VolumeBinding, with upstream's defaults and validation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugins.arguments import Arguments
from plugins.node_resources.arguments import ShapePoint, shape_problems
from scheduler.framework.field_errors import invalid

SCORING_GATE: Final = "StorageCapacityScoring"
"""Feature gate of Score; on since v1.37."""

DEFAULT_SHAPE: Final = (
    ShapePoint(utilization=0, score=10),
    ShapePoint(utilization=100, score=0),
)
"""Upstream's default with the gate on: prefers emptier storage."""

_NOT_NEGATIVE: Final = "invalid BindTimeoutSeconds, should not be a negative value"
_NEEDS_GATE: Final = (
    f"unexpected field `shape`, remove it or turn on the feature gate {SCORING_GATE}"
)


class VolumeBindingArgs(Arguments):
    """Arguments of VolumeBinding."""

    bind_timeout_seconds: int = 600
    """Maximum wait for volumes to be bound, in seconds; 0 means no waiting. Default 600."""

    shape: tuple[ShapePoint, ...] | None = None
    """Storage utilization to score; refused without the feature gate StorageCapacityScoring.
    Default: from 10 at 0 percent to 0 at 100 percent."""


def binding_problems(args: VolumeBindingArgs) -> Iterator[tuple[str, str]]:
    """Validate the arguments regardless of feature gates."""
    if args.bind_timeout_seconds < 0:
        yield "bindTimeoutSeconds", invalid(args.bind_timeout_seconds, _NOT_NEGATIVE)
    if args.shape is not None:
        yield from shape_problems(args.shape, "shape")


def gated_problems(args: VolumeBindingArgs, *, scoring: bool) -> Iterator[tuple[str, str]]:
    """Validate the arguments; a shape requires the feature gate (`scoring`)."""
    yield from binding_problems(args)
    if args.shape is not None and not scoring:
        yield "shape", invalid(f"{len(args.shape)} points", _NEEDS_GATE)

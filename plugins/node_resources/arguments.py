"""Arguments of both resource plugins, with upstream's defaults and validation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from plugins.arguments import Arguments
from scheduler.framework.field_errors import duplicate, forbidden, invalid, required, unsupported
from scheduler.sanitizing.names import is_qualified_name

LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO: Final = "RequestedToCapacityRatio"
STRATEGY_TYPES: Final = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)

MAX_SHAPE_SCORE: Final = 10
"""Scores of a shape's points are 0..10 in the configuration, 0..100 inside."""

_NOT_A_NAME: Final = "must be a name or a DNS subdomain / a name"


class ResourceSpec(Arguments):
    """A resource that is scored."""

    name: str = ""
    """Resource name, e.g. `cpu` or `example.com/gpu`."""

    weight: int = 0
    """Weight in the mean, 1 to 100. Default 1; 0 means the default, as upstream."""

    def __post_init__(self) -> None:
        """Fill in the weight."""
        if not self.weight:
            self.weight = 1


class ShapePoint(Arguments):
    """A point of the line that turns utilization into a score."""

    utilization: int = 0
    """Used share in percent, 0 to 100."""

    score: int = 0
    """0 to 10."""


class RequestedToCapacityRatioParameters(Arguments):
    """Parameters of the strategy RequestedToCapacityRatio."""

    shape: tuple[ShapePoint, ...] = ()
    """At least one point, utilization strictly increasing. No default."""


class ScoringStrategy(Arguments):
    """Scoring of NodeResourcesFit."""

    type: str = ""
    """One of `STRATEGY_TYPES`. No default; a whole strategy left out means LeastAllocated."""

    resources: tuple[ResourceSpec, ...] = ()
    """Resources that count. Default: cpu and memory, equally."""

    requested_to_capacity_ratio: RequestedToCapacityRatioParameters | None = None
    """Required for that strategy, forbidden for the others."""

    def __post_init__(self) -> None:
        """Fill in the resources."""
        if not self.resources:
            self.resources = default_resources()


class NodeResourcesFitArgs(Arguments):
    """Arguments of NodeResourcesFit."""

    ignored_resources: tuple[str, ...] = ()
    """Extended resources that the filter ignores. Default: none."""

    ignored_resource_groups: tuple[str, ...] = ()
    """Prefixes (`example.com`) of extended resources that the filter ignores. Default: none."""

    scoring_strategy: ScoringStrategy | None = None
    """Default: LeastAllocated over cpu and memory, which spreads load."""

    def __post_init__(self) -> None:
        """Fill in the strategy."""
        if self.scoring_strategy is None:
            self.scoring_strategy = ScoringStrategy(type=LEAST_ALLOCATED)


class NodeResourcesBalancedAllocationArgs(Arguments):
    """Arguments of NodeResourcesBalancedAllocation."""

    resources: tuple[ResourceSpec, ...] = ()
    """Resources to balance; every weight must be 1. Default: cpu and memory."""

    def __post_init__(self) -> None:
        """Fill in the resources."""
        if not self.resources:
            self.resources = default_resources()


def default_resources() -> tuple[ResourceSpec, ...]:
    """Return the resources scored by default."""
    return ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1)


def fit_problems(args: NodeResourcesFitArgs) -> Iterator[tuple[str, str]]:
    """Validate the arguments of NodeResourcesFit (`ValidateNodeResourcesFitArgs`)."""
    for index, name in enumerate(args.ignored_resources):
        if not is_qualified_name(name):
            yield f"ignoredResources[{index}]", invalid(name, _NOT_A_NAME)
    for index, group in enumerate(args.ignored_resource_groups):
        path = f"ignoredResourceGroups[{index}]"
        if "/" in group:
            yield path, invalid(group, "resource group name can't contain '/'")
        if not is_qualified_name(group):
            yield path, invalid(group, _NOT_A_NAME)
    if args.scoring_strategy is None:
        yield "scoringStrategy", required("ScoringStrategy field is required")
        return
    yield from _strategy_problems(args.scoring_strategy)


def balanced_problems(args: NodeResourcesBalancedAllocationArgs) -> Iterator[tuple[str, str]]:
    """Validate the arguments of NodeResourcesBalancedAllocation."""
    seen: set[str] = set()
    for index, resource in enumerate(args.resources):
        path = f"resources[{index}]"
        if resource.name in seen:
            yield f"{path}.name", duplicate(resource.name)
        seen.add(resource.name)
        if resource.weight != 1:
            yield f"{path}.weight", invalid(resource.weight, "must be 1")


def shape_problems(points: Sequence[ShapePoint], path: str) -> Iterator[tuple[str, str]]:
    """Validate a shape (`validation_pluginargs.go: validateFunctionShape`)."""
    if not points:
        yield path, required("at least one point must be specified")
        return
    for index in range(1, len(points)):
        if points[index - 1].utilization >= points[index].utilization:
            yield (
                f"{path}[{index}].utilization",
                invalid(points[index].utilization, "values must be sorted in increasing order"),
            )
            break
    for index, point in enumerate(points):
        if not 0 <= point.utilization <= 100:
            yield (
                f"{path}[{index}].utilization",
                invalid(point.utilization, "not in valid range [0, 100]"),
            )
        if not 0 <= point.score <= MAX_SHAPE_SCORE:
            yield f"{path}[{index}].score", invalid(point.score, "not in valid range [0, 10]")


def _strategy_problems(strategy: ScoringStrategy) -> Iterator[tuple[str, str]]:
    path = "scoringStrategy"
    if strategy.type not in STRATEGY_TYPES:
        yield f"{path}.type", unsupported(strategy.type, STRATEGY_TYPES)
    for index, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= 100:
            yield (
                f"{path}.resources[{index}].weight",
                invalid(
                    resource.weight,
                    f"resource weight of {resource.name} not in valid range (0, 100]",
                ),
            )
    ratio, ratio_path = strategy.requested_to_capacity_ratio, f"{path}.requestedToCapacityRatio"
    if strategy.type == REQUESTED_TO_CAPACITY_RATIO:
        if ratio is None:
            yield ratio_path, required("must be specified when type is RequestedToCapacityRatio")
        else:
            yield from shape_problems(ratio.shape, f"{ratio_path}.shape")
    elif ratio is not None:
        yield ratio_path, forbidden("must be nil when type is not RequestedToCapacityRatio")

"""Stand-ins for the default plugins: their names and extension points, no behaviour."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import msgspec

from config import Configuration, load_configuration
from scheduler.framework.extension_points import (
    EXTENSION_POINTS,
)
from scheduler.framework.registry import NoArgs, Registry
from scheduler.framework.status import ConfigurationError

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

METHODS = {point.yaml: point.methods[0] for point in EXTENSION_POINTS}


class Arguments(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Base of the argument Structs."""


class Resource(Arguments):
    name: str = ""
    weight: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1


class ShapePoint(Arguments):
    utilization: int = 0
    score: int = 0


class Ratio(Arguments):
    shape: tuple[ShapePoint, ...] = ()


class Strategy(Arguments):
    type: str = ""
    resources: tuple[Resource, ...] = ()
    requested_to_capacity_ratio: Ratio | None = None


class FitArgs(Arguments):
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: Strategy = msgspec.field(
        default_factory=lambda: Strategy(type="LeastAllocated")
    )


class BalancedArgs(Arguments):
    resources: tuple[Resource, ...] = (Resource(name="cpu"), Resource(name="memory"))


class AffinityArgs(Arguments):
    added_affinity: dict[str, Any] | None = None


class DynamicArgs(Arguments):
    filter_timeout: dt.timedelta = dt.timedelta(seconds=10)
    binding_timeout: dt.timedelta = dt.timedelta(seconds=600)


class PreemptionArgs(Arguments):
    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100
    #: Stands for an argument of ours that kube-scheduler does not know.
    evict_other_schedulers: bool = False


def preemption_problems(args: PreemptionArgs) -> Iterator[tuple[str, str]]:
    """Upstream's rules, as the real plugin would give them."""
    percentage = args.min_candidate_nodes_percentage
    absolute = args.min_candidate_nodes_absolute
    if not 0 <= percentage <= 100:
        yield (
            "minCandidateNodesPercentage",
            f"Invalid value: {percentage}: not in valid range [0, 100]",
        )
    if percentage == 0 and absolute == 0:
        yield "minCandidateNodesPercentage", "cannot be zero at the same time as absolute"
        yield "minCandidateNodesAbsolute", "cannot be zero at the same time as percentage"


def plugin(
    name: str, points: str, args: type[msgspec.Struct] = NoArgs, **attributes: Any
) -> type[Any]:
    """A plugin class with the methods of some extension points."""
    names = ("__init__", *(METHODS[point] for point in points.split()))
    methods = dict.fromkeys(names, lambda self, *given: None)
    return type(name, (), {"name": name, "args_type": args, **methods, **attributes})


AVAILABLE = (
    plugin("SchedulingGates", "preEnqueue"),
    plugin("PrioritySort", "queueSort"),
    plugin("NodeUnschedulable", "filter"),
    plugin("NodeName", "filter"),
    plugin("TaintToleration", "filter preScore score"),
    plugin("NodeAffinity", "preFilter filter preScore score", AffinityArgs),
    plugin("NodePorts", "preFilter filter"),
    plugin("NodeResourcesFit", "preFilter filter preScore score", FitArgs),
    plugin(
        "DynamicResources",
        "preEnqueue preFilter filter postFilter score reserve preBind",
        DynamicArgs,
    ),
    plugin(
        "DefaultPreemption",
        "preEnqueue postFilter",
        PreemptionArgs,
        validate_args=staticmethod(preemption_problems),
    ),
    plugin("NodeResourcesBalancedAllocation", "preScore score", BalancedArgs),
    plugin("ImageLocality", "score"),
    plugin("DefaultBinder", "bind"),
    plugin("NodeDeclaredFeatures", "preFilter filter"),
)

DEFAULTS = (
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
    ("NodeDeclaredFeatures", 0),
)


def load(text: str | None, *more: Any, **options: Any) -> Configuration:
    """Load with the default plugins and any further plugin classes."""
    settings: dict[str, Any] = {
        "registry": Registry([*AVAILABLE, *more]),
        "default_plugins": DEFAULTS,
    }
    return load_configuration(text, **(settings | options))


def body(text: str, *more: Any, **options: Any) -> Configuration:
    """Load a text to which the header is added."""
    return load(HEADER + text, *more, **options)


def problems(text: str, *more: Any, **options: Any) -> tuple[str, ...]:
    """Return the errors of a text, without the header's two lines."""
    try:
        body(text, *more, **options)
    except ConfigurationError as error:
        return error.problems
    return ()


def names(configuration: Configuration, point: str, profile: int = 0) -> Iterable[str]:
    """The plugins at a point."""
    return configuration.profiles[profile].points[point]

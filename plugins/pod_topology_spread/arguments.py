"""Arguments of PodTopologySpread, with upstream's defaults and checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugins.arguments import (
    ArgumentProblem,
    Arguments,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from scheduler.api.names import is_qualified_name
from scheduler.api.pod import TopologySpreadConstraint

SYSTEM: Final = "System"
LIST: Final = "List"
DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"
HONOR: Final = "Honor"
IGNORE: Final = "Ignore"

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"

SYSTEM_CONSTRAINTS: Final = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=5),
)
"""What `defaultingType: System` stands for."""


class PodTopologySpreadArgs(Arguments):
    """Arguments of PodTopologySpread."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    """For pods that have no constraint of their own; the selector is deduced from the pod's
    Services and its controller. Only with `defaultingType: List`. Default: none."""

    defaulting_type: str = ""
    """`System`, two built-in soft constraints over hostname and zone, or `List`, the constraints
    given here. Default: System, which spreads what belongs together without being asked."""

    def __post_init__(self) -> None:
        """Fill in the type."""
        if not self.defaulting_type:
            self.defaulting_type = SYSTEM

    @property
    def constraints(self) -> tuple[TopologySpreadConstraint, ...]:
        """The default constraints in force."""
        return SYSTEM_CONSTRAINTS if self.defaulting_type == SYSTEM else self.default_constraints


def argument_problems(args: PodTopologySpreadArgs) -> Iterator[ArgumentProblem]:
    """What is wrong with the arguments."""
    kind = args.defaulting_type
    if kind not in (SYSTEM, LIST):
        yield unsupported("defaultingType", kind, (SYSTEM, LIST))
    if kind == SYSTEM and args.default_constraints:
        yield invalid("defaultingType", kind, "when .defaultConstraints are not empty")
    seen: set[tuple[str, str]] = set()
    for index, each in enumerate(args.default_constraints):
        yield from _constraint_problems(each, f"defaultConstraints[{index}]")
        pair = (each.topology_key, each.when_unsatisfiable)
        if pair in seen:
            yield duplicate(
                f"defaultConstraints[{index}].{{topologyKey, whenUnsatisfiable}}",
                f"{{{pair[0]}, {pair[1]}}}",
            )
        seen.add(pair)


def _constraint_problems(
    constraint: TopologySpreadConstraint, path: str
) -> Iterator[ArgumentProblem]:
    if constraint.max_skew <= 0:
        yield invalid(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)")
    if not constraint.topology_key:
        yield required(f"{path}.topologyKey", "can not be empty")
    elif not is_qualified_name(constraint.topology_key):
        yield invalid(
            f"{path}.topologyKey",
            constraint.topology_key,
            "must be a name or a DNS subdomain / a name",
        )
    when = constraint.when_unsatisfiable
    if not when:
        yield required(f"{path}.whenUnsatisfiable", "can not be empty")
    elif when not in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY):
        yield unsupported(f"{path}.whenUnsatisfiable", when, (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY))
    if constraint.label_selector is not None:
        yield forbidden(
            f"{path}.labelSelector",
            "constraint must not define a selector, as they deduced for each pod",
        )

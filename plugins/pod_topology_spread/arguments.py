"""Arguments of PodTopologySpread, with upstream's defaults and validation."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from plugins.arguments import Arguments
from plugins.pod_topology_spread.fallback_annotation import CRITERIA
from scheduler.api.node import HOSTNAME
from scheduler.api.pod import TopologySpreadConstraint
from scheduler.framework.field_errors import duplicate, forbidden, invalid, required, unsupported
from scheduler.sanitizing.names import is_qualified_name

SYSTEM: Final = "System"
LIST: Final = "List"
DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"
REPLACE: Final = "Replace"
STRICT_FIRST: Final = "StrictFirst"
STRATEGIES: Final = (REPLACE, STRICT_FIRST)
HONOR: Final = "Honor"

ZONE: Final = "topology.kubernetes.io/zone"

SYSTEM_CONSTRAINTS: Final = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=5),
)
"""Constraints of `defaultingType: System` (`plugin.go: systemDefaultConstraints`)."""


class PodTopologySpreadArgs(Arguments):
    """Arguments of PodTopologySpread."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    """Constraints of pods without their own; the selector is derived from the pod's Services and
    its controller. Only with `defaultingType: List`. Default: none."""

    defaulting_type: str = ""
    """`System`, two built-in soft constraints over hostname and zone, or `List`, the constraints
    given here. Default: System."""

    node_provisioning_timeout: timedelta | None = None
    """With feature gate PodTopologySpreadFallbackMode: criterion NodeProvisioningFailed also holds
    if condition NodeProvisioningInProgress is still missing or Unknown this long after
    PodTopologySpread first rejected the pod. Greater than zero. Default: none, only the condition
    counts."""

    fallback_strategy: str = REPLACE
    """With the same gate: `Replace`, a constraint whose criteria hold is soft at once, or
    `StrictFirst`, only if no node fits while it is hard. Default: Replace, as in KEP-3990;
    StrictFirst costs a second pass over the nodes."""

    def __post_init__(self) -> None:
        """Fill in the type."""
        if not self.defaulting_type:
            self.defaulting_type = SYSTEM

    @property
    def constraints(self) -> tuple[TopologySpreadConstraint, ...]:
        """Default constraints in force."""
        return SYSTEM_CONSTRAINTS if self.defaulting_type == SYSTEM else self.default_constraints


def argument_problems(args: PodTopologySpreadArgs) -> Iterator[tuple[str, str]]:
    """Validate the arguments (`validation_pluginargs.go: ValidatePodTopologySpreadArgs`)."""
    timeout = args.node_provisioning_timeout
    if timeout is not None and timeout <= timedelta():
        yield (
            "nodeProvisioningTimeout",
            invalid(f"{timeout.total_seconds():g}s", "must be greater than zero"),
        )
    if args.fallback_strategy not in STRATEGIES:
        yield "fallbackStrategy", unsupported(args.fallback_strategy, STRATEGIES)
    kind = args.defaulting_type
    if kind not in (SYSTEM, LIST):
        yield "defaultingType", unsupported(kind, (SYSTEM, LIST))
    if kind == SYSTEM and args.default_constraints:
        yield "defaultingType", invalid(kind, "when .defaultConstraints are not empty")
    seen: set[tuple[str, str]] = set()
    for index, each in enumerate(args.default_constraints):
        yield from _constraint_problems(each, f"defaultConstraints[{index}]")
        pair = (each.topology_key, each.when_unsatisfiable)
        if pair in seen:
            yield (
                f"defaultConstraints[{index}].{{topologyKey, whenUnsatisfiable}}",
                duplicate(f"{{{pair[0]}, {pair[1]}}}"),
            )
        seen.add(pair)


def _constraint_problems(
    constraint: TopologySpreadConstraint, path: str
) -> Iterator[tuple[str, str]]:
    if constraint.max_skew <= 0:
        yield f"{path}.maxSkew", invalid(constraint.max_skew, "not in valid range (0, inf)")
    if not constraint.topology_key:
        yield f"{path}.topologyKey", required("can not be empty")
    elif not is_qualified_name(constraint.topology_key):
        yield (
            f"{path}.topologyKey",
            invalid(constraint.topology_key, "must be a name or a DNS subdomain / a name"),
        )
    when = constraint.when_unsatisfiable
    if not when:
        yield f"{path}.whenUnsatisfiable", required("can not be empty")
    elif when not in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY):
        yield f"{path}.whenUnsatisfiable", unsupported(when, (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY))
    yield from _criteria_problems(constraint, f"{path}.fallbackCriteria")
    if constraint.label_selector is not None:
        yield (
            f"{path}.labelSelector",
            forbidden("constraint must not define a selector, as they deduced for each pod"),
        )


def _criteria_problems(
    constraint: TopologySpreadConstraint, path: str
) -> Iterator[tuple[str, str]]:
    criteria = constraint.fallback_criteria
    if criteria and constraint.when_unsatisfiable == SCHEDULE_ANYWAY:
        shown = f"[{', '.join(criteria)}]"
        yield (
            path,
            invalid(shown, "can only use fallbackCriteria if whenUnsatisfiable=DoNotSchedule"),
        )
    for index, each in enumerate(criteria):
        if each not in CRITERIA:
            yield f"{path}[{index}]", unsupported(each, CRITERIA)
        elif each in criteria[:index]:
            yield f"{path}[{index}]", duplicate(each)

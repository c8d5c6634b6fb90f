"""PodTopologySpread: hard constraints filter, soft constraints score.

Upstream: `podtopologyspread/plugin.go`. Results depend on all pods of the cluster and on the pod's
own labels, so nothing is reused between pods. The node table keeps counts per selector; a cycle
only sums them by domain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

from plugins.arguments import require_valid
from plugins.pod_topology_spread.arguments import (
    DO_NOT_SCHEDULE,
    STRICT_FIRST,
    SYSTEM,
    PodTopologySpreadArgs,
    argument_problems,
)
from plugins.pod_topology_spread.constraints import (
    REQUIRED_RESOURCES,
    Constraint,
    Constraints,
)
from plugins.pod_topology_spread.decision import SpreadDecision
from plugins.pod_topology_spread.domain_table import domain_table
from plugins.pod_topology_spread.fallback import GATE, Fallback
from plugins.pod_topology_spread.fallback_annotation import ANNOTATION
from plugins.pod_topology_spread.fallback_state import FallbackState
from plugins.pod_topology_spread.filtering import MISSING, HardState, hard_state
from plugins.pod_topology_spread.inclusion import Inclusion
from plugins.pod_topology_spread.requeueing import fallback_events, spread_events
from plugins.pod_topology_spread.scoring import SoftState, soft_state
from scheduler.api.meta import Condition
from scheduler.api.pod import Pod
from scheduler.api.selectors import SelectorError
from scheduler.framework import (
    SKIP,
    BoolColumn,
    ClusterEventWithHint,
    Codes,
    CycleState,
    Handle,
    Int64Column,
    NodeInfo,
    NodeTableView,
    QueuedPodInfo,
    RejectedNodes,
    Rows,
    Status,
    TableWithoutVictims,
    error,
    plugin_names,
    unresolvable,
    unschedulable,
)

_TEXT: Final = "node(s) didn't match pod topology spread constraints"
SKEWED: Final = unschedulable(_TEXT)
MISSING_LABEL: Final = unresolvable(f"{_TEXT} (missing required label)")

_NO_DEFAULTS: Final = "default spread constraints do not apply to pods selected by it"
_OFF: Final = f"the pod has fallback criteria, which are ignored: feature gate {GATE} is off"

_HARD: Final = "PreFilterPodTopologySpread"
_SOFT: Final = "PreScorePodTopologySpread"
#: The fallback's decision, and the (hard, soft) constraints by it; without the latter the
#: constraints apply as written.
_DECISION: Final = "FallbackPodTopologySpread"
_RELAXED: Final = "RelaxedPodTopologySpread"


class PodTopologySpread:
    """Limits the difference in matching pods between topology domains."""

    name: ClassVar[str] = plugin_names.POD_TOPOLOGY_SPREAD
    args_type: ClassVar[type[PodTopologySpreadArgs]] = PodTopologySpreadArgs
    required_resources: ClassVar[tuple[str, ...]] = REQUIRED_RESOURCES
    #: None where default constraints are hard: they would be broken without the selectors.
    optional_resources: Mapping[str, str] = dict.fromkeys(REQUIRED_RESOURCES, _NO_DEFAULTS)
    filter_depends_only_on_table: ClassVar[bool] = True
    memory_type: ClassVar[type[FallbackState]] = FallbackState

    def __init__(self, args: PodTopologySpreadArgs | None, handle: Handle) -> None:
        args = args or PodTopologySpreadArgs()
        require_valid(self.validate_args(args))
        if any(each.when_unsatisfiable == DO_NOT_SCHEDULE for each in args.constraints):
            self.optional_resources = {}
        self._constraints = Constraints(args, handle)
        self._inclusion = Inclusion(handle)
        self._system = args.defaulting_type == SYSTEM
        self._strict_first = args.fallback_strategy == STRICT_FIRST
        self._fallback: Fallback | None = None
        if handle.feature_gates.get(GATE, False):
            timeout = args.node_provisioning_timeout
            self._fallback = Fallback(
                self._constraints, handle, None if timeout is None else timeout.total_seconds()
            )

    @staticmethod
    def validate_args(args: PodTopologySpreadArgs) -> Iterator[tuple[str, str]]:
        """Validate the arguments."""
        return argument_problems(args)

    def skips_alike(self, pod: Pod) -> bool:
        """Return True: the pod's own constraints and owner decide."""
        return True

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Count pods per domain; skip without hard constraints."""
        excess = self._constraints.excess(pod)
        if excess:
            return unresolvable(excess)
        try:
            constraints = self._constraints.hard(pod)
        except SelectorError as raised:
            return error(f"obtaining pod's hard topology spread constraints: {raised}")
        fallback = self._fallback
        if fallback is not None and (constraints or ANNOTATION in pod.metadata.annotations):
            constraints = self._hard_in_attempt(fallback, state, pod, constraints)
        if not constraints:
            return SKIP
        state.write(_HARD, hard_state(constraints, self._inclusion, pod, table))
        return None

    def _hard_in_attempt(
        self, fallback: Fallback, state: CycleState, pod: Pod, hard: tuple[Constraint, ...]
    ) -> tuple[Constraint, ...]:
        """Return the constraints that are hard in this pass of the attempt (rules S8 and S13)."""
        decision: SpreadDecision | None = state.get(_DECISION)
        if decision is None:
            decision = fallback.decide_attempt(state, pod, [each.topology_key for each in hard])
            state.write(_DECISION, decision)
            if self._strict_first:
                return hard
        if not decision.soft_keys:
            return hard
        relaxed = self._constraints.divided(pod, decision.soft_keys)
        state.write(_RELAXED, relaxed)
        fallback.apply(state, pod, decision)
        return relaxed[0]

    def relax(self, state: CycleState, pod: Pod) -> bool:
        """With strategy StrictFirst: whether to repeat the filters with the relaxed constraints."""
        decision: SpreadDecision | None = state.get(_DECISION)
        return (
            self._strict_first
            and decision is not None
            and bool(decision.soft_keys)
            and state.get(_RELAXED) is None
        )

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Add a pod to the node's domains."""
        _hard(state).change(self._inclusion, pod, added, node, 1)
        return None

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo
    ) -> Status | None:
        """Remove a pod from the node's domains."""
        _hard(state).change(self._inclusion, pod, removed, node, -1)
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node by the first constraint it violates."""
        code = _hard(state).code(node)
        return self.filter_status(state, pod, code) if code else None

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Columnar form of `filter`."""
        return _hard(state).codes(table, rows)

    def filter_without_victims(
        self, state: CycleState, pod: Pod, table: TableWithoutVictims, rows: Rows
    ) -> Codes:
        """`filter_rows` with the potential victims of each row removed."""
        return _hard(state).codes_without_victims(self._inclusion, pod, table, rows)

    def removal_sensitive_rows(
        self, state: CycleState, pod: Pod, table: TableWithoutVictims, rows: Rows
    ) -> BoolColumn:
        """Rows whose potential victims are counted."""
        return _hard(state).removal_sensitive(pod, table, rows)

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return the rejection for the skew or for the missing label."""
        return MISSING_LABEL if code == MISSING else SKEWED

    def explain_rejection(
        self, state: CycleState, pod: Pod, table: NodeTableView, rejected: RejectedNodes
    ) -> str:
        """Return the pods by domain of each constraint, and the skew that the pod would make."""
        hard: HardState | None = state.get(_HARD)
        return "" if hard is None else domain_table(hard, table)

    def pre_score(
        self, state: CycleState, pod: Pod, table: NodeTableView, feasible: Rows
    ) -> Status | None:
        """Count pods in the domains of feasible nodes; skip without soft constraints."""
        relaxed = state.get(_RELAXED)
        try:
            constraints = self._constraints.soft(pod) if relaxed is None else relaxed[1]
        except SelectorError as raised:
            return error(f"obtaining pod's soft topology spread constraints: {raised}")
        if not constraints or not table.node_count:
            return SKIP
        require_all = bool(pod.signature.spec.topology_spread_constraints) or not self._system
        state.write(
            _SOFT,
            soft_state(constraints, self._inclusion, pod, table, feasible, require_all=require_all),
        )
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return the weighted number of matching pods in the node's domains; fewer is better."""
        return _soft(state).score(pod, node)

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """Columnar form of `score`."""
        return _soft(state).scores(table, rows)

    def normalize_scores(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows, scores: Int64Column
    ) -> Int64Column:
        """Invert the order: scale the fewest pods to 100."""
        return _soft(state).normalized(rows, scores)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for changes of counted pods and of domains, and for the fallback's events."""
        if self._fallback is None:
            return spread_events(self._constraints)
        return (*spread_events(self._constraints), *fallback_events(self._fallback))

    def pod_conditions(self, pod: Pod, info: QueuedPodInfo) -> Sequence[Condition]:
        """Return `kubestow.io/TopologySpreadFallback` for pods with fallback criteria."""
        return () if self._fallback is None else self._fallback.conditions(pod, info)

    def explain(self, pod: Pod) -> Sequence[str]:
        """Explain the fallback: each criterion with its evidence."""
        if self._fallback is not None:
            return self._fallback.explain(pod)
        written = self._constraints.written(pod)
        if ANNOTATION in pod.metadata.annotations or (written.own and written.criteria):
            return (_OFF,)
        return ()


def _hard(state: CycleState) -> HardState:
    found: HardState = state.read(_HARD)
    return found


def _soft(state: CycleState) -> SoftState:
    found: SoftState = state.read(_SOFT)
    return found

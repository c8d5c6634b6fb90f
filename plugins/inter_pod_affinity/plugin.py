"""InterPodAffinity: a pod's terms about other pods, and other pods' terms about it.

Upstream: `interpodaffinity/plugin.go`. Results depend on all pods of the cluster and on the pod's
own labels, so nothing is reused between pods. A cycle does not visit pods: the node table keeps
counts per selector, and groups of equal terms of placed pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from plugins.arguments import Arguments, require_valid
from plugins.inter_pod_affinity.conflicts import conflict
from plugins.inter_pod_affinity.filtering import (
    AFFINITY,
    ANTI_AFFINITY,
    RequiredState,
    required_state,
)
from plugins.inter_pod_affinity.requeueing import AffinityHints
from plugins.inter_pod_affinity.scoring import PreferredState, normalized, preferred_state
from plugins.inter_pod_affinity.terms import NAMESPACES, Terms
from scheduler.api.pod import Affinity, Pod
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
    RejectedNodes,
    Rows,
    Status,
    TableWithoutVictims,
    error,
    plugin_names,
    unresolvable,
    unschedulable,
)
from scheduler.framework.field_errors import invalid

AFFINITY_UNMET: Final = unresolvable("node(s) didn't match pod affinity rules")
ANTI_AFFINITY_VIOLATED: Final = unschedulable("node(s) didn't match pod anti-affinity rules")
EXISTING_VIOLATED: Final = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")

_REQUIRED: Final = "PreFilterInterPodAffinity"
_PREFERRED: Final = "PreScoreInterPodAffinity"
_MAX_WEIGHT: Final = 100


class InterPodAffinityArgs(Arguments):
    """Arguments of InterPodAffinity."""

    hard_pod_affinity_weight: int = 1
    """Weight of a placed pod's required affinity term that matches the incoming pod, in the score
    of its domain, 0 to 100. Default 1."""

    ignore_preferred_terms_of_existing_pods: bool = False
    """Skip scoring for pods without preferred terms of their own, even if required terms of placed
    pods match. Default: false."""


class InterPodAffinity:
    """Filters and scores nodes by the pods in their topology domains."""

    name: ClassVar[str] = plugin_names.INTER_POD_AFFINITY
    args_type: ClassVar[type[InterPodAffinityArgs]] = InterPodAffinityArgs
    required_resources: ClassVar[tuple[str, ...]] = (NAMESPACES,)
    filter_depends_only_on_table: ClassVar[bool] = True

    def __init__(self, args: InterPodAffinityArgs | None, handle: Handle) -> None:
        args = args or InterPodAffinityArgs()
        require_valid(self.validate_args(args))
        self._table = handle.table
        self._terms = Terms(handle)
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignores_others = args.ignore_preferred_terms_of_existing_pods

    @staticmethod
    def validate_args(args: InterPodAffinityArgs) -> Iterator[tuple[str, str]]:
        """Require a weight from 0 to 100."""
        weight = args.hard_pod_affinity_weight
        if not 0 <= weight <= _MAX_WEIGHT:
            yield "hardPodAffinityWeight", invalid(weight, "not in valid range [0, 100]")

    def skips_alike(self, pod: Pod) -> bool:
        """Whether the pod has no terms: those of others do not change while such pods come."""
        return not _has_terms(pod)

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Count matching pods; skip if no term of the pod or of a placed pod can reject a node."""
        if not table.has_existing_pod_terms and not _has_terms(pod):
            return SKIP
        own = self._terms.own(pod)
        if own.parsing_problem:
            return unresolvable(f"parsing pod: {own.parsing_problem}")
        found = required_state(own, pod, table, self._terms.namespace_labels(pod))
        if found.idle:
            return SKIP
        state.write(_REQUIRED, found)
        return None

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Add a pod and its terms to the node's domains."""
        self._change(state, pod, added, node, 1)
        return None

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo
    ) -> Status | None:
        """Remove a pod and its terms from the node's domains."""
        self._change(state, pod, removed, node, -1)
        return None

    def _change(self, state: CycleState, pod: Pod, other: Pod, node: NodeInfo, by: int) -> None:
        found = _required(state)
        found.change(other, found.terms_against(pod, other, self._table), node, by)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Check own affinity, own anti-affinity, then that of placed pods."""
        code = _required(state).code(node)
        return self.filter_status(state, pod, code) if code else None

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Columnar form of `filter`."""
        return _required(state).codes(table, rows)

    def filter_without_victims(
        self, state: CycleState, pod: Pod, table: TableWithoutVictims, rows: Rows
    ) -> Codes:
        """`filter_rows` with the potential victims of each row removed."""
        return _required(state).codes_without_victims(pod, table, rows)

    def removal_sensitive_rows(
        self, state: CycleState, pod: Pod, table: TableWithoutVictims, rows: Rows
    ) -> BoolColumn:
        """Rows whose potential victims are counted."""
        return _required(state).removal_sensitive(pod, table, rows)

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return the rejection by the kind of term."""
        if code == AFFINITY:
            return AFFINITY_UNMET
        return ANTI_AFFINITY_VIOLATED if code == ANTI_AFFINITY else EXISTING_VIOLATED

    def explain_rejection(
        self, state: CycleState, pod: Pod, table: NodeTableView, rejected: RejectedNodes
    ) -> str:
        """Return which term is in the way, and which pod it matches."""
        required: RequiredState | None = state.get(_REQUIRED)
        return "" if required is None else conflict(required, pod, table, rejected)

    def pre_score(
        self, state: CycleState, pod: Pod, table: NodeTableView, feasible: Rows
    ) -> Status | None:
        """Sum weights; skip if no pod contributes."""
        prefers = _has_preferences(pod.signature.spec.affinity)
        if not prefers and (self._ignores_others or not table.has_existing_pod_terms):
            # The pod's own required terms do not affect the score, but upstream parses them and
            # fails on errors.
            return SKIP if self._ignores_others else self._skip_unless_broken(pod)
        own = self._terms.own(pod)
        if own.parsing_problem:
            return error(f"failed to parse pod: {own.parsing_problem}")
        labels = self._terms.namespace_labels(pod)
        found = preferred_state(own, pod, table, labels, self._hard_weight)
        if not found.contributed:
            return SKIP
        state.write(_PREFERRED, found)
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Sum the weights of the node's domains."""
        return _preferred(state).score(node)

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """Columnar form of `score`."""
        return _preferred(state).scores(table, rows)

    def normalize_scores(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows, scores: Int64Column
    ) -> Int64Column:
        """Scale the lowest score to 0 and the highest to 100."""
        return normalized(scores)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for pods, nodes and namespaces that terms are about."""
        return AffinityHints(self._terms, self._table).events()

    def _skip_unless_broken(self, pod: Pod) -> Status:
        problem = self._terms.own(pod).parsing_problem if _has_terms(pod) else ""
        return error(f"failed to parse pod: {problem}") if problem else SKIP


def _has_terms(pod: Pod) -> bool:
    affinity = pod.signature.spec.affinity
    return affinity is not None and (
        affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None
    )


def _has_preferences(affinity: Affinity | None) -> bool:
    return affinity is not None and any(
        each is not None and bool(each.preferred)
        for each in (affinity.pod_affinity, affinity.pod_anti_affinity)
    )


def _required(state: CycleState) -> RequiredState:
    found: RequiredState = state.read(_REQUIRED)
    return found


def _preferred(state: CycleState) -> PreferredState:
    found: PreferredState = state.read(_PREFERRED)
    return found

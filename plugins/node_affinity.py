"""NodeAffinity: nodeSelector, node affinity and the profile's added affinity.

Upstream: `node_affinity.go`. A pod created for one node, as by a DaemonSet, has that node in
`Pod.pin`, outside of its signature. Results shared by signature must therefore exclude pinned pods;
the reuse rules below apply to all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import ClassVar, Final

import numpy as np

from plugins.arguments import Arguments, require_valid
from plugins.details import MAX_ITEMS, condition, listed
from plugins.node_matching import matches_required, node_selector_mask, required_mask, term_mask
from plugins.normalization import default_normalize
from plugins.queueing_hints import queue_if
from plugins.row_selection import is_node, no_scores, selector
from scheduler.api import selectors
from scheduler.api.node import Node
from scheduler.api.node_selectors import (
    METADATA_NAME,
    CompiledNodeSelector,
    CompiledNodeSelectorTerm,
    PreferredTerms,
    compile_node_selector,
    compile_preferred_terms,
)
from scheduler.api.pod import NodeAffinity as NodeAffinityTerms
from scheduler.api.pod import Pod
from scheduler.api.selectors import Requirement, SelectorError
from scheduler.framework import (
    SKIP,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    Codes,
    Columns,
    CycleState,
    EventResource,
    Handle,
    Int64Column,
    NodeInfo,
    NodeTableView,
    PreFilterResult,
    QueueingHint,
    RejectedNodes,
    ReuseRule,
    Rows,
    Status,
    error,
    plugin_names,
    unresolvable,
)
from scheduler.framework.field_errors import invalid
from scheduler.framework.near_labels import key_meant, nearest_value, values_of_nodes

MISMATCH: Final = unresolvable("node(s) didn't match Pod's node affinity/selector")
ENFORCED_MISMATCH: Final = unresolvable("node(s) didn't match scheduler-enforced node affinity")
LEFT_OUT: Final = unresolvable("node(s) didn't satisfy plugin(s) [NodeAffinity]")
"""Of the engine: PreFilter of this plugin alone left the nodes out."""
CONFLICT: Final = unresolvable("pod affinity terms conflict")

MAX_NOTES: Final = 2
"""Labels of which the values of the nodes are named in a detail."""
_WITHOUT: Final = (selectors.NOT_IN, selectors.DOES_NOT_EXIST)
_MISMATCH_CODE: Final = 1
_ENFORCED_CODE: Final = 2

_REQUIRED_PATH: Final = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED_PATH: Final = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"


class NodeAffinityArgs(Arguments):
    """Arguments of NodeAffinity."""

    added_affinity: NodeAffinityTerms | None = None
    """Node affinity of every pod of the profile, in addition to its own. Default: none."""


class NodeAffinity:
    """Filters and scores nodes by their labels and names."""

    name: ClassVar[str] = plugin_names.NODE_AFFINITY
    args_type: ClassVar[type[NodeAffinityArgs]] = NodeAffinityArgs
    pre_filter_reusable: ClassVar[bool] = True
    filter_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.LABELS)
    pre_score_reusable: ClassVar[bool] = True
    score_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.LABELS)
    normalizes_by_highest: ClassVar[bool] = True

    def __init__(self, args: NodeAffinityArgs | None, handle: Handle) -> None:
        args = args or NodeAffinityArgs()
        require_valid(self.validate_args(args))
        #: As configured, for those who say what a node lacks.
        self.added_affinity = args.added_affinity
        self._added_required, self._added_preferred = _compile(args)

    @staticmethod
    def validate_args(args: NodeAffinityArgs) -> Iterator[tuple[str, str]]:
        """Require every term of the added affinity to parse."""
        required, preferred = _compile(args)
        for problem in required.errors if required else ():
            yield problem.path, invalid(problem.value, problem.reason)
        for _, term in preferred.terms if preferred else ():
            if term.error is not None:
                path = _PREFERRED_PATH + term.error.path
                yield path, invalid(term.error.value, term.error.reason)

    def pre_filter(
        self, state: CycleState, pod: Pod, table: NodeTableView
    ) -> PreFilterResult | Status | None:
        """Skip a pod without requirements; select the nodes that required terms name."""
        if pod.pin:
            return PreFilterResult(frozenset((pod.pin,)))
        signature = pod.signature
        required = signature.required_node_affinity
        if required is not None and required.errors:
            # Upstream's reason omits the parse errors; the FailedScheduling message adds them.
            errors = "; ".join(map(str, required.errors))
            state.note_failure(errors, if_rejected_by=self.name)
        named = signature.named_nodes
        if named is None:
            demanded = (
                required is not None
                or signature.spec.node_selector is not None
                or self._added_required is not None
            )
            return None if demanded else SKIP
        return PreFilterResult(named) if named else CONFLICT

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Check the profile's affinity, then the pod's; an invalid term matches nothing."""
        if self._added_required is not None and not self._added_required.matches(
            node.labels, node.name
        ):
            return ENFORCED_MISMATCH
        return None if matches_required(pod, node.labels, node.name) else MISMATCH

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Columnar form of `filter`."""
        index = selector(table, rows)
        codes = np.zeros(len(rows), dtype=np.int32)
        required = pod.signature.required_node_affinity
        if required is not None:
            codes[~required_mask(required, table, rows, index)] = _MISMATCH_CODE
        if pod.pin:
            codes[~is_node(table, rows, pod.pin)] = _MISMATCH_CODE
        if self._added_required is not None:
            matched = node_selector_mask(self._added_required, table, rows, index)
            codes[~matched] = _ENFORCED_CODE
        return codes

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return the rejection by the profile's or by the pod's affinity."""
        return ENFORCED_MISMATCH if code == _ENFORCED_CODE else MISMATCH

    def explain_rejection(
        self, state: CycleState, pod: Pod, table: NodeTableView, rejected: RejectedNodes
    ) -> str:
        """Return for each condition on labels how many of the nodes meet it.

        Of a label of which no node has a wanted value, the values that there are follow. Of nodes
        that PreFilter left out: the nodes that the pod names.
        """
        required = pod.signature.required_node_affinity
        rows = rejected.rows
        if not len(rows) or rejected.status.reasons != MISMATCH.reasons:
            names = frozenset((pod.pin,)) if pod.pin else pod.signature.named_nodes
            return _named(table, names) if rejected.status.reasons == LEFT_OUT.reasons else ""
        if required is None:
            return ""
        conditions = dict.fromkeys(required.node_selector.requirements)
        for term in required.selector.terms[:MAX_ITEMS] if required.selector else ():
            conditions |= dict.fromkeys((*term.labels, *term.fields))
        texts = []
        for each in list(conditions)[:MAX_ITEMS]:
            named = each.key == METADATA_NAME
            term = CompiledNodeSelectorTerm(() if named else (each,), (each,) if named else ())
            mask = term_mask(term, table, rows, rows)
            met = len(rows) * mask if isinstance(mask, bool) else int(mask.sum())
            texts.append((met, f"{condition(each)}: {met} of {len(rows)}"))
        texts.sort()
        shown = listed((text for _, text in texts), len(conditions), "; ")
        notes = map(
            partial(_values, table, alone=len(conditions) == 1), list(conditions)[:MAX_ITEMS]
        )
        return "; ".join([shown, *islice(filter(None, notes), MAX_NOTES)])

    def pre_score(
        self, state: CycleState, pod: Pod, table: NodeTableView, feasible: Rows
    ) -> Status | None:
        """Skip without preferred terms; return an error if a term does not parse."""
        preferred = pod.signature.preferred_node_affinity
        if preferred is not None and preferred.error is not None:
            return error(str(preferred.error))
        return SKIP if preferred is None and self._added_preferred is None else None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int | Status:
        """Sum the weights of matching terms of the profile and of the pod."""
        try:
            return sum(each.score(node.labels, node.name) for each in self._preferences(pod))
        except SelectorError as raised:
            return error(str(raised))

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """Columnar form of `score`."""
        index = selector(table, rows)
        scores = no_scores(rows)
        for preferred in self._preferences(pod):
            for weight, term in preferred.terms:
                mask = term_mask(term, table, rows, index)
                if mask is True:
                    scores += weight
                elif mask is not False:
                    scores[mask] += weight
        return scores

    def normalize_scores(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows, scores: Int64Column
    ) -> Int64Column:
        """Scale the best score to 100; all stay 0 if no term matches."""
        return default_normalize(scores)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for nodes that are added, or whose labels change, so that they match."""
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
                self._after_node_change,
                # Pinned pods do not share: `Pod.pin` is part of the key of shared results.
                per_signature=True,
            ),
        )

    def _after_node_change(self, pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        added = self._added_required
        labels = new.metadata.labels
        return queue_if(
            (added is None or added.matches(labels, new.name))
            and matches_required(pod, labels, new.name)
            and (old is None or not matches_required(pod, old.metadata.labels, old.name))
        )

    def _preferences(self, pod: Pod) -> Iterator[PreferredTerms]:
        if self._added_preferred is not None:
            yield self._added_preferred
        own = pod.signature.preferred_node_affinity
        if own is not None:
            yield own


def _named(table: NodeTableView, names: frozenset[str] | None) -> str:
    """Return which nodes a pod names, or that they do not exist."""
    if not names:
        return ""
    shown = listed(sorted(names), len(names))
    if any(table.row_of(each) is not None for each in names):
        return shown
    if len(names) == 1:
        return f"node {shown} does not exist"
    return f"none of the nodes {shown} exists"


def _values(table: NodeTableView, requirement: Requirement, *, alone: bool) -> str:
    """Return which values nodes have of a label of which none has one that is wanted, else nothing.

    Of a label that no node has, a similar one that nodes have.

    `alone`: no other condition could be meant.
    """
    key = requirement.key
    if requirement.operator in _WITHOUT or key == METADATA_NAME:
        return ""
    known = values_of_nodes(table, key)
    if not known:
        meant = key_meant(table, key)
        return f"no node has the label {key}; did you mean {meant}?" if meant else ""
    # Not `in requirement.values`: both may be thousands.
    if requirement.operator != selectors.IN or any(
        requirement.accepts(value) for value, _ in known
    ):
        return ""
    shown = listed((f"{value} ({nodes})" for value, nodes in known), len(known))
    near = nearest_value(requirement.values, known)[1]
    text = f"nodes have {shown}" if alone else f"nodes have {key} {shown}"
    return f"{text}; did you mean {near}?" if near else text


def _compile(args: NodeAffinityArgs) -> tuple[CompiledNodeSelector | None, PreferredTerms | None]:
    added = args.added_affinity
    if added is None:
        return None, None
    required = added.required
    return (
        compile_node_selector(required, f"{_REQUIRED_PATH}.nodeSelectorTerms")
        if required is not None
        else None,
        compile_preferred_terms(added.preferred) if added.preferred else None,
    )

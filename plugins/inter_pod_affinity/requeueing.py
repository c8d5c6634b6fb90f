"""Queueing hints of InterPodAffinity: each change after which Filter may accept another node.

Upstream's hints (`interpodaffinity/plugin.go: EventsToRegister`) miss some of these changes, and
the pods then wait for the periodic flush; docs/differences.md lists them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from plugins.inter_pod_affinity.terms import Terms, compiled_terms
from plugins.queueing_hints import after_own_update, is_placed, queue_if
from scheduler.api.many_terms import MANY_TERMS
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.pod_affinity import AffinityTerm
from scheduler.api.workloads import Namespace
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    HintKeys,
    NodeTableView,
    QueueingHint,
    TermKind,
)

Label = tuple[str, str]
"""Key and value."""

_NO_LABELS: Final[Mapping[str, str]] = {}
_MAX_KEYS: Final = 1_000
"""A pod with more hint keys gets none: they would take more memory than its terms."""


class AffinityHints:
    """The hints. They read only signature, labels and namespace of a waiting pod."""

    def __init__(self, terms: Terms, table: NodeTableView) -> None:
        self._terms = terms
        self._table = table

    def events(self) -> Sequence[ClusterEventWithHint]:
        """Return the registrations."""
        pod_changes = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL
        node_changes = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.ASSIGNED_POD, pod_changes),
                self._after_pod_change,
                per_signature=True,
                keys=HintKeys(_required_labels, _provided_labels),
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_LABEL),
                after_own_update,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, node_changes),
                self._after_node_change,
                per_signature=True,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.NAMESPACE, ActionType.ALL),
                self._after_namespace_change,
                per_signature=True,
            ),
        )

    def _after_pod_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """Queue if a matching pod appeared, or one left that anti-affinity kept away from."""
        if not all(is_placed(each) for each in (old, new) if each is not None):
            return QueueingHint.SKIP
        terms = compiled_terms(pod)
        if terms.errors:
            return QueueingHint.QUEUE
        before = old is not None and self._required_match(pod, old)
        after = new is not None and self._required_match(pod, new)
        # Once no pod matches all terms, a pod that matches them itself starts a group anywhere.
        if before is not after and (after or self._required_match(pod, pod)):
            return QueueingHint.QUEUE
        if old is None:
            return QueueingHint.SKIP
        violated = self._anti_matching(pod, old)
        if violated:
            left = {} if new is None else self._anti_matching(pod, new)
            if any(left.get(key, 0) < number for key, number in violated.items()):
                return QueueingHint.QUEUE
        return queue_if(new is None and bool(self._anti_matching(old, pod)))

    def _after_node_change(self, pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
        """Queue if a node entered a domain of an affinity term, or left an anti-affine domain."""
        terms = compiled_terms(pod)
        if terms.errors:
            return QueueingHint.QUEUE
        near = {each.topology_key for each in terms.required}
        if old is None:
            # Without the key of any affinity term, neither the node nor pods on it can help.
            return queue_if(new is not None and (not near or not near.isdisjoint(_labels(new))))
        before, after = _labels(old), _NO_LABELS if new is None else _labels(new)
        if new is None and not self._has_pods(old):
            return QueueingHint.SKIP
        if any(key in after and before.get(key) != after[key] for key in near):
            return QueueingHint.QUEUE
        left = {key for key, value in before.items() if after.get(key) != value}
        if not near.isdisjoint(left) and self._required_match(pod, pod):
            return QueueingHint.QUEUE
        if any(each.topology_key in left for each in terms.required_anti):
            return QueueingHint.QUEUE
        return queue_if(self._others_keep_away(pod, left))

    def _has_pods(self, node: Node) -> bool:
        row = self._table.row_of(node.name)
        return row is not None and bool(self._table.node_info(row).pods)

    def _others_keep_away(self, pod: Pod, keys: Collection[str]) -> bool:
        """Whether anti-affinity of placed pods, by one of these topology keys, is about `pod`."""
        table, metadata = self._table, pod.metadata
        if not keys or not table.has_existing_pod_terms:
            return False
        if not all((table.label_column(key)[table.rows] >= 0).any() for key in keys):
            # The last node with the key lost it, and the table omits terms by such a key.
            return True
        labels = self._terms.namespace_labels(pod)
        return any(
            each.kind is TermKind.REQUIRED_ANTI and each.topology_key in keys
            for each in table.existing_pod_terms(metadata.namespace, metadata.labels, labels)
        )

    def _after_namespace_change(
        self, pod: Pod, old: Namespace | None, new: Namespace | None
    ) -> QueueingHint:
        """Queue if terms select other namespaces now."""
        before = None if old is None else old.metadata.labels
        after = None if new is None else new.metadata.labels
        changed = new or old
        if changed is None or before == after:
            return QueueingHint.SKIP
        terms = compiled_terms(pod)
        if terms.errors:
            return QueueingHint.QUEUE
        if changed.metadata.name == pod.metadata.namespace and self._table.has_existing_pod_terms:
            return QueueingHint.QUEUE
        return queue_if(
            any(
                each.namespace_selector is not None
                and _selects(each, before) != _selects(each, after)
                for each in (*terms.required, *terms.required_anti)
            )
        )

    def _required_match(self, owner: Pod, other: Pod) -> bool:
        """Whether `other` matches all required affinity terms of `owner`; False without terms."""
        terms = compiled_terms(owner).required
        if len(terms) > MANY_TERMS:
            return self._terms.own(owner).all_required_match(other)
        return bool(terms) and all(self._matches(each, other) for each in terms)

    def _anti_matching(self, owner: Pod, other: Pod) -> Mapping[str, int]:
        """Count by topology key the anti-affinity terms of `owner` that match `other`."""
        terms = compiled_terms(owner).required_anti
        if len(terms) > MANY_TERMS:
            return self._terms.own(owner).anti_matching(other)
        return Counter(each.topology_key for each in terms if self._matches(each, other))

    def _matches(self, term: AffinityTerm, pod: Pod) -> bool:
        # Unlike `Terms.own`, this does not resolve the selector: thousands of pods may wait, and
        # each event is about one pod.
        labels = _NO_LABELS
        if term.namespace_selector is not None:
            labels = self._terms.namespace_labels(pod)
        return term.matches(pod.metadata.namespace, labels, pod.metadata.labels)


def _selects(term: AffinityTerm, labels: Mapping[str, str] | None) -> bool:
    selector = term.namespace_selector
    return labels is not None and selector is not None and selector.matches(labels)


def _labels(node: Node) -> Mapping[str, str]:
    return node.metadata.labels


def _required_labels(pod: Pod) -> frozenset[Label] | None:
    """Return labels of which another pod has at least one if `_after_pod_change` returns QUEUE.

    `_provided_labels` covers deleted pods whose own terms decide.
    """
    terms = compiled_terms(pod)
    required, required_anti = _labels_of_all(terms.required), _labels_of_any(terms.required_anti)
    if terms.errors or required is None or required_anti is None:
        return None
    return required | required_anti


def _labels_of_all(terms: Sequence[AffinityTerm]) -> frozenset[Label] | None:
    """Return a minimal set of labels of which every pod that matches all terms has at least one."""
    if not terms:
        return frozenset()
    label_sets = [each.selector.needed_labels for each in terms]
    return min((each for each in label_sets if each is not None), key=len, default=None)


def _labels_of_any(terms: Sequence[AffinityTerm]) -> frozenset[Label] | None:
    """Return labels of which every pod that matches one of the terms has at least one."""
    found: set[Label] = set()
    for each in terms:
        needed = each.selector.needed_labels
        if needed is None:
            return None
        found |= needed
        if len(found) > _MAX_KEYS:
            return None
    return frozenset(found)


def _provided_labels(old: Pod | None, new: Pod | None) -> set[Label] | None:
    if new is None and old is not None:
        affinity = old.spec.affinity
        if affinity is not None and affinity.pod_anti_affinity is not None:
            return None
    provided: set[Label] = set()
    for each in (old, new):
        if each is not None:
            provided.update(each.metadata.labels.items())
    return provided

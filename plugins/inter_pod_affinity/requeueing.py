"""Queueing hints of InterPodAffinity (`interpodaffinity/plugin.go: EventsToRegister`).

As upstream, namespace selectors are matched against an empty label set here, and of several
anti-affinity terms all must match, though one suffices to reject.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from plugins.inter_pod_affinity.terms import compiled_terms
from plugins.queueing_hints import is_placed, queue_if
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.pod_affinity import AffinityTerm
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    HintKeys,
    QueueingHint,
)

Label = tuple[str, str]
"""Key and value."""

_NO_LABELS: Final[Mapping[str, str]] = {}


def affinity_events() -> Sequence[ClusterEventWithHint]:
    """Return the registrations."""
    return (
        ClusterEventWithHint(
            ClusterEvent(
                EventResource.POD, ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL
            ),
            _after_pod_change,
            per_signature=True,
            keys=HintKeys(_required_labels, _provided_labels),
        ),
        ClusterEventWithHint(
            ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            _after_node_change,
            # The hint reads only topology keys, which are part of the signature.
            per_signature=True,
        ),
    )


def _after_pod_change(pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
    """Queue if a matching pod appeared, an anti-affine one left, or the own labels changed."""
    if new is not None and new.metadata.uid == pod.metadata.uid:
        return QueueingHint.QUEUE
    if not all(is_placed(each) for each in (old, new) if each is not None):
        return QueueingHint.SKIP
    terms = compiled_terms(pod)
    required, required_anti = terms.required, terms.required_anti
    if terms.errors:
        return QueueingHint.QUEUE
    if new is None:
        return queue_if(old is not None and _deletion_helps(pod, required_anti, old))
    if old is None:
        return queue_if(_all_match(required, new))
    return queue_if(
        (_all_match(required, new) and not _all_match(required, old))
        or (_all_match(required_anti, old) and not _all_match(required_anti, new))
    )


def _required_labels(pod: Pod) -> frozenset[Label] | None:
    """Return labels of which another pod has at least one if `_after_pod_change` returns QUEUE.

    `_provided_labels` covers deleted pods whose own terms decide.
    """
    terms = compiled_terms(pod)
    required, required_anti = _labels_of_one(terms.required), _labels_of_one(terms.required_anti)
    if terms.errors or required is None or required_anti is None:
        return None
    return required | required_anti


def _after_node_change(pod: Pod, old: Node | None, new: Node) -> QueueingHint:
    """Queue if the node entered a domain of an affinity term or left an anti-affine one."""
    terms = compiled_terms(pod)
    if terms.errors:
        return QueueingHint.QUEUE
    after = new.metadata.labels
    if old is None:
        has_domain = any(each.topology_key in after for each in terms.required)
        return queue_if(has_domain or bool(terms.required_anti))
    before = old.metadata.labels
    entered = any(_entered(each.topology_key, before, after) for each in terms.required)
    left = any(_entered(each.topology_key, after, before) for each in terms.required_anti)
    return queue_if(entered or left)


def _labels_of_one(terms: Sequence[AffinityTerm]) -> frozenset[Label] | None:
    """Return a minimal set of labels of which every pod that matches all terms has at least one."""
    if not terms:
        return frozenset()
    label_sets = [each.selector.needed_labels for each in terms]
    return min((each for each in label_sets if each is not None), key=len, default=None)


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


def _deletion_helps(pod: Pod, required_anti: Sequence[AffinityTerm], deleted: Pod) -> bool:
    if _all_match(required_anti, deleted):
        return True
    terms = deleted.signature.pod_affinity_terms(deleted.metadata.namespace)
    return _all_match(terms.required_anti, pod)


def _all_match(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    """Whether all terms match; False without terms."""
    metadata = pod.metadata
    return bool(terms) and all(
        each.matches(metadata.namespace, _NO_LABELS, metadata.labels) for each in terms
    )


def _entered(key: str, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether `after` has a value of `key` that `before` had not."""
    return key in after and before.get(key) != after[key]

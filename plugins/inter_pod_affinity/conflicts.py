"""The affinity terms that are in the way of a pod, and who matches them, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugins.details import label_selector, listed
from plugins.inter_pod_affinity.filtering import RequiredState
from plugins.inter_pod_affinity.terms import OwnTerm, compiled_terms
from scheduler.api.pod import Pod
from scheduler.framework import NodeTableView, RejectedNodes
from scheduler.framework.near_labels import key_meant

MAX_NODES: Final = 20
"""Nodes whose pods are looked through for a pod to name."""
MAX_PODS: Final = 500
"""Pods that are looked at."""
_MAX_TERMS: Final = 3


def conflict(state: RequiredState, pod: Pod, table: NodeTableView, rejected: RejectedNodes) -> str:
    """Return the terms of the pod, or of another one, that the rejected nodes violate."""
    reasons = " ".join(rejected.status.reasons)
    if "pod affinity rules" in reasons:
        return _unmet(state, table)
    if "existing pods" in reasons:
        return _existing(state, pod, table, rejected)
    return _own_anti(state, table, rejected)


def _unmet(state: RequiredState, table: NodeTableView) -> str:
    texts = []
    for term in state.own.required[:_MAX_TERMS]:
        matched = int(table.pod_counts((term.pods,), terminating=True).sum())
        texts.append(f"{_text(term)} matches {matched} pod{'' if matched == 1 else 's'}")
        if meant := key_meant(table, term.topology_key):
            texts.append(f"no node has the label {term.topology_key}; did you mean {meant}?")
    if not state.affinity.total and not state.matches_itself:
        texts.append("no pod matches them all, nor does the pod itself, so it starts no group")
    return listed(texts, len(texts), "; ")


def _own_anti(state: RequiredState, table: NodeTableView, rejected: RejectedNodes) -> str:
    for other, node in _pods(table, rejected):
        for term in state.own.required_anti[:_MAX_TERMS]:
            if term.matches(other):
                return f"{_text(term)} matches {other.key} on {node}"
    texts = [f"{_text(term)}" for term in state.own.required_anti[:_MAX_TERMS]]
    return listed(texts, len(state.own.required_anti), "; ")


def _existing(state: RequiredState, pod: Pod, table: NodeTableView, rejected: RejectedNodes) -> str:
    namespace, labels = pod.metadata.namespace, pod.metadata.labels
    for other, node in _pods(table, rejected):
        for term in compiled_terms(other).required_anti[:_MAX_TERMS]:
            if term.matches(namespace, state.namespace_labels, labels):
                return f"anti-affinity of {other.key} on {node}, by {term.topology_key}"
    return ""


def _pods(table: NodeTableView, rejected: RejectedNodes) -> Iterator[tuple[Pod, str]]:
    """Yield pods on the first of the rejected nodes; those elsewhere in a domain are not found."""
    left = MAX_PODS
    for row in rejected.rows[:MAX_NODES].tolist():
        for pod in table.node_info(row).pods:
            if not left:
                return
            left -= 1
            yield pod, table.names[row]


def _text(term: OwnTerm) -> str:
    return f"{label_selector(term.pods.selector)} by {term.topology_key}"

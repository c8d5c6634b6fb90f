"""Label keys of affinity terms and spread constraints, merged into their selectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from scheduler.api.stored.notes import JsonObject, Notes

MERGED: Final = "selectors from matchLabelKeys and mismatchLabelKeys"

_AFFINITIES: Final = ("podAffinity", "podAntiAffinity")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def merge_label_keys(pod: JsonObject, notes: Notes) -> None:
    """Require of other pods the values that this one has.

    As `pkg/registry/core/pod/strategy.go` does for terms (MatchLabelKeysInPodAffinity) and
    constraints (MatchLabelKeysInPodTopologySpreadSelectorMerge), which it does not with keys that
    the pod lacks, nor without a selector.
    """
    spec = pod["spec"]
    labels = (pod.get("metadata") or {}).get("labels") or {}
    for term in _terms(spec.get("affinity") or {}):
        _merge(term, "matchLabelKeys", "In", labels, notes)
        _merge(term, "mismatchLabelKeys", "NotIn", labels, notes)
    for each in spec.get("topologySpreadConstraints") or ():
        _merge(each, "matchLabelKeys", "In", labels, notes)


def _terms(affinity: JsonObject) -> Iterator[JsonObject]:
    for name in _AFFINITIES:
        own = affinity.get(name) or {}
        yield from own.get(_REQUIRED) or ()
        for each in own.get(_PREFERRED) or ():
            if "podAffinityTerm" in each:
                yield each["podAffinityTerm"]


def _merge(
    holder: JsonObject, field: str, operator: str, labels: dict[str, Any], notes: Notes
) -> None:
    selector = holder.get("labelSelector")
    if selector is None:
        return
    for key in holder.get(field) or ():
        if key not in labels:
            continue
        made = {"key": key, "operator": operator, "values": [labels[key]]}
        expressions = selector.setdefault("matchExpressions", [])
        if made not in expressions:
            expressions.append(made)
            notes.fill(MERGED)

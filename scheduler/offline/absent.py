"""The kinds that a dump lacks: which of them decide about its pods, and what their absence decides.

A cluster without volumes, quotas or affinity is normal, so nothing is said about a kind that no pod
of the dump asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from scheduler.api.pod import Pod, PodAffinityTerm


def _always(_pod: Pod) -> bool:
    return True


def _has_claims(pod: Pod) -> bool:
    return any(
        each.persistent_volume_claim is not None or each.ephemeral is not None
        for each in pod.spec.volumes
    )


def _selects_namespaces(pod: Pod) -> bool:
    return any(each.namespace_selector is not None for each in _terms(pod))


def _terms(pod: Pod) -> Iterable[PodAffinityTerm]:
    affinity = pod.spec.affinity
    if affinity is None:
        return
    for each in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if each is not None:
            yield from each.required
            yield from (preferred.pod_affinity_term for preferred in each.preferred)


def _has_labels(pod: Pod) -> bool:
    return bool(pod.metadata.labels)


def _owned_by(kind: str) -> Callable[[Pod], bool]:
    return lambda pod: any(
        each.controller and each.kind == kind for each in pod.metadata.owner_references
    )


class _Absence(NamedTuple):
    concerns: Callable[[Pod], bool]
    """Whether the kind decides anything about a pod."""
    effect: str
    """What is decided without it."""


_ABSENCES: Final[Mapping[str, _Absence]] = {
    "persistentvolumeclaims": _Absence(_has_claims, "pods with claims wait for them"),
    "persistentvolumes": _Absence(_has_claims, "claims are bound to no volume that exists"),
    "storageclasses": _Absence(_has_claims, "no volume is provisioned"),
    "csinodes": _Absence(_has_claims, "the number of volumes on a node is not limited"),
    "csidrivers": _Absence(_has_claims, "storage capacity is not checked"),
    "poddisruptionbudgets": _Absence(_always, "no pod is protected from eviction"),
    "namespaces": _Absence(_selects_namespaces, "namespaces have no labels but their names"),
    "services": _Absence(_has_labels, "their pods are not spread by default"),
    "replicasets": _Absence(_owned_by("ReplicaSet"), "their pods are not spread by default"),
    "statefulsets": _Absence(_owned_by("StatefulSet"), "their pods are not spread by default"),
    "resourcequotas": _Absence(_always, "no quota defers a pod"),
}


def absences(
    known: Collection[str], needed: Iterable[str], pods: Iterable[Pod], *, mixed: bool = False
) -> list[str]:
    """Return one line about the kinds of `needed` that decide about these pods and are not known.

    With `mixed` they may have been asked for: kubectl's list of several kinds does not name those
    of which the cluster has no object.

    >>> absences({"pods"}, ["pods", "nodes", "resourcequotas"], [Pod()])
    ['not in the dump: resourcequotas (no quota defers a pod)']
    """
    wanted, pods = set(needed) - set(known), list(pods)
    found = [
        f"{plural} ({absence.effect})"
        for plural, absence in _ABSENCES.items()
        if plural in wanted and any(map(absence.concerns, pods))
    ]
    if not found:
        return []
    names = ", ".join(found)
    if mixed:
        return [f"the dump has no {names}: right if the cluster has none, else dump them, too"]
    return [f"not in the dump: {names}"]

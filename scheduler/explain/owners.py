"""Owners of pods: the pod group, or the controller that replaces the pods that go."""

from __future__ import annotations

from typing import Final

from scheduler.api.pod import Pod
from scheduler.groups.terms import group_of

MAX_OWNER: Final = 253
"""Characters of the kind, and of the name of an owner, whom the API server hardly checks."""
TEMPLATE_HASH: Final = "pod-template-hash"
_MINUTE: Final = 8
"""Digits of a minute since 1970; `sort-1` is no Job of a CronJob."""


def owner_of(pod: Pod, kind: str = "") -> str:
    """Return kind and name of the pod group, or of the controller; of a Deployment for its pods.

    Where an owner of one `kind` is asked for, it is the one of that kind: a pod of a pod group also
    belongs to its Job, one of a Deployment to its ReplicaSet, one of a CronJob to its Job.
    """
    group = group_of(pod) if kind in {"", "PodGroup"} else None
    if group is not None:
        return f"PodGroup/{group.name[:MAX_OWNER]}"
    owner = next((each for each in pod.metadata.owner_references if each.controller), None)
    if owner is None:
        return ""
    suffix = f"-{pod.metadata.labels.get(TEMPLATE_HASH, '')}"
    of_template = len(suffix) > 1 and owner.name.endswith(suffix)
    if owner.kind == "ReplicaSet" and of_template and kind != "ReplicaSet":
        return f"Deployment/{owner.name.removesuffix(suffix)[:MAX_OWNER]}"
    if owner.kind == "Job" and kind == "CronJob":
        # A CronJob names its Jobs after the minute for which they are due.
        name, _, minute = owner.name.rpartition("-")
        due = minute.isdecimal() and len(minute) >= _MINUTE
        return f"CronJob/{name[:MAX_OWNER]}" if due else ""
    return f"{owner.kind[:MAX_OWNER]}/{owner.name[:MAX_OWNER]}"


def have_same_owner(one: Pod, other: Pod) -> bool:
    """Return whether both pods are of one pod group, controller, Deployment or CronJob."""
    if one.metadata.namespace != other.metadata.namespace:
        return False
    owners = (
        (owner_of(one, kind), owner_of(other, kind)) for kind in ("", "Deployment", "CronJob")
    )
    return any(ours and ours == theirs for ours, theirs in owners)

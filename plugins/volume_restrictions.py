"""VolumeRestrictions: rejects nodes for disks and claims that only one pod may use at a time.

As upstream (`volume_restrictions.go`): a ReadWriteOncePod claim in use rejects every node,
including the one where it is used; AddPod and RemovePod compare claim names without namespaces; a
pod that PreFilter skipped is not checked against a nominated pod that will use its claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from plugins.details import listed
from plugins.queueing_hints import queue_if
from plugins.row_selection import all_pass
from plugins.volume_binding.claims import (
    CLAIM_NOT_FOUND,
    OWN_CLAIM_KEYS,
    READ_WRITE_ONCE_POD,
    after_own_claim,
    claims_named,
)
from plugins.volume_binding.permissions import CLAIMS, CLAIMS_WAIT, unreadable
from plugins.volume_binding.volume_pods import VolumePods
from scheduler.api.limits import MAX_VOLUMES, TOO_MANY
from scheduler.api.pod import Pod, Volume
from scheduler.api.storage import PersistentVolumeClaim
from scheduler.framework import (
    NEVER,
    SKIP,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    Codes,
    CycleState,
    EventResource,
    Handle,
    HintKeys,
    NoArgs,
    NodeInfo,
    NodeTableView,
    QueueingHint,
    RejectedNodes,
    ReuseRule,
    Rows,
    Status,
    plugin_names,
    unresolvable,
    unschedulable,
)

DISK_CONFLICT: Final = unschedulable("node(s) had no available disk")
CLAIM_IN_USE: Final = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)

_STATE: Final = plugin_names.VOLUME_RESTRICTIONS
_DISK, _CLAIM = 1, 2


@dataclass(slots=True)
class _State:
    """Result of PreFilter; AddPod and RemovePod change it."""

    #: Names of the pod's ReadWriteOncePod claims.
    exclusive: frozenset[str]
    #: Number of claims in `exclusive` that other pods use.
    conflicts: int

    def clone(self) -> _State:
        return _State(self.exclusive, self.conflicts)


class VolumeRestrictions:
    """Compares the pod's disks and exclusive claims with those in use."""

    name: ClassVar[str] = plugin_names.VOLUME_RESTRICTIONS
    required_resources: ClassVar[tuple[str, ...]] = ("persistentvolumeclaims",)
    optional_resources: ClassVar[Mapping[str, str]] = {"persistentvolumeclaims": CLAIMS_WAIT}
    # Claims are looked up in the pod's namespace, which is not part of its signature.
    filter_reuse: ClassVar[ReuseRule | None] = NEVER

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        self._handle = handle
        self._pods = VolumePods()

    def concerns(self, pod: Pod) -> bool:
        """Whether the pod has volumes."""
        return bool(pod.signature.spec.volumes)

    def skips_alike(self, pod: Pod) -> bool:
        """Whether the pod has no claims, on which all else depends."""
        return not pod.signature.claims

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Find exclusive claims in use; skip a pod without such claims and exclusive disks."""
        volumes = pod.signature.spec.volumes
        if not volumes:
            return SKIP
        if len(volumes) > MAX_VOLUMES:
            what = f"{len(volumes)} volumes"
            return unresolvable(TOO_MANY.format(what=what, limit=MAX_VOLUMES))
        found = self._exclusive_claims(pod)
        if isinstance(found, Status):
            return found
        conflicts = 0
        if found:
            self._pods.sync(table)
            users = self._pods.claim_users
            conflicts = sum(f"{pod.metadata.namespace}/{name}" in users for name in found)
        if not conflicts and not any(map(_exclusive_disk, volumes)):
            return SKIP
        state.write(_STATE, _State(found, conflicts))
        return None

    def _exclusive_claims(self, pod: Pod) -> frozenset[str] | Status:
        claims = pod.signature.claims
        if not claims:
            return frozenset()
        problem = unreadable(self._handle, (CLAIMS,))
        if problem is not None:
            return problem
        lister = self._handle.listers["persistentvolumeclaims"]
        exclusive = set()
        for name in claims:
            claim: PersistentVolumeClaim | None = lister.get(name, pod.metadata.namespace)
            if claim is None:
                return unresolvable(CLAIM_NOT_FOUND.format(name))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                exclusive.add(name)
        return frozenset(exclusive)

    def explain_rejection(
        self, state: CycleState, pod: Pod, table: NodeTableView, rejected: RejectedNodes
    ) -> str:
        """Return which claim for one pod only is in use, and where."""
        found: _State | None = state.get(_STATE)
        texts = []
        for name in sorted(found.exclusive) if found else ():
            users = self._pods.claim_users.get(f"{pod.metadata.namespace}/{name}", {})
            texts += [f"claim {name} is in use on {table.names[row]}" for row in users]
        return listed(texts, len(texts), "; ")

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Count the claims of a pod that a what-if adds."""
        self._count(state, added, 1)
        return None

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo
    ) -> Status | None:
        """Uncount the claims of a pod that a what-if removes."""
        self._count(state, removed, -1)
        return None

    def _count(self, state: CycleState, other: Pod, sign: int) -> None:
        known: _State = state.read(_STATE)
        known.conflicts += sign * sum(name in known.exclusive for name in other.signature.claims)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node with a conflicting disk, or every node if a claim is in use."""
        disks = _exclusive_disks(pod)
        if disks and _conflicts(disks, node.pods):
            return DISK_CONFLICT
        known: _State = state.read(_STATE)
        return CLAIM_IN_USE if known.conflicts > 0 else None

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Columnar form of `filter`."""
        known: _State = state.read(_STATE)
        disks = _exclusive_disks(pod)
        codes = all_pass(rows)
        if known.conflicts > 0:
            codes[:] = _CLAIM
        if not disks:
            return codes
        self._pods.sync(table)
        taken = [row for row, pods in self._pods.by_row.items() if _conflicts(disks, pods)]
        if taken:
            codes[np.isin(rows, taken)] = _DISK
        return codes

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return the conflict of the disk or of the claim."""
        return DISK_CONFLICT if code == _DISK else CLAIM_IN_USE

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for deleted pods, added and deleted nodes, and added claims of the pod."""
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE),
                _after_pod_delete,
                per_signature=True,
                keys=HintKeys(_required_claims, _provided_claims),
            ),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, ActionType.DELETE),
                _after_node_delete,
                per_signature=True,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD),
                after_own_claim,
                per_signature=True,
                keys=OWN_CLAIM_KEYS,
            ),
        )


def _exclusive_disk(volume: Volume) -> bool:
    return (
        volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.iscsi is not None
        or volume.rbd is not None
    )


def _exclusive_disks(pod: Pod) -> list[Volume]:
    return [each for each in pod.signature.volumes if _exclusive_disk(each)]


def _conflicts(disks: Sequence[Volume], pods: Iterable[Pod]) -> bool:
    return any(
        _conflict(volume, other)
        for pod in pods
        for other in pod.signature.volumes
        if _exclusive_disk(other)
        for volume in disks
    )


def _conflict(one: Volume, other: Volume) -> bool:
    """Whether two in-line volumes are the same disk and exclude each other (`isVolumeConflict`)."""
    gce, other_gce = one.gce_persistent_disk, other.gce_persistent_disk
    if gce and other_gce and gce.pd_name == other_gce.pd_name:
        return not (gce.read_only and other_gce.read_only)
    ebs, other_ebs = one.aws_elastic_block_store, other.aws_elastic_block_store
    if ebs and other_ebs and ebs.volume_id == other_ebs.volume_id:
        return True
    iscsi, other_iscsi = one.iscsi, other.iscsi
    if iscsi and other_iscsi and iscsi.iqn == other_iscsi.iqn:
        return not (iscsi.read_only and other_iscsi.read_only)
    rbd, other_rbd = one.rbd, other.rbd
    if rbd and other_rbd and (rbd.pool, rbd.image) == (other_rbd.pool, other_rbd.image):
        shared = not set(rbd.monitors).isdisjoint(other_rbd.monitors)
        return shared and not (rbd.read_only and other_rbd.read_only)
    return False


def _required_claims(pod: Pod) -> set[tuple[str, str]] | None:
    return None if _exclusive_disks(pod) else claims_named(pod)


def _provided_claims(old: Pod, _new: Any) -> set[tuple[str, str]]:
    return claims_named(old)


def _after_pod_delete(pod: Pod, old: Pod, _new: Any) -> QueueingHint:
    shared = old.metadata.namespace == pod.metadata.namespace and not set(
        pod.signature.claims
    ).isdisjoint(old.signature.claims)
    return queue_if(shared or _conflicts(_exclusive_disks(pod), (old,)))


def _after_node_delete(pod: Pod, _old: Any, _new: Any) -> QueueingHint:
    # Pods on a deleted node use no claims any more.
    return queue_if(bool(pod.signature.claims))

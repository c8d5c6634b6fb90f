"""VolumeBinding: accepts nodes where the pod's volumes are, or can be bound or provisioned.

Upstream: `volume_binding.go`, `binder.go`. Filter makes a plan per node. Reserve assumes the plan
of the chosen node, so that the next pod does not take the same volume. PreBind writes the plan and
waits, without holding a binding slot, for the volume controller or the provisioner. As upstream,
writes are not undone if the pod fails later; the next attempt uses them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import ClassVar, Final

import numpy as np

from plugins.arguments import require_valid
from plugins.details import listed
from plugins.volume_binding.arguments import (
    DEFAULT_SHAPE,
    SCORING_GATE,
    VolumeBindingArgs,
    binding_problems,
    gated_problems,
)
from plugins.volume_binding.claims import (
    CLAIM_NOT_FOUND,
    claim_class,
    made_for,
    not_owner,
    pod_claims,
)
from plugins.volume_binding.matching import NO_VOLUME, WRONG_NODE, Claims, Matcher, VolumePlan
from plugins.volume_binding.permissions import CLAIM_RESOURCES, CLAIMS_WAIT, unreadable
from plugins.volume_binding.provisioning import CONFLICT, NO_SPACE
from plugins.volume_binding.reachability import PositionsByLabel
from plugins.volume_binding.requeueing import volume_binding_events
from plugins.volume_binding.scoring import StorageScorer
from plugins.volume_binding.writing import (
    BindingFailedError,
    Progress,
    Reservation,
    awaited,
    release,
    reserve,
    unbound,
)
from scheduler.api.pod import Pod
from scheduler.api.storage import PersistentVolumeClaim
from scheduler.api.stored.kinds import IS_DEFAULT
from scheduler.explain.records.wording import span
from scheduler.framework import (
    NEVER,
    SKIP,
    ClusterEventWithHint,
    Codes,
    CycleState,
    Handle,
    Int64Column,
    NodeInfo,
    NodeTableView,
    Permission,
    PreBindPreFlightResult,
    RejectedNodes,
    ReuseRule,
    Rows,
    Status,
    error,
    plugin_names,
    unresolvable,
)
from scheduler.framework.near_labels import MAX_COMPARED, nearest_value

IMMEDIATE_UNBOUND: Final = unresolvable("pod has unbound immediate PersistentVolumeClaims")
WAITING_FOR_CLAIM: Final = (
    'waiting for ephemeral volume controller to create the persistentvolumeclaim "{}"'
)
CLAIM_LOST: Final = 'persistentvolumeclaim "{}" bound to non-existent persistentvolume "{}"'
CLAIM_BEING_DELETED: Final = 'persistentvolumeclaim "{}" is being deleted'

REASONS: Final = (
    (WRONG_NODE, "node(s) didn't match PersistentVolume's node affinity"),
    (CONFLICT, "node(s) didn't find available persistent volumes to bind"),
    (NO_SPACE, "node(s) did not have enough free storage"),
    (NO_VOLUME, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
)
"""Bit of a code and its reason, in the order of reporting."""

_STATE: Final = plugin_names.VOLUME_BINDING
_RESERVATION: Final = f"{plugin_names.VOLUME_BINDING}/reservation"
_NO_CLAIMS: Final = Claims()
_PARALLEL: Final = PreBindPreFlightResult(allow_parallel=True)
_LOST: Final = "Lost"


class VolumeBinding:
    """Binds claims that wait for their first consumer, and respects bound claims."""

    name: ClassVar[str] = plugin_names.VOLUME_BINDING
    #: Reservations of binding cycles under way are known to this instance only.
    restart_on_change: ClassVar[bool] = True
    args_type: ClassVar[type[VolumeBindingArgs]] = VolumeBindingArgs
    required_resources: ClassVar[tuple[str, ...]] = (
        "csidrivers",
        "csinodes",
        "csistoragecapacities",
        "persistentvolumeclaims",
        "persistentvolumes",
        "storageclasses",
    )
    optional_resources: ClassVar[Mapping[str, str]] = {
        "csidrivers": "the free capacity of CSI storage is not considered",
        "csinodes": "in-tree volumes count as not migrated to CSI",
        "csistoragecapacities": "pods wait whose claims need CSI storage of tracked capacity",
        **dict.fromkeys(CLAIM_RESOURCES, CLAIMS_WAIT),
    }
    permissions: ClassVar[tuple[Permission, ...]] = tuple(
        Permission(
            resource=plural,
            verbs=("patch",),
            purpose="VolumeBinding: reserving a volume for a claim that waits for a first "
            "consumer, and telling provisioners the node",
            without="pods with such claims wait",
        )
        for plural in ("persistentvolumes", "persistentvolumeclaims")
    )
    # Claims are looked up in the pod's namespace, which is not part of its signature.
    filter_reuse: ClassVar[ReuseRule | None] = NEVER
    score_reuse: ClassVar[ReuseRule | None] = NEVER
    #: True without the gate, because PreScore then skips every pod.
    pre_score_reusable: bool

    def __init__(self, args: VolumeBindingArgs | None, handle: Handle) -> None:
        args = args or VolumeBindingArgs()
        scoring = handle.feature_gates.get(SCORING_GATE, False)
        require_valid(gated_problems(args, scoring=scoring))
        self._handle = handle
        self._timeout = float(args.bind_timeout_seconds)
        self._matcher = Matcher(handle)
        self._scorer = StorageScorer(args.shape or DEFAULT_SHAPE) if scoring else None
        self.pre_score_reusable = self._scorer is None

    @staticmethod
    def validate_args(args: VolumeBindingArgs) -> Iterator[tuple[str, str]]:
        """Validate the timeout and the shape."""
        return binding_problems(args)

    # -- PreFilter, Filter -----------------------------------------------------------------------

    def concerns(self, pod: Pod) -> bool:
        """Whether the pod has volumes."""
        return bool(pod.signature.spec.volumes)

    def skips_alike(self, pod: Pod) -> bool:
        """Whether the pod has no claims, on which all else depends."""
        return next(pod_claims(pod), None) is None

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Classify the claims; skip a pod without any."""
        if not pod.signature.spec.volumes:
            return SKIP
        found = list(pod_claims(pod))
        if not found:
            return SKIP
        not_permitted = unreadable(self._handle)
        if not_permitted is not None:
            return not_permitted
        for name, ephemeral in found:
            problem = self._claim_error(pod, name, ephemeral=ephemeral)
            if problem is not None:
                return unresolvable(problem)
        claims = self._matcher.classify(pod, [each.name for each in found])
        state.write(_STATE, claims)
        if claims.immediate:
            return IMMEDIATE_UNBOUND
        return None

    def _claim_error(self, pod: Pod, name: str, *, ephemeral: bool) -> str | None:
        """Return why the pod cannot use a claim on any node, None if it can."""
        claim: PersistentVolumeClaim | None = self._matcher.claims.watched(
            name, pod.metadata.namespace
        )
        if claim is None:
            return (WAITING_FOR_CLAIM if ephemeral else CLAIM_NOT_FOUND).format(name)
        if claim.status.phase == _LOST:
            return CLAIM_LOST.format(name, claim.spec.volume_name)
        if claim.metadata.deletion_timestamp is not None:
            return CLAIM_BEING_DELETED.format(name)
        if ephemeral and not made_for(claim, pod):
            return not_owner(claim, pod)
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node where a volume is not available."""
        code = self.plan(state, node).code
        return self.filter_status(state, pod, code) if code else None

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Columnar form of `filter`."""
        return self._matcher.rows(state.read(_STATE), PositionsByLabel(table, rows))

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return all reasons whose bits are set."""
        return unresolvable(*(reason for bit, reason in REASONS if code & bit))

    def explain_rejection(
        self, state: CycleState, pod: Pod, table: NodeTableView, rejected: RejectedNodes
    ) -> str:
        """Return the volumes of bound claims, and what unbound ones ask for."""
        claims: Claims = state.get(_STATE) or _NO_CLAIMS
        if rejected.status.reasons == IMMEDIATE_UNBOUND.reasons:
            waiting = [self._unbound(each) for each in claims.immediate]
            return listed(waiting, len(waiting), "; ")
        texts = [
            f"claim {each.metadata.name} is bound to volume {each.spec.volume_name}"
            for each in claims.bound
        ]
        texts += [
            f"claim {each.metadata.name} of class {each.spec.storage_class_name or 'none'} "
            f"wants {each.spec.resources.requests.get('storage', '0')}"
            for each in (*claims.delayed, *claims.immediate)
        ]
        return listed(texts, len(texts), "; ")

    def _unbound(self, claim: PersistentVolumeClaim) -> str:
        """Return the name of a claim that is not bound, its class, and what is wrong with that."""
        name, class_name = claim.metadata.name, claim_class(claim)
        classes = self._handle.listers["storageclasses"]
        if not class_name:
            known = (each.metadata.annotations for each in classes.list())
            default = any(each.get(key) == "true" for each in known for key in IS_DEFAULT)
            lacking = "" if default else ", and the cluster has no default StorageClass"
            return f"claim {name} names no StorageClass{lacking}"
        text = f"claim {name} of StorageClass {class_name}"
        if classes.get(class_name) is not None:
            return text
        names = sorted(each.metadata.name for each in islice(classes.list(), MAX_COMPARED))
        near = nearest_value([class_name], [(each, 1) for each in names])[1]
        return f"{text}, which does not exist{f'; did you mean {near}?' if near else ''}"

    def plan(self, state: CycleState, node: NodeInfo) -> VolumePlan:
        """Return the plan for a node in this attempt; PreFilter must have succeeded."""
        claims: Claims = state.read(_STATE)
        return self._matcher.one(claims, node)

    # -- Score -----------------------------------------------------------------------------------

    def pre_score(
        self, state: CycleState, pod: Pod, table: NodeTableView, feasible: Rows
    ) -> Status | None:
        """Skip unless the gate is on and there are claims to bind or to provision."""
        if self._scorer is None:
            return SKIP
        claims: Claims = state.get(_STATE) or _NO_CLAIMS
        return None if claims.delayed else SKIP

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return 0 to 100 for the resulting usage of the node's storage."""
        return 0 if self._scorer is None else self._scorer.score(self.plan(state, node))

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """Columnar form of `score`."""
        return np.array(
            [self.score(state, pod, table.node_info(row)) for row in rows.tolist()], dtype=np.int64
        )

    # -- Reserve, PreBind ------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Assume the changes of the node's plan."""
        claims: Claims = state.get(_STATE) or _NO_CLAIMS
        if not claims.delayed:
            return None
        table = self._handle.table
        row = table.row_of(node_name)
        if row is None:
            return error(f"node {node_name} is gone, no volumes were reserved")
        plan = self.plan(state, table.node_info(row))
        if plan.code:
            return self.filter_status(state, pod, plan.code)
        reservation = reserve(plan, node_name, self._matcher.volumes, self._matcher.claims)
        if reservation is None:
            return error(f"volumes for pod {pod.key} changed while they were reserved")
        state.write(_RESERVATION, reservation)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Drop the assumptions."""
        reservation: Reservation | None = state.get(_RESERVATION)
        if reservation is not None:
            release(reservation)

    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        """Skip a pod whose volumes are all bound."""
        return SKIP if state.get(_RESERVATION) is None else _PARALLEL

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Write the reservation, then wait until every claim is bound or the timeout expires."""
        reservation: Reservation | None = state.get(_RESERVATION)
        if reservation is None:
            return None
        api = self._handle.api
        for write in reservation.writes:
            patched = await api.patch(*write.target, write.body)
            write.resource_version = patched.metadata.resource_version
        progress = Progress(self._handle, pod, reservation, self._matcher.reachable)
        try:
            if await api.wait_for(progress.check, self._timeout):
                return None
        except BindingFailedError as raised:
            return error(f"binding volumes: {raised}")
        return error(
            f"binding volumes: {unbound(reservation)} not bound within bindTimeoutSeconds "
            f"({self._timeout:g})"
        )

    def explain_pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> str:
        """Return the claims that are not bound yet, and the timeout."""
        reservation: Reservation | None = state.get(_RESERVATION)
        if reservation is None:
            return ""
        found = list(awaited(self._handle, reservation))
        limit = f"for at most {span(self._timeout)}"
        return f"until {listed(found, len(found), ' and ')}, {limit}" if found else limit

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the registrations of `requeueing.py`."""
        return volume_binding_events()

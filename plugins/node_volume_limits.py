"""NodeVolumeLimits: limits the attached volumes per node and CSI driver (upstream `csi.go`).

As upstream, a volume that is still attached but used by no pod of the node counts twice for a pod
that uses it: as attached and as new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

from plugins.queueing_hints import is_placed, queue_if
from plugins.row_selection import all_pass
from plugins.volume_binding.attachments import (
    Attachments,
    ClaimMissingError,
    VolumesError,
    limits_of,
    node_volumes,
)
from plugins.volume_binding.claims import OWN_CLAIM_KEYS, after_any_own_claim, claims_named
from plugins.volume_binding.migration import CSIVolume, plugin_of_source, translate_inline
from plugins.volume_binding.permissions import CLAIMS_WAIT
from scheduler.api.pod import Pod, Volume
from scheduler.api.storage import CSIDriver, CSINode, VolumeAttachment
from scheduler.framework import (
    NEVER,
    SKIP,
    ActionType,
    BoolColumn,
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
    ReuseRule,
    Rows,
    Status,
    plugin_names,
    unresolvable,
    unschedulable,
)

TOO_MANY: Final = unschedulable("node(s) exceed max volume count")
NOT_INSTALLED: Final = "{} CSI driver is not installed on the node"

GATE: Final = "VolumeLimitScaling"
"""Feature gate of the check that a driver is installed; on since v1.37."""

_NO_CSI_NODE: Final = None
_ANY_CSI_NODE: Final = CSINode()
_MISSING_CLAIM, _TOO_MANY, _FIRST_DRIVER = 1, 2, 3


class NodeVolumeLimits:
    """Counts volumes per driver."""

    name: ClassVar[str] = plugin_names.NODE_VOLUME_LIMITS
    required_resources: ClassVar[tuple[str, ...]] = (
        "csidrivers",
        "csinodes",
        "persistentvolumeclaims",
        "persistentvolumes",
        "storageclasses",
        "volumeattachments",
    )
    optional_resources: ClassVar[Mapping[str, str]] = {
        "csidrivers": "whether a node lacks a driver is not checked",
        "csinodes": "the limits of volumes per node are not enforced",
        "persistentvolumeclaims": CLAIMS_WAIT,
        "persistentvolumes": CLAIMS_WAIT,
        "storageclasses": CLAIMS_WAIT,
        "volumeattachments": "volumes still attached to a node whose pods are gone do not count "
        "towards its limit",
    }
    # Claims are looked up in the pod's namespace, which is not part of its signature.
    filter_reuse: ClassVar[ReuseRule | None] = NEVER

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        self._handle = handle
        self._attachments = Attachments(handle)
        self._resolver = self._attachments.resolver
        self._check_installed = handle.feature_gates.get(GATE, False)

    def skips_alike(self, pod: Pod) -> bool:
        """Return True: the signature decides."""
        return True

    def concerns(self, pod: Pod) -> bool:
        """Whether the pod has volumes that could count."""
        return any(map(_may_count, pod.signature.spec.volumes))

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Skip a pod without volumes that could count."""
        return None if self.concerns(pod) else SKIP

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node whose limit the pod's volumes would exceed."""
        csi_node: CSINode | None = self._handle.listers["csinodes"].get(node.name)
        try:
            new = self._resolver.of_pod(pod, csi_node, incoming=True)
        except ClaimMissingError as missing:
            return unresolvable(str(missing))
        if not new:
            return None
        for driver in self._drivers_to_check(new):
            if not _installed(driver, csi_node):
                return unschedulable(NOT_INSTALLED.format(driver))
        limits = limits_of(csi_node)
        if not limits:
            return None
        present = node_volumes(
            self._resolver, node.pods, self._attachments.of_node(node.name), csi_node
        )
        added = Counter(volume.driver for volume in new - present.used)
        if any(
            present.counts.get(driver, 0) + count > limits[driver]
            for driver, count in added.items()
            if driver in limits
        ):
            return TOO_MANY
        return None

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Columnar form of `filter`.

        Raises:
            VolumesError: the volumes of a pod on a limited node cannot be determined.
        """
        codes = all_pass(rows)
        try:
            # In-tree volumes count on nodes with a CSINode; only these have limits.
            new = self._resolver.of_pod(pod, _ANY_CSI_NODE, incoming=True)
        except ClaimMissingError:
            codes[:] = _MISSING_CLAIM
            return codes
        if not new:
            return codes
        self._check_drivers(codes, pod, new, table, rows)
        attachments = self._attachments
        attachments.sync(table)
        if attachments.limited:
            self._raise_if_broken(rows[codes == 0])
            over = self._overfull(new)
            codes[(codes == 0) & over[rows]] = _TOO_MANY
        return codes

    def _overfull(self, new: Collection[CSIVolume]) -> BoolColumn:
        """(capacity,): rows whose limits the volumes would exceed."""
        attachments = self._attachments
        over: BoolColumn | None = None
        for driver in sorted({volume.driver for volume in new}):
            limits = attachments.limits(driver)
            total = attachments.counts(driver).copy()
            for volume in new:
                if volume.driver == driver:
                    total += 1
                    users = attachments.users.get(volume)
                    if users:
                        total[list(users)] -= 1
            # A row where all volumes are in use already passes, even above its limit.
            added = total > attachments.counts(driver)
            here = (limits >= 0) & (total > limits) & added
            over = here if over is None else over | here
        assert over is not None
        return over

    def _raise_if_broken(self, rows: Rows) -> None:
        broken = self._attachments.broken
        if not broken:
            return
        limited = self._attachments.limited_rows()
        for row in rows.tolist():
            if row in broken and limited[row]:
                raise VolumesError(broken[row])

    def _check_drivers(
        self,
        codes: Codes,
        pod: Pod,
        new: Collection[CSIVolume],
        table: NodeTableView,
        rows: Rows,
    ) -> None:
        drivers = self._drivers_to_check(new)
        if not drivers:
            return
        everywhere = {v.driver for v in self._resolver.of_pod(pod, _NO_CSI_NODE, incoming=True)}
        lister = self._handle.listers["csinodes"]
        for position, row in enumerate(rows.tolist()):
            csi_node: CSINode | None = lister.get(table.names[row])
            for index, driver in enumerate(drivers):
                counted = csi_node is not None or driver in everywhere
                if counted and not _installed(driver, csi_node):
                    codes[position] = _FIRST_DRIVER + index
                    break

    def _drivers_to_check(self, new: Collection[CSIVolume]) -> list[str]:
        """Drivers that must be installed, sorted; none unless the gate is on."""
        if not self._check_installed:
            return []
        lister = self._handle.listers["csidrivers"]
        found = []
        for driver in sorted({volume.driver for volume in new}):
            known: CSIDriver | None = lister.get(driver)
            if known is not None and known.spec.prevent_pod_scheduling_if_missing:
                found.append(driver)
        return found

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return too many volumes, a missing claim, or a driver that is not installed."""
        if code == _TOO_MANY:
            return TOO_MANY
        try:
            new = self._resolver.of_pod(pod, _ANY_CSI_NODE, incoming=True)
        except ClaimMissingError as missing:
            return unresolvable(str(missing))
        drivers = self._drivers_to_check(new)
        return unschedulable(NOT_INSTALLED.format(drivers[code - _FIRST_DRIVER]))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for raised limits, released volumes, and added claims of the pod."""
        return (
            ClusterEventWithHint(
                ClusterEvent(
                    EventResource.CSI_NODE, ActionType.ADD | ActionType.UPDATE | ActionType.DELETE
                ),
                _after_csi_node_change,
                per_signature=True,
            ),
            # A node has no limits until it has a CSINode.
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),
            ClusterEventWithHint(
                ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE),
                _after_pod_delete,
                per_signature=True,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD),
                _after_pod_add,
                per_signature=True,
                keys=HintKeys(_shareable, lambda _old, new: _shareable(new)),
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD),
                after_any_own_claim,
                keys=OWN_CLAIM_KEYS,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.VOLUME_ATTACHMENT, ActionType.DELETE),
                _after_detach,
                per_signature=True,
            ),
        )


def _may_count(volume: Volume) -> bool:
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or bool(plugin_of_source(volume))
    )


def _installed(driver: str, csi_node: CSINode | None) -> bool:
    return csi_node is not None and any(each.name == driver for each in csi_node.spec.drivers)


def _after_csi_node_change(_pod: Pod, old: CSINode | None, new: CSINode | None) -> QueueingHint:
    if old is None or new is None:
        return QueueingHint.QUEUE
    before, after = limits_of(old), limits_of(new)
    lifted = not before.keys() <= after.keys()
    raised = any(count > before.get(driver, 0) for driver, count in after.items())
    return queue_if(lifted or raised)


def _after_pod_delete(_pod: Pod, old: Pod, _new: Any) -> QueueingHint:
    return queue_if(is_placed(old) and any(map(_may_count, old.signature.volumes)))


def _after_pod_add(pod: Pod, _old: None, new: Pod) -> QueueingHint:
    """Queue if volumes of the pod are on a node now, where they count only once."""
    return queue_if(is_placed(new) and not _shareable(pod).isdisjoint(_shareable(new)))


def _shareable(pod: Pod) -> set[tuple[str, str]]:
    """Return the claims that the pod names, and the kinds of its in-line volumes."""
    kinds = {("", kind) for each in pod.signature.volumes if (kind := plugin_of_source(each))}
    return claims_named(pod) | kinds


def _after_detach(pod: Pod, old: VolumeAttachment, _new: Any) -> QueueingHint:
    for volume in pod.signature.volumes:
        if volume.persistent_volume_claim is not None:
            return QueueingHint.QUEUE
        inline = translate_inline(volume)
        if inline is not None and inline.driver == old.spec.attacher:
            return QueueingHint.QUEUE
    return QueueingHint.SKIP

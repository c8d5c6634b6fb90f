"""Index of attached volumes per node and driver, so that limits cost a few array operations.

Invariant: after `sync`, the index equals the result of a walk over all pods and VolumeAttachments.
Changes come from the table's change log (pods, nodes) and from object subscriptions (claims,
volumes, classes, CSINodes, attachments); a row is read again only after a change that concerns it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from plugins.volume_binding.claims import (
    CLAIM_NOT_FOUND,
    claim_class,
    claim_key,
    made_for,
    not_owner,
    pod_claims,
)
from plugins.volume_binding.migration import (
    DRIVERS,
    MIGRATABLE,
    CSIVolume,
    translate_inline,
    translate_volume,
)
from plugins.volume_binding.volume_pods import VolumePods
from scheduler.api.pod import Pod
from scheduler.api.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.framework import Handle, Int64Column, NodeTableView

NO_CLAIM_NAME: Final = "PersistentVolumeClaim had no name"

_UNBOUND_PREFIX: Final = "kubestow.io:unbound-"
"""With `namespace/claim`, the handle of a claim without a volume; drivers use no such handles."""

_MAX_DIRTY: Final = 10_000
"""Above this number of noted changes the index is rebuilt, which bounds the memory for notes."""


class VolumesError(Exception):
    """The volumes of a pod cannot be determined; the text is for the pod's owner."""


class ClaimMissingError(VolumesError):
    """A claim of the incoming pod does not exist (yet)."""


class VolumeResolver:
    """Resolves a pod's volumes to the CSI volumes that count for limits."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def of_pod(self, pod: Pod, csi_node: CSINode | None, *, incoming: bool) -> set[CSIVolume]:
        """Return the pod's volumes on a node; in-tree volumes count only with a CSINode.

        Raises ClaimMissingError (incoming pods only) or VolumesError.
        """
        found: set[CSIVolume] = set()
        for name, ephemeral in pod_claims(pod):
            volume = self._of_claim(pod, name, csi_node, ephemeral=ephemeral, incoming=incoming)
            if volume is not None and volume.driver and volume.handle:
                found.add(volume)
        if csi_node is not None:
            for each in pod.signature.volumes:
                try:
                    inline = translate_inline(each)
                except ValueError as error:
                    msg = f"converting volume({each.name}) from inline to csi: {error}"
                    raise VolumesError(msg) from error
                if inline is not None:
                    found.add(inline)
        return found

    def _of_claim(
        self, pod: Pod, name: str, csi_node: CSINode | None, *, ephemeral: bool, incoming: bool
    ) -> CSIVolume | None:
        if not name:
            raise VolumesError(NO_CLAIM_NAME)
        namespace = pod.metadata.namespace
        listers = self._handle.listers
        claim: PersistentVolumeClaim | None = listers["persistentvolumeclaims"].get(name, namespace)
        if claim is None:
            if incoming:
                msg = f"looking up PVC {namespace}/{name}: {CLAIM_NOT_FOUND.format(name)}"
                raise ClaimMissingError(msg)
            return None
        if ephemeral and not made_for(claim, pod):
            raise VolumesError(not_owner(claim, pod))
        volume: PersistentVolume | None = None
        if claim.spec.volume_name:
            volume = listers["persistentvolumes"].get(claim.spec.volume_name)
        return (
            self._unbound(claim, csi_node) if volume is None else self._of_volume(volume, csi_node)
        )

    def _of_volume(self, volume: PersistentVolume, csi_node: CSINode | None) -> CSIVolume | None:
        csi = volume.spec.csi
        if csi is not None:
            return CSIVolume(csi.driver, csi.volume_handle)
        if csi_node is None:
            return None
        try:
            return translate_volume(volume)
        except ValueError:
            # As upstream, a volume that cannot be translated does not count.
            return None

    def _unbound(self, claim: PersistentVolumeClaim, csi_node: CSINode | None) -> CSIVolume | None:
        class_name = claim_class(claim)
        if not class_name:
            return None
        found: StorageClass | None = self._handle.listers["storageclasses"].get(class_name)
        if found is None:
            return None
        driver = found.provisioner
        if driver in MIGRATABLE:
            if csi_node is None or driver not in DRIVERS:
                return None
            driver = DRIVERS[driver]
        return CSIVolume(driver, f"{_UNBOUND_PREFIX}{claim_key(claim)}")

    def of_attachment(self, attachment: VolumeAttachment) -> CSIVolume | None:
        """Return the volume of a VolumeAttachment, None if it does not count."""
        name = attachment.spec.source.persistent_volume_name
        if not attachment.spec.attacher or name is None:
            return None
        volume: PersistentVolume | None = self._handle.listers["persistentvolumes"].get(name)
        if volume is None or volume.spec.csi is None:
            return None
        return CSIVolume(attachment.spec.attacher, volume.spec.csi.volume_handle)


@dataclass(slots=True)
class NodeVolumes:
    """Volumes of one node."""

    #: Volumes that pods on the node use.
    used: set[CSIVolume] = field(default_factory=set)
    #: Number of volumes by driver, including those of VolumeAttachments.
    counts: dict[str, int] = field(default_factory=dict)


class Attachments:
    """The index, owned by NodeVolumeLimits. Call `sync` before reading."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self.resolver = VolumeResolver(handle)
        self._pods = VolumePods()
        self._built = False
        self._rows: dict[int, NodeVolumes] = {}
        self._claims: dict[int, tuple[str, ...]] = {}
        self._claim_rows: dict[str, set[int]] = {}
        self._by_node: dict[str, dict[str, VolumeAttachment]] = {}
        self._volume_nodes: dict[str, set[str]] = {}
        self._dirty_claims: set[str] = set()
        self._dirty_nodes: set[str] = set()
        #: Rows with pods whose volumes cannot be determined, with the reason.
        self.broken: dict[int, str] = {}
        #: Volume to the rows whose pods use it.
        self.users: dict[CSIVolume, set[int]] = {}
        self._counts: dict[str, Int64Column] = {}
        self._limits: dict[str, Int64Column] = {}
        self._capacity = 0
        subscriptions = handle.subscriptions
        subscriptions.on_object("persistentvolumeclaims", self._claim_changed, in_trials=True)
        subscriptions.on_object("persistentvolumes", self._volume_changed, in_trials=True)
        subscriptions.on_object("storageclasses", self._class_changed, in_trials=True)
        subscriptions.on_object("csinodes", self._csi_node_changed, in_trials=True)
        subscriptions.on_object("volumeattachments", self._attachment_changed, in_trials=True)

    # -- reading ---------------------------------------------------------------------------------

    def counts(self, driver: str) -> Int64Column:
        """(capacity,): attached volumes of a driver per row."""
        return self._counts.setdefault(driver, np.zeros(self._capacity, dtype=np.int64))

    def limits(self, driver: str) -> Int64Column:
        """(capacity,): limit of a driver's volumes per row, -1 for no limit."""
        return self._limits.setdefault(driver, np.full(self._capacity, -1, dtype=np.int64))

    @property
    def limited(self) -> bool:
        """Whether any node has any limit."""
        return bool(self._limits)

    def limited_rows(self) -> Any:
        """(capacity,) bool: rows where some driver has a limit."""
        mask = np.zeros(self._capacity, dtype=np.bool_)
        for column in self._limits.values():
            mask |= column >= 0
        return mask

    def of_node(self, name: str) -> Iterable[VolumeAttachment]:
        """Return the VolumeAttachments of a node."""
        if not self._built:
            self._list_attachments()
        return self._by_node.get(name, {}).values()

    # -- following -------------------------------------------------------------------------------

    def sync(self, table: NodeTableView) -> None:
        """Apply all changes since the last call."""
        changed = self._pods.sync(table)
        whole = changed is None or not self._built or self._capacity != table.capacity
        if whole or len(self._dirty_claims) > _MAX_DIRTY or len(self._dirty_nodes) > _MAX_DIRTY:
            self._rebuild(table)
            return
        assert changed is not None
        rows = set(changed)
        for key in self._dirty_claims:
            rows |= self._claim_rows.get(key, set())
        for name in self._dirty_nodes:
            row = table.row_of(name)
            if row is not None:
                rows.add(row)
        self._dirty_claims.clear()
        self._dirty_nodes.clear()
        for row in rows:
            self._forget(row)
            if table.valid[row]:
                self._read(table, row)

    def _rebuild(self, table: NodeTableView) -> None:
        if not self._built:
            self._list_attachments()
        for index in (self._rows, self._claims, self._claim_rows, self.broken, self.users):
            index.clear()
        self._counts.clear()
        self._limits.clear()
        self._dirty_claims.clear()
        self._dirty_nodes.clear()
        self._capacity = table.capacity
        for row in table.rows.tolist():
            self._read(table, row)

    def _list_attachments(self) -> None:
        self._built = True
        for each in self._handle.listers["volumeattachments"].list():
            self._note_attachment(each)

    def _read(self, table: NodeTableView, row: int) -> None:
        name = table.names[row]
        csi_node: CSINode | None = self._handle.listers["csinodes"].get(name)
        for driver, limit in limits_of(csi_node).items():
            self.limits(driver)[row] = limit
        pods = self._pods.by_row.get(row, ())
        attachments = self._by_node.get(name, {})
        if not pods and not attachments:
            return
        claims = tuple(
            {f"{pod.metadata.namespace}/{each.name}" for pod in pods for each in pod_claims(pod)}
        )
        self._claims[row] = claims
        for key in claims:
            self._claim_rows.setdefault(key, set()).add(row)
        try:
            volumes = node_volumes(self.resolver, pods, attachments.values(), csi_node)
        except VolumesError as error:
            self.broken[row] = str(error)
            return
        self._rows[row] = volumes
        for driver, count in volumes.counts.items():
            self.counts(driver)[row] = count
        for volume in volumes.used:
            self.users.setdefault(volume, set()).add(row)

    def _forget(self, row: int) -> None:
        self.broken.pop(row, None)
        for key in self._claims.pop(row, ()):
            _discard(self._claim_rows, key, row)
        known = self._rows.pop(row, None)
        if known is not None:
            for volume in known.used:
                _discard(self.users, volume, row)
        for column in self._counts.values():
            column[row] = 0
        for column in self._limits.values():
            column[row] = -1

    # -- subscriptions ---------------------------------------------------------------------------

    def _claim_changed(
        self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
    ) -> None:
        claim = new or old
        if self._built and claim is not None:
            self._dirty_claims.add(claim_key(claim))

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if not self._built:
            return
        for volume in (old, new):
            if volume is None:
                continue
            claim = volume.spec.claim_ref
            if claim is not None:
                self._dirty_claims.add(f"{claim.namespace}/{claim.name}")
            self._dirty_nodes |= self._volume_nodes.get(volume.metadata.name, set())

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        # Forces a rebuild: changes are rare, and unbound claims are not indexed by class.
        self._capacity = -1

    def _csi_node_changed(self, old: CSINode | None, new: CSINode | None) -> None:
        changed = new or old
        if self._built and changed is not None:
            self._dirty_nodes.add(changed.metadata.name)

    def _attachment_changed(
        self, old: VolumeAttachment | None, new: VolumeAttachment | None
    ) -> None:
        if not self._built:
            return
        if old is not None:
            _discard_attachment(self._by_node, old)
            _discard(self._volume_nodes, _volume_name(old), old.spec.node_name)
            self._dirty_nodes.add(old.spec.node_name)
        if new is not None:
            self._note_attachment(new)
            self._dirty_nodes.add(new.spec.node_name)

    def _note_attachment(self, attachment: VolumeAttachment) -> None:
        node = attachment.spec.node_name
        self._by_node.setdefault(node, {})[attachment.metadata.name] = attachment
        self._volume_nodes.setdefault(_volume_name(attachment), set()).add(node)


def node_volumes(
    resolver: VolumeResolver,
    pods: Iterable[Pod],
    attachments: Iterable[VolumeAttachment],
    csi_node: CSINode | None,
) -> NodeVolumes:
    """Collect the volumes of a node. Raises VolumesError."""
    found = NodeVolumes()
    for pod in pods:
        if pod.signature.volumes:
            found.used |= resolver.of_pod(pod, csi_node, incoming=False)
    attached = set(found.used)
    for each in attachments:
        volume = resolver.of_attachment(each)
        if volume is not None:
            attached.add(volume)
    for volume in attached:
        found.counts[volume.driver] = found.counts.get(volume.driver, 0) + 1
    return found


def limits_of(csi_node: CSINode | None) -> dict[str, int]:
    """Return the limits by driver, for drivers that have one (`csi.go: getVolumeLimits`)."""
    if csi_node is None:
        return {}
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def _volume_name(attachment: VolumeAttachment) -> str:
    return attachment.spec.source.persistent_volume_name or ""


def _discard_attachment(
    by_node: dict[str, dict[str, VolumeAttachment]], attachment: VolumeAttachment
) -> None:
    known = by_node.get(attachment.spec.node_name)
    if known is not None:
        known.pop(attachment.metadata.name, None)
        if not known:
            del by_node[attachment.spec.node_name]


def _discard(index: dict[Any, set[Any]], key: object, value: object) -> None:
    values = index.get(key)
    if values is not None:
        values.discard(value)
        if not values:
            del index[key]

"""Volumes, claims, classes and CSI objects."""

from __future__ import annotations

import msgspec

from scheduler.api.meta import LabelSelector, Named, Object, RawQuantity, ResourceList
from scheduler.api.pod import (
    AWSElasticBlockStore,
    AzureDiskVolume,
    CinderVolume,
    GCEPersistentDisk,
    NodeSelector,
    PersistentVolumeClaimSpec,
    PortworxVolume,
)


class ObjectReference(Object):
    """A reference to another object (`claimRef`, event `regarding`)."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class VolumeNodeAffinity(Object):
    """`spec.nodeAffinity` of a volume."""

    required: NodeSelector | None = None


class CSIPersistentVolumeSource(Object):
    """`spec.csi` of a volume."""

    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(Object):
    """`spec` of a volume."""

    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIPersistentVolumeSource | None = None
    # In-tree sources that CSI migration translates.
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    azure_disk: AzureDiskVolume | None = None
    cinder: CinderVolume | None = None
    portworx_volume: PortworxVolume | None = None
    volume_attributes_class_name: str | None = None
    persistent_volume_reclaim_policy: str = ""


class PhaseStatus(Object):
    """A status of which only the phase is read."""

    phase: str = ""


class PersistentVolume(Named):
    """A v1 PersistentVolume."""

    spec: PersistentVolumeSpec = msgspec.field(default_factory=PersistentVolumeSpec)
    status: PhaseStatus = msgspec.field(default_factory=PhaseStatus)


class PersistentVolumeClaim(Named):
    """A v1 PersistentVolumeClaim."""

    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)
    status: PhaseStatus = msgspec.field(default_factory=PhaseStatus)


class TopologySelectorLabelRequirement(Object):
    """One key of a topology selector term."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Object):
    """One entry of `allowedTopologies`."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Named):
    """A storage.k8s.io/v1 StorageClass (its fields are at the top level)."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Object):
    """`allocatable` of a CSI driver on a node; count None means no limit."""

    count: int | None = None


class CSINodeDriver(Object):
    """`spec.drivers[]` of a CSINode."""

    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Object):
    """`spec` of a CSINode."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Named):
    """A storage.k8s.io/v1 CSINode."""

    spec: CSINodeSpec = msgspec.field(default_factory=CSINodeSpec)


class CSIDriverSpec(Object):
    """`spec` of a CSIDriver."""

    storage_capacity: bool | None = None
    attach_required: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Named):
    """A storage.k8s.io/v1 CSIDriver."""

    spec: CSIDriverSpec = msgspec.field(default_factory=CSIDriverSpec)


class CSIStorageCapacity(Named):
    """A storage.k8s.io/v1 CSIStorageCapacity."""

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: RawQuantity | None = None
    maximum_volume_size: RawQuantity | None = None


class VolumeAttachmentSource(Object):
    """`spec.source` of an attachment."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Object):
    """`spec` of an attachment."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = msgspec.field(default_factory=VolumeAttachmentSource)


class VolumeAttachment(Named):
    """A storage.k8s.io/v1 VolumeAttachment."""

    spec: VolumeAttachmentSpec = msgspec.field(default_factory=VolumeAttachmentSpec)

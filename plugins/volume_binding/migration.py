"""CSI migration: translation of in-tree volumes to driver, handle and topology of CSI.

Upstream: module k8s.io/csi-translation-lib. Only driver and handle (for limits) and node affinity
are translated. Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler.api.pod import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Volume,
)
from scheduler.api.storage import CSINode, PersistentVolume, PersistentVolumeSpec

ANN_MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"

AWS_EBS: Final = "kubernetes.io/aws-ebs"
GCE_PD: Final = "kubernetes.io/gce-pd"
AZURE_DISK: Final = "kubernetes.io/azure-disk"
CINDER: Final = "kubernetes.io/cinder"
PORTWORX: Final = "kubernetes.io/portworx-volume"
AZURE_FILE: Final = "kubernetes.io/azure-file"
VSPHERE: Final = "kubernetes.io/vsphere-volume"

DRIVERS: Final[Mapping[str, str]] = {
    AWS_EBS: "ebs.csi.aws.com",
    GCE_PD: "pd.csi.storage.gke.io",
    AZURE_DISK: "disk.csi.azure.com",
    CINDER: "cinder.csi.openstack.org",
    PORTWORX: "pxd.portworx.com",
}
"""In-tree plugin to CSI driver, for the plugins whose volumes are counted."""

MIGRATABLE: Final = frozenset((*DRIVERS, AZURE_FILE, VSPHERE))
"""In-tree plugins that have a CSI driver."""

_TOPOLOGY_KEYS: Final[Mapping[str, str]] = {
    AWS_EBS: "topology.ebs.csi.aws.com/zone",
    GCE_PD: "topology.gke.io/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
}
_ZONE: Final = "topology.kubernetes.io/zone"
_REGION: Final = "topology.kubernetes.io/region"
_BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
_BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
_ZONE_SEPARATOR: Final = "__"
_EBS_SCHEME: Final = "aws://"
_GCE_UNKNOWN: Final = "UNSPECIFIED"


class CSIVolume(NamedTuple):
    """A CSI volume."""

    driver: str
    handle: str


def plugin_of_source(source: Volume | PersistentVolumeSpec) -> str:
    """Return the in-tree plugin of an in-line volume or a PersistentVolume, "" for none."""
    if source.aws_elastic_block_store is not None:
        return AWS_EBS
    if source.gce_persistent_disk is not None:
        return GCE_PD
    if source.azure_disk is not None:
        return AZURE_DISK
    if source.cinder is not None:
        return CINDER
    if source.portworx_volume is not None:
        return PORTWORX
    if isinstance(source, Volume):
        if source.azure_file is not None:
            return AZURE_FILE
        if source.vsphere_volume is not None:
            return VSPHERE
    return ""


def translate_inline(volume: Volume) -> CSIVolume | None:
    """Translate an in-line in-tree volume; None if it is not counted.

    Raises ValueError for an EBS volume ID that does not parse.
    """
    return _translate(volume, zones=())


def translate_volume(volume: PersistentVolume) -> CSIVolume | None:
    """Translate an in-tree PersistentVolume; None if it is not counted.

    Raises ValueError for an identifier that does not parse.
    """
    labels = volume.metadata.labels
    text = labels.get(_BETA_ZONE) or labels.get(_ZONE) or ""
    return _translate(volume.spec, zones=text.split(_ZONE_SEPARATOR))


def migrated_on(plugin: str, csi_node: CSINode | None) -> bool:
    """Whether a node's CSINode lists an in-tree plugin as migrated."""
    if csi_node is None:
        return False
    return plugin in csi_node.metadata.annotations.get(ANN_MIGRATED_PLUGINS, "").split(",")


def node_affinity(volume: PersistentVolume, csi_node: CSINode | None) -> NodeSelector | None:
    """Return a volume's required node affinity as translated for a node; None for any node."""
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    plugin = plugin_of_source(volume.spec)
    key = _TOPOLOGY_KEYS.get(plugin)
    if key is None or not migrated_on(plugin, csi_node):
        return required
    return _translated_affinity(volume, required, key)


def _translate(source: Volume | PersistentVolumeSpec, *, zones: Sequence[str]) -> CSIVolume | None:
    plugin = plugin_of_source(source)
    if plugin not in DRIVERS:
        return None
    handle = ""
    if source.aws_elastic_block_store is not None:
        handle = _ebs_handle(source.aws_elastic_block_store.volume_id)
    elif source.gce_persistent_disk is not None:
        handle = _gce_handle(source.gce_persistent_disk.pd_name, zones)
    elif source.azure_disk is not None:
        handle = source.azure_disk.disk_uri
    elif source.cinder is not None:
        handle = source.cinder.volume_id
    elif source.portworx_volume is not None:
        handle = source.portworx_volume.volume_id
    return CSIVolume(DRIVERS[plugin], handle)


def _ebs_handle(volume_id: str) -> str:
    """Return `vol-1` for `vol-1` or `aws://zone/vol-1`."""
    if not volume_id.startswith(_EBS_SCHEME):
        return volume_id
    handle = volume_id.removeprefix(_EBS_SCHEME).partition("/")[2].strip("/")
    if not handle.startswith("vol-") or "/" in handle:
        msg = f"invalid format for AWS volume ({volume_id})"
        raise ValueError(msg)
    return handle


def _gce_handle(name: str, zones: Sequence[str]) -> str:
    if len(zones) > 1:
        regions = {zone.rpartition("-")[0] for zone in zones}
        if len(regions) > 1 or "" in regions:
            msg = f"zones {', '.join(zones)} of disk {name} are not of one region"
            raise ValueError(msg)
        return f"projects/{_GCE_UNKNOWN}/regions/{regions.pop()}/disks/{name}"
    zone = zones[0] if zones and zones[0] else _GCE_UNKNOWN
    return f"projects/{_GCE_UNKNOWN}/zones/{zone}/disks/{name}"


def _translated_affinity(
    volume: PersistentVolume, required: NodeSelector | None, csi_key: str
) -> NodeSelector | None:
    labels = volume.metadata.labels
    keys_in_terms = {
        expression.key
        for term in (required.node_selector_terms if required else ())
        for expression in term.match_expressions
    }
    beta = _ZONE not in keys_in_terms and (
        _BETA_ZONE in keys_in_terms or (_ZONE not in labels and _BETA_ZONE in labels)
    )
    zone = _BETA_ZONE if beta else _ZONE
    renamed = {zone: csi_key, **({_BETA_REGION: _REGION} if beta else {})}
    terms = (
        tuple(_renamed(term, renamed) for term in required.node_selector_terms) if required else ()
    )
    if zone not in keys_in_terms and zone in labels:
        zones = sorted({each for each in labels[zone].split(_ZONE_SEPARATOR) if each})
        if not zones:
            msg = f"label {zone} of volume {volume.metadata.name} names no zone"
            raise ValueError(msg)
        added = NodeSelectorRequirement(key=csi_key, operator="In", values=tuple(zones))
        terms = tuple(
            msgspec.structs.replace(term, match_expressions=(*term.match_expressions, added))
            for term in terms or (NodeSelectorTerm(),)
        )
    return NodeSelector(node_selector_terms=terms) if terms or required else None


def _renamed(term: NodeSelectorTerm, keys: Mapping[str, str]) -> NodeSelectorTerm:
    return msgspec.structs.replace(
        term,
        match_expressions=tuple(
            msgspec.structs.replace(each, key=keys.get(each.key, each.key))
            for each in term.match_expressions
        ),
    )

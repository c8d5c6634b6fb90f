"""The volume controllers of a world: volumes are bound and provisioned at once.

The scheduler reserves a volume for a claim, or selects the node for which one is provisioned; in a
cluster the controller and the driver then finish the work. Here a volume is provisioned for every
class that has a provisioner, and is reachable from the zone of the selected node, if it is in one.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler.offline.tables import Tables

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
ZONE: Final = "topology.kubernetes.io/zone"
CLASS: Final = "volume.beta.kubernetes.io/storage-class"
"""The older way to name a class, which precedes the field."""
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"

_BOUND: Final = "Bound"


class VolumeControllers:
    """Called with every volume and claim that the scheduler wrote."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def written(self, plural: str, item: Any) -> None:
        """Do what the controllers would do after this write."""
        if plural == "persistentvolumes" and item.spec.claim_ref is not None:
            reference = item.spec.claim_ref
            claim = self._tables.get("persistentvolumeclaims", reference.name, reference.namespace)
            if claim is not None and claim.metadata.uid == reference.uid:
                self._bind(claim, item)
        elif plural == "persistentvolumeclaims":
            self._provision(item)

    def catch_up(self) -> None:
        """Provision for claims whose node had been selected when they came into the world."""
        for claim in list(self._tables.stores["persistentvolumeclaims"].list()):
            self._provision(claim)

    def _provision(self, claim: PersistentVolumeClaim) -> None:
        annotations = claim.metadata.annotations
        node_name = annotations.get(SELECTED_NODE)
        if claim.spec.volume_name or not node_name:
            return
        name = annotations.get(CLASS) or claim.spec.storage_class_name or ""
        storage_class: StorageClass | None = self._tables.get("storageclasses", name)
        if storage_class is not None and _provisions(storage_class):
            self._bind(claim, self._provisioned(claim, storage_class, node_name))

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        self._tables.put("persistentvolumes", _with_phase(volume))
        annotations = {**claim.metadata.annotations, BIND_COMPLETED: "yes"}
        bound = msgspec.structs.replace(
            _with_phase(claim),
            metadata=msgspec.structs.replace(claim.metadata, annotations=annotations),
            spec=msgspec.structs.replace(claim.spec, volume_name=volume.metadata.name),
        )
        self._tables.put("persistentvolumeclaims", bound)

    def _provisioned(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, node_name: str
    ) -> PersistentVolume:
        metadata, name = claim.metadata, f"pvc-{claim.metadata.uid}"
        requests = msgspec.to_builtins(claim.spec).get("resources", {}).get("requests", {})
        spec: dict[str, Any] = {
            "capacity": requests,
            "accessModes": claim.spec.access_modes,
            "storageClassName": storage_class.metadata.name,
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata.namespace,
                "name": metadata.name,
                "uid": metadata.uid,
            },
            "csi": {"driver": storage_class.provisioner, "volumeHandle": name},
        }
        node = self._tables.get("nodes", node_name)
        zone = None if node is None else node.metadata.labels.get(ZONE)
        if zone is not None:
            term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
        made = {"metadata": {"name": name, "uid": f"pv-{metadata.uid}"}, "spec": spec}
        return msgspec.convert(made, PersistentVolume)


def _provisions(storage_class: StorageClass) -> bool:
    return storage_class.provisioner not in ("", NO_PROVISIONER)


def _with_phase(item: Any) -> Any:
    return msgspec.structs.replace(item, status=msgspec.structs.replace(item.status, phase=_BOUND))

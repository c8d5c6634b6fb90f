"""Typed Kubernetes objects and what scheduling derives from single ones of them.

Nothing here knows of nodes and pods together, of plugins, or of an API server; nothing does I/O or
reads a clock. Everything public is named in `__all__`.
"""

from scheduler.api.custom import CustomObject
from scheduler.api.meta import LabelSelector, Named, ObjectMeta
from scheduler.api.node import Node, Taint
from scheduler.api.node_selectors import RequiredNodeAffinity, compile_required_node_affinity
from scheduler.api.pod import Container, Pod, PodSpec, TopologySpreadConstraint
from scheduler.api.policy import PodDisruptionBudget
from scheduler.api.quantity import QuantityError
from scheduler.api.quantity import parse as parse_quantity
from scheduler.api.requests import Resources, assigned_requests, incoming_requests, node_allocatable
from scheduler.api.selectors import (
    IN,
    CompiledLabelSelector,
    Requirement,
    SelectorError,
    compile_label_selector,
)
from scheduler.api.signatures.interner import PodSignatures, UnbalancedReleaseError
from scheduler.api.signatures.signature import PodSignature
from scheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.api.tolerations import TAINT_NODE_UNSCHEDULABLE, first_untolerated
from scheduler.api.workloads import Namespace, ReplicaSet, ReplicationController, Service
from scheduler.sanitizing.names import is_qualified_name

__all__ = [
    "IN",
    "TAINT_NODE_UNSCHEDULABLE",
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "CompiledLabelSelector",
    "Container",
    "CustomObject",
    "LabelSelector",
    "Named",
    "Namespace",
    "Node",
    "ObjectMeta",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "PodSignature",
    "PodSignatures",
    "PodSpec",
    "QuantityError",
    "ReplicaSet",
    "ReplicationController",
    "RequiredNodeAffinity",
    "Requirement",
    "Resources",
    "SelectorError",
    "Service",
    "StorageClass",
    "Taint",
    "TopologySpreadConstraint",
    "UnbalancedReleaseError",
    "VolumeAttachment",
    "assigned_requests",
    "compile_label_selector",
    "compile_required_node_affinity",
    "first_untolerated",
    "incoming_requests",
    "is_qualified_name",
    "node_allocatable",
    "parse_quantity",
]

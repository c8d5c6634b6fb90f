"""The words that redaction keeps: fields, codes of Kubernetes, and well-known names."""

from __future__ import annotations

import functools
import re
from dataclasses import fields, is_dataclass
from typing import Any, Final, get_args

import msgspec

from scheduler.client.resources import RESOURCES
from scheduler.explain.records import (
    Decision,
    NodeScore,
    PluginScore,
    QueueStatistics,
    RejectionCount,
)
from scheduler.framework.grouping import GroupReservation, GroupToSchedule
from scheduler.queue.snapshots import FIELDS


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEPT_NAMES: Final = _words(
    """
    kube-system kube-public kube-node-lease default 0.0.0.0 :: true false linux windows amd64 arm64
    arm ppc64le s390x deviceclass.resource.kubernetes.io Infeasible Deferred
    """
) | {""}
"""Names that every cluster has, the domain of the extended resources of device classes, and the
reasons of a resize that waits, which decide what the pod requests."""

KEPT_KEYS: Final = _words(
    """
    metadata.name
    kubernetes.io/hostname kubernetes.io/os kubernetes.io/arch kubernetes.io/metadata.name
    topology.kubernetes.io/zone topology.kubernetes.io/region
    failure-domain.beta.kubernetes.io/zone failure-domain.beta.kubernetes.io/region
    node.kubernetes.io/instance-type beta.kubernetes.io/os beta.kubernetes.io/arch
    node-role.kubernetes.io/control-plane node-role.kubernetes.io/master
    node.kubernetes.io/unschedulable node.kubernetes.io/not-ready node.kubernetes.io/unreachable
    node.kubernetes.io/memory-pressure node.kubernetes.io/disk-pressure
    node.kubernetes.io/pid-pressure node.kubernetes.io/network-unavailable
    node.kubernetes.io/out-of-service node.cloudprovider.kubernetes.io/uninitialized
    apps.kubernetes.io/pod-index batch.kubernetes.io/job-completion-index
    statefulset.kubernetes.io/pod-name
    volume.kubernetes.io/selected-node volume.kubernetes.io/storage-provisioner
    volume.beta.kubernetes.io/storage-class volume.beta.kubernetes.io/storage-provisioner
    pv.kubernetes.io/bind-completed pv.kubernetes.io/bound-by-controller
    pv.kubernetes.io/migrated-to storage.alpha.kubernetes.io/migrated-plugins
    storageclass.kubernetes.io/is-default-class kubernetes.io/no-provisioner
    karpenter.sh/capacity-type karpenter.sh/nodepool karpenter.sh/disrupted
    kubestow.io/topology-spread-fallback kubestow.io/topology-spread-fallback-applied
    kubestow.io/quota-deferred kubestow.io/deferred-keys kubestow.io/QuotaDeferred
    kubestow.io/TopologySpreadFallback kubestow.io/Satisfied
    kubestow.io/topology-required kubestow.io/topology-preferred kubestow.io/disruption
    kubestow.io/priority-class scheduling.x-k8s.io/pod-group
    kueue.x-k8s.io/admission kueue.x-k8s.io/topology multiarch.openshift.io/scheduling-gate
    kubernetes.io/aws-ebs kubernetes.io/gce-pd kubernetes.io/azure-disk kubernetes.io/azure-file
    kubernetes.io/cinder kubernetes.io/portworx-volume kubernetes.io/vsphere-volume
    topology.ebs.csi.aws.com/zone topology.gke.io/zone topology.cinder.csi.openstack.org/zone
    resource.kubernetes.io/extended-resource-claim resource.kubernetes.io/delete-protection
    """
)
"""Keys of labels, fields, annotations, taints and finalizers that scheduling reads; a tenant can
add other ones to the same domains."""

NAMING_ANNOTATIONS: Final = _words(
    """
    kubestow.io/priority-class kubestow.io/topology-required
    kubestow.io/topology-preferred
    """
)
"""Annotations whose values are names, with commas between."""

ALIAS_ANNOTATION: Final = "kubestow.io/deferred-keys"
"""The annotation of a quota with the resources that its aliases stand for."""

GENERATED_NAME: Final = re.compile(r"container-\d{1,4}-request-\d{1,4}")
"""Names of requests of devices that the scheduler generates for extended resources."""

NATIVE_RESOURCE: Final = re.compile(
    r"cpu|cpu-millis|memory|ephemeral-storage|pods|storage|hugepages-\d{1,6}[KMG]i"
    r"|persistentvolumeclaims|services|configmaps|secrets|replicationcontrollers|resourcequotas"
    r"|(?:nvidia|amd)\.com/gpu"
)

ENUMERATED: Final = _words(
    """
    operator effect phase type status protocol whenUnsatisfiable nodeAffinityPolicy
    nodeTaintsPolicy unhealthyPodEvictionPolicy preemptionPolicy restartPolicy schedulerName reason
    volumeBindingMode accessModes volumeMode scopeName scopes action provisioner driver
    declaredFeatures fallback policyType kind allocationMode source disruptionMode
    """
)
"""Fields of objects whose texts are codes of Kubernetes, where they are in `KEPT_VALUES`."""

KEPT_VALUES: Final = KEPT_KEYS | _words(
    """
    In NotIn Exists DoesNotExist Gt Lt Equal NoSchedule PreferNoSchedule NoExecute
    Pending Running Succeeded Failed Unknown True False true false TCP UDP SCTP
    DoNotSchedule ScheduleAnyway Honor Ignore IfHealthyBudget AlwaysAllow
    PreemptLowerPriority Never Always OnFailure Immediate WaitForFirstConsumer
    ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod Filesystem Block
    Terminating NotTerminating BestEffort NotBestEffort PriorityClass CrossNamespacePodAffinity
    PodScheduled Ready Initialized ContainersReady DisruptionTarget PodReadyToStartContainers
    PodResizePending PodResizeInProgress MemoryPressure DiskPressure PIDPressure NetworkUnavailable
    Unschedulable SchedulingGated SchedulerError Bound Available Released Lost
    NodeProvisioningInProgress NodeProvisioningFailed PreemptionByScheduler
    ReplicaSet StatefulSet DaemonSet Job ReplicationController Deployment Node Pod
    PersistentVolumeClaim PersistentVolume Service Namespace ResourceClaim
    ebs.csi.aws.com pd.csi.storage.gke.io disk.csi.azure.com cinder.csi.openstack.org
    LeastAllocated MostAllocated RequestedToCapacityRatio System List
    PodGroup ExactCount All FromClass FromClaim DeviceClass ResourceSlice
    GuaranteedQoSPodCPUResize RestartAllContainersOnContainerExits UserNamespacesHostNetworkSupport
    RestartAllContainers linux windows amd64 arm64 arm ppc64le s390x
    active backoff unschedulable gated in-flight permitted done bound failed
    ADDED MODIFIED DELETED added modified deleted
    """
)

NAME_FIELDS: Final = _words("node nominated nominatedNode nominated_node pod victims namespace "
                            "nominations quota deferred_namespaces latch_node")  # fmt: skip
"""Fields of lines with names, or with `namespace/name`."""

HARMLESS_METRIC_LABELS: Final = _words(
    """
    le attempts code method criterion event verb result extension_point status profile plugin kind
    name stage operation outcome hint queue reason cause required type version python quantile
    major minor git_version git_commit git_tree_state build_date go_version compiler platform
    generation implementation patchlevel unit
    """
)
"""Labels of metrics whose values are codes or amounts."""


AMOUNT_OR_TIME: Final = re.compile(
    r"[-+]?\d{1,12}(?:\.\d{1,9})?(?:[munkKMGTPE]|[KMGTPE]i|%|e\d{1,2})?"
    r"|(?:\d{1,9}(?:\.\d{1,9})?(?:ms|s|m|h|d))+"
    r"|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)"
)
"""Numbers, quantities, durations and times."""


def struct_fields(*types: Any) -> frozenset[str]:
    """Return the names, in JSON, of the fields of structs and of whatever these contain."""
    found: set[str] = set()
    seen: set[Any] = set()
    left: list[Any] = list(types)
    while left:
        kind = left.pop()
        left += get_args(kind)
        if not isinstance(kind, type) or kind in seen:
            continue
        seen.add(kind)
        if issubclass(kind, msgspec.Struct):
            for each in msgspec.structs.fields(kind):
                found.add(each.encode_name)
                left.append(each.type)
        elif is_dataclass(kind):
            found.update(each.name for each in fields(kind))
    return frozenset(found)


def _fields_of(*records: Any) -> frozenset[str]:
    return frozenset(each.name for record in records for each in fields(record))


LINE_FIELDS: Final = (
    frozenset(FIELDS)
    | _fields_of(Decision, NodeScore, PluginScore, QueueStatistics, RejectionCount)
    | _words(
        """
        time monotonic leading random rotations freeRows nominations statistics node pods pod uid
        place info memory profile plugin state quota usedAndHard plural type seq now outcome
        position gauss words rotation evaluated feasible reason message rejectedBy pendingBy
        nominated victims postFilter unjudgeable step failure requeueAfter rejected note pause
        attempt gate_openings soft previously_soft latch latch_node since_wall since_monotonic
        invalid warned applied group mayPreempt members learnt outcomes reserved kept native
        """
    )
    | struct_fields(GroupToSchedule, GroupReservation)
)
"""Keys of all lines but those of objects and of the configuration."""


@functools.cache
def api_versions() -> frozenset[str]:
    """Return the versions of Kubernetes' own APIs, as an owner reference names them."""
    return frozenset(each.api_version for each in RESOURCES.values()) | {"batch/v1"}


@functools.cache
def object_fields() -> frozenset[str]:
    """Return the names, in JSON, of all fields of the objects that a bundle can have."""
    types = [resource.type for resource in RESOURCES.values()]
    return struct_fields(*types) | {"apiVersion", "kind"}

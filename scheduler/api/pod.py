"""The Pod and everything under it that scheduling reads.

`Pod.signature` is not part of the Kubernetes object. `PodSignatures` sets it once per pod, so that
derived values (request vectors, parsed selectors) are computed once per workload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from scheduler.api.meta import Condition, LabelSelector, Named, Object, ResourceList, Value

if TYPE_CHECKING:
    from scheduler.api.signatures.signature import PodSignature


class NodeSelectorRequirement(Value, frozen=True):
    """One entry of `matchExpressions` or `matchFields` in a node selector term."""

    #: Key of the label, or name of the field.
    key: str = ""
    #: Relation of the label to `values`.
    operator: str = ""
    #: Some for `In` and `NotIn`, one integer for `Gt` and `Lt`, none for the others.
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Value, frozen=True):
    """Requirements that must all hold."""

    #: Requirements on the labels of the node.
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    #: Requirements on `metadata.name` of the node.
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Value, frozen=True):
    """Terms of which one must hold; no terms match no node."""

    #: One or more terms.
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Value, frozen=True):
    """A weighted node preference."""

    #: Added to the score of nodes that the term matches, 1 to 100.
    weight: int = 0
    #: The nodes that are preferred.
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Value, frozen=True):
    """`affinity.nodeAffinity`."""

    #: Nodes on which the pod may run.
    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    #: Nodes with a higher score.
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Object):
    """A required (anti-)affinity term; the API server has merged match/mismatchLabelKeys."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Object):
    """A preferred (anti-)affinity term."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = msgspec.field(default_factory=PodAffinityTerm)


class PodAffinity(Object):
    """`affinity.podAffinity` or `affinity.podAntiAffinity`."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Object):
    """`spec.affinity`."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Value, frozen=True):
    """`spec.tolerations[]`; empty operator means Equal."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Object):
    """`spec.topologySpreadConstraints[]`; `fallback_criteria` is KEP-3990's native field."""

    #: Largest difference between the numbers of matching pods in two domains.
    max_skew: int = 0
    #: Key of the node label whose values are the domains.
    topology_key: str = ""
    #: `DoNotSchedule`: a hard constraint. `ScheduleAnyway`: a soft one, which counts as score.
    when_unsatisfiable: str = ""
    #: Labels of the pods that count. In the configuration it is derived and must be absent.
    label_selector: LabelSelector | None = None
    #: With fewer domains the smallest number is taken to be 0. For hard constraints only.
    min_domains: int | None = None
    #: `Honor`: count nodes only that the pod's node affinity allows. None: Honor.
    node_affinity_policy: str | None = None
    #: `Honor`: count tainted nodes only that the pod tolerates. None: Ignore.
    node_taints_policy: str | None = None
    #: Keys of the pod's labels whose values are added to the selector.
    match_label_keys: tuple[str, ...] = ()
    #: What must have failed before a hard constraint softens (KEP-3990).
    fallback_criteria: tuple[str, ...] = ()


class ResourceRequirements(Object):
    """`resources` of a container or pod."""

    requests: ResourceList = {}
    limits: ResourceList = {}


class ContainerPort(Value, frozen=True):
    """`ports[]`; only host ports matter to scheduling."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class RestartRule(Object):
    """`restartPolicyRules[]`, read for feature inference (NodeDeclaredFeatures)."""

    action: str = ""


class Container(Object):
    """A container or init container."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[RestartRule, ...] = ()


class PersistentVolumeClaimSource(Object):
    """`volumes[].persistentVolumeClaim`."""

    claim_name: str = ""
    read_only: bool = False


class PersistentVolumeClaimSpec(Object):
    """The part of a claim's spec that volume plugins read; also inside ephemeral templates."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(Named):
    """`volumes[].ephemeral.volumeClaimTemplate`."""

    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)


class EphemeralVolumeSource(Object):
    """`volumes[].ephemeral`."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class GCEPersistentDisk(Value, frozen=True):
    """In-line GCE disk."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStore(Value, frozen=True):
    """In-line EBS volume."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class ISCSIVolume(Value, frozen=True):
    """In-line iSCSI volume."""

    iqn: str = ""
    target_portal: str = ""
    lun: int = 0
    read_only: bool = False


class RBDVolume(Value, frozen=True):
    """In-line Ceph RBD volume."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    read_only: bool = False


class CSIVolumeSource(Value, frozen=True):
    """In-line CSI volume."""

    driver: str = ""


class AzureDiskVolume(Value, frozen=True):
    """In-line Azure disk."""

    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")


class CinderVolume(Value, frozen=True):
    """In-line Cinder volume."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxVolume(Value, frozen=True):
    """In-line Portworx volume."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class AzureFileVolume(Value, frozen=True):
    """In-line Azure file share."""

    share_name: str = ""


class VsphereVolume(Value, frozen=True):
    """In-line vSphere volume."""

    volume_path: str = ""


class ImageVolumeSource(Value, frozen=True):
    """`volumes[].image`."""

    reference: str = ""


class Volume(Object):
    """`spec.volumes[]`; sources that scheduling ignores decode to a volume with a name only."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    iscsi: ISCSIVolume | None = None
    rbd: RBDVolume | None = None
    csi: CSIVolumeSource | None = None
    azure_disk: AzureDiskVolume | None = None
    cinder: CinderVolume | None = None
    portworx_volume: PortworxVolume | None = None
    azure_file: AzureFileVolume | None = None
    vsphere_volume: VsphereVolume | None = None
    image: ImageVolumeSource | None = None


class PodSchedulingGate(Value, frozen=True):
    """`spec.schedulingGates[]`."""

    name: str = ""


class PodSchedulingGroup(Value, frozen=True):
    """`spec.schedulingGroup`: the PodGroup of `scheduling.k8s.io` that the pod is a member of."""

    #: In the namespace of the pod.
    pod_group_name: str = ""


class PodResourceClaim(Value, frozen=True):
    """`spec.resourceClaims[]`."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Object):
    """`spec` of a pod."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    volumes: tuple[Volume, ...] = ()
    overhead: ResourceList = {}
    resources: ResourceRequirements | None = None
    host_network: bool = False
    host_users: bool | None = None
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int | None = None


class ContainerStatus(Object):
    """The resize state of one container: what is allocated and what is actuated."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}


class PodResourceClaimStatus(Value, frozen=True):
    """`status.resourceClaimStatuses[]`."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(Object):
    """`status` of a pod."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: str | None = None
    reason: str = ""
    message: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: dict[str, Any] | None = None


class Pod(Named):
    """A v1 Pod. `signature` is set by the reflectors and by `PodSignatures.intern`."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)
    # These JSON names cannot occur in a Kubernetes object, so decoding never sets them. An interned
    # pod cannot be encoded: what goes to the API server is built from parts, never from a Pod.
    interned: Any = msgspec.field(default=None, name="kubestow.io:signature")
    # The one node a DaemonSet pod is made for, "" for other pods; `PodSignatures.intern` takes it
    # out of the signature.
    pin: str = msgspec.field(default="", name="kubestow.io:pin")

    @property
    def signature(self) -> PodSignature:
        """The interned signature; raises RuntimeError if the pod was not interned."""
        signature: PodSignature | None = self.interned
        if signature is None:
            msg = (
                f"pod {self.metadata.namespace}/{self.metadata.name} has no signature: "
                "pass it through PodSignatures.intern() first"
            )
            raise RuntimeError(msg)
        return signature

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def uid(self) -> str:
        """`metadata.uid`."""
        return self.metadata.uid

    @property
    def priority(self) -> int:
        """`spec.priority`, 0 when unset (admission resolves classes, not the scheduler)."""
        return self.spec.priority or 0

    @property
    def terminating(self) -> bool:
        """Whether deletion has begun."""
        return self.metadata.deletion_timestamp is not None

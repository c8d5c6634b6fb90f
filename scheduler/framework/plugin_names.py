"""Names of all in-tree plugins: upstream's, including those not implemented here, and our own.

Configuration, metrics and messages contain them, so they must equal upstream's exactly.
"""

from __future__ import annotations

from typing import Final

DEFAULT_BINDER: Final = "DefaultBinder"
DEFAULT_PREEMPTION: Final = "DefaultPreemption"
DYNAMIC_RESOURCES: Final = "DynamicResources"
GANG_SCHEDULING: Final = "GangScheduling"
IMAGE_LOCALITY: Final = "ImageLocality"
INTER_POD_AFFINITY: Final = "InterPodAffinity"
NODE_AFFINITY: Final = "NodeAffinity"
NODE_DECLARED_FEATURES: Final = "NodeDeclaredFeatures"
NODE_NAME: Final = "NodeName"
NODE_PORTS: Final = "NodePorts"
NODE_RESOURCES_BALANCED_ALLOCATION: Final = "NodeResourcesBalancedAllocation"
NODE_RESOURCES_FIT: Final = "NodeResourcesFit"
NODE_UNSCHEDULABLE: Final = "NodeUnschedulable"
NODE_VOLUME_LIMITS: Final = "NodeVolumeLimits"
POD_GROUP_PODS_COUNT: Final = "PodGroupPodsCount"
POD_TOPOLOGY_SPREAD: Final = "PodTopologySpread"
PRIORITY_SORT: Final = "PrioritySort"
RESOURCE_QUOTA: Final = "ResourceQuota"
SCHEDULING_GATES: Final = "SchedulingGates"
TAINT_TOLERATION: Final = "TaintToleration"
TOPOLOGY_PLACEMENT_GENERATOR: Final = "TopologyPlacementGenerator"
VOLUME_BINDING: Final = "VolumeBinding"
VOLUME_RESTRICTIONS: Final = "VolumeRestrictions"
VOLUME_ZONE: Final = "VolumeZone"

UPSTREAM_NAMES: Final = frozenset(
    (
        DEFAULT_BINDER,
        DEFAULT_PREEMPTION,
        DYNAMIC_RESOURCES,
        GANG_SCHEDULING,
        IMAGE_LOCALITY,
        INTER_POD_AFFINITY,
        NODE_AFFINITY,
        NODE_DECLARED_FEATURES,
        NODE_NAME,
        NODE_PORTS,
        NODE_RESOURCES_BALANCED_ALLOCATION,
        NODE_RESOURCES_FIT,
        NODE_UNSCHEDULABLE,
        NODE_VOLUME_LIMITS,
        POD_GROUP_PODS_COUNT,
        POD_TOPOLOGY_SPREAD,
        PRIORITY_SORT,
        SCHEDULING_GATES,
        TAINT_TOLERATION,
        TOPOLOGY_PLACEMENT_GENERATOR,
        VOLUME_BINDING,
        VOLUME_RESTRICTIONS,
        VOLUME_ZONE,
    )
)
"""Names of all 23 in-tree plugins of kube-scheduler v1.37."""

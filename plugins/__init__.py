"""kubestow's in-tree plugins, with upstream's names, behaviour and order."""

from __future__ import annotations

from typing import Any, Final

from plugins.default_binder import DefaultBinder
from plugins.default_preemption import DefaultPreemption
from plugins.dynamic_resources.plugin import DynamicResources
from plugins.gang_scheduling.plugin import GangScheduling
from plugins.image_locality import ImageLocality
from plugins.inter_pod_affinity.plugin import InterPodAffinity
from plugins.node_affinity import NodeAffinity
from plugins.node_declared_features import NodeDeclaredFeatures
from plugins.node_name import NodeName
from plugins.node_ports import NodePorts
from plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from plugins.node_resources.fit import NodeResourcesFit
from plugins.node_unschedulable import NodeUnschedulable
from plugins.node_volume_limits import NodeVolumeLimits
from plugins.pod_topology_spread.plugin import PodTopologySpread
from plugins.priority_sort import PrioritySort
from plugins.resource_quota.plugin import ResourceQuota
from plugins.scheduling_gates import SchedulingGates
from plugins.taint_toleration import TaintToleration
from plugins.volume_binding.plugin import VolumeBinding
from plugins.volume_restrictions import VolumeRestrictions
from plugins.volume_zone import VolumeZone

__all__ = [
    "DEFAULT_PLUGINS",
    "DefaultBinder",
    "DefaultPreemption",
    "DynamicResources",
    "GangScheduling",
    "ImageLocality",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeDeclaredFeatures",
    "NodeName",
    "NodePorts",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "PrioritySort",
    "ResourceQuota",
    "SchedulingGates",
    "TaintToleration",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
    "in_tree",
]

_IN_TREE: Final[tuple[tuple[type[Any], int], ...]] = (
    (SchedulingGates, 0),
    (PrioritySort, 0),
    (NodeName, 0),
    (NodeUnschedulable, 0),
    (TaintToleration, 3),
    (NodeAffinity, 2),
    (NodePorts, 0),
    (NodeResourcesFit, 1),
    (VolumeRestrictions, 0),
    (NodeVolumeLimits, 0),
    (VolumeBinding, 0),
    (VolumeZone, 0),
    (PodTopologySpread, 2),
    (InterPodAffinity, 2),
    (DynamicResources, 2),
    (DefaultPreemption, 0),
    (ResourceQuota, 0),
    (NodeResourcesBalancedAllocation, 1),
    (ImageLocality, 1),
    (DefaultBinder, 0),
    (NodeDeclaredFeatures, 0),
    (GangScheduling, 0),
)
"""Plugin classes and their default score weights, 0 where upstream states none (1 if they score).

Upstream's default plugins in MultiPoint order at v1.37's default feature gates
(`default_plugins.go: getDefaultPlugins`), and ResourceQuota, which is ours and takes part only
while its gate is on. The order decides which plugin's reason is reported for a node."""

DEFAULT_PLUGINS: Final[tuple[tuple[str, int], ...]] = tuple(
    (plugin.name, weight) for plugin, weight in _IN_TREE
)
"""Names and weights of the plugins of a profile that configures none."""


def in_tree() -> tuple[type[Any], ...]:
    """Every in-tree plugin class, in the order of `DEFAULT_PLUGINS`."""
    return tuple(plugin for plugin, _ in _IN_TREE)

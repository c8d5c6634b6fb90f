"""kubestow's in-tree plugins: upstream's names, behaviour and order.

`in_tree()` is what exists; `DEFAULT_PLUGINS` is what a profile runs when it configures nothing. A
plugin that upstream has and kubestow does not (yet) keeps its place in `DEFAULT_ORDER`, and joins
the defaults by being added to `in_tree`.
"""

from __future__ import annotations

from typing import Any, Final

from plugins.default_binder import DefaultBinder
from plugins.default_preemption import DefaultPreemption
from plugins.dynamic_resources import DynamicResources
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
from scheduler.framework import plugin_names

__all__ = [
    "DEFAULT_ORDER",
    "DEFAULT_PLUGINS",
    "DefaultBinder",
    "DefaultPreemption",
    "DynamicResources",
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

DEFAULT_ORDER: Final[tuple[tuple[str, int], ...]] = (
    (plugin_names.SCHEDULING_GATES, 0),
    (plugin_names.PRIORITY_SORT, 0),
    (plugin_names.NODE_UNSCHEDULABLE, 0),
    (plugin_names.NODE_NAME, 0),
    (plugin_names.TAINT_TOLERATION, 3),
    (plugin_names.NODE_AFFINITY, 2),
    (plugin_names.NODE_PORTS, 0),
    (plugin_names.NODE_RESOURCES_FIT, 1),
    (plugin_names.VOLUME_RESTRICTIONS, 0),
    (plugin_names.NODE_VOLUME_LIMITS, 0),
    (plugin_names.VOLUME_BINDING, 0),
    (plugin_names.VOLUME_ZONE, 0),
    (plugin_names.POD_TOPOLOGY_SPREAD, 2),
    (plugin_names.INTER_POD_AFFINITY, 2),
    (plugin_names.DYNAMIC_RESOURCES, 2),
    (plugin_names.DEFAULT_PREEMPTION, 0),
    (plugin_names.RESOURCE_QUOTA, 0),
    (plugin_names.NODE_RESOURCES_BALANCED_ALLOCATION, 1),
    (plugin_names.IMAGE_LOCALITY, 1),
    (plugin_names.DEFAULT_BINDER, 0),
    (plugin_names.NODE_DECLARED_FEATURES, 0),
)
"""(name, score weight) of upstream's default plugins in MultiPoint order, at v1.36's default
gates, and ResourceQuota, which is ours and among them only while its gate is on. Weight 0 means
that none is configured; the framework then counts 1. The order decides which plugin's reason a node
shows."""


def in_tree() -> tuple[type[Any], ...]:
    """Every plugin class that exists here, in the order of `DEFAULT_ORDER`."""
    return (
        SchedulingGates,
        PrioritySort,
        NodeUnschedulable,
        NodeName,
        TaintToleration,
        NodeAffinity,
        NodePorts,
        NodeResourcesFit,
        VolumeRestrictions,
        NodeVolumeLimits,
        VolumeBinding,
        VolumeZone,
        PodTopologySpread,
        InterPodAffinity,
        DynamicResources,
        DefaultPreemption,
        ResourceQuota,
        NodeResourcesBalancedAllocation,
        ImageLocality,
        DefaultBinder,
        NodeDeclaredFeatures,
    )


_EXISTING: Final = frozenset(plugin.name for plugin in in_tree())

DEFAULT_PLUGINS: Final[tuple[tuple[str, int], ...]] = tuple(
    (name, weight) for name, weight in DEFAULT_ORDER if name in _EXISTING
)
"""`DEFAULT_ORDER` without the plugins that do not exist yet."""

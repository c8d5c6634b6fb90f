"""Plugins written in Go that launchers of kube-scheduler configure, and what to use instead.

Those of kubernetes-sigs/scheduler-plugins and of other distributions, which are compiled into their
own schedulers. Nothing in Go can be loaded here. Names only: the advice is data for messages.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from scheduler.framework.field_errors import did_you_mean

_STRATEGY: Final = "use NodeResourcesFit with scoringStrategy.type LeastAllocated or MostAllocated"
_NETWORK: Final = (
    "use InterPodAffinity or PodTopologySpread with the topology keys of zones and regions"
)
_MEASURED: Final = (
    "begin with plugins.extra.load_aware:LoadAware, which reads measured load, or use "
    "NodeResourcesFit with scoringStrategy.type MostAllocated, which packs by requests"
)
_RISK: Final = (
    "use plugins.extra.load_aware:LoadAware, which prefers nodes of little measured load, or "
    "NodeResourcesFit and NodeResourcesBalancedAllocation, which spread by requests"
)

GO_PLUGINS: Final[Mapping[str, str]] = {
    "CapacityScheduling": (
        "limit namespaces with deferred quotas (feature gate ResourceQuotaDeferredEnforcement), or "
        "share capacity between them with Kueue"
    ),
    "CrossNodePreemption": "use DefaultPreemption, which takes victims from one node",
    "LoadVariationRiskBalancing": _RISK,
    "LowRiskOverCommitment": _RISK,
    "NetworkOverhead": _NETWORK,
    "NodeMetadata": "use preferred terms of NodeAffinity, on the pods or as addedAffinity",
    "NodeResourceTopologyMatch": (
        "use plugins.extra.numa_aware.plugin:NumaAware, which reads NodeResourceTopology objects "
        "for the policy single-numa-node"
    ),
    "NodeResourcesAllocatable": _STRATEGY,
    "Peaks": _MEASURED,
    "PodState": "remove it; nodes that pods are nominated to keep room for them anyway",
    "PreemptionToleration": "use DefaultPreemption, and preemptionPolicy: Never in PriorityClasses",
    "QOSSort": "use PrioritySort, and give pods a PriorityClass",
    "SySched": "use preferred terms of NodeAffinity, on the pods or as addedAffinity",
    "TargetLoadPacking": _MEASURED,
    "TopologicalSort": "use PrioritySort, and give pods a PriorityClass",
}
"""By name, what takes its place."""

_NUMA: Final = (
    "use plugins.extra.numa_aware.plugin:NumaAware, which reads NodeResourceTopology objects"
)
_GANGS: Final = "use GangScheduling (docs/gang-scheduling.md)"
_QUOTAS: Final = "limit namespaces with deferred quotas (docs/deferred-quota.md), or use Kueue"
_DEVICES: Final = "use DynamicResources, or the extended resources of a device plugin"
_PACKING: Final = "use NodeResourcesFit with scoringStrategy.type MostAllocated"
_KEPT_ROOM: Final = "keep room with pods of low priority that others evict"

OTHER_PLUGINS: Final[Mapping[str, tuple[str, str]]] = {
    **{
        name: ("a Go plugin of Koordinator", use)
        for name, use in {
            "BatchResourceFit": "use NodeResourcesFit, which counts batch resources as any other",
            "CompatibleDefaultPreemption": "use DefaultPreemption",
            "DefaultPreBind": "remove it; bindings need no such step here",
            "DeviceShare": _DEVICES,
            "ElasticQuota": _QUOTAS,
            "LoadAwareScheduling": _RISK,
            "MultiQuotaTree": _QUOTAS,
            "NodeNUMAResource": _NUMA,
            "NodeResourcesFitPlus": _STRATEGY,
            "Reservation": _KEPT_ROOM,
            "ScarceResourceAvoidance": "use taints of the nodes that have the scarce resource",
            "SchedulingHint": "use preferred terms of NodeAffinity",
        }.items()
    },
    "Dynamic": ("a Go plugin of Crane", _RISK),
    **{
        name: ("a Go plugin of Katalyst", use)
        for name, use in {
            "NodeOvercommitment": "use NodeResourcesFit, with the amounts that the node states",
            "QoSAwareNodeResourcesBalancedAllocation": "use NodeResourcesBalancedAllocation",
            "QoSAwareNodeResourcesFit": "use NodeResourcesFit",
        }.items()
    },
    **{
        name: ("a Go plugin of Volcano's own scheduler", use)
        for name, use in {
            "binpack": _PACKING,
            "capacity": _QUOTAS,
            "conformance": "remove it; give system pods a PriorityClass",
            "deviceshare": _DEVICES,
            "drf": _QUOTAS,
            "gang": _GANGS,
            "network-topology-aware": "use GangScheduling with kubestow.io/topology-required",
            "nodegroup": "use NodeAffinity",
            "nodeorder": "remove it; the default plugins score nodes",
            "numaaware": _NUMA,
            "overcommit": "remove it; pods wait in the queue without being created anew",
            "predicates": "remove it; the default plugins filter nodes",
            "priority": "use PrioritySort and DefaultPreemption",
            "proportion": _QUOTAS,
            "rescheduling": "run the descheduler beside kubestow",
            "resource-strategy-fit": _STRATEGY,
            "resourcequota": _QUOTAS,
            "sla": "use GangScheduling, whose reservations keep large groups from waiting for ever",
            "task-topology": "use InterPodAffinity",
            "tdm": "use NodeAffinity, or a scheduling gate for hours of the day",
            "usage": _RISK,
        }.items()
    },
    **{
        name: ("a scheduler profile of OpenShift", use)
        for name, use in {
            "HighNodeUtilization": _PACKING,
            "LowNodeUtilization": "use the default plugins, which spread pods",
            "NoScoring": "disable all Score plugins: score: {disabled: [{name: '*'}]}",
        }.items()
    },
}
"""By name, what it is, and what takes its place."""

COSCHEDULING: Final = "Coscheduling"
"""Another name of GangScheduling under multiPoint, which reads the same objects."""

COSCHEDULING_ARGS: Final[Mapping[str, str]] = {
    "deniedPGExpirationTimeSeconds": "a group that failed waits for a change that may help it",
    "permitWaitingTimeSeconds": "nobody waits at Permit, so there is no timeout",
    "podGroupBackoffSeconds": "a group that failed waits for a change that may help it",
    "podGroupRejectPercentage": "all members that the minimum needs are placed, or none is",
}
"""Arguments that GangScheduling does not have, and why nothing takes their place."""

_MIGRATION: Final = "(docs/gang-scheduling.md)"


def argument_advice(argument: str) -> str:
    """Return what to do with an argument of Coscheduling."""
    why = COSCHEDULING_ARGS[argument]
    return f"is an argument of {COSCHEDULING}: remove it; {why} {_MIGRATION}"


def point_advice(point: str) -> str:
    """Return what to do where a profile enables Coscheduling for a single extension point."""
    instead = "enable PrioritySort instead" if point == "queueSort" else "remove the entry"
    return (
        f"{COSCHEDULING} is GangScheduling here, which is enabled under multiPoint and does not "
        f"order the queue: {instead} {_MIGRATION}"
    )


MISSPELT: Final = 0.85
"""Likeness from which a name is one that is misspelt."""
_WRITE: Final = "or write it in Python and name it module:Class (docs/plugins.md)"


def advice(name: str, known: Collection[str], *, unloaded: bool = False) -> str:
    """Return how a message about a plugin that does not exist continues.

    Args:
        name: of the plugin.
        known: names that exist, of which the nearest is offered for one that is misspelt.
        unloaded: whether a plugin could not be loaded, whose name may be this one.
    """
    if name in GO_PLUGINS:
        return f": it is a Go plugin of scheduler-plugins; {GO_PLUGINS[name]}, {_WRITE}"
    if name in OTHER_PLUGINS:
        kind, instead = OTHER_PLUGINS[name]
        return f": it is {kind}; {instead}, {_WRITE}"
    # An unrelated plugin would be accepted, and schedule otherwise.
    if unloaded and not did_you_mean(name, known, cutoff=MISSPELT):
        return ": it may be the one that could not be loaded"
    return did_you_mean(name, known, cutoff=MISSPELT) or (
        "; a plugin written in Go cannot be loaded: write it in Python and name it module:Class "
        "(docs/plugins.md)"
    )

"""Plugins written in Go that launchers of kube-scheduler configure, and what to use instead.

Those of kubernetes-sigs/scheduler-plugins, which are compiled into its own kube-scheduler. Nothing
in Go can be loaded here. Names only: the advice is data for messages.
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
    "begin with examples/load_aware, which reads measured load, or use NodeResourcesFit with "
    "scoringStrategy.type MostAllocated, which packs by requests"
)
_RISK: Final = (
    "use examples/load_aware, which prefers nodes of little measured load, or NodeResourcesFit "
    "and NodeResourcesBalancedAllocation, which spread by requests"
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
        "use examples/numa_aware, which reads NodeResourceTopology objects for the policy "
        "single-numa-node"
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


_WRITE: Final = "or write it in Python and name it module:Class (docs/plugins.md)"


def advice(name: str, known: Collection[str]) -> str:
    """Return how a message about a plugin that does not exist goes on.

    Args:
        name: of the plugin.
        known: names that exist, of which the nearest is offered for one that is misspelt.
    """
    if name in GO_PLUGINS:
        return f": it is a Go plugin of scheduler-plugins; {GO_PLUGINS[name]}, {_WRITE}"
    return did_you_mean(name, known) or (
        "; a plugin written in Go cannot be loaded: write it in Python and name it module:Class "
        "(docs/plugins.md)"
    )

"""Names of kube-scheduler v1.37: scheduler, Lease, removed and gated plugins, their arguments.

Data only, for messages about plugins that kubestow does not have, and for a printed file that
kube-scheduler accepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"
"""`schedulerName` of pods that set none; the cluster's own scheduler serves it."""

LEASE_NAME: Final = "kube-scheduler"
LEASE_NAMESPACE: Final = "kube-system"

REMOVED_PLUGINS: Final = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
"""Refused by upstream with a text of their own; NodeVolumeLimits does their work."""

GATED_DEFAULTS: Final[Mapping[str, str]] = {
    "SchedulingGates": "PodSchedulingReadiness",
    "DynamicResources": "DynamicResourceAllocation",
    "NodeDeclaredFeatures": "NodeDeclaredFeatures",
    "GangScheduling": "GenericWorkload",
    "TopologyPlacementGenerator": "TopologyAwareWorkloadScheduling",
    "PodGroupPodsCount": "TopologyAwareWorkloadScheduling",
    # Of kubestow, KEP-5465: the feature gate adds the plugin as well.
    "ResourceQuota": "ResourceQuotaDeferredEnforcement",
}
"""Plugins that are in the default set only while a gate is on."""

GATED_ARGS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("DynamicResources", "filterTimeout"): ("DRASchedulerFilterTimeout",),
    ("DynamicResources", "bindingTimeout"): (
        "DRADeviceBindingConditions",
        "DRAResourceClaimDeviceStatus",
    ),
    ("VolumeBinding", "shape"): ("StorageCapacityScoring",),
}
"""Arguments that may be given only while all of some gates are on."""

Fields = Mapping[str, "Fields | None"]
"""Field names of a kind; None: the whole value below is upstream's."""

_RESOURCES: Final[Fields] = {"name": None, "weight": None}
_SHAPE: Final[Fields] = {"utilization": None, "score": None}

ARGS_FIELDS: Final[Mapping[str, Fields]] = {
    "DefaultPreemption": {"minCandidateNodesPercentage": None, "minCandidateNodesAbsolute": None},
    "DynamicResources": {"filterTimeout": None, "bindingTimeout": None},
    "InterPodAffinity": {
        "hardPodAffinityWeight": None,
        "ignorePreferredTermsOfExistingPods": None,
    },
    "NodeAffinity": {"addedAffinity": None},
    "NodeResourcesBalancedAllocation": {"resources": _RESOURCES},
    "NodeResourcesFit": {
        "ignoredResources": None,
        "ignoredResourceGroups": None,
        "scoringStrategy": {
            "type": None,
            "resources": _RESOURCES,
            "requestedToCapacityRatio": {"shape": _SHAPE},
        },
    },
    "PodTopologySpread": {
        "defaultingType": None,
        "defaultConstraints": {
            "maxSkew": None,
            "topologyKey": None,
            "whenUnsatisfiable": None,
            "labelSelector": None,
            "minDomains": None,
            "nodeAffinityPolicy": None,
            "nodeTaintsPolicy": None,
            "matchLabelKeys": None,
        },
    },
    "VolumeBinding": {"bindTimeoutSeconds": None, "shape": _SHAPE},
}
"""Arguments of the in-tree plugins that have any."""

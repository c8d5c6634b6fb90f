"""The bridge from autoscalers' events to the pod condition NodeProvisioningInProgress.

`Decisions` is pure and decides; `NodeProvisioningBridge` watches and writes. See KEP-3990 and
docs/node-provisioning-bridge.md.
"""

from scheduler.service.node_provisioning.bridge import (
    COMPONENT,
    BridgeMetrics,
    BridgeOptions,
    BridgeStatistics,
    NodeProvisioningBridge,
)
from scheduler.service.node_provisioning.decisions import Decisions, Patch, Plan
from scheduler.service.node_provisioning.demand import Demand, profiles_that_fall_back_by_default
from scheduler.service.node_provisioning.ownership import CONDITION, FIELD_MANAGER
from scheduler.service.node_provisioning.signals import StatusObject
from scheduler.service.node_provisioning.sources import Limits

__all__ = [
    "COMPONENT",
    "CONDITION",
    "FIELD_MANAGER",
    "BridgeMetrics",
    "BridgeOptions",
    "BridgeStatistics",
    "Decisions",
    "Demand",
    "Limits",
    "NodeProvisioningBridge",
    "Patch",
    "Plan",
    "StatusObject",
    "profiles_that_fall_back_by_default",
]

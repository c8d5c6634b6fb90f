"""The bridge from autoscalers' events to the pod condition NodeProvisioningInProgress.

`Decisions` is pure and plans patches; `NodeProvisioningBridge` watches and writes. See KEP-3990 and
docs/node-provisioning-bridge.md.
"""

from scheduler.controllers.node_provisioning.bridge import (
    COMPONENT,
    BridgeOptions,
    NodeProvisioningBridge,
)
from scheduler.controllers.node_provisioning.condition_selector import (
    ConditionSelector,
    profiles_that_fall_back_by_default,
)
from scheduler.controllers.node_provisioning.decisions import (
    Decisions,
    DuePatches,
    Patch,
)
from scheduler.controllers.node_provisioning.ownership import (
    CONDITION,
)
from scheduler.controllers.node_provisioning.signals import (
    StatusObject,
)
from scheduler.controllers.node_provisioning.sources import (
    Limits,
)

__all__ = [
    "COMPONENT",
    "CONDITION",
    "BridgeOptions",
    "ConditionSelector",
    "Decisions",
    "DuePatches",
    "Limits",
    "NodeProvisioningBridge",
    "Patch",
    "StatusObject",
    "profiles_that_fall_back_by_default",
]

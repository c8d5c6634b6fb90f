"""The bridge from autoscalers' events to the pod condition NodeProvisioningInProgress.

`Decisions` is pure and decides; `NodeProvisioningBridge` watches and writes. See KEP-3990 and
docs/node-provisioning-bridge.md.
"""

from scheduler.controllers.node_provisioning.bridge import (
    COMPONENT,
    BridgeOptions,
    NodeProvisioningBridge,
)
from scheduler.controllers.node_provisioning.decisions import (
    Decisions,
    Patch,
    Plan,
)
from scheduler.controllers.node_provisioning.demand import (
    ConditionSelector,
    profiles_that_fall_back_by_default,
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
    "Limits",
    "NodeProvisioningBridge",
    "Patch",
    "Plan",
    "StatusObject",
    "profiles_that_fall_back_by_default",
]

"""The permissions of DynamicResources, and the rejection of pods with claims if one is missing.

If a resource that cannot be read counted as an empty list, claims would seem not to exist, or
devices to be free. The permissions are those of the role `system:kube-scheduler` without `update`,
since every write is a patch.
"""

from __future__ import annotations

from typing import Final

from plugins.dynamic_resources.taint_rules import RULES
from scheduler.framework import Handle, Permission, Status, unresolvable

CLAIMS: Final = "resourceclaims"
SLICES: Final = "resourceslices"
CLASSES: Final = "deviceclasses"

RESOURCES: Final = (CLAIMS, SLICES, CLASSES)
"""`required_resources` of the plugin. API servers before 1.34 do not serve them as v1, and then
there are no objects."""

CLAIMS_WAIT: Final = "pods with resource claims wait"
OPTIONAL_RESOURCES: Final = {
    **dict.fromkeys(RESOURCES, CLAIMS_WAIT),
    RULES: "the taints of DeviceTaintRules are not considered",
}
NOT_READABLE: Final = f"the scheduler may not list {{}}, so {CLAIMS_WAIT}"

_GROUP: Final = "resource.k8s.io"

PERMISSIONS: Final = (
    Permission(
        group=_GROUP,
        resource=CLAIMS,
        verbs=("get", "patch"),
        purpose="DynamicResources: the finalizer of claims with devices; get after a conflict",
        without=CLAIMS_WAIT,
    ),
    Permission(
        group=_GROUP,
        resource=f"{CLAIMS}/status",
        verbs=("patch",),
        purpose="DynamicResources: allocating devices to claims, and reserving claims for pods",
        without=CLAIMS_WAIT,
    ),
    Permission(
        group=_GROUP,
        resource=f"{CLAIMS}/binding",
        verbs=("patch",),
        purpose="DynamicResources: the same; API servers from 1.36 on ask for this as well",
        without=CLAIMS_WAIT,
    ),
    Permission(
        group=_GROUP,
        resource=CLAIMS,
        verbs=("create", "delete"),
        purpose="DynamicResources: claims for extended resources that devices stand for",
        without="pods wait whose extended resources only a DeviceClass offers",
    ),
    Permission(
        resource="pods/finalizers",
        verbs=("update",),
        purpose="DynamicResources: owning these claims, where OwnerReferencesPermissionEnforcement "
        "is on",
        without="pods wait whose extended resources only a DeviceClass offers, where it is on",
    ),
)


def unreadable(handle: Handle) -> Status | None:
    """Return the rejection of pods with claims if one of the resources cannot be read, or None."""
    for plural in RESOURCES:
        if not handle.may("list", plural):
            return unresolvable(NOT_READABLE.format(plural))
    return None

"""The permissions that one configuration needs, from what its parts declare. Pure.

Required is only what everything depends on: pods, nodes, the Binding, the Lease, and what a plugin
reads in order to enforce rules that would be broken in silence without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scheduler.client import client_authorities
from scheduler.client.custom_resources import resource_of
from scheduler.client.resources import NODES, PODS
from scheduler.explain.records.page_table import PAGES
from scheduler.framework import Permission
from scheduler.permissions.state import FOLLOWING

PODS_READ: Final = Permission(
    resource=PODS.plural,
    verbs=("get", *FOLLOWING),
    purpose="Pods to schedule, and all others for what they use; get settles a bind whose response "
    "was lost",
)
NODES_READ: Final = Permission(
    resource=NODES.plural, verbs=FOLLOWING, purpose="The nodes that pods are placed on"
)
POD_STATUS: Final = Permission(
    resource="pods/status",
    verbs=("patch",),
    purpose="The condition PodScheduled and nominatedNodeName",
    without="pods do not show why they wait, and preemption reserves no node",
)
EVENTS: Final = Permission(
    group="events.k8s.io",
    resource="events",
    verbs=("create", "patch"),
    purpose="Events: Scheduled, FailedScheduling, Preempted; patch counts repeated ones",
    without="there are no Events",
)
SERVING: Final = (
    Permission(
        group="authentication.k8s.io",
        resource="tokenreviews",
        verbs=("create",),
        purpose="HTTPS endpoints: who requests /metrics, /configz or /debug",
        without="only health checks are answered",
    ),
    Permission(
        group="authorization.k8s.io",
        resource="subjectaccessreviews",
        verbs=("create",),
        purpose="HTTPS endpoints: whether they may",
        without="only health checks are answered",
    ),
    Permission(
        resource="configmaps",
        verbs=("get",),
        namespace=client_authorities.NAMESPACE,
        names=(client_authorities.NAME,),
        purpose="HTTPS endpoints: the authorities of client certificates, as kubectl sends them",
        without="client certificates are not accepted, tokens are",
    ),
    Permission(
        urls=("/debug/queue", "/debug/explain", "/debug/summary"),
        verbs=("get",),
        purpose="kubestow queue and kubestow explain inside the pod, which call its own endpoints",
        without="they need another account",
    ),
)


def explainer(lease: tuple[str, str]) -> tuple[Permission, ...]:
    """Return what a person needs who asks a scheduler with this Lease (name, namespace)."""
    name, namespace = lease
    return (
        Permission(
            urls=tuple(PAGES),
            verbs=("get",),
            purpose="kubestow explain, queue and top about all namespaces and nodes",
            without="there are answers about namespaces whose pods the user may get",
        ),
        Permission(
            urls=("/debug/whatif",),
            verbs=("post",),
            purpose="kubestow whatif, which changes nothing",
            without="it is refused",
        ),
        Permission(
            group="coordination.k8s.io",
            resource="leases",
            verbs=("get",),
            namespace=namespace,
            names=(name,),
            purpose="The way there: which pod leads, and the hash of its certificate",
        ),
        Permission(
            resource="pods/portforward",
            verbs=("get", "create"),
            namespace=namespace,
            purpose="The way there: the tunnel to that pod; API servers before 1.35 ask for get, "
            "later ones for create as well",
        ),
    )


BRIDGE: Final = (
    Permission(
        on_demand=True,
        resource="events",
        verbs=("get", *FOLLOWING),
        purpose="Node provisioning bridge: Events of cluster-autoscaler and Karpenter",
        without="no pod gets the condition NodeProvisioningInProgress",
    ),
    Permission(
        group="karpenter.sh",
        on_demand=True,
        resource="nodeclaims",
        verbs=("get", *FOLLOWING),
        purpose="Node provisioning bridge: Karpenter's machines",
        without="a NodeClaim that takes over from a failed one may not be noticed",
    ),
)
UNENFORCED_QUOTAS: Final = Permission(
    resource="resourcequotas",
    verbs=("list",),
    purpose="A report of quotas with deferred limits, which are not enforced",
    without="no Event on such a quota reports it",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a configuration that need permissions."""

    #: Plugins of all profiles.
    plugins: Sequence[Any]
    #: Plurals that are watched besides pods and nodes.
    watched: Sequence[str]
    serving: bool = True
    bridge: bool = False
    reports_unenforced_quotas: bool = False
    #: Name and namespace of the Lease; None without leader election.
    lease: tuple[str, str] | None = None


def declared(parts: Parts) -> tuple[Permission, ...]:
    """Return all permissions that the parts need, each once."""
    found = [PODS_READ, *_of_plugins(parts.plugins), POD_STATUS, NODES_READ]
    found += [followed(plural, parts.plugins) for plural in parts.watched]
    if parts.reports_unenforced_quotas:
        found.append(UNENFORCED_QUOTAS)
    found.append(EVENTS)
    if parts.bridge:
        found += BRIDGE
    if parts.serving:
        found += SERVING
    if parts.lease is not None:
        found += _election(*parts.lease)
    return tuple(dict.fromkeys(found))


def followed(plural: str, plugins: Iterable[Any]) -> Permission:
    """Return the permission to list and watch a resource that plugins read.

    It is optional if a plugin says that it is, and no other needs it.
    """
    readers: dict[str, str | None] = {}
    for each in plugins:
        optional = getattr(each, "optional_resources", {})
        if plural in optional:
            readers[each.name] = optional[plural]
        elif plural in getattr(each, "required_resources", ()):
            readers[each.name] = None
    reasons = [reason for reason in readers.values() if reason is not None]
    resource = resource_of(plural)
    return Permission(
        group=resource.group,
        resource=resource.api_plural,
        verbs=FOLLOWING,
        purpose=f"Read by {', '.join(readers) or 'plugins that registered for its events'}",
        without="; ".join(dict.fromkeys(reasons)) if len(reasons) == len(readers) else "",
    )


def _of_plugins(plugins: Iterable[Any]) -> Iterator[Permission]:
    for each in plugins:
        yield from getattr(each, "permissions", ())


def _election(name: str, namespace: str) -> tuple[Permission, Permission]:
    group, resource = "coordination.k8s.io", "leases"
    return (
        Permission(
            group=group,
            resource=resource,
            verbs=("create",),
            namespace=namespace,
            purpose="Leader election: the first Lease; create cannot be limited to a name",
        ),
        Permission(
            group=group,
            resource=resource,
            verbs=("get", "update"),
            namespace=namespace,
            names=(name,),
            purpose="Leader election: taking and renewing the Lease",
        ),
    )

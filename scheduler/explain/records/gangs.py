"""Pod groups: the progress of each (`/debug/gangs`), and all about one (`/debug/gang`)."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.explain.records.page import DebugPage


@dataclass(frozen=True, slots=True)
class GroupView:
    """One pod group."""

    group: str
    """`namespace/name`."""
    source: str
    """`CRD` of scheduling.x-k8s.io, or `Native` of scheduling.k8s.io."""
    stage: str
    """Its progress in one word, such as `Unschedulable` or `AllBound`."""
    minimum: int
    """Pods that start together; 0 if each starts for itself, or there is no object."""
    bound: int
    """Members with a node."""
    succeeded: int
    """Members that succeeded, up to the minimum."""
    reserved: int
    """Members with room on a node that are being bound."""
    pending: int
    """Members that wait for a node."""
    gated: int
    """Members with scheduling gates."""
    foreign: int
    """Members that wait for other schedulers."""
    text: str
    """Its progress in a sentence."""


class GroupList(DebugPage, frozen=True, tag="GroupList"):
    """`/debug/gangs`."""

    now: float
    leading: bool
    """False on a replica that stands by: it decides nothing."""
    total: int
    """Groups that exist, of the namespace if one was asked for."""
    groups: tuple[GroupView, ...]
    """By name; those that have what they need come last."""


@dataclass(frozen=True, slots=True)
class GroupRules:
    """The demands of the PodGroup object."""

    resource: str
    """`group/version/plural` of the object."""
    priority: int | None
    """None: the lowest one of its members, above which it is never."""
    preempts: bool
    """False if the object rules out preemption; its members may do so as well."""
    required_key: str
    """Node label of which all members are in one domain; empty: anywhere."""
    preferred_keys: tuple[str, ...]
    """Node labels of which members are in few domains, narrowest first."""
    disruption: str
    """`PodGroup` if its members are evicted together, else `Pod`."""
    ignored: tuple[str, ...] = ()
    """Annotations that do not count, and why."""


@dataclass(frozen=True, slots=True)
class GroupAttempt:
    """The last scheduling cycle of the group."""

    time: float
    scheduled: bool
    fit: int
    """Members that were placed, or would have been."""
    failed: int
    """Members for which there was no node."""
    seconds: float
    message: str = ""
    """Why it failed, or members beyond the minimum did."""
    place: str = ""
    """The topology domain of the members; empty if they may be anywhere."""


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """The members in one state."""

    state: str
    """`pending`, `gated`, `reserved` (being bound), `bound`, or `foreign` (of other schedulers)."""
    count: int
    examples: tuple[str, ...]
    """Names of a few of them."""


@dataclass(frozen=True, slots=True)
class GroupResource:
    """The room that one resource leaves for pods of one template, on the nodes that take them."""

    resource: str
    requested: float
    """By each pod. CPU in cores, storage in bytes."""
    free: float
    """On all of these nodes together."""
    room: int
    """Pods that find enough of it at most, as no pod is spread over two nodes."""


@dataclass(frozen=True, slots=True)
class GroupTemplate:
    """Pending members that no plugin can tell apart, but for their names."""

    example: str
    """The name of one of them."""
    pods: int
    nodes: int
    """Nodes that take such pods, if there is room."""
    room: int | None
    """Such pods that all nodes together take at most; None: not known."""
    resources: tuple[GroupResource, ...]
    """That of which the fewest pods find enough comes first."""
    rejected: str = ""
    """Why no node is looked at."""


@dataclass(frozen=True, slots=True)
class GroupDomain:
    """One topology domain."""

    domain: str
    """`label=value`; of a preferred label within the required domain."""
    nodes: int
    room: int
    """Pending members that it takes at most."""
    placed: int
    """Members that are there."""


@dataclass(frozen=True, slots=True)
class GroupDomains:
    """The domains of one label of the group."""

    key: str
    required: bool
    total: int
    best: tuple[GroupDomain, ...]
    """Those that take the most members first."""


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Evictions that are under way, and the nodes where members wait for the room."""

    victims: int
    """Those that have not left yet."""
    examples: tuple[str, ...]
    nodes: tuple[str, ...]
    """A few of the nodes to which members are nominated."""
    until: float
    """When others may be evicted for the group, although some have not left."""


@dataclass(frozen=True, slots=True)
class GroupRoom:
    """Nodes that are kept for the group."""

    members: int
    """Members that have room there by plan."""
    nodes: int
    examples: tuple[str, ...]
    priority: int
    """Pods of this priority and of lower ones are kept away."""
    until: float
    """When it ends at the latest."""


@dataclass(frozen=True, slots=True)
class NextGroupAttempt:
    """The next attempt at the group."""

    text: str
    """What it waits for."""
    time: float | None = None
    """When it is tried even without an event; None: it is not."""


@dataclass(frozen=True, slots=True)
class GroupExplanation:
    """Everything about one group."""

    view: GroupView
    need: int
    """Members that must be placed at once; 0: each by itself."""
    rules: GroupRules | None
    """None: there is no such PodGroup."""
    members: tuple[GroupMembers, ...]
    attempt: GroupAttempt | None
    next: NextGroupAttempt | None
    """None if no member waits."""
    templates: tuple[GroupTemplate, ...] = ()
    """The largest ones first; others are left out."""
    more_templates: int = 0
    """Templates that were left out."""
    topology: tuple[GroupDomains, ...] = ()
    plan: GroupPlan | None = None
    reservation: GroupRoom | None = None


class GroupPage(DebugPage, frozen=True, tag="GroupExplanation"):
    """`/debug/gang`."""

    now: float
    leading: bool
    """False on a replica that stands by: it decides nothing."""
    groups: tuple[GroupExplanation, ...]
    """One, or two where both APIs have a PodGroup of this name."""

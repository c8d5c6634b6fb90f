"""Terms of a group: the requirements in its PodGroup object, and errors in them.

An inconsistent object is never half applied: either a field has one documented interpretation, or
the group is refused, with a message for its pods. Invalid annotations are ignored and listed in
`GroupTerms.ignored`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from scheduler.api.pod import Pod
from scheduler.api.pod_groups import (
    NATIVE_POD_GROUPS,
    OLD_POD_GROUP_LABEL,
    POD_GROUP_LABEL,
    POD_GROUPS,
    DisruptionMode,
    NativePodGroup,
    NativePodGroupSpec,
    PodGroup,
)
from scheduler.framework.grouping import MAX_MEMBERS
from scheduler.sanitizing.escaping import escaped
from scheduler.sanitizing.names import is_object_name, is_qualified_name

MAX_LEVELS: Final = 8
"""Maximum number of topology levels that a group may prefer."""

TOPOLOGY_REQUIRED: Final = "kubestow.io/topology-required"
TOPOLOGY_PREFERRED: Final = "kubestow.io/topology-preferred"
DISRUPTION: Final = "kubestow.io/disruption"
PRIORITY_CLASS: Final = "kubestow.io/priority-class"

TOO_MANY: Final = "{field} is {minimum}; at most {limit} pods can start together"
NO_POLICY: Final = "spec.schedulingPolicy has neither basic nor gang"
TWO_POLICIES: Final = "spec.schedulingPolicy has both basic and gang"
TWO_KEYS: Final = (
    "it requires one domain of the node label {one} and, by another field or annotation, of {other}"
)
NO_LABEL_KEY: Final = 'annotation {name}: "{value}" is not the key of a node label'
TOO_MANY_LEVELS: Final = "annotation {name} has more than {limit} keys"
NO_DISRUPTION: Final = 'annotation {name}: "{value}" is neither PodGroup nor Pod'
NO_CLASS_NAME: Final = 'annotation {name}: "{value}" is not the name of a PriorityClass'
FIELD_COUNTS: Final = "annotation {name}: the object has spec.priority, which counts"
SHOWN: Final = 100
"""Maximum characters of an invalid annotation in messages."""


class Source(Enum):
    """The API of a group; groups of the same name in both APIs are different groups."""

    #: `scheduling.x-k8s.io`, joined by a label.
    CRD = "CRD"
    #: `scheduling.k8s.io`, joined by `spec.schedulingGroup`.
    NATIVE = "Native"


class GroupKey(NamedTuple):
    """The identity of a group: API, namespace and name."""

    namespace: str
    name: str
    source: Source = Source.CRD

    def __str__(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class GroupTerms:
    """The requirements of one version of a PodGroup object."""

    #: Number of members that start together or not at all; 0: members start one by one.
    minimum: int
    #: UID of the object; a new object of the same name is another group.
    uid: str = ""
    #: Why no pod of the group can be scheduled; empty if the terms are valid.
    refused: str = ""
    #: The resource of the object, `group/version/plural`.
    resource: str = POD_GROUPS
    #: The priority of the group; None: the priority of its members.
    priority: int | None = None
    #: The PriorityClass that the object names in an annotation; empty if none.
    priority_class: str = ""
    #: Whether the group must not preempt, even if its members may.
    never_preempts: bool = False
    #: Node label: all members must be in the same domain of it; empty: no such constraint.
    required_key: str = ""
    #: Node labels: members should be in as few domains of each as possible; narrowest first.
    preferred_keys: tuple[str, ...] = ()
    #: Whether evicting one member means evicting all of them.
    whole: bool = True
    #: Whether `minResources` is the only demand of the object, which is not read.
    only_resources: bool = False
    #: The CompositePodGroup that the group is part of; empty if none.
    parent: str = ""
    #: Errors of annotations that are ignored.
    ignored: tuple[str, ...] = ()


def terms_of(group: PodGroup | NativePodGroup, resource: str = POD_GROUPS) -> GroupTerms:
    """Read the terms of a PodGroup object of a `resource`.

    As in Coscheduling, a `minMember` below 1 counts as 1.
    """
    read = _Annotations(group.metadata.annotations)
    required, preferred = read.required(), read.preferred()
    whole = read.whole()
    field = None if isinstance(group, PodGroup) else group.spec.priority
    priority_class = read.priority_class(field)
    uid = group.metadata.uid
    if isinstance(group, PodGroup):
        return GroupTerms(
            minimum=max(group.spec.min_member, 1),
            uid=uid,
            refused=_too_many("spec.minMember", group.spec.min_member),
            resource=resource,
            priority_class=priority_class,
            required_key=required,
            preferred_keys=preferred,
            whole=True if whole is None else whole,
            only_resources=bool(group.spec.min_resources) and group.spec.min_member <= 1,
            ignored=tuple(read.faults),
        )
    spec = group.spec
    gang = spec.scheduling_policy.gang
    constraints = spec.scheduling_constraints
    keys = [each.key for each in constraints.topology] if constraints is not None else []
    keys = list(dict.fromkeys([*filter(None, keys), *filter(None, [required])]))
    return GroupTerms(
        minimum=0 if gang is None else max(gang.min_count, 1),
        uid=uid,
        refused=_refused(spec, keys),
        resource=resource,
        priority=spec.priority,
        priority_class=priority_class,
        never_preempts=spec.preemption_policy == "Never",
        required_key=keys[0] if keys else "",
        preferred_keys=preferred,
        whole=_declared_whole(spec) if whole is None else whole,
        parent=spec.parent_composite_pod_group_name or "",
        ignored=tuple(read.faults),
    )


def _refused(spec: NativePodGroupSpec, keys: list[str]) -> str:
    policy = spec.scheduling_policy
    if policy.gang is None:
        if policy.basic is None:
            return NO_POLICY
    elif policy.basic is not None:
        return TWO_POLICIES
    if len(keys) > 1:
        return TWO_KEYS.format(one=keys[0], other=keys[1])
    minimum = 0 if policy.gang is None else policy.gang.min_count
    return _too_many("spec.schedulingPolicy.gang.minCount", minimum)


def _too_many(field: str, minimum: int) -> str:
    if minimum <= MAX_MEMBERS:
        return ""
    return TOO_MANY.format(field=field, minimum=minimum, limit=MAX_MEMBERS)


def _declared_whole(spec: NativePodGroupSpec) -> bool:
    mode = spec.disruption_mode
    if isinstance(mode, DisruptionMode):
        return mode.all is not None
    return mode == "PodGroup"


class _Annotations:
    """Reads annotations, and collects their errors."""

    def __init__(self, annotations: Mapping[str, str]) -> None:
        self._annotations = annotations
        self.faults: list[str] = []

    def required(self) -> str:
        value = self._annotations.get(TOPOLOGY_REQUIRED, "").strip()
        return value if not value or self._is_key(TOPOLOGY_REQUIRED, value) else ""

    def preferred(self) -> tuple[str, ...]:
        value = self._annotations.get(TOPOLOGY_PREFERRED, "")
        if not value.strip():
            return ()
        keys = [each.strip() for each in value.split(",", MAX_LEVELS)]
        if len(keys) > MAX_LEVELS:
            self.faults.append(TOO_MANY_LEVELS.format(name=TOPOLOGY_PREFERRED, limit=MAX_LEVELS))
            return ()
        if not all(self._is_key(TOPOLOGY_PREFERRED, each) for each in keys):
            return ()
        return tuple(dict.fromkeys(keys))

    def whole(self) -> bool | None:
        value = self._annotations.get(DISRUPTION, "").strip()
        if value in ("", "PodGroup", "Pod"):
            return value == "PodGroup" if value else None
        self.faults.append(NO_DISRUPTION.format(name=DISRUPTION, value=_shown(value)))
        return None

    def priority_class(self, field: int | None) -> str:
        """Return the name of the class; `field` is the priority in the object's own field."""
        value = self._annotations.get(PRIORITY_CLASS, "").strip()
        if not value:
            return ""
        if field is not None:
            self.faults.append(FIELD_COUNTS.format(name=PRIORITY_CLASS))
            return ""
        if not is_object_name(value):
            self.faults.append(NO_CLASS_NAME.format(name=PRIORITY_CLASS, value=_shown(value)))
            return ""
        return value

    def _is_key(self, name: str, value: str) -> bool:
        if is_qualified_name(value):
            return True
        self.faults.append(NO_LABEL_KEY.format(name=name, value=_shown(value)))
        return False


def _shown(value: str) -> str:
    """Return an invalid annotation for messages, shortened, with control characters escaped."""
    return escaped(value[:SHOWN])


def group_of(pod: Pod) -> GroupKey | None:
    """Return the group of a pod; the field takes precedence over the label, under both names."""
    field = pod.spec.scheduling_group
    if field is not None and field.pod_group_name:
        return GroupKey(pod.metadata.namespace, field.pod_group_name, Source.NATIVE)
    labels = pod.metadata.labels
    name = labels.get(POD_GROUP_LABEL) or labels.get(OLD_POD_GROUP_LABEL)
    return GroupKey(pod.metadata.namespace, name) if name else None


def key_of(group: PodGroup | NativePodGroup) -> GroupKey:
    """Return the key of the group that an object defines."""
    source = Source.CRD if isinstance(group, PodGroup) else Source.NATIVE
    return GroupKey(group.metadata.namespace, group.metadata.name, source)


def is_older(resource: str, than: str) -> bool:
    """Whether one version of the built-in resource is older than another."""
    if resource not in NATIVE_POD_GROUPS or than not in NATIVE_POD_GROUPS:
        return False
    return NATIVE_POD_GROUPS.index(resource) < NATIVE_POD_GROUPS.index(than)

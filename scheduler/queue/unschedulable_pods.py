"""Unschedulable pods: gated pods, and rejected pods that no event since may have helped.

Pods are grouped: the members of a group have the same profile, signature, labels, namespace and
node pin, the same rejectors, and the same gating plugin. If the hints of an event depend on nothing
else, one evaluation decides for the whole group, and the members of a group that stays are not
visited.

Groups are indexed by the plugins whose events can move them: a gated group by its gating plugin
alone, any other by each of its rejectors. If a thousand pods wait for a thousand different labels,
their plugin may register hint keys (`HintKeys`): groups are then also indexed by (registration,
required key), and an event looks up the keys that it provides. So an event costs nothing for pods
that it cannot help, however many there are.

Invariant: a pod is in one group, and the index holds exactly the groups that have members, under
the keys computed when the group was created. After changing a record's plugins, gate or pod, call
`put` for the record again. When the plugins of a profile are replaced, its groups are retired: they
keep their keys and get no new members, so that pods need not be indexed again all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Any

from scheduler.framework import plugin_names
from scheduler.framework.queued import QueuedPodInfo
from scheduler.queue.in_flight import InFlightEvent
from scheduler.queue.queueing_hints import EventSubscription, identity

RequiredKeys = Callable[[QueuedPodInfo, Iterable[str]], Iterable[Hashable]]
"""`required_keys(info, plugins)`: (registration, hint key) pairs of a pod that these rejected."""


class SignatureGroup:
    """Pods for which every per-signature hint gives the same result."""

    __slots__ = (
        "flushed",
        "gated",
        "identity",
        "index_keys",
        "key",
        "members",
        "plugins",
        "sample",
    )

    def __init__(
        self,
        key: Hashable,
        pod_identity: Hashable | None,
        sample: QueuedPodInfo,
        required_keys: RequiredKeys,
    ) -> None:
        self.key = key
        #: None: the pod has no interned signature, and is alone in its group.
        self.identity = pod_identity
        #: Any member; profile, rejectors, pending plugins and gate are those of all members.
        self.sample = sample
        self.members: dict[str, QueuedPodInfo] = {}
        #: Whether a PreEnqueue plugin holds the members.
        self.gated = sample.gated
        #: Whether the periodic flush concerns the members. Only an update of the pod itself can
        #: remove scheduling gates, and that is never missed.
        self.flushed = sample.gating_plugin != plugin_names.SCHEDULING_GATES
        #: The plugins whose events can move the members.
        self.plugins = _plugins(sample)
        self.index_keys = (*self.plugins, *required_keys(sample, self.plugins))


def _plugins(info: QueuedPodInfo) -> tuple[str, ...]:
    if info.gating_plugin:
        return (info.gating_plugin,)
    return tuple(sorted(info.rejectors))


class UnschedulablePods:
    """Pods by UID, in groups indexed by plugin and by hint key."""

    def __init__(self, required_keys: RequiredKeys) -> None:
        self._required_keys = required_keys
        self._groups: dict[Hashable, SignatureGroup] = {}
        self._group_of: dict[str, SignatureGroup] = {}
        #: Plugin name, or (registration, hint key) -> groups by their key.
        self._index: dict[Hashable, dict[Hashable, SignatureGroup]] = {}
        #: Number of times that a profile's groups were retired; part of the key of its groups.
        self._retirements: dict[str, int] = {}
        #: Number of pods held by a PreEnqueue plugin.
        self.gated = 0
        #: Number of pods that the periodic flush concerns.
        self.flushed = 0

    def __len__(self) -> int:
        return len(self._group_of)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (group.members[uid] for uid, group in self._group_of.items())

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Return the pod's record; None when it is not here."""
        group = self._group_of.get(uid)
        return None if group is None else group.members[uid]

    def put(self, info: QueuedPodInfo) -> None:
        """Insert a pod, or move it to the group that its record belongs to now."""
        uid = info.uid
        pod_identity = identity(info.pod)
        key: Hashable = (
            uid if pod_identity is None else pod_identity,
            info.pod.spec.scheduler_name,
            frozenset(info.unschedulable_plugins),
            frozenset(info.pending_plugins),
            info.gating_plugin,
            self._retirements.get(info.pod.spec.scheduler_name, 0),
        )
        old = self._group_of.get(uid)
        if old is not None:
            if old.key == key:
                old.members[uid] = info
                return
            self.remove(uid)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = SignatureGroup(key, pod_identity, info, self._required_keys)
            for index_key in group.index_keys:
                self._index.setdefault(index_key, {})[key] = group
        group.members[uid] = info
        self._group_of[uid] = group
        self.gated += group.gated
        self.flushed += group.flushed

    def retire(self, profiles: Collection[str]) -> list[SignatureGroup]:
        """Retire the groups of these profiles: return them, and let later pods join new groups.

        The caller must move all members out of the returned groups.
        """
        for profile in profiles:
            self._retirements[profile] = self._retirements.get(profile, 0) + 1
        return [
            group
            for group in self._groups.values()
            if group.sample.pod.spec.scheduler_name in profiles
        ]

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Take a pod out; None when it is not here."""
        group = self._group_of.pop(uid, None)
        if group is None:
            return None
        info = group.members.pop(uid)
        self.gated -= group.gated
        self.flushed -= group.flushed
        if not group.members:
            del self._groups[group.key]
            for index_key in group.index_keys:
                groups = self._index[index_key]
                del groups[group.key]
                if not groups:
                    del self._index[index_key]
        elif group.sample is info:
            group.sample = next(iter(group.members.values()))
        return info

    def candidates(
        self, event: InFlightEvent, subscription: EventSubscription
    ) -> list[tuple[SignatureGroup, InFlightEvent]]:
        """Return the groups whose hints must be evaluated, each once, with the event for them."""
        if event.cluster_event.wildcard:
            held = self._held_by(subscription.plugins).values()
            groups = [group for group in held if group.gated] + self.groups(gated=False)
            return [(group, event) for group in groups]
        found: dict[Hashable, SignatureGroup] = {}
        for plugin in subscription.plugins:
            if plugin not in self._index:
                continue
            provided = subscription.provided_keys(plugin, event)
            found |= self._held_by((plugin,) if provided is None else provided)
        # Hint keys do not apply to events about the pod itself, see `HintKeys`.
        own = [
            (group, event.narrowed((uid,)))
            for uid in (event.subject, event.controller)
            if (group := self._group_of.get(uid)) is not None
            and group.key not in found
            and not set(group.plugins).isdisjoint(subscription.plugins)
        ]
        return own + [(group, event) for group in found.values()]

    def may_move(self, subscription: EventSubscription, changed: Any) -> bool:
        """Whether `candidates` may return a group for an event with this subscription.

        A fast check, because most events concern no pod here. `changed` is the changed object.
        """
        known = self._group_of
        if not known:
            return False
        if subscription.wildcard:
            return True
        index = self._index
        # No `has_groups_of`, whose calls cost more than the rest.
        for plugin in subscription.plugins:
            if plugin in index:
                return True
        metadata = getattr(changed, "metadata", None)
        if metadata is None:
            return False
        owners = metadata.owner_references
        return metadata.uid in known or any(e.uid in known for e in owners if e.controller)

    def group_of(self, uid: str) -> SignatureGroup | None:
        """Return the group that the pod is in; None when it is not here."""
        return self._group_of.get(uid)

    def groups(self, *, gated: bool) -> list[SignatureGroup]:
        """Return all groups of gated pods, or all others."""
        return [group for group in self._groups.values() if group.gated is gated]

    def flushed_groups(self) -> list[SignatureGroup]:
        """Return the groups that the flush concerns."""
        return [group for group in self._groups.values() if group.flushed]

    def has_groups_of(self, plugins: Iterable[str]) -> bool:
        """Whether an event registered by one of these plugins can move any pod."""
        return not self._index.keys().isdisjoint(plugins)

    def violations(self) -> list[str]:
        """Return the broken invariants, for `validate()`."""
        found: list[str] = []
        for uid, group in self._group_of.items():
            info = group.members.get(uid)
            if info is None:
                found.append(f"unschedulable pods: pod {uid} is missing from its group")
            elif _plugins(info) != group.plugins or info.gated is not group.gated:
                found.append(f"unschedulable pods: pod {info.key} changed without a new put")
        if sum(len(group.members) for group in self._groups.values()) != len(self._group_of):
            found.append("unschedulable pods: groups and pods do not add up")
        if sum(info.gated for info in self) != self.gated:
            found.append("unschedulable pods: the number of gated pods is wrong")
        if sum(group.flushed for group in self._group_of.values()) != self.flushed:
            found.append("unschedulable pods: the number of flushed pods is wrong")
        expected = {(each, key) for key, group in self._groups.items() for each in group.index_keys}
        if expected != {(each, key) for each, groups in self._index.items() for key in groups}:
            found.append("unschedulable pods: the index and the groups differ")
        return found

    def _held_by(self, index_keys: Iterable[Hashable]) -> dict[Hashable, SignatureGroup]:
        found: dict[Hashable, SignatureGroup] = {}
        for index_key in index_keys:
            found.update(self._index.get(index_key, ()))
        return found

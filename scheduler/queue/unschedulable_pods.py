"""The unschedulable pool: gated pods, and failed pods for which nothing promising happened since.

Pods are grouped: members of a group have the same profile, signature, labels, namespace and node
pin, were rejected by the same plugins and are held by the same gate. Where the hints of an event
depend on nothing else, one evaluation answers for the whole group, and a group that stays is not
walked.

Groups are indexed by the plugins whose events can move them: a gated group by its gating plugin
alone, another by each of its rejectors. So an event costs nothing for pods that it cannot wake,
however many there are.

Invariant: a pod is in one group, and the index holds exactly the groups that have members. The
records are indexed as they were when put in; whoever changes a record's plugins, gate or pod must
`put` it again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator

from scheduler.api.label_sets import labels_key
from scheduler.api.pod import Pod
from scheduler.framework.queued import QueuedPodInfo
from scheduler.queue.sieve import NO_REQUIRED_KEYS, HintKeyIndex, RequiredKeys

RequiredKeysOf = Callable[[QueuedPodInfo, Iterable[str]], RequiredKeys]
"""`required_keys(info, plugins)`: what a pod that these plugins hold wants of events."""


def _nothing(_info: QueuedPodInfo, _plugins: Iterable[str]) -> RequiredKeys:
    return NO_REQUIRED_KEYS


def identity(pod: Pod) -> Hashable | None:
    """What a per-signature hint may read of a pod; None when nobody interned its signature."""
    signature = pod.interned
    if signature is None:
        return None
    # Not the signature itself: who remembers pods that are gone must not keep large signatures
    # alive.
    return (signature.id, pod.pin, pod.metadata.namespace, labels_key(pod.metadata.labels))


class Group:
    """Pods that every per-signature hint answers alike."""

    __slots__ = ("gated", "identity", "indexed_under", "key", "members", "required_keys", "sample")

    def __init__(
        self,
        key: Hashable,
        pod_identity: Hashable | None,
        sample: QueuedPodInfo,
        required_keys: RequiredKeysOf = _nothing,
    ) -> None:
        self.key = key
        #: None: the pod has no interned signature, and is alone in its group.
        self.identity = pod_identity
        #: Any member; profile, rejectors, pending plugins and gate are those of all members.
        self.sample = sample
        self.members: dict[str, QueuedPodInfo] = {}
        self.indexed_under = _plugins(sample)
        #: Whether a PreEnqueue plugin holds the members.
        self.gated = sample.gated
        self.required_keys = required_keys(sample, self.indexed_under)


def _plugins(info: QueuedPodInfo) -> tuple[str, ...]:
    if info.gating_plugin:
        return (info.gating_plugin,)
    return tuple(sorted(info.rejectors))


class UnschedulablePods:
    """Pods by UID, in groups indexed by plugin."""

    __slots__ = ("_by_plugin", "_gated", "_group_of", "_groups", "_key_index", "_required_keys")

    def __init__(self, required_keys: RequiredKeysOf = _nothing) -> None:
        """`required_keys` says what the pods of a new group want of events."""
        self._required_keys = required_keys
        self._key_index: HintKeyIndex[Group] = HintKeyIndex()
        self._groups: dict[Hashable, Group] = {}
        self._group_of: dict[str, Group] = {}
        self._by_plugin: dict[str, dict[Hashable, Group]] = {}
        self._gated = 0

    def __len__(self) -> int:
        return len(self._group_of)

    def __contains__(self, uid: object) -> bool:
        return uid in self._group_of

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (group.members[uid] for uid, group in self._group_of.items())

    @property
    def gated(self) -> int:
        """How many pods are held by a PreEnqueue plugin."""
        return self._gated

    def get(self, uid: str) -> QueuedPodInfo | None:
        """The pod, None when it is not here."""
        group = self._group_of.get(uid)
        return None if group is None else group.members[uid]

    def put(self, info: QueuedPodInfo) -> None:
        """Insert a pod, or move it to the group that it belongs to now."""
        uid = info.uid
        pod_identity = identity(info.pod)
        key: Hashable = (
            uid if pod_identity is None else pod_identity,
            info.pod.spec.scheduler_name,
            frozenset(info.unschedulable_plugins),
            frozenset(info.pending_plugins),
            info.gating_plugin,
        )
        old = self._group_of.get(uid)
        if old is not None:
            if old.key == key:
                old.members[uid] = info
                return
            self.remove(uid)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key, pod_identity, info, self._required_keys)
            self._key_index.add(key, group, group.required_keys)
            for plugin in group.indexed_under:
                self._by_plugin.setdefault(plugin, {})[key] = group
        group.members[uid] = info
        self._group_of[uid] = group
        self._gated += group.gated

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Take a pod out; None when it is not here."""
        group = self._group_of.pop(uid, None)
        if group is None:
            return None
        info = group.members.pop(uid)
        self._gated -= group.gated
        if not group.members:
            self._drop(group)
        elif group.sample is info:
            group.sample = next(iter(group.members.values()))
        return info

    def groups_of(self, plugins: Iterable[str]) -> list[Group]:
        """The groups that events registered by one of these plugins can move, each once."""
        found: dict[Hashable, Group] = {}
        for plugin in plugins:
            found.update(self._by_plugin.get(plugin, ()))
        return list(found.values())

    def groups_requiring(
        self, registration: Hashable, provided_keys: Collection[Hashable]
    ) -> list[Group]:
        """The groups for which an event that offers these keys may do something."""
        return list(self._key_index.find(registration, provided_keys).values())

    def group_of(self, uid: str) -> Group | None:
        """The group that the pod is in, None when it is not here."""
        return self._group_of.get(uid)

    def groups(self, *, gated: bool) -> list[Group]:
        """All groups of gated pods, or all of the others."""
        return [group for group in self._groups.values() if group.gated is gated]

    def has_groups_of(self, plugins: Iterable[str]) -> bool:
        """Whether `groups_of` would find any."""
        return not self._by_plugin.keys().isdisjoint(plugins)

    def violations(self) -> list[str]:
        """What is broken inside, for `validate()`."""
        found: list[str] = []
        for uid, group in self._group_of.items():
            info = group.members.get(uid)
            if info is None:
                found.append(f"pool: pod {uid} is not in the group that it is filed under")
            elif _plugins(info) != group.indexed_under or info.gated is not group.gated:
                found.append(f"pool: pod {info.key} changed without being filed again")
        if sum(len(group.members) for group in self._groups.values()) != len(self._group_of):
            found.append("pool: groups and pods do not add up")
        if sum(info.gated for info in self) != self._gated:
            found.append("pool: the number of gated pods is wrong")
        expected = {
            (plugin, key) for key, group in self._groups.items() for plugin in group.indexed_under
        }
        indexed = {(plugin, key) for plugin, groups in self._by_plugin.items() for key in groups}
        if expected != indexed:
            found.append("pool: the plugin index and the groups differ")
        required_keys = {
            (registration, want, key)
            for key, group in self._groups.items()
            for registration, wants in group.required_keys.items()
            for want in ((None,) if wants is None else wants)
        }
        if required_keys != self._key_index.entries():
            found.append("pool: the sieve and the groups differ")
        return found

    def _drop(self, group: Group) -> None:
        del self._groups[group.key]
        self._key_index.discard(group.key, group.required_keys)
        for plugin in group.indexed_under:
            groups = self._by_plugin[plugin]
            del groups[group.key]
            if not groups:
                del self._by_plugin[plugin]

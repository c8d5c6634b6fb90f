"""Gangs: the groups of the process, updated by watch events, and their held members.

There is one object for all profiles with the plugin. It requeues pods itself, and the plugin
registers no events, because a change of one group does not affect others. Members are admitted when
their group becomes ready, and gated again when it no longer is; their messages are updated with a
delay.

Invariant: a member is held if PreEnqueue rejected it last. Deadlines are monotonic times.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any, Final

from plugins.gang_scheduling.bindings import Bindings
from plugins.gang_scheduling.deadlines import Deadlines
from plugins.gang_scheduling.ended import LOOK_AGAIN_SECONDS, EndedMembers
from plugins.gang_scheduling.lost_nodes import LostNodes
from plugins.gang_scheduling.messages import (
    ASKING,
    ASSEMBLING,
    CONFLICT,
    GROUP_CONFLICT,
    GROUP_NOT_UNDERSTOOD,
    IGNORED,
    INVALID_ANNOTATION,
    INVALID_GROUP,
    MAY_NOT_LIST,
    NOT_SERVED,
    OF_GROUP,
    ONLY_RESOURCES,
    OTHER_GROUP,
    PARENT,
    moved,
    other_group,
    why_held,
)
from plugins.gang_scheduling.priority_class import PRIORITY_CLASSES, GroupPriorities
from plugins.gang_scheduling.reservations import Reservations
from plugins.gang_scheduling.standing import Standing, standing
from plugins.gang_scheduling.statuses import GroupStatuses
from plugins.gang_scheduling.tally import Tally
from plugins.gang_scheduling.unfinished import UnfinishedGroups
from scheduler.api.pod import Pod
from scheduler.api.pod_groups import (
    NATIVE_POD_GROUPS,
    OLD_POD_GROUP_LABEL,
    POD_GROUP_LABEL,
    POD_GROUPS,
    NativePodGroup,
    PodGroup,
)
from scheduler.api.policy import PriorityClass
from scheduler.api.storage import ObjectReference
from scheduler.explain.records import GroupAttempt
from scheduler.framework import Handle
from scheduler.groups import (
    Group,
    GroupKey,
    GroupTerms,
    MemberState,
    PodGroups,
    Source,
    key_of,
)
from scheduler.sanitizing.escaping import escaped

MAX_ASSEMBLING: Final = 4
"""Maximum wait for the first attempt, as a multiple of `assemble_seconds`."""

RENEW_SECONDS: Final = 1.0
"""Delay after which the messages of held members are updated, for up to a thousand members."""

MEMBERS_PER_SECOND: Final = 1_000
"""Number of held members per second of that delay; larger groups wait longer."""

REPLACEMENT_SECONDS: Final = 30.0
"""Seconds that a started group waits for replacements after its last change."""

MAX_TOLD: Final = 1_000
"""Maximum number of groups of other systems to remember."""

MAX_SHOWN: Final = 100
"""Maximum characters of the name of such a group in an Event."""

UNSERVED_SECONDS: Final = 30.0
"""Seconds between checks whether the resource is served, for groups without an object."""


class Gangs:
    """The groups of all profiles, their held members and their timed work."""

    def __init__(self, handle: Handle, plugin: str) -> None:
        self.groups = handle.shared(PodGroups.SHARED, PodGroups)
        self._group_of_uid = self.groups.of
        #: Scheduler names of the profiles with the plugin.
        self.profiles: set[str] = set()
        self._handle = handle
        self._plugin = plugin
        #: UIDs of held members, by group.
        self._held: dict[GroupKey, dict[str, None]] = {}
        #: Seconds without a new member before the first attempt at a group with a required domain.
        self.assemble_seconds = 0.0
        #: Time since which groups with a required domain have enough members; None: attempt is due.
        self._complete_since: dict[GroupKey, float | None] = {}
        #: Groups of which PreEnqueue saw a new pod before the subscriber received its event.
        self._noticed: set[GroupKey] = set()
        #: UIDs of pods for whose groups the API server must be asked whether it serves PodGroups.
        self._unanswered: dict[str, None] = {}
        self._is_asking = False
        #: UIDs of pods that are single pods, because it does not, by an answer newer than the pod.
        self._single: set[str] = set()
        #: Groups of other systems that an Event was recorded for.
        self._told: set[tuple[str, str, str]] = set()
        #: Groups whose last cycle failed, with the message.
        self.failed: dict[GroupKey, str] = {}
        #: Those of `failed` that failed because of quota.
        self.over_quota: set[GroupKey] = set()
        #: Groups that were scheduled and are being bound.
        self.bindings = Bindings(self.record)
        #: The last cycle of each group.
        self.attempts: dict[GroupKey, GroupAttempt] = {}
        #: Groups with members in several domains of the required label, with the message.
        self.split: dict[GroupKey, str] = {}
        subscriptions = handle.subscriptions
        subscriptions.on_object("pods", self._pod_changed)
        for resource in (POD_GROUPS, *NATIVE_POD_GROUPS):
            subscriptions.on_object(resource, partial(self._object_changed, resource))
        subscriptions.on_object(PRIORITY_CLASSES, self._class_changed)
        subscriptions.on_synced(self._synced)
        self._lost = LostNodes(handle, lambda pod: self._pod_changed(pod, pod))
        self.priorities = GroupPriorities(handle)
        #: Whether all PriorityClasses are known, so that a missing one does not exist.
        self._classes_known = False
        self._deadlines = Deadlines(handle.clock, subscriptions)
        self.statuses = GroupStatuses(handle, self.groups.get, self.standing, self._deadlines)
        #: The metrics of groups.
        self.tally = Tally(handle, self.groups.get, self.standing)
        #: Groups that hold nodes, to be tried before others.
        self.unfinished = UnfinishedGroups()
        #: Nodes that are reserved for groups.
        self.reserved = Reservations()
        self.ended = EndedMembers(
            handle, self.groups, changed=self._changed, failed=self.statuses.member_failed
        )

    # -- PreEnqueue ------------------------------------------------------------------------------

    def why_held(self, pod: Pod) -> str:
        """Return why PreEnqueue must hold a member, and record this; empty if it must not."""
        before = self.groups.of(pod.metadata.uid)
        changed = self.groups.observe(pod, ours=True)
        if changed is not None:
            self._noticed.add(changed.key)
        group = self.groups.of(pod.uid)
        if before is not None and before is not group:
            self._moved(pod, before, group)
        if group is None:
            return ""
        if group.terms is not None:
            text = why_held(group)
        else:
            text = self._why_without_object(group) or self._why_asking(group, pod.uid)
        held = self._held.setdefault(group.key, {})
        if not text and self._assembles(group, is_new=pod.uid not in held):
            text = ASSEMBLING.format(key=group.key)
        if not text:
            held.pop(pod.uid, None)
            return ""
        held[pod.uid] = None
        if group.terms is None:
            self._deadlines.plan(self._renew, group.key, UNSERVED_SECONDS)
        return text

    def _assembles(self, group: Group, *, is_new: bool) -> bool:
        """Whether the first attempt must still wait for further members.

        The domain is chosen only once, so it should have room for members beyond the minimum.
        """
        key, terms, seconds = group.key, group.terms, self.assemble_seconds
        if terms is None or not terms.required_key or group.started or seconds <= 0:
            return False
        now = self._handle.clock.monotonic()
        # A group may become complete without a new member, if its object comes after its pods.
        is_new = is_new or key not in self._complete_since
        since = self._complete_since.setdefault(key, now)
        if since is None:
            return False
        if is_new:
            self._deadlines.cancel(self._assembled, key)
            left = max(since + MAX_ASSEMBLING * seconds - now, 0.0)
            self._deadlines.plan(self._assembled, key, min(seconds, left))
        return True

    def _assembled(self, key: GroupKey) -> None:
        """Admit the members of a group for its first attempt."""
        self._complete_since[key] = None
        group = self.groups.get(key)
        if group is not None:
            self._changed(group)

    def _why_without_object(self, group: Group) -> str:
        """Return why a group without an object waits.

        If the API server does not serve PodGroups at all, the label alone does not hold a pod. The
        field does, since only an API server that supports groups stores it.
        """
        native = group.key.source is Source.NATIVE
        resources = NATIVE_POD_GROUPS if native else (POD_GROUPS,)
        if not any(map(self._handle.serves, resources)):
            return NOT_SERVED.format(key=group.key) if native else ""
        if not self._handle.may("list", resources[-1]):
            return MAY_NOT_LIST.format(key=group.key, of=OF_GROUP[group.key.source])
        return why_held(group)

    def _why_asking(self, group: Group, uid: str) -> str:
        """Hold a pod with the label until the API server has denied that it serves PodGroups.

        What is known may be older than the pod, whose group may have been created right before it.
        """
        if uid in self._single:
            return ""
        self._unanswered[uid] = None
        if not self._is_asking:
            self._is_asking = True
            self._handle.run_in_background(self._ask(), "whether PodGroups are served")
        return ASKING.format(key=group.key)

    async def _ask(self) -> None:
        """Ask for all pods that wait for an answer, also those that come meanwhile."""
        try:
            while self._unanswered:
                asked, self._unanswered = [*self._unanswered], {}
                served = await self._handle.served_now(POD_GROUPS)
                known = [uid for uid in asked if self._group_of_uid(uid) is not None]
                if served is None:
                    self._unanswered.update(dict.fromkeys(known))
                    continue
                if not served:
                    self._single.update(known)
                self._handle.recheck(known)
        finally:
            self._is_asking = False

    # -- changes ---------------------------------------------------------------------------------

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        # Checked first, because this runs for every change of every pod, and most are in no group.
        if (
            new is not None
            and new.spec.scheduling_group is None
            and POD_GROUP_LABEL not in new.metadata.labels
            and OLD_POD_GROUP_LABEL not in new.metadata.labels
            and self._group_of_uid(new.metadata.uid) is None
        ):
            if old is None and not new.spec.node_name:
                self._report_other_group(new)
            return
        groups = self.groups
        pod = old if new is None else new
        assert pod is not None
        before = groups.of(pod.uid)
        if new is None:
            self._lost.forget(pod)
        if new is None or (new.terminating and not new.spec.node_name) or self._lost.has(new):
            if before is not None:
                groups.forget(pod.uid)
                self.statuses.member_left(before.key, pod.uid)
                if new is None and pod.spec.node_name and not pod.terminating:
                    self.ended.note(before, pod)
                self._left(before, pod.uid)
            return
        ours = new.spec.scheduler_name in self.profiles
        changed = groups.observe(new, ours=ours)
        group = groups.of(new.uid)
        if group is not None:
            self.statuses.saw_pod(group.key, new, ours=ours)
        if old is None and group is not None:
            self._report_conflict(new, group)
        if before is not None and before is not group:
            self._moved(new, before, group)
            # If it is rejected, then for the needs of its former group, which its message shows.
            self._handle.wake([new.uid], self._plugin)
        # PreEnqueue may have seen the pod first, but it could not requeue other pods.
        if group is not None and (changed is not None or group.key in self._noticed):
            self._noticed.discard(group.key)
            self._changed(group)
        elif group is not None and old is not None and old.interned is not new.interned:
            # A member's requests have changed, for which no rejecting plugin may have an event.
            self._try_again(group)

    def _moved(self, pod: Pod, before: Group, now: Group | None) -> None:
        """Handle that a pod names another group, or none."""
        for group, reason, note in moved(pod, before, now):
            if group.terms is not None:
                self.record(group, "Normal", reason, note)
        self._left(before, pod.uid)

    def _left(self, group: Group, uid: str) -> None:
        """Handle that a pod is no longer a member of a group."""
        held = self._held.get(group.key)
        if held is not None:
            held.pop(uid, None)
        self._single.discard(uid)
        self._changed(group)

    def _object_changed(
        self,
        resource: str,
        old: PodGroup | NativePodGroup | None,
        new: PodGroup | NativePodGroup | None,
    ) -> None:
        if new is not None:
            known = self.groups.get(key_of(new))
            before = None if known is None else known.terms
            group = self.groups.set_object(new, resource)
            if before is None:
                self.ended.saw_object(group, new)
            self.statuses.saw_object(group.key, new)
            self._report_faults(group, before)
            if group.terms != before:
                # Not for a change of the status, which is usually our own.
                self._changed(group)
        elif old is not None:
            remaining = self.groups.remove_object(old)
            if remaining is not None:
                self._changed(remaining)
            else:
                self._forget(key_of(old))

    def _report_faults(self, group: Group, before: GroupTerms | None) -> None:
        """Record Events for new errors of an object."""
        terms = group.terms
        assert terms is not None
        if terms.refused and (before is None or before.refused != terms.refused):
            self.record(group, "Warning", INVALID_GROUP, terms.refused)
        if terms.only_resources and (before is None or not before.only_resources):
            self.record(group, "Warning", GROUP_NOT_UNDERSTOOD, ONLY_RESOURCES)
        if terms.parent and (before is None or before.parent != terms.parent):
            self.record(group, "Warning", GROUP_NOT_UNDERSTOOD, PARENT.format(parent=terms.parent))
        for fault in terms.ignored:
            if before is None or fault not in before.ignored:
                self.record(group, "Warning", INVALID_ANNOTATION, IGNORED.format(fault=fault))
        if before is None or before.priority_class != terms.priority_class:
            self._report_class(group)

    def _report_class(self, group: Group) -> None:
        """Record an Event if the PriorityClass of a group is invalid."""
        if self._classes_known and group.terms is not None:
            fault = self.priorities.fault(group.terms)
            if fault:
                self.record(group, "Warning", INVALID_ANNOTATION, IGNORED.format(fault=fault))

    def _synced(self) -> None:
        """Report groups whose PriorityClass is not among the initial objects."""
        self._classes_known = True
        for group in self.groups:
            self._report_class(group)

    def _class_changed(self, old: PriorityClass | None, new: PriorityClass | None) -> None:
        """Retry the groups that name a PriorityClass that has changed."""
        changed = old if new is None else new
        assert changed is not None
        for group in self.groups:
            if group.terms is None or group.terms.priority_class != changed.metadata.name:
                continue
            if new is None:
                self._report_class(group)
            self._try_again(group)

    def _report_other_group(self, pod: Pod) -> None:
        """Record an Event on the first pod of a group of another scheduler or admission system."""
        if pod.spec.scheduler_name not in self.profiles:
            return
        found = other_group(pod)
        if found is None or (told := (pod.metadata.namespace, *found)) in self._told:
            return
        if len(self._told) >= MAX_TOLD:
            self._told.clear()
        self._told.add(told)
        note = OTHER_GROUP.format(key=found[0], value=escaped(found[1][:MAX_SHOWN]))
        self._handle.events.record(pod, "Warning", GROUP_NOT_UNDERSTOOD, "Scheduling", note)

    def _report_conflict(self, pod: Pod, group: Group) -> None:
        """Record an Event on a pod whose field and label name different groups."""
        label = pod.metadata.labels.get(POD_GROUP_LABEL)
        if group.key.source is Source.CRD or label in (None, group.key.name):
            return
        note = CONFLICT.format(field=group.key.name, label=POD_GROUP_LABEL, other=label)
        self._handle.events.record(pod, "Warning", GROUP_CONFLICT, "Scheduling", note)

    def record(self, group: Group, kind: str, reason: str, note: str) -> None:
        """Record an Event on the object of a group."""
        assert group.terms is not None
        about = ObjectReference(
            api_version=group.terms.resource.rpartition("/")[0],
            kind="PodGroup",
            namespace=group.key.namespace,
            name=group.key.name,
            uid=group.terms.uid,
        )
        self._handle.events.record(about, kind, reason, "Scheduling", note)

    def _changed(self, group: Group) -> None:
        """Admit or hold the members of a group according to its current state."""
        key = group.key
        if self.groups.get(key) is not group:
            self._forget(key)
            return
        held = self._held.get(key) or {}
        self.statuses.touch(key)
        self.tally.look(group)
        self.unfinished.look(group)
        if self.statuses.counts_ends(key):
            self.ended.look_up(key)
        self.bindings.look(group)
        if group.ready:
            self._deadlines.cancel(self._resume, key)
            if held and self._complete_since.get(key) is None:
                self._handle.recheck(list(held))
            self._try_again(group)
            return
        let_in = [uid for uid in group.members(MemberState.PENDING) if uid not in held]
        if let_in:
            self._handle.recheck(let_in)
            if group.terms is None and not self._why_without_object(group):
                # They are now single pods, but were rejected because of their group's needs.
                self._handle.wake(let_in, self._plugin)
        elif held:
            self._deadlines.plan(
                self._renew, key, max(RENEW_SECONDS, len(held) / MEMBERS_PER_SECOND)
            )
        if group.short_after_start:
            self._deadlines.cancel(self._resume, key)
            self._deadlines.plan(self._resume, key, REPLACEMENT_SECONDS)
            self.ended.look_up(key)

    def _try_again(self, group: Group) -> None:
        """Retry a failed group by requeueing one member, which brings the others with it."""
        first = next(group.members(MemberState.PENDING), None)
        if group.key in self.failed and first is not None:
            self._handle.wake([first], self._plugin)

    def _forget(self, key: GroupKey) -> None:
        kept = (self._held, self.failed, self.attempts, self.split, self._complete_since)
        for each in kept:
            each.pop(key, None)
        self.bindings.forget(key)
        self.ended.forget(key)
        self.reserved.forget(key)
        self._deadlines.forget(key)
        self._noticed.discard(key)
        self.over_quota.discard(key)
        self.statuses.forget(key)
        self.tally.forget(key)
        self.unfinished.forget(key)

    # -- time ------------------------------------------------------------------------------------

    def _resume(self, key: GroupKey) -> None:
        """Let a started group continue without replacements."""
        group = self.groups.get(key)
        if group is not None and group.short_after_start:
            group.resume()
            self._changed(group)

    def _renew(self, key: GroupKey) -> None:
        """Update the messages of held members."""
        held = self._held.get(key)
        if held:
            self._handle.recheck(list(held))
            if self.ended.look_up_earlier(key):
                self._deadlines.plan(self._renew, key, LOOK_AGAIN_SECONDS)

    # -- inspection ------------------------------------------------------------------------------

    def standing(self, group: Group) -> Standing:
        """Return the progress of a group."""
        kept = self.reserved.note(group.key)
        over_quota = group.key in self.over_quota
        failed = self.failed.get(group.key) or self.bindings.failure(group.key)
        return standing(group, failed, kept, over_quota=over_quota)

    def touch(self, key: GroupKey) -> None:
        """Record that the progress of a group has changed, for metrics and statuses."""
        self.statuses.touch(key)
        self.tally.touch(key)

    def held(self, key: GroupKey) -> Collection[str]:
        """Return the UIDs of the held members of a group."""
        return self._held.get(key, {}).keys()

    def statistics(self) -> dict[str, Any]:
        """Return numbers of groups and members."""
        found = self.groups.statistics()
        return {"groups": found.groups, "members": found.members, "held": found.held}

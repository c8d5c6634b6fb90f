"""EndedMembers: finds out whether finished members, which are not watched, succeeded or failed.

Succeeded pods count for the minimum of their group, failed pods do not. The watch excludes finished
pods, so their end looks like a deletion. Members that finish while this process runs are read once,
by name. For a group that is older than this process and waits for members, the succeeded pods of
its namespace are listed, once for all groups of the namespace.

If they cannot be read, a group waits as if no member had succeeded; the list is retried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.api.meta import second_time
from scheduler.api.pod import Pod
from scheduler.api.pod_groups import NativePodGroup, PodGroup
from scheduler.framework import Handle
from scheduler.groups import Group, GroupKey, PodGroups, group_of

SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
DISRUPTION_TARGET: Final = "DisruptionTarget"
SELECTOR: Final = f"status.phase={SUCCEEDED}"

MAX_LISTED: Final = 20_000
"""Maximum number of pods to list in one namespace, more than usually exist."""

LOOK_AGAIN_SECONDS: Final = 10.0
"""Seconds after which a failed list is retried, if a group of the namespace still waits."""

SKEW_SECONDS: Final = 60.0
"""Maximum clock skew: an object that looks this much younger than the process may be older."""

STARTED_PHASES: Final = ("Running", "Finished", "Failed")
"""Phases of the custom resource which show that members had nodes."""


class EndedMembers:
    """Counts ended members, for `Gangs`."""

    def __init__(
        self,
        handle: Handle,
        groups: PodGroups,
        *,
        changed: Callable[[Group], None],
        failed: Callable[[GroupKey], None],
    ) -> None:
        """Call `changed` for a group with more succeeded members and `failed` for each failure."""
        self._handle = handle
        self._groups = groups
        self._changed = changed
        self._failed = failed
        #: Names and UIDs of members that ended while this process ran, as many as may count.
        self._ended: dict[GroupKey, list[tuple[str, str]]] = {}
        #: Creation times of the objects of groups that may have had members before this process.
        self._older: dict[GroupKey, str] = {}
        #: Namespaces whose list is under way or has failed, with the time of the next attempt.
        self._listing: dict[str, float] = {}
        self._began = second_time(handle.clock.now() + SKEW_SECONDS)
        #: Number of requests for finished members.
        self.lookups = 0

    # -- events ----------------------------------------------------------------------------------

    def saw_object(self, group: Group, item: PodGroup | NativePodGroup) -> None:
        """Handle the object of a group that had none before."""
        if isinstance(item, PodGroup):
            group.succeeded_earlier(max(item.status.succeeded, 0))
            started = item.status.phase in STARTED_PHASES
        else:
            started = any(
                each.type.startswith("PodGroup") and each.status == "True"
                for each in item.status.conditions
            )
        if started:
            group.start()
        created = item.metadata.creation_timestamp or ""
        if created <= self._began:
            self._older[group.key] = created

    def note(self, group: Group, pod: Pod) -> None:
        """Record a member that finished, to be looked up if other members wait later."""
        ended = self._ended.setdefault(group.key, [])
        minimum = 0 if group.terms is None else group.terms.minimum
        if len(ended) < minimum:
            ended.append((pod.metadata.name, pod.uid))

    def forget(self, key: GroupKey) -> None:
        """Drop a deleted group."""
        self._ended.pop(key, None)
        self._older.pop(key, None)

    # -- look-ups --------------------------------------------------------------------------------

    def look_up(self, key: GroupKey) -> None:
        """Read the members of a group that finished while this process ran."""
        ended = self._ended.pop(key, None)
        if ended:
            self._handle.run_in_background(self._read(key, ended), f"ended members of {key}")

    def look_up_earlier(self, key: GroupKey) -> bool:
        """List pods that succeeded before this process started, for a group that waits for members.

        Returns whether the caller must call again later, since the list may fail.
        """
        if key not in self._older:
            return False
        now, namespace = self._handle.clock.monotonic(), key.namespace
        if self._listing.get(namespace, now) <= now:
            self._listing[namespace] = now + LOOK_AGAIN_SECONDS
            self._handle.run_in_background(self._list(namespace), f"ended pods of {namespace}")
        return True

    async def _read(self, key: GroupKey, ended: list[tuple[str, str]]) -> None:
        for name, uid in ended:
            self.lookups += 1
            pod = await self._handle.api.get("pods", name, key.namespace)
            group = self._groups.get(key)
            if group is None:
                return
            if pod is None or pod.metadata.uid != uid:
                continue
            if _succeeded(pod):
                group.succeed(uid)
                self._changed(group)
            elif pod.status.phase in (SUCCEEDED, FAILED):
                self._failed(key)

    async def _list(self, namespace: str) -> None:
        # Groups that are seen from here on are not covered by this list.
        keys = [key for key in self._older if key.namespace == namespace]
        self.lookups += 1
        found = await self._handle.api.list(
            "pods", namespace, field_selector=SELECTOR, limit=MAX_LISTED
        )
        self._listing.pop(namespace, None)
        ended: dict[GroupKey, list[str]] = {}
        for pod in found:
            key = group_of(pod)
            if (
                key is not None
                and key in self._older
                and _succeeded(pod)
                and _began_after(pod, self._older[key])
            ):
                ended.setdefault(key, []).append(pod.metadata.uid)
        for key in keys:
            self._older.pop(key, None)
            group = self._groups.get(key)
            if group is not None and key in ended:
                group.start()
                group.name_succeeded(ended[key])
                self._changed(group)


def _succeeded(pod: Pod) -> bool:
    """Whether a pod has done its work; one that was evicted may exit with status 0 without that."""
    disrupted = any(
        each.type == DISRUPTION_TARGET and each.status == "True" for each in pod.status.conditions
    )
    return pod.status.phase == SUCCEEDED and not disrupted and not pod.terminating


def _began_after(pod: Pod, created: str) -> bool:
    """Whether a pod started after this time; otherwise an earlier group may have had the name."""
    for each in pod.status.conditions:
        if each.type == "PodScheduled" and each.last_transition_time:
            return each.last_transition_time >= created
    return True

"""GroupStatuses: writes the progress of groups to the status of their objects.

The custom resource gets the phases and counts that Coscheduling's controller writes, for clusters
without that controller; if another manager writes them, this module does not. The built-in resource
gets upstream's condition, which stays True once it was True, and `kubestow.io/Satisfied`, which
does not.

Only groups with pods of our profiles are written, with one write per object at a time, and only if
something has changed. A change of a message alone is delayed, since its numbers change often.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from plugins.gang_scheduling.deadlines import Deadlines
from plugins.gang_scheduling.standing import SATISFIED, UNSCHEDULABLE, GroupStage, Standing
from scheduler.api.meta import Condition, second_time
from scheduler.api.pod import Pod
from scheduler.api.pod_groups import NATIVE_POD_GROUPS, NativePodGroup, PodGroup
from scheduler.framework import Handle, WriteConflictError
from scheduler.groups import Group, GroupKey, Source

OWN_MANAGER: Final = "kubestow"
"""The field manager of our writes, which is the first part of our User-Agent."""

CONDITION: Final = "kubestow.io/Satisfied"
UPSTREAM_CONDITIONS: Final = {
    **dict.fromkeys(NATIVE_POD_GROUPS, "PodGroupInitiallyScheduled"),
    NATIVE_POD_GROUPS[0]: "PodGroupScheduled",
}

SOON_SECONDS: Final = 0.5
"""Seconds from a change to its write, since the members of a gang change one after the other."""

TEXT_SECONDS: Final = 30.0
"""Minimum seconds before a write that changes only a message."""

RETRY_SECONDS: Final = 30.0
"""Seconds until a failed write is retried."""

FINAL_PHASES: Final = ("Finished", "Failed")


@dataclass(slots=True)
class _Known:
    """State about the status of one object."""

    #: The status that was last seen or written; conditions by type.
    phase: str = ""
    counts: tuple[int, int, int] = (0, 0, 0)
    conditions: dict[str, Condition] = field(default_factory=dict)
    #: Whether another manager writes the status.
    foreign: bool = False
    #: Whether any pod of the group was of our profiles.
    ours: bool = False
    #: UIDs of members that run.
    running: set[str] = field(default_factory=set)
    failed: int = 0
    #: Monotonic time of the last write.
    written: float = -math.inf
    writing: bool = False

    def take(self, status: Mapping[str, Any]) -> None:
        """Record a status that was written."""
        if "phase" in status:
            self.phase = status["phase"]
            self.counts = (status["running"], status["succeeded"], status["failed"])
        for each in status.get("conditions", ()):
            self.conditions[each["type"]] = Condition(
                type=each["type"],
                status=each["status"],
                reason=each["reason"],
                message=each["message"],
                last_transition_time=each["lastTransitionTime"],
            )


class GroupStatuses:
    """Writes the statuses; call `touch` for a group that may have changed."""

    def __init__(
        self,
        handle: Handle,
        group: Callable[[GroupKey], Group | None],
        standing: Callable[[Group], Standing],
        deadlines: Deadlines,
    ) -> None:
        """`group` returns a group by its key, `standing` its progress."""
        #: Whether statuses are written, and also those that another manager has written; set by
        #: the plugin's argument `podGroupStatus`.
        self.enabled = self.takes_over = False
        self._handle = handle
        self._group = group
        self._standing = standing
        self._known: dict[GroupKey, _Known] = {}
        self._deadlines = deadlines

    # -- events ----------------------------------------------------------------------------------

    def saw_object(self, key: GroupKey, item: PodGroup | NativePodGroup) -> None:
        """Record the status of an object."""
        known = self._known.setdefault(key, _Known())
        if isinstance(item, NativePodGroup):
            known.conditions = {each.type: each for each in item.status.conditions}
            return
        status = item.status
        known.phase = status.phase
        known.counts = (status.running, status.succeeded, status.failed)
        known.failed = max(known.failed, status.failed)
        known.foreign = any(
            each.subresource == "status" and each.manager != OWN_MANAGER
            for each in item.metadata.managed_fields
        )

    def saw_pod(self, key: GroupKey, pod: Pod, *, ours: bool) -> None:
        """Record the phase of a member."""
        known = self._known.setdefault(key, _Known())
        known.ours |= ours
        if pod.status.phase == "Running":
            if pod.uid not in known.running:
                known.running.add(pod.uid)
                self.touch(key)
        elif pod.uid in known.running:
            known.running.discard(pod.uid)
            self.touch(key)

    def member_left(self, key: GroupKey, uid: str) -> None:
        """Record that a pod is no longer a member."""
        known = self._known.get(key)
        if known is not None:
            known.running.discard(uid)
            self.touch(key)

    def member_failed(self, key: GroupKey) -> None:
        """Record that a member has failed."""
        self._known.setdefault(key, _Known()).failed += 1
        self.touch(key)

    def counts_ends(self, key: GroupKey) -> bool:
        """Whether finished members must be looked up for the counts in the status."""
        known = self._known.get(key)
        return known is not None and key.source is Source.CRD and self._writes(known)

    def forget(self, key: GroupKey) -> None:
        """Drop a deleted group."""
        self._known.pop(key, None)

    # -- writes ----------------------------------------------------------------------------------

    def touch(self, key: GroupKey, seconds: float = SOON_SECONDS) -> None:
        """Write the status of a group after `seconds`, if it differs then."""
        known = self._known.get(key)
        if known is None or not self._writes(known):
            return
        self._deadlines.plan(self._begin, key, seconds)

    def _writes(self, known: _Known) -> bool:
        return self.enabled and known.ours and (self.takes_over or not known.foreign)

    def _begin(self, key: GroupKey) -> None:
        """Begin a write that is due, unless one is under way; it touches the group at its end."""
        known, group = self._known.get(key), self._group(key)
        if (
            known is None
            or known.writing
            or group is None
            or group.terms is None
            or not self._writes(known)
        ):
            return
        native = key.source is Source.NATIVE
        wanted = self._conditions(group, known) if native else self._phase(group, known)
        if wanted and self._handle.may("patch", "podgroups/status"):
            known.writing = True
            write = self._write(key, known, group.terms.resource, wanted, strategic=native)
            self._handle.run_in_background(write, f"status of pod group {key}")

    async def _write(
        self,
        key: GroupKey,
        known: _Known,
        resource: str,
        status: Mapping[str, Any],
        *,
        strategic: bool,
    ) -> None:
        patch = self._handle.api.patch
        body = {"status": status}
        wait = RETRY_SECONDS
        try:
            await patch(resource, key.name, key.namespace, body, "status", strategic=strategic)
            known.take(status)
            known.written = self._handle.clock.monotonic()
            wait = SOON_SECONDS
        except WriteConflictError:
            # The object was deleted; a new object of the same name has its own record.
            return
        finally:
            known.writing = False
            if self._known.get(key) is known:
                self.touch(key, wait)

    # -- the custom resource ---------------------------------------------------------------------

    def _phase(self, group: Group, known: _Known) -> dict[str, Any]:
        assert group.terms is not None
        counts = group.counts
        numbers = (len(known.running), counts.succeeded, known.failed)
        phase = phase_of(group.terms.minimum, counts.existing, *numbers)
        if known.phase in FINAL_PHASES:
            phase = known.phase
        if (phase, numbers) == (known.phase, known.counts):
            return {}
        status: dict[str, Any] = {"phase": phase}
        names = ("running", "succeeded", "failed")
        status.update(zip(names, numbers, strict=True))
        if known.phase in ("", "Pending") and phase not in ("", "Pending"):
            status["scheduleStartTime"] = self._now()
        return status

    # -- the built-in resource -------------------------------------------------------------------

    def _conditions(self, group: Group, known: _Known) -> dict[str, Any]:
        assert group.terms is not None
        stage, text = self._standing(group)
        satisfied = stage in SATISFIED
        wanted = [_condition(CONDITION, stage, text, satisfied=satisfied)]
        upstream = UPSTREAM_CONDITIONS.get(group.terms.resource, "")
        before = known.conditions.get(upstream)
        if before is not None and before.status == "True":
            wanted.append(before)
        elif upstream:
            if satisfied:
                wanted.append(_condition(upstream, "Scheduled", "", satisfied=True))
            elif stage in UNSCHEDULABLE:
                wanted.append(_condition(upstream, "Unschedulable", text, satisfied=False))
            elif stage is GroupStage.INVALID:
                wanted.append(_condition(upstream, "SchedulerError", text, satisfied=False))
        changed = [each for each in wanted if self._differs(known, each)]
        if not changed:
            return {}
        if not any(_turns(known.conditions.get(each.type), each) for each in changed):
            waited = self._handle.clock.monotonic() - known.written
            if waited < TEXT_SECONDS:
                self.touch(group.key, TEXT_SECONDS - waited)
                return {}
        return {"conditions": [self._dated(known, each) for each in wanted]}

    def _differs(self, known: _Known, wanted: Condition) -> bool:
        before = known.conditions.get(wanted.type)
        return _turns(before, wanted) or (before is not None and before.message != wanted.message)

    def _dated(self, known: _Known, wanted: Condition) -> dict[str, str]:
        before = known.conditions.get(wanted.type)
        same = before is not None and before.status == wanted.status
        since = before.last_transition_time if before is not None and same else None
        return {
            "type": wanted.type,
            "status": wanted.status,
            "reason": wanted.reason,
            "message": wanted.message,
            "lastTransitionTime": since or self._now(),
        }

    def _now(self) -> str:
        return second_time(self._handle.clock.now())


def phase_of(minimum: int, existing: int, running: int, succeeded: int, failed: int) -> str:
    """Return the phase of a custom resource, derived like Coscheduling's controller does."""
    if succeeded >= minimum:
        return "Finished"
    if failed and failed + running + succeeded >= minimum:
        return "Failed"
    if running + succeeded >= minimum:
        return "Running"
    return "Scheduling" if existing >= minimum else "Pending"


def _condition(name: str, reason: str, message: str, *, satisfied: bool) -> Condition:
    return Condition(
        type=name, status="True" if satisfied else "False", reason=str(reason), message=message
    )


def _turns(before: Condition | None, wanted: Condition) -> bool:
    return before is None or (before.status, before.reason) != (wanted.status, wanted.reason)

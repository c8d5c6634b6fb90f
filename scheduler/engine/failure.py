"""Failed attempts: their condition, event and queue bookkeeping.

Follows schedule_one.go: handleSchedulingFailure.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from scheduler.engine.diagnosis import Diagnosis, FitError
from scheduler.engine.errors import CycleBudgetError
from scheduler.framework import (
    CLEAR_NOMINATION,
    CycleState,
    NodeToStatus,
    NominatingInfo,
    PostFilterOutcome,
    QueuedPodInfo,
    Status,
)

REASON_UNSCHEDULABLE = "Unschedulable"
REASON_SCHEDULER_ERROR = "SchedulerError"
NODE_CHANGED = "node {node} changed before the pod was bound to it and fits no longer: {why}"

CYCLE_BUDGET_EXCEEDED = (
    "scheduling cycle given up after {used:.2f}s of CPU time{during}; it may use {limit:g}s "
    "(kubestow.cycleTimeBudget). No pod of this template is tried for {pause:g}s, then one with "
    "{next:g}s. Reduce affinity terms, spread constraints, resource claims or resource names of "
    "the pod, or raise the budget if cycles of ordinary pods are slow too"
)
SET_ASIDE = (
    "not tried: a pod of the same template and namespace used up the CPU time of a scheduling "
    "cycle (kubestow.cycleTimeBudget), and a pause has to pass; `kubestow queue` shows how long"
)

GROUP_BUDGET_EXCEEDED = (
    "the cycle of the group was given up after {used:.2f}s of CPU time; all members may use "
    "{limit:g}s together, ten times kubestow.cycleTimeBudget. Use fewer distinct templates"
)

MAX_MESSAGE_LENGTH: Final = 32_768
"""Maximum characters of a message. Texts of plugins and extenders become part of the pod, and the
API server rejects objects beyond 1.5 MB: the pod would then get no condition at all."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The consequences of a failed attempt, which its caller carries out."""

    #: Reason of the PodScheduled condition.
    reason: str
    #: Message of the condition, at most `MAX_MESSAGE_LENGTH` long; Events cut it to 1024 bytes.
    message: str
    #: The change of the nomination; None: unchanged.
    nominating: NominatingInfo | None
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    #: Seconds after which a rejecting plugin requests another attempt.
    requeue_after: float | None = None
    #: Whether the pod was rejected, as opposed to an error of the scheduler or a plugin.
    rejected: bool = True
    #: The outcome of PostFilter.
    post_filter: PostFilterOutcome = PostFilterOutcome.NOT_RUN
    #: The end of `message` that plugins added (`note_failure`); kube-scheduler has no such text.
    note: str = ""
    #: The rejections by node, for the decision record; None after an error.
    diagnosis: Diagnosis | None = field(default=None, compare=False, repr=False)
    #: `namespace/name` of the pods that preemption evicts.
    victims: tuple[str, ...] = ()
    #: Minimum seconds until the next attempt, in addition to the ordinary backoff.
    pause: float = 0.0
    #: Whether no Event is recorded, because another member of the group gets one with this text.
    silent: bool = False

    @property
    def result(self) -> str:
        """Label of `scheduler_schedule_attempts_total`."""
        return "unschedulable" if self.reason != REASON_SCHEDULER_ERROR else "error"

    @property
    def own_reason(self) -> bool:
        """Whether a plugin set the reason (`Status.condition_reason`)."""
        return self.reason not in (REASON_UNSCHEDULABLE, REASON_SCHEDULER_ERROR)

    def apply(self, info: QueuedPodInfo, now: float) -> None:
        """Write rejectors, message and retry times to the queue record."""
        info.clear_rejectors()
        info.unschedulable_plugins = set(self.unschedulable_plugins)
        info.pending_plugins = set(self.pending_plugins)
        info.last_message = self.message
        info.post_filter = self.post_filter
        info.pause = self.pause
        if self.requeue_after is not None:
            info.requeue_at = now + self.requeue_after


def from_fit_error(
    fit_error: FitError,
    nominating: NominatingInfo | None = CLEAR_NOMINATION,
    post_filter: PostFilterOutcome = PostFilterOutcome.NOT_RUN,
    state: CycleState | None = None,
    unschedulable_reason: tuple[str, str] | None = None,
) -> Failure:
    """Build the failure of a pod that fits on no node, or that Reserve or Permit rejected.

    `state` may hold notes of plugins for the message. `unschedulable_reason` is a (reason, message)
    that replaces Unschedulable, unless a rejection has a `condition_reason`.
    """
    diagnosis = fit_error.diagnosis
    rejectors, note = frozenset(diagnosis.unschedulable_plugins), ""
    if state is not None:
        rejectors |= state.late_rejectors
        note = state.failure_note(rejectors)
    reason, message = diagnosis.condition_reason or REASON_UNSCHEDULABLE, diagnosis.message()
    if unschedulable_reason is not None and not diagnosis.condition_reason:
        reason, message = _instead(unschedulable_reason, message)
    return Failure(
        reason=reason,
        message=_bounded(message + note),
        nominating=nominating,
        unschedulable_plugins=rejectors,
        pending_plugins=frozenset(diagnosis.pending_plugins),
        requeue_after=diagnosis.requeue_after,
        post_filter=post_filter,
        note=note,
        diagnosis=diagnosis,
    )


def from_status(status: Status) -> Failure:
    """Build the failure of an attempt that ended with `status`, for example in PreBind or Bind.

    It has no rejecting plugins, so the pod is retried after error backoff.
    """
    own = status.condition_reason or REASON_UNSCHEDULABLE
    return Failure(
        reason=own if status.rejected else REASON_SCHEDULER_ERROR,
        message=_bounded(status.message),
        nominating=CLEAR_NOMINATION,
        rejected=status.rejected,
    )


def node_changed(node_name: str, status: Status) -> Failure:
    """Build the failure of a pod whose node no longer fits before the bind; see `from_status`."""
    return Failure(
        reason=REASON_UNSCHEDULABLE,
        message=_bounded(NODE_CHANGED.format(node=node_name, why=status.message)),
        nominating=CLEAR_NOMINATION,
    )


def budget_exceeded(error: CycleBudgetError, pause: float, following: float) -> Failure:
    """Build the failure of a cycle over budget; the next cycle may use `following` seconds.

    Notes of the exception describe the work of a plugin, see `CycleState.check_time`.
    """
    during = "".join(f", {note}" for note in getattr(error, "__notes__", ()))
    text = CYCLE_BUDGET_EXCEEDED.format(
        used=error.used, during=during, limit=error.limit, pause=pause, next=following
    )
    return Failure(
        REASON_SCHEDULER_ERROR, _bounded(text), CLEAR_NOMINATION, rejected=False, pause=pause
    )


def set_aside(pause: float) -> Failure:
    """Build the failure of a pod that is not tried because its template is paused (`overruns`)."""
    return Failure(REASON_SCHEDULER_ERROR, SET_ASIDE, None, rejected=False, pause=pause)


def no_nodes(text: str, unschedulable_reason: tuple[str, str] | None = None) -> Failure:
    """Build the failure in an empty cluster; the pod is retried after error backoff.

    The reason is Unschedulable, or that of `unschedulable_reason`.
    """
    reason = REASON_UNSCHEDULABLE
    if unschedulable_reason is not None:
        reason, text = _instead(unschedulable_reason, text)
    return Failure(reason=reason, message=_bounded(text), nominating=CLEAR_NOMINATION)


def _instead(unschedulable_reason: tuple[str, str], message: str) -> tuple[str, str]:
    reason, why = unschedulable_reason
    return reason, f"{why}. {message}"


def _bounded(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[: MAX_MESSAGE_LENGTH - 4]} ..."


def rejected_on_node(status: Status, node_name: str) -> Failure:
    """Build the failure of a pod that Reserve or Permit rejected, for one node as upstream."""
    diagnosis = Diagnosis(node_count=1, statuses=NodeToStatus({node_name: status}))
    diagnosis.add(status)
    if not status.plugin:
        # A pod rejected without a plugin (it is being deleted) still counts as unschedulable.
        diagnosis.unschedulable_plugins.add("")
    diagnosis.condition_reason = status.condition_reason
    return from_fit_error(FitError(diagnosis), CLEAR_NOMINATION)


def of_group(message: str, plugin: str) -> Failure:
    """Build the failure of a member that only waits for the rest of its group.

    Its rejector is `plugin`, the grouping plugin, so that no other plugin's events requeue it.
    """
    return Failure(
        reason=REASON_UNSCHEDULABLE,
        message=_bounded(message),
        nominating=None,
        unschedulable_plugins=frozenset((plugin,)),
    )


def in_group(
    own: Failure, group: str, plugin: str, others: frozenset[str] = frozenset()
) -> Failure:
    """Return the failure of a member with a text about its group in front of its message.

    If plugins rejected it, these become rejectors as well: `plugin`, which requeues it when its
    group has changed, and `others`, which rejected members of the group in other domains.
    """
    rejectors = own.unschedulable_plugins
    return replace(
        own,
        message=_bounded(f"{group}: {own.message}"),
        unschedulable_plugins=rejectors | {plugin} | others if rejectors else rejectors,
    )


def refused_together(status: Status, message: str, plugin: str) -> Failure:
    """Build the failure of the members of a group that a plugin rejected as a whole.

    That plugin requeues them, or the grouping plugin `plugin` when the group has changed.
    """
    return replace(
        of_group(message, plugin),
        reason=status.condition_reason or REASON_UNSCHEDULABLE,
        unschedulable_plugins=frozenset((status.plugin, plugin)),
    )


def waiting_for(own: Failure, *plugins: str) -> Failure:
    """Return the failure of a member with only these plugins as rejectors."""
    return replace(own, unschedulable_plugins=frozenset(plugins), pending_plugins=frozenset())


def waiting_for_victims(own: Failure, node_name: str) -> Failure:
    """Return the failure of a member that is nominated to a node, after evictions for its group."""
    return replace(
        own, nominating=NominatingInfo(node_name), post_filter=PostFilterOutcome.NOMINATED
    )


def without_nomination(own: Failure) -> Failure:
    """Return the failure of a member whose reserved room is given up."""
    return replace(own, nominating=CLEAR_NOMINATION)


def group_over_budget(used: float, limit: float) -> Failure:
    """Build the failure of the member during whose attempt its group exceeded the CPU budget."""
    text = GROUP_BUDGET_EXCEEDED.format(used=used, limit=limit)
    return Failure(REASON_SCHEDULER_ERROR, text, None, rejected=False, pause=used)

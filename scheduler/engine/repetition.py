"""Repetition: consecutive attempts at pods that differ only in their names.

Members of a group are such pods, and so are the pods of a Job or of a Deployment that grows
(`EqualPods`); from one to the next nothing changes but the pods placed. So
the results of PreFilter and PreScore for the first pod hold for all, if they are recorded for the
signature, or if the plugins skipped the first pod and guarantee to skip the others as well
(`AlikePlugin`). Each further attempt then only evaluates the changed nodes, chooses one, and
assumes the pod there.

Invariant, proved by a property test: the chosen node is the one that an ordinary attempt would
choose, with the same draws from the random source. If anything may differ, nothing is repeated.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from scheduler.api.packed_labels import MAX_PLAIN_LABELS
from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.engine.lookahead import MIN_MEMBERS, Lookahead
from scheduler.engine.result_cache import CachedResult, Recorded
from scheduler.engine.schedule_one import Attempt, ScheduleResult
from scheduler.framework import CycleState, Rows

EXPECTED: Final = 32
"""Pods that `EqualPods` looks ahead for, once as many as pay off were equal."""


class Repetition:
    """The results of one attempt that hold for equal pods."""

    def __init__(self, attempt: Attempt, entry: CachedResult, more: int) -> None:
        assert attempt.algorithm is not None
        #: Number of members to come; 0 disables looking ahead.
        self._more = more
        self._ahead: Lookahead | None = None
        self._algorithm = attempt.algorithm
        self._pod = attempt.info.pod
        self._state = attempt.state
        self._entry = entry
        #: Whether the search was limited to one row, so that PreScore did not run. The same must
        #: then be true for the other pods.
        self._one_row = _is_one(attempt.state.within)

    @classmethod
    def of(cls, attempt: Attempt, more: int) -> Repetition | None:
        """Return a repetition of `attempt`, which found a node, for `more` pods, if possible."""
        algorithm, pod, state = attempt.algorithm, attempt.info.pod, attempt.state
        if algorithm is None or attempt.result is None:
            return None
        entry = algorithm.repeatable(pod, state)
        if entry is None or state.variant is not None or state.late_rejectors:
            return None
        framework = attempt.framework
        if not _repeatable(framework.pre_filter, entry.pre_filter, state.skip_filter, pod):
            return None
        scored = not _is_one(state.within)
        if scored and not _repeatable(framework.pre_score, entry.pre_score, state.skip_score, pod):
            return None
        return cls(attempt, entry, more)

    def expect(self, more: int) -> None:
        """Look ahead for `more` pods from the next one on."""
        self._more = more

    def choose(self, attempt: Attempt) -> bool:
        """Choose a node for an attempt that has just begun; False: an ordinary cycle must run."""
        if (self._one_row and not _is_one(attempt.state.within)) or not self._covers(attempt.pod):
            return False
        first, state = self._state, attempt.state
        state.data = dict(first.data)
        state.skip_filter, state.skip_score = set(first.skip_filter), set(first.skip_score)
        state.skip_pre_bind = set(first.skip_pre_bind)
        state.absent = first.absent
        result = self._choose(state, attempt.pod)
        if result is None:
            state.data = {}
            for skipped in (state.skip_filter, state.skip_score, state.skip_pre_bind):
                skipped.clear()
            return False
        attempt.result = attempt.chosen = result
        if not attempt.member:
            algorithm = self._algorithm
            algorithm.stopwatch.repeated(scored=algorithm.scored is not None)
        return True

    def _choose(self, state: CycleState, pod: Pod) -> ScheduleResult | None:
        algorithm, entry, ahead = self._algorithm, self._entry, self._ahead
        self._more -= 1
        result = None
        if ahead is not None and ahead.within is state.within:
            result = algorithm.choose_ahead(entry, ahead)
        if result is None:
            result = algorithm.choose_again(state, pod, entry)
            if ahead is not None:
                ahead.within = state.within
            elif result is not None and self._more >= MIN_MEMBERS and not self._one_row:
                ahead = self._ahead = algorithm.look_ahead(state, pod, entry, self._more)
                # Looking ahead is impossible for the other pods as well.
                self._more = 0
        if result is not None and ahead is not None:
            ahead.place(result.row)
        return result

    def _covers(self, pod: Pod) -> bool:
        """Whether a pod differs from the first one only in its name and UID."""
        first, own = self._pod.metadata, pod.metadata
        return (
            own.annotations == first.annotations
            and own.owner_references == first.owner_references
            and not pod.status.nominated_node_name
            and self._algorithm.search.holds(self._entry, pod)
        )


class EqualPods:
    """Repeats the last attempt for the pods that follow it and are equal to its pod.

    Invariant: between the attempts nothing has changed that is in the node table's change log, and
    none of its named versions.
    """

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        #: The last attempt, if it placed its pod.
        self._last: Attempt | None = None
        self._repetition: Repetition | None = None
        #: Pods that were equal to the first one; negative: those of its signature cannot be
        #: repeated.
        self._equal = 0
        self._sequence = self._bumps = 0

    def before(self, attempt: Attempt) -> Repetition | None:
        """Return what an attempt that has begun may use; call `after` when it has ended."""
        last, table = self._last, self._table
        if (
            last is None
            or attempt.member
            or attempt.state.within is not None
            or last.info.pod.interned is not attempt.pod.interned
            # The configuration may have been reloaded.
            or last.algorithm is not attempt.algorithm
        ):
            self._repetition, self._equal = None, 0
            return None
        if self._equal < 0:
            return None
        if (
            not same_template(last.info.pod, attempt.pod)
            or table.change_log.sequence != self._sequence
            or table.bumps != self._bumps
        ):
            self._repetition, self._equal = None, 0
            return None
        if self._repetition is None:
            self._repetition = Repetition.of(last, 0)
            if self._repetition is None:
                self._equal = -1
                return None
        self._equal += 1
        if self._equal == MIN_MEMBERS:
            self._repetition.expect(EXPECTED)
        return self._repetition

    def after(self, attempt: Attempt) -> None:
        """Record the end of any attempt."""
        single = not attempt.member and attempt.state.within is None
        self._last = attempt if single and attempt.result is not None else None
        self._sequence, self._bumps = self._table.change_log.sequence, self._table.bumps

    def end(self) -> None:
        """Forget the last attempt: another cycle begins."""
        self._last = self._repetition = None


def same_template(one: Pod, other: Pod) -> bool:
    """Whether two pods certainly have the same `identity`; cheaper than computing it."""
    labels = one.metadata.labels
    return (
        one.interned is not None
        and one.interned is other.interned
        and one.pin == other.pin
        # A pod may have 50,000 labels, which would be slow to compare.
        and len(labels) <= MAX_PLAIN_LABELS
        and labels == other.metadata.labels
        and one.metadata.namespace == other.metadata.namespace
    )


def _is_one(within: Rows | None) -> bool:
    return within is not None and len(within) == 1


def _repeatable(
    plugins: Iterable[Any], recorded: dict[str, Recorded], skipped: set[str], pod: Pod
) -> bool:
    """Whether each of these plugins has a recorded result, or skips all pods like this one."""
    for plugin in plugins:
        if plugin.name in recorded:
            continue
        alike = getattr(plugin, "skips_alike", None)
        if plugin.name not in skipped or alike is None or not alike(pod):
            return False
    return True

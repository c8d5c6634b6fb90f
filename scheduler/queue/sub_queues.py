"""The three sub-queues (active, backoff, unschedulable), and every move between them.

Invariant: a pod (by UID) is in at most one sub-queue, and so is a name; the gauges are updated with
every move. A move either happens completely or, if the QueueSort plugin raises, not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from scheduler.explain.records import QueueState
from scheduler.framework.queued import QueuedPodInfo
from scheduler.queue.active_queue import ActiveQueue
from scheduler.queue.backoff_queue import NO_BACKOFF, BackoffPolicy, BackoffQueue, SortKey
from scheduler.queue.heap import SORT_KEY, KeyedHeap
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.retry_suppressor import RetrySuppressor
from scheduler.queue.unschedulable_pods import RequiredKeys, UnschedulablePods

POP_FROM_BACKOFF: Final = "PopFromBackoffQ"


# A member of an enumeration is found by a slow search of its class.
_ACTIVE: Final = QueueState.ACTIVE
_BACKOFF: Final = QueueState.BACKOFF
_UNSCHEDULABLE: Final = QueueState.UNSCHEDULABLE
_GATED: Final = QueueState.GATED
UNSCHEDULABLE_STATES: Final = (_UNSCHEDULABLE, _GATED)


class SubQueues:
    """The sub-queues, an index over them, and their gauges."""

    def __init__(
        self,
        policy: BackoffPolicy,
        sort_key: SortKey,
        metrics: QueueMetrics,
        required_keys: RequiredKeys,
        over_limit: Callable[[], Collection[str]],
    ) -> None:
        self.active = ActiveQueue(sort_key, over_limit)
        self.backoff = BackoffQueue(policy, sort_key)
        self.unschedulable = UnschedulablePods(required_keys)
        self._by_state: Mapping[QueueState, ActiveQueue | BackoffQueue | UnschedulablePods] = {
            _ACTIVE: self.active,
            _BACKOFF: self.backoff,
            _UNSCHEDULABLE: self.unschedulable,
            _GATED: self.unschedulable,
        }
        self._policy = policy
        self._metrics = metrics
        #: Unschedulable pods with a `requeue_at`, by `retry_time`.
        self._retries: KeyedHeap[QueuedPodInfo] = KeyedHeap()
        self._states: dict[str, QueueState] = {}
        self._names: dict[str, QueuedPodInfo] = {}
        #: Number of pods that are not active; only these may wait for a time.
        self.inactive = 0
        #: Number of pods in backoff.
        self.backing_off = 0

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(self._names.values())

    def state(self, uid: str) -> QueueState | None:
        """Return the sub-queue that the pod is in; None when it is in none."""
        return self._states.get(uid)

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Return the record of a queued pod; None for others."""
        state = self._states.get(uid)
        return None if state is None else self._by_state[state].get(uid)

    def by_name(self, key: str) -> QueuedPodInfo | None:
        """Return the record of the queued pod called `namespace/name`; None when there is none."""
        return self._names.get(key)

    def rank(self, uid: str) -> int | None:
        """Count the pods that leave the same sub-queue before this one; None without an order."""
        queue = self._by_state[self._states[uid]]
        return None if isinstance(queue, UnschedulablePods) else queue.rank(uid)

    def to_active(self, info: QueuedPodInfo, event: str) -> None:
        """Move a pod to the active queue from any state. Raises the exceptions of QueueSort."""
        self.active.add(info)
        self._moved(info, _ACTIVE, event)

    def to_backoff(self, info: QueuedPodInfo, event: str) -> None:
        """Move an unschedulable or new pod to backoff. Raises the exceptions of QueueSort."""
        self.backoff.add(info)
        self._moved(info, _BACKOFF, event)

    def to_unschedulable(self, info: QueuedPodInfo, event: str) -> None:
        """Move a pod to the unschedulable pods, or re-index it there after a change."""
        self.unschedulable.put(info)
        due = self.retry_time(info)
        if due is None:
            self._retries.remove(info.uid)
        else:
            self._retries.push(info.uid, due, info)
        self._moved(info, _GATED if info.gated else _UNSCHEDULABLE, event)

    def retry_time(self, info: QueuedPodInfo) -> float | None:
        """Return when an unschedulable pod is retried without an event, considering backoff."""
        if info.requeue_at is None:
            return None
        expiry = self._policy.expiry(info)
        if expiry == NO_BACKOFF:
            return info.requeue_at
        return max(info.requeue_at, self._policy.release(expiry))

    def next_due(self) -> float | None:
        """Return when the first pod stops backing off, or has its `retry_time`."""
        release = self.backoff.next_release() if self.backing_off else None
        head = self._retries.head()
        if head is None or (release is not None and release <= head[SORT_KEY]):
            return release
        return float(head[SORT_KEY])

    def next_retry_due(self, now: float) -> QueuedPodInfo | None:
        """Return the next record whose `retry_time` has passed, and clear that; moves no pod."""
        head = self._retries.head()
        if head is None or head[SORT_KEY] > now:
            return None
        info = self._retries.pop()
        assert info is not None
        info.requeue_at = None
        return info

    def refresh(self, info: QueuedPodInfo) -> None:
        """Reorder a queued pod after its record changed. Raises the exceptions of QueueSort."""
        state = self._states[info.uid]
        if state is _ACTIVE:
            self.active.add(info)
        elif state is _BACKOFF:
            self.backoff.update(info)
        else:
            self.to_unschedulable(info, "")

    def sort_by(self, sort_key: SortKey) -> tuple[list[QueuedPodInfo], list[QueuedPodInfo]]:
        """Sort the active pods, and those in backoff, by another key.

        If it raises for one of them, all are taken out and returned in their previous order; the
        caller puts them back one by one.
        """
        try:
            self.backoff.sort_by(sort_key)
            self.active.sort_by(sort_key)
        except Exception:  # noqa: BLE001 - boundary: plugin call (QueueSort)
            active, backoff = self.active.ordered(), self.backoff.ordered()
        else:
            return [], []
        for info in (*active, *backoff):
            self.remove(info)
        self.active.sort_by(sort_key)
        self.backoff.sort_by(sort_key)
        return active, backoff

    def count_rejectors(
        self, info: QueuedPodInfo, delta: int, plugins: Iterable[str] | None = None
    ) -> None:
        """Update the gauge `unschedulable_pods` for these plugins; None: for all rejectors."""
        profile = info.pod.spec.scheduler_name
        for plugin in info.rejectors if plugins is None else plugins:
            self._metrics.unschedulable_pods(plugin, profile, delta)

    def remove(self, info: QueuedPodInfo) -> None:
        """Take a queued pod out."""
        state = self._states[info.uid]
        self._take(state, info.uid)
        self._left(info, state)

    def pop(self, suppressor: RetrySuppressor, *, early: bool) -> QueuedPodInfo | None:
        """Take out the next pod; None when there is none, or when `active.pop_again` is set.

        With `early`, a pod in backoff is popped when none is active, unless its retry is suppressed
        (KEP-5142: pop pod from backoffQ when activeQ is empty).
        """
        if len(self._states) == self.inactive and not (
            early and self.backing_off and self.backoff.poppable
        ):
            # No pod is active.
            self.active.pop_again = False
            return None
        info = self.active.pop()
        if info is not None:
            self._left(info, _ACTIVE)
            info.popped_early = False
        elif self.active.pop_again or self.active.held_groups:
            # Members of held groups must not be popped from backoff either.
            return None
        elif early and (info := self.backoff.pop_early(suppressor)) is not None:
            self._left(info, _BACKOFF)
            info.popped_early = True
            self._metrics.incoming_pods(_ACTIVE, POP_FROM_BACKOFF)
        return info

    def violations(self) -> list[str]:
        """Return the broken invariants, for `validate()`."""
        found = (
            self.active.violations() + self.backoff.violations() + self.unschedulable.violations()
        )
        actual = [(info.uid, _ACTIVE) for info in self.active]
        actual += [(info.uid, _BACKOFF) for info in self.backoff]
        actual += [
            (info.uid, _GATED if info.gated else _UNSCHEDULABLE) for info in self.unschedulable
        ]
        found += [f"retry times: {text}" for text in self._retries.violations()]
        timed = {info.uid for info in self.unschedulable if info.requeue_at is not None}
        if timed != {info.uid for info in self._retries.items()}:
            found.append("the index of retry times differs from the unschedulable pods")
        if len({uid for uid, _ in actual}) != len(actual):
            found.append("a pod is in two sub-queues")
        if self.inactive != len(self.backoff) + len(self.unschedulable):
            found.append("the number of inactive pods differs from the sub-queues")
        if self.backing_off != len(self.backoff):
            found.append("the number of pods in backoff differs from the sub-queue")
        if dict(actual) != self._states:
            found.append("the index of states differs from the sub-queues")
        if {info.uid for info in self._names.values()} != self._states.keys():
            found.append("the index of names differs from the index of states")
        found += [
            f"pod {info.key} is indexed under the name {key}"
            for key, info in self._names.items()
            if info.key != key or self.get(info.uid) is not info
        ]
        return found

    def _moved(self, info: QueuedPodInfo, state: QueueState, event: str) -> None:
        uid = info.uid
        before = self._states.get(uid)
        if before is state:
            return
        self._states[uid] = state
        self.inactive += state is not _ACTIVE
        self.backing_off += state is _BACKOFF
        self._metrics.pending_pods(state, 1)
        if before is None:
            self._names[info.key] = info
        else:
            self.inactive -= before is not _ACTIVE
            self.backing_off -= before is _BACKOFF
            self._metrics.pending_pods(before, -1)
            if state in UNSCHEDULABLE_STATES and before in UNSCHEDULABLE_STATES:
                return
            self._take(before, uid)
        queue = _UNSCHEDULABLE if state is _GATED else state
        self._metrics.incoming_pods(queue, event)

    def _left(self, info: QueuedPodInfo, state: QueueState) -> None:
        del self._states[info.uid]
        del self._names[info.key]
        self.inactive -= state is not _ACTIVE
        self.backing_off -= state is _BACKOFF
        self._metrics.pending_pods(state, -1)

    def _take(self, state: QueueState, uid: str) -> None:
        removed = self._by_state[state].remove(uid)
        assert removed is not None, f"pod {uid} is indexed as {state}, but not there"
        if state in UNSCHEDULABLE_STATES:
            self._retries.remove(uid)

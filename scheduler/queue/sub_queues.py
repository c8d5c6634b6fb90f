"""Where every pending pod is: active, backoff or pool; and every move from one to another.

Invariant: a pod (by UID) is in at most one sub-queue, and so is a name; the gauges follow every
move. A move either happens as a whole or, when the QueueSort plugin raises, not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from scheduler.framework.queued import QueuedPodInfo
from scheduler.queue.active_queue import ActiveQueue, no_namespaces
from scheduler.queue.backoff_queue import NO_BACKOFF, BackoffPolicy, BackoffQueue, SortKey
from scheduler.queue.heap import KeyedHeap
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.retry_suppressor import RetrySuppressor
from scheduler.queue.statistics import QueueState
from scheduler.queue.unschedulable_pods import RequiredKeysOf, UnschedulablePods

POP_FROM_BACKOFF: Final = "PopFromBackoffQ"

UNSCHEDULABLE_STATES: Final = (QueueState.UNSCHEDULABLE, QueueState.GATED)


class SubQueues:
    """The three sub-queues, an index over them, and their gauges."""

    __slots__ = (
        "_metrics",
        "_names",
        "_policy",
        "_retries",
        "_where",
        "active",
        "backoff",
        "unschedulable",
    )

    def __init__(
        self,
        policy: BackoffPolicy,
        sort_key: SortKey,
        metrics: QueueMetrics,
        required_keys: RequiredKeysOf,
        over: Callable[[], Collection[str]] = no_namespaces,
    ) -> None:
        """`over` gives the namespaces whose pods are popped after all others."""
        self.active = ActiveQueue(sort_key, over)
        self.backoff = BackoffQueue(policy, sort_key)
        self.unschedulable = UnschedulablePods(required_keys)
        self._policy = policy
        self._metrics = metrics
        #: Pods of the pool that asked to be tried again at a time, by that time.
        self._retries: KeyedHeap[QueuedPodInfo] = KeyedHeap()
        self._where: dict[str, QueueState] = {}
        self._names: dict[str, QueuedPodInfo] = {}

    def __len__(self) -> int:
        return len(self._where)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(self._names.values())

    def where(self, uid: str) -> QueueState | None:
        """The place of a pod, None when it is in none."""
        return self._where.get(uid)

    def get(self, uid: str) -> QueuedPodInfo | None:
        """The record of a queued pod."""
        state = self._where.get(uid)
        if state is None:
            return None
        if state is QueueState.ACTIVE:
            return self.active.get(uid)
        if state is QueueState.BACKOFF:
            return self.backoff.get(uid)
        return self.unschedulable.get(uid)

    def by_name(self, key: str) -> QueuedPodInfo | None:
        """The record of the queued pod called `namespace/name`."""
        return self._names.get(key)

    def rank(self, uid: str) -> int | None:
        """How many pods leave the same sub-queue before this one; None where there is no order."""
        state = self._where.get(uid)
        if state is QueueState.ACTIVE:
            return self.active.rank(uid)
        return self.backoff.rank(uid) if state is QueueState.BACKOFF else None

    def to_active(self, info: QueuedPodInfo, event: str) -> None:
        """Move a pod to the active queue from wherever it is. Raises what QueueSort raises."""
        self.active.add(info)
        self._moved(info, QueueState.ACTIVE, event)

    def to_backoff(self, info: QueuedPodInfo, event: str) -> None:
        """Move a pod to the backoff queue from the pool or from outside; as `to_active`."""
        self.backoff.add(info)
        self._moved(info, QueueState.BACKOFF, event)

    def to_unschedulable(self, info: QueuedPodInfo, event: str) -> None:
        """Move a pod to the pool, or file it again when it is there and its record changed."""
        self.unschedulable.put(info)
        due = self.retry_time(info)
        if due is None:
            self._retries.remove(info.uid)
        else:
            self._retries.push(info.uid, due, info)
        self._moved(info, QueueState.GATED if info.gated else QueueState.UNSCHEDULABLE, event)

    def retry_time(self, info: QueuedPodInfo) -> float | None:
        """When a pod of the pool is tried again without any event: never in backoff."""
        if info.requeue_at is None:
            return None
        expiry = self._policy.expiry(info)
        if expiry == NO_BACKOFF:
            return info.requeue_at
        return max(info.requeue_at, self._policy.release(expiry))

    def next_retry(self) -> float | None:
        """The earliest `retry_time` in the pool."""
        head = self._retries.peek()
        return None if head is None else float(head[0])

    def next_retry_due(self, now: float) -> QueuedPodInfo | None:
        """A pod of the pool whose time has come; it stays in the pool, without a time."""
        head = self._retries.peek()
        if head is None or head[0] > now:
            return None
        self._retries.pop()
        head[1].requeue_at = None
        return head[1]

    def refresh(self, info: QueuedPodInfo) -> None:
        """File a queued pod again after its record changed. Raises what QueueSort raises."""
        state = self._where[info.uid]
        if state is QueueState.ACTIVE:
            self.active.add(info)
        elif state is QueueState.BACKOFF:
            self.backoff.update(info)
        else:
            self.to_unschedulable(info, "")

    def count_rejectors(
        self, info: QueuedPodInfo, delta: int, plugins: Iterable[str] | None = None
    ) -> None:
        """Keep the gauge `unschedulable_pods`, for all plugins that rejected the pod or some."""
        profile = info.pod.spec.scheduler_name
        for plugin in info.rejectors if plugins is None else plugins:
            self._metrics.unschedulable_pods(plugin, profile, delta)

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Take a pod out of whatever place it is in; None when it is in none."""
        state = self._where.get(uid)
        if state is None:
            return None
        info = self._take(state, uid)
        self._left(info, state)
        return info

    def pop(self, suppressor: RetrySuppressor, *, early: bool) -> QueuedPodInfo | None:
        """Take out the next pod; None when there is none, or `active.pop_again`.

        `early`: from the backoff queue if nothing is active, but for those that are `suppressor`.
        """
        info = self.active.pop()
        if info is not None:
            self._left(info, QueueState.ACTIVE)
        elif self.active.pop_again:
            return None
        elif early and (info := self.backoff.pop_early(suppressor)) is not None:
            self._left(info, QueueState.BACKOFF)
            self._metrics.incoming_pods(QueueState.ACTIVE, POP_FROM_BACKOFF)
        return info

    def violations(self) -> list[str]:
        """What is broken inside, for `validate()`."""
        found = (
            self.active.violations() + self.backoff.violations() + self.unschedulable.violations()
        )
        actual = [(info.uid, QueueState.ACTIVE) for info in self.active]
        actual += [(info.uid, QueueState.BACKOFF) for info in self.backoff]
        actual += [
            (info.uid, QueueState.GATED if info.gated else QueueState.UNSCHEDULABLE)
            for info in self.unschedulable
        ]
        found += [f"retry times: {text}" for text in self._retries.violations()]
        wanting = {info.uid for info in self.unschedulable if info.requeue_at is not None}
        if wanting != {info.uid for info in self._retries.items()}:
            found.append("the pods with a retry time are not those that wait for one")
        if len({uid for uid, _ in actual}) != len(actual):
            found.append("a pod is in two sub-queues")
        if dict(actual) != self._where:
            found.append("the index of places differs from the sub-queues")
        if {info.uid for info in self._names.values()} != self._where.keys():
            found.append("the index of names differs from the index of places")
        found += [
            f"pod {info.key} is filed under the name {key}"
            for key, info in self._names.items()
            if info.key != key or self.get(info.uid) is not info
        ]
        return found

    def _moved(self, info: QueuedPodInfo, state: QueueState, event: str) -> None:
        uid = info.uid
        before = self._where.get(uid)
        if before is state:
            return
        self._where[uid] = state
        self._metrics.pending_pods(state, 1)
        if before is None:
            self._names[info.key] = info
        else:
            self._metrics.pending_pods(before, -1)
            if state in UNSCHEDULABLE_STATES and before in UNSCHEDULABLE_STATES:
                return
            self._take(before, uid)
        queue = QueueState.UNSCHEDULABLE if state is QueueState.GATED else state
        self._metrics.incoming_pods(queue, event)

    def _left(self, info: QueuedPodInfo, state: QueueState) -> None:
        del self._where[info.uid]
        del self._names[info.key]
        self._metrics.pending_pods(state, -1)

    def _take(self, state: QueueState, uid: str) -> QueuedPodInfo:
        if state is QueueState.ACTIVE:
            info = self.active.remove(uid)
        elif state is QueueState.BACKOFF:
            info = self.backoff.remove(uid)
        else:
            info = self.unschedulable.remove(uid)
            self._retries.remove(uid)
        assert info is not None, f"pod {uid} is indexed in {state}, but not there"
        return info

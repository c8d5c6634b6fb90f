"""The active queue: pods that may be scheduled now, in the order of the QueueSort plugin.

Pods of deferred accounts (`accounts`), which are namespaces and all pods in groups, are popped
after all others, in QueueSort order among themselves. Pods of groups in `held_groups` are not
popped at all. While there are neither, there is one heap in exactly QueueSort's order.

Invariant: no pod here is gated. The sort key is computed when a pod enters or its object changes,
never while popping; ties leave first in, first out, whichever heap a pod is in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import Final

from scheduler.api.pod import Pod
from scheduler.framework.queued import QueuedPodInfo
from scheduler.queue.accounts import GROUPS
from scheduler.queue.backoff_queue import SortKey
from scheduler.queue.heap import ITEM, Entry, KeyedHeap

MAX_MOVES: Final = 2000
"""Maximum number of pods that one `pop` sets aside, about 10 ms of work; the next one continues."""


class ActiveQueue:
    """Pods by UID, smallest sort key first."""

    def __init__(self, sort_key: SortKey, over_limit: Callable[[], Collection[str]]) -> None:
        """`over_limit` returns the accounts whose pods are popped after all others."""
        #: Returns the name of a pod's group in constant time; None for a pod in no group.
        self.group_name: Callable[[Pod], str | None] = lambda _pod: None
        #: Names of groups whose pods are not popped.
        self.held_groups: Collection[str] = ()
        #: Returns the UID of a pod that must be popped before this one, or None. None: no pod must.
        self.ahead_of: Callable[[QueuedPodInfo], str | None] | None = None
        self._sort_key = sort_key
        self._over_limit = over_limit
        self._heap: KeyedHeap[QueuedPodInfo] = KeyedHeap()
        #: Pods that reached the top while their account was deferred, by account, or while their
        #: group was held, by `_held_account`. They keep their sort key and turn, so that the first
        #: of all heads is the first of all pods.
        self._deferred: dict[str, KeyedHeap[QueuedPodInfo]] = {}
        #: Whether the last `pop` returned None only because it set `MAX_MOVES` pods aside.
        self.pop_again = False

    def __len__(self) -> int:
        return len(self._heap) + sum(map(len, self._deferred.values()))

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return chain.from_iterable(heap.items() for heap in self._heaps())

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Return the pod's record; None when it is not here."""
        for heap in self._heaps():
            info = heap.get(uid)
            if info is not None:
                return info
        return None

    def add(self, info: QueuedPodInfo) -> None:
        """Insert or reorder a pod. If the sort key raises, nothing changes."""
        heap = self._heap
        if self._deferred and info.uid not in heap:
            namespace = self._deferred.get(info.pod.metadata.namespace, heap)
            known = (each for each in self._deferred.values() if info.uid in each)
            heap = next(known, namespace)
        heap.push(info.uid, self._sort_key(info), info)

    def sort_by(self, sort_key: SortKey) -> None:
        """Use another sort key. If it raises, nothing changes. O(n)."""
        heap = self._heap.resorted(sort_key)
        deferred = {name: each.resorted(sort_key) for name, each in self._deferred.items()}
        self._sort_key, self._heap, self._deferred = sort_key, heap, deferred

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Take a pod out; None when it is not here."""
        info = self._heap.remove(uid)
        if info is not None or not self._deferred:
            return info
        for namespace, heap in self._deferred.items():
            info = heap.remove(uid)
            if info is not None:
                self._drop_if_empty(namespace)
                return info
        return None

    def pop(self) -> QueuedPodInfo | None:
        """Take out the first pod; None when empty, when all are held, or `pop_again`."""
        self.pop_again = False
        over = self._over_limit()
        ordinary = not (over or self._deferred or self.held_groups)
        info = self._heap.pop() if ordinary else self._pop_fairly(over)
        if info is None or self.ahead_of is None:
            return info
        ahead = self.ahead_of(info)
        first = None if ahead is None else self.get(ahead)
        if first is None or self._held_account(first.pod):
            return info
        self.remove(first.uid)
        self.add(info)
        return first

    def ordered(self, limit: int | None = None) -> list[QueuedPodInfo]:
        """Return all pods, or the first `limit`, in the order in which they will be popped."""
        over = self._over_limit()
        if not over and not self._deferred:
            return self._heap.ordered(limit)
        entries = chain.from_iterable(heap.entries() for heap in self._heaps())
        return [entry[ITEM] for _, entry in sorted(self._turn(e, over) for e in entries)][:limit]

    def rank(self, uid: str) -> int | None:
        """Count the pods that are popped before this one; None when it is not here."""
        over = self._over_limit()
        if not over and not self._deferred:
            return self._heap.rank(uid)
        entries = list(chain.from_iterable(heap.entries() for heap in self._heaps()))
        mine = next((self._turn(e, over) for e in entries if e[ITEM].uid == uid), None)
        return None if mine is None else sum(1 for e in entries if self._turn(e, over) < mine)

    def deferred(self, info: QueuedPodInfo) -> bool:
        """Whether the pod is popped after those of other namespaces."""
        return info.pod.metadata.namespace in self._over_limit()

    def held(self, info: QueuedPodInfo) -> bool:
        """Whether the pod is not popped, because its group is held."""
        return self._held_account(info.pod) is not None

    def violations(self) -> list[str]:
        """Return the broken invariants, for `validate()`."""
        found = [f"active queue: {text}" for heap in self._heaps() for text in heap.violations()]
        found += [f"gated pod {info.key} is in the active queue" for info in self if info.gated]
        found += [
            f"pod {info.key} is set aside with those of {account}"
            for account, heap in self._deferred.items()
            for info in heap.items()
            if account
            not in (info.pod.metadata.namespace, GROUPS, self._account_of_group(info.pod))
        ]
        if not all(map(len, self._deferred.values())):
            found.append("active queue: a heap of a deferred account is empty")
        return found

    def _heaps(self) -> Iterator[KeyedHeap[QueuedPodInfo]]:
        yield self._heap
        yield from self._deferred.values()

    def _pop_fairly(self, over: Collection[str]) -> QueuedPodInfo | None:
        """Pop while some account is deferred or has pods that were set aside."""
        for _ in range(MAX_MOVES):
            head = self._heap.head()
            account = None if head is None else self._deferred_account(head, over)
            if account is None:
                return self._pop_first(over)
            deferred_heap = self._deferred.get(account)
            if deferred_heap is None:
                deferred_heap = self._deferred[account] = KeyedHeap(self._heap.stamps)
            try:
                self._heap.move_head(deferred_heap)
            except Exception:  # noqa: BLE001 - boundary: QueueSort; its keys cannot be compared
                self._drop_if_empty(account)
                return self._heap.pop()
        self.pop_again = True
        return None

    def _pop_first(self, over: Collection[str]) -> QueuedPodInfo | None:
        first: tuple[bool, Entry] | None = None
        found: tuple[str, KeyedHeap[QueuedPodInfo]] = ("", self._heap)
        for each in (("", self._heap), *self._deferred.items()):
            head = each[1].head()
            if head is None or self._held_account(head[ITEM].pod):
                continue
            turn = self._turn(head, over)
            if first is None or _precedes(turn, first):
                first, found = turn, each
        account, heap = found
        info = heap.pop()
        if info is not None and account:
            self._drop_if_empty(account)
        return info

    def _drop_if_empty(self, account: str) -> None:
        if not self._deferred[account]:
            del self._deferred[account]

    def _deferred_account(self, entry: Entry, over: Collection[str]) -> str | None:
        """Return the deferred account of a pod, which is then popped after others; None if none."""
        pod: Pod = entry[ITEM].pod
        held = self._held_account(pod)
        if held is not None:
            return held
        if pod.metadata.namespace in over:
            return pod.metadata.namespace
        return GROUPS if GROUPS in over and self.group_name(pod) is not None else None

    def _held_account(self, pod: Pod) -> str | None:
        """Return the name of the heap of a pod whose group is held; None if it is not."""
        return (
            self._account_of_group(pod)
            if self.held_groups and self.group_name(pod) in self.held_groups
            else None
        )

    def _account_of_group(self, pod: Pod) -> str:
        return f"{GROUPS}/{self.group_name(pod)}"

    def _turn(self, entry: Entry, over: Collection[str]) -> tuple[bool, Entry]:
        return self._deferred_account(entry, over) is not None, entry


def _precedes(one: tuple[bool, Entry], other: tuple[bool, Entry]) -> bool:
    try:
        return one < other
    except Exception:  # noqa: BLE001 - boundary: QueueSort; its keys cannot be compared
        return False

"""Held pods of one namespace, and the order in which to release them when quota is freed.

10,000 held pods must cost nothing while nothing concerns them, and one freed unit must not wake all
of them. So there is one queue per request (which quotas, how much of each), each in queue order
(priority, then the time they were held), and a release takes pods from the heads of the queues.

Invariant: a held pod is in exactly one queue; entries of pods that left are dropped when they come
to the head. Callers pass the function that tells whether a pod fits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from plugins.resource_quota.accounts import Account, Amounts

Shares = tuple[tuple[Account, Amounts], ...]
"""The amounts a pod takes from each quota that covers it."""


@dataclass(frozen=True, slots=True)
class QuotaRequest:
    """The facts that decide whether a held pod fits, except its own charges."""

    deferred: bool
    shares: Shares


Order = tuple[int, int]
"""(minus priority, sequence number): smaller is released first."""


class Holdable(Protocol):
    """The attributes of a pod that the queues read."""

    uid: str
    request: QuotaRequest
    #: Its position while it is held.
    order: Order | None


Pod = TypeVar("Pod", bound=Holdable)


class WaitQueues(Generic[Pod]):
    """The held pods of a namespace."""

    __slots__ = ("_held", "_queues")

    def __init__(self) -> None:
        self._held: dict[str, Pod] = {}
        self._queues: dict[QuotaRequest, list[tuple[Order, str]]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Pod]:
        return iter(self._held.values())

    def add(self, pod: Pod) -> None:
        """Put a pod with an `order` into the queue of its request; again when that changed."""
        assert pod.order is not None
        self._held[pod.uid] = pod
        heapq.heappush(self._queues.setdefault(pod.request, []), (pod.order, pod.uid))

    def discard(self, uid: str) -> None:
        """Remove a pod."""
        if self._held.pop(uid, None) is not None and not self._held:
            self._queues.clear()

    def release(
        self, concerns: Callable[[QuotaRequest], bool], admit: Callable[[Pod], bool]
    ) -> list[Pod]:
        """Remove and return pods in order, as long as `admit` is true for the first of a queue.

        Queues for which `concerns` is false are skipped. A pod that is not admitted keeps its
        position, and those behind it in its queue wait as well: they request the same.
        """
        heads: list[tuple[Order, int, QuotaRequest]] = []
        for number, request in enumerate([each for each in self._queues if concerns(each)]):
            head = self._head(request)
            if head is not None:
                heads.append((head, number, request))
        heapq.heapify(heads)
        released: list[Pod] = []
        while heads:
            _, number, request = heapq.heappop(heads)
            pod = self._held[self._queues[request][0][1]]
            if not admit(pod):
                continue
            heapq.heappop(self._queues[request])
            self.discard(pod.uid)
            released.append(pod)
            head = self._head(request)
            if head is not None:
                heapq.heappush(heads, (head, number, request))
        return released

    def _head(self, request: QuotaRequest) -> Order | None:
        """Return the order of the first pod that is still held; drop an empty queue."""
        queue = self._queues.get(request)
        while queue:
            order, uid = queue[0]
            pod = self._held.get(uid)
            if pod is not None and pod.order == order and pod.request == request:
                return order
            heapq.heappop(queue)
        self._queues.pop(request, None)
        return None

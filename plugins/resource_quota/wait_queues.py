"""Held pods of one namespace, and whom to release when quota is freed.

10,000 held pods must cost nothing while nothing concerns them, and one freed unit must not wake all
of them. So they stand in lines by demand (which quotas, how much of each), each in queue order
(priority, then the time they were held), and a release takes from the heads of the lines.

Invariant: a held pod stands in exactly one line; entries of pods that left are dropped when they
come to the head. Whether a demand fits is the ledger's knowledge, handed in.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from plugins.resource_quota.accounts import Account, Amounts

Shares = tuple[tuple[Account, Amounts], ...]
"""What a pod takes from each quota that covers it."""


@dataclass(frozen=True, slots=True)
class QuotaRequest:
    """All that decides whether a held pod fits, but for what it takes already itself."""

    deferred: bool
    shares: Shares


Order = tuple[int, int]
"""(minus priority, sequence number): smaller is released first."""


class Holdable(Protocol):
    """What a line needs to know about a pod."""

    uid: str
    request: QuotaRequest
    #: Its place while it is held.
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
        """Put a pod with an `order` in the line of its demand; again, if the demand changed."""
        assert pod.order is not None
        self._held[pod.uid] = pod
        heapq.heappush(self._queues.setdefault(pod.request, []), (pod.order, pod.uid))

    def discard(self, uid: str) -> None:
        """Take a pod out."""
        if self._held.pop(uid, None) is not None and not self._held:
            self._queues.clear()

    def release(
        self, concerns: Callable[[QuotaRequest], bool], admit: Callable[[Pod], bool]
    ) -> list[Pod]:
        """Take pods out in order, as long as `admit` says yes to the first of a line.

        Lines that `concerns` refuses are not looked at. A pod that is not admitted keeps its
        place and those behind it in its line wait as well: they ask for the same.
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
        """The order of the first pod that is really there; forgets a line that is empty."""
        line = self._queues.get(request)
        while line:
            order, uid = line[0]
            pod = self._held.get(uid)
            if pod is not None and pod.order == order and pod.request == request:
                return order
            heapq.heappop(line)
        self._queues.pop(request, None)
        return None

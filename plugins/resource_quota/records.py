"""The ledger's records: its pods, its namespaces, and the queues of held pods.

10,000 held pods must cost nothing while no event concerns them, and freeing one unit must not wake
all of them. So a namespace has one queue per request (which quotas, how much of each), each in
queue order (priority, then the time when the pods were held), and a release takes pods from the
heads.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from plugins.resource_quota.accounts import Account, Amounts, Role
from plugins.resource_quota.lifecycle import PodState
from plugins.resource_quota.messages import Pairs
from plugins.resource_quota.usage import Usage
from scheduler.api.pod import Pod

Order = tuple[int, int]
"""(minus priority, sequence number): smaller is released first."""


KeptRecord = tuple[str, int, bool, bool, float | None]
"""UID, state, whether the pod was ever gated, whether a quota holds it, and since when."""


Room = tuple[tuple[Account, Amounts], ...]
"""Amounts by account."""


class Together(NamedTuple):
    """The pods of a group, a number of which need quota at the same time."""

    uids: tuple[str, ...]
    need: int
    room: Room | None = None
    """Amounts that were free when the group last failed; None: it was not tried."""


class QuotaRequest(NamedTuple):
    """Everything that determines whether a held pod fits, except its own charges."""

    deferred: bool
    shares: Room
    """The amounts the pod takes from each quota that covers it."""
    together: Together | None = None
    """Set if the pod needs quota for its group."""


NOTHING: Final = QuotaRequest(deferred=False, shares=())

_NOMINATED: Final = (PodState.NOMINATED, PodState.RESERVED_NOMINATED)
_KEEPS_QUOTA: Final = (*_NOMINATED, PodState.RESERVED)


@dataclass(slots=True, eq=False, repr=False)
class PodRecord:
    """One pod."""

    uid: str
    pod: Pod
    namespace: Namespace
    deferred: bool
    """Whether the pod was gated once."""
    state: PodState = PodState.WAITING
    counts_until: float | None = None
    """Wall clock second after which a terminating pod no longer counts."""
    expired: bool = False
    """Whether `counts_until` has passed."""
    foreign: bool = False
    """Whether another active scheduler is about to bind the pod."""
    usage: Usage | None = None
    """Computed on first use, when the namespace has a quota."""
    request: QuotaRequest = NOTHING
    together: Together | None = None
    """The group for which the pod is held, as its leader; None: it is held on its own."""
    leader: PodRecord | None = None
    """The leader of the pod's held group; None: the pod follows no other."""
    order: Order | None = None
    """Position among the held pods; None if the pod is not among them."""
    held_since: float | None = None
    """Wall clock second since which a quota holds the pod; None after it was admitted."""
    reported: Pairs = frozenset()
    """The violations reported last; empty if nodes have rejected the pod since."""

    @property
    def nominated(self) -> bool:
        """Whether quota is reserved for the pod's nomination."""
        return self.state in _NOMINATED

    @property
    def ended(self) -> bool:
        """Whether the pod no longer counts, in any state."""
        return self.expired or self.state is PodState.FINISHED

    @property
    def held(self) -> bool:
        """Whether a quota holds the pod, or its group."""
        leader = self.leader
        return self.order is not None or (leader is not None and leader.order is not None)

    @property
    def role(self) -> Role | None:
        """The role of the pod's charge; None: none (docs/deferred-quota.md, "The rules")."""
        if self.ended:
            return None
        if self.state is PodState.BOUND:
            return Role.ASSIGNED
        if self.foreign or self.state in _KEEPS_QUOTA:
            return Role.RESERVED
        return None if self.deferred else Role.PENDING

    def charges(self) -> list[tuple[Account, Amounts, Role | None]]:
        """Return (account, amounts, role) for each account that covers the pod; None: no charge.

        A pod without gates is charged from its creation on, like by the API server, but not while a
        quota holds it or its group, or is too small for it even when empty: it would keep others
        from running without running itself. Built-in names are charged by the API server.
        """
        role, shares = self.role, self.request.shares
        if role is Role.PENDING and (
            self.held or any(account.exceeds(amounts) for account, amounts in shares)
        ):
            return [(each, amounts, role if each.native else None) for each, amounts in shares]
        return [(account, amounts, role) for account, amounts in shares]


class WaitQueues:
    """The held pods of a namespace.

    Invariant: a held pod is in exactly one queue; entries of removed pods are dropped when they
    reach the head.
    """

    def __init__(self) -> None:
        self._held: dict[str, PodRecord] = {}
        self._queues: dict[QuotaRequest, list[tuple[Order, str]]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[PodRecord]:
        return iter(self._held.values())

    def add(self, pod: PodRecord) -> None:
        """Put a pod with an `order` into the queue of its request; call again if that changes."""
        assert pod.order is not None
        self._held[pod.uid] = pod
        heapq.heappush(self._queues.setdefault(pod.request, []), (pod.order, pod.uid))

    def discard(self, uid: str) -> None:
        """Remove a pod."""
        if self._held.pop(uid, None) is not None and not self._held:
            self._queues.clear()

    def release(
        self, concerns: Callable[[QuotaRequest], bool], admit: Callable[[PodRecord], bool]
    ) -> list[PodRecord]:
        """Remove and return pods in order, as long as `admit` accepts the head of a queue.

        Queues that `concerns` rejects are skipped. A pod that is not admitted keeps its position,
        and so do the pods behind it in its queue, which have the same request.
        """
        heads: list[tuple[Order, int, QuotaRequest]] = []
        for number, request in enumerate([each for each in self._queues if concerns(each)]):
            head = self._head(request)
            if head is not None:
                heads.append((head, number, request))
        heapq.heapify(heads)
        released: list[PodRecord] = []
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


@dataclass(slots=True, eq=False, repr=False)
class Namespace:
    """The quotas and pods of a namespace."""

    name: str
    pods: dict[str, PodRecord] = field(default_factory=dict)
    accounts: dict[str, Account] = field(default_factory=dict)
    """Accounts by name of the quota, sorted by name."""
    devices: Usage = field(default_factory=dict)
    """Usage of device claims."""
    wait_queues: WaitQueues = field(default_factory=WaitQueues)
    freed: set[Account] = field(default_factory=set)
    """Accounts in which something was freed since the last release."""
    released: dict[str, float] = field(default_factory=dict)
    """UIDs of released pods that were not attempted yet, with the wall clock second of release."""
    window_open: bool = False
    """Whether a release window is open, at whose end released pods count as not using the quota."""
    overrelease: int = 0
    """Number of pods that the next release admits in addition to those that fit together."""
    starving: dict[str, float] = field(default_factory=dict)
    """UIDs of pods that only quota keeps from a node, with the wall clock second since when."""
    awaiting_claim: dict[str, None] = field(default_factory=dict)
    """Pods that fit the quotas and no node, but not on top of the claims of others."""

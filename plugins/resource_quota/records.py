"""The ledger's records: its pods, its namespaces, and the queues of held pods.

10,000 held pods must cost nothing while nothing concerns them, and one freed unit must not wake all
of them. So a namespace has one queue per request (which quotas, how much of each), each in queue
order (priority, then the time the pods were held), and a release takes pods from the heads.
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
"""UID, state, whether it was gated once, whether a quota holds it, and since when."""


Room = tuple[tuple[Account, Amounts], ...]
"""Amounts by account."""


class Together(NamedTuple):
    """The pods of a group, some of which need quota at the same time."""

    uids: tuple[str, ...]
    need: int
    room: Room | None = None
    """What was free when they were tried in vain; None: they were not tried."""


class QuotaRequest(NamedTuple):
    """The facts that decide whether a held pod fits, except its own charges."""

    deferred: bool
    shares: Room
    """The amounts the pod takes from each quota that covers it."""
    together: Together | None = None
    """Set if it needs quota for other pods as well."""


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
    """Wall clock second after which a pod that is being deleted counts no more."""
    expired: bool = False
    """Whether that has passed."""
    foreign: bool = False
    """Whether another active scheduler is about to bind the pod."""
    usage: Usage | None = None
    """None until a quota of the namespace made it necessary."""
    request: QuotaRequest = NOTHING
    together: Together | None = None
    """The group for which it was held; None: it was held for itself."""
    leader: PodRecord | None = None
    """The pod that was held for its group; None: no other pod was."""
    order: Order | None = None
    """Position among the held pods; None while it is not among them."""
    held_since: float | None = None
    """Wall clock second since which a quota has held it; None once it was admitted."""
    reported: Pairs = frozenset()
    """The violations reported last; empty when the nodes rejected the pod since."""

    @property
    def nominated(self) -> bool:
        """Whether quota is kept for the pod's nomination."""
        return self.state in _NOMINATED

    @property
    def ended(self) -> bool:
        """Whether the pod counts no more, wherever it was."""
        return self.expired or self.state is PodState.FINISHED

    @property
    def held(self) -> bool:
        """Whether a quota holds the pod, or its group."""
        leader = self.leader
        return self.order is not None or (leader is not None and leader.order is not None)

    @property
    def role(self) -> Role | None:
        """The way the pod counts now; None if it does not (docs/deferred-quota.md, "The rules")."""
        if self.ended:
            return None
        if self.state is PodState.BOUND:
            return Role.ASSIGNED
        if self.foreign or self.state in _KEEPS_QUOTA:
            return Role.RESERVED
        return None if self.deferred else Role.PENDING

    def charges(self) -> list[tuple[Account, Amounts, Role | None]]:
        """Return how the pod counts in each account that covers it; None if it does not.

        A pod without gates is charged from its creation on, as the API server does, but not while
        a quota holds it or its group, or is too small for it even when empty: it would keep others
        from running and not run itself. Built-in names are charged by the API server.
        """
        role, shares = self.role, self.request.shares
        if role is Role.PENDING and (
            self.held or any(account.exceeds(amounts) for account, amounts in shares)
        ):
            return [(each, amounts, role if each.native else None) for each, amounts in shares]
        return [(account, amounts, role) for account, amounts in shares]


class WaitQueues:
    """The held pods of a namespace.

    Invariant: a held pod is in exactly one queue; entries of pods that left are dropped when they
    come to the head.
    """

    def __init__(self) -> None:
        self._held: dict[str, PodRecord] = {}
        self._queues: dict[QuotaRequest, list[tuple[Order, str]]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[PodRecord]:
        return iter(self._held.values())

    def add(self, pod: PodRecord) -> None:
        """Put a pod with an `order` into the queue of its request; again when that changed."""
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
    """By name of the quota, sorted by it."""
    devices: Usage = field(default_factory=dict)
    """What claims of devices take."""
    wait_queues: WaitQueues = field(default_factory=WaitQueues)
    freed: set[Account] = field(default_factory=set)
    """Accounts in which something was freed since the last release."""
    released: dict[str, float] = field(default_factory=dict)
    """Released pods whose attempt is still to come, with the wall clock second of the release."""
    window_open: bool = False
    """Whether a time is set at which released pods have had time to use the quota."""
    overrelease: int = 0
    """How many more pods than fit together the next release lets out."""
    starving: dict[str, float] = field(default_factory=dict)
    """Pods that quota alone keeps from a node, with the wall clock second since which it does."""
    awaiting_claim: dict[str, None] = field(default_factory=dict)
    """Pods that fit the quotas and no node, but not on top of the claims of others."""

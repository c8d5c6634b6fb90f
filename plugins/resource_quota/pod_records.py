"""The ledger's record of one pod, and the quotas and pods of one namespace."""

from __future__ import annotations

from typing import Final

from plugins.resource_quota.accounts import Account, Role
from plugins.resource_quota.lifecycle import PodState
from plugins.resource_quota.messages import Pairs
from plugins.resource_quota.usage import Usage
from plugins.resource_quota.wait_queues import Order, QuotaRequest, WaitQueues
from scheduler.api.pod import Pod

NOTHING: Final = QuotaRequest(deferred=False, shares=())

_NOMINATED: Final = (PodState.NOMINATED, PodState.RESERVED_NOMINATED)
_KEEPS_QUOTA: Final = (*_NOMINATED, PodState.RESERVED)


class PodRecord:
    """One pod. Owned by the ledger."""

    __slots__ = (
        "counts_until",
        "deferred",
        "expired",
        "foreign",
        "held_since",
        "namespace",
        "order",
        "pod",
        "reported",
        "request",
        "state",
        "uid",
        "usage",
    )

    def __init__(self, pod: Pod, namespace: Namespace, *, deferred: bool) -> None:
        self.uid = pod.metadata.uid
        self.pod = pod
        self.namespace = namespace
        #: Whether the pod was gated once.
        self.deferred = deferred
        self.state = PodState.WAITING
        #: Wall clock second after which a pod that is being deleted counts no more, and whether
        #: that has passed.
        self.counts_until: float | None = None
        self.expired = False
        #: Another active scheduler is about to bind it.
        self.foreign = False
        #: None until a quota of the namespace made it necessary.
        self.usage: Usage | None = None
        self.request = NOTHING
        #: Position among the held pods; None while it is not among them.
        self.order: Order | None = None
        #: Wall clock second since which a quota has held it; None once it was admitted.
        self.held_since: float | None = None
        #: The violations reported last; empty when the nodes rejected the pod since.
        self.reported: Pairs = frozenset()

    @property
    def nominated(self) -> bool:
        """Whether quota is kept for the pod's nomination."""
        return self.state in _NOMINATED

    @property
    def ended(self) -> bool:
        """Whether the pod counts no more, wherever it was."""
        return self.expired or self.state is PodState.FINISHED

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

    def role_in(self, account: Account) -> Role | None:
        """Return how the pod counts in one account; None if it does not.

        A pod without gates is charged from its creation on, as the API server does, but not while
        a quota holds it, or is too small for it even when empty: it would keep others from running
        and not run itself. Built-in names are charged by the API server.
        """
        role = self.role
        if role is not Role.PENDING or account.native:
            return role
        too_large = any(other.exceeds(amounts) for other, amounts in self.request.shares)
        return None if too_large or self.order is not None else role


class Namespace:
    """The quotas and pods of a namespace. Owned by the ledger and its parts."""

    __slots__ = (
        "accounts",
        "awaiting_claim",
        "freed",
        "name",
        "overrelease",
        "pods",
        "released",
        "starving",
        "wait_queues",
        "window_open",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.pods: dict[str, PodRecord] = {}
        #: By name of the quota, sorted by it.
        self.accounts: dict[str, Account] = {}
        self.wait_queues: WaitQueues[PodRecord] = WaitQueues()
        #: Accounts in which something was freed since the last release.
        self.freed: set[Account] = set()
        #: Released pods whose attempt is still to come, with the wall clock second of the release.
        self.released: dict[str, float] = {}
        #: Whether a time is set at which released pods have had time to use the quota.
        self.window_open = False
        #: How many more pods than fit together the next release lets out.
        self.overrelease = 0
        #: Pods that quota alone keeps from a node, with the wall clock second since which it does.
        self.starving: dict[str, float] = {}
        #: Pods that fit the quotas and no node, but not on top of the claims of others.
        self.awaiting_claim: dict[str, None] = {}

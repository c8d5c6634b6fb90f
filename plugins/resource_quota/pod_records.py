"""What the ledger knows of one pod, and the quotas and held pods of one namespace."""

from __future__ import annotations

from plugins.resource_quota.accounts import Account, Role
from plugins.resource_quota.messages import Pairs
from plugins.resource_quota.usage import Usage
from plugins.resource_quota.wait_queues import Order, QuotaRequest, WaitQueues
from scheduler.api.pod import Pod

NOTHING = QuotaRequest(deferred=False, shares=())


class PodRecord:
    """One pod. Owned by the ledger."""

    __slots__ = (
        "deferred",
        "ended",
        "ends",
        "expired",
        "foreign",
        "had_booking",
        "held_since",
        "nominated",
        "order",
        "pod",
        "released_at",
        "reported",
        "request",
        "reserved",
        "starved_since",
        "too_large",
        "uid",
        "usage",
    )

    def __init__(self, pod: Pod) -> None:
        """A pod seen for the first time."""
        self.uid = pod.metadata.uid
        self.pod = pod
        self.deferred = False
        #: It has finished, or is gone, and counts no more.
        self.ended = False
        #: Wall clock second at which it counts no more, while it is being deleted; and whether that
        #: is over.
        self.ends: float | None = None
        self.expired = False
        #: Between Reserve and the sight of the binding.
        self.reserved = False
        #: Another active scheduler is about to bind it.
        self.foreign = False
        #: It is nominated and quota is kept for it.
        self.nominated = False
        #: Quota was kept for it until its nomination ended, and it has not been judged since.
        self.had_booking = False
        #: None until a quota of the namespace made it necessary.
        self.usage: Usage | None = None
        self.request = NOTHING
        #: It asks for more than a limit that only we enforce: it does not fit an empty quota.
        self.too_large = False
        #: Place among the held pods; None while it is not held.
        self.order: Order | None = None
        #: When the gate was closed before it; None while it is open.
        self.held_since: float | None = None
        #: Since when only quota has kept it from a node; an attempt at the nodes ends that.
        self.starved_since: float | None = None
        #: What was violated when the pod was told last; empty when it was let through since.
        self.reported: Pairs = frozenset()
        #: When it was let out of the held pods, until what becomes of it is known.
        self.released_at: float | None = None

    @property
    def role(self) -> Role | None:
        """How the pod counts now; None: not at all (the table of 2.6)."""
        if self.ended or self.expired:
            return None
        if self.pod.spec.node_name:
            return Role.ASSIGNED
        if self.reserved or self.nominated or self.foreign:
            return Role.RESERVED
        return None if self.deferred else Role.PENDING


def role_in(record: PodRecord, account: Account) -> Role | None:
    """How the pod counts in one account; None: not at all.

    A pod that was never gated is charged from its creation on, as the API server does, but not
    while a quota keeps it from running: it would keep others from running as well, for nothing.
    Built-in names are the API server's to charge.
    """
    role = record.role
    if role is not Role.PENDING or account.native:
        return role
    return None if record.too_large or record.order is not None else role


class Namespace:
    """The quotas of a namespace and its pods."""

    __slots__ = (
        "accounts",
        "awaiting_claim",
        "dirty",
        "name",
        "overrelease",
        "pods",
        "released",
        "starving",
        "wait_queues",
        "window_open",
    )

    def __init__(self, name: str) -> None:
        """Without pods and quotas."""
        self.name = name
        self.pods: dict[str, PodRecord] = {}
        #: By name of the quota, sorted by it.
        self.accounts: dict[str, Account] = {}
        self.wait_queues: WaitQueues[PodRecord] = WaitQueues()
        #: Accounts in which something was freed since the last release.
        self.dirty: set[Account] = set()
        #: Pods let out whose attempt is still to come.
        self.released: dict[str, PodRecord] = {}
        #: Whether a time is set at which released pods have had their chance.
        self.window_open = False
        #: Pods that wait for quota, by the time they began to; some may have left since.
        self.starving: dict[str, float] = {}
        #: Pods that fit the quotas and no node, and leave the quotas to those that claimed them.
        self.awaiting_claim: dict[str, None] = {}
        #: How many more than fit together are let out at the next release.
        self.overrelease = 0

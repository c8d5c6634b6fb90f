"""Claims: decide which pods get the reason Unschedulable, so that autoscalers add nodes for them.

A deferred pod that fits the quota but no node claims the quota that it would use (`claimPending`).
A pod that does not fit on top of earlier claims is reported as held by quota instead, and awaits a
claim. Claims affect only the reported reason; they never keep a pod from a node. When other pods
take the quota, claims that no longer fit are withdrawn, the newest first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from plugins.resource_quota.accounts import Account
from plugins.resource_quota.callbacks import LedgerCallbacks
from plugins.resource_quota.checks import add_request, check
from plugins.resource_quota.messages import Violation
from plugins.resource_quota.records import Namespace, PodRecord
from scheduler.api.pod import Pod

MAX_MISFITS: Final = 16
"""Number of pods that do not fit after which `take_claimable` stops."""


class Claims:
    """Part of the ledger, which owns the accounts and records changed here."""

    def __init__(
        self,
        namespaces: Mapping[str, Namespace],
        pods: Mapping[str, PodRecord],
        callbacks: LedgerCallbacks,
    ) -> None:
        self._namespaces = namespaces
        self._pods = pods
        self._callbacks = callbacks

    def add(self, uid: str) -> None:
        """Add the claim of a deferred pod that fits the quota but no node."""
        record = self._pods.get(uid)
        if record is not None and record.deferred and record.role is None:
            record.namespace.awaiting_claim.pop(uid, None)
            for account, amounts in record.request.shares:
                account.claim(uid, amounts)

    def remove(self, record: PodRecord) -> None:
        """Remove a pod's claim, and stop it from awaiting one."""
        record.namespace.awaiting_claim.pop(record.uid, None)
        for account, _ in record.request.shares:
            if record.uid in account.claims:
                account.claim(record.uid, None)
                self._callbacks.on_changed(account)

    def await_turn(self, uid: str) -> None:
        """Let a pod that fits the quotas and no node await a claim, since others claim too much."""
        record = self._pods.get(uid)
        if record is not None and record.role is None and record.order is None:
            record.namespace.awaiting_claim[uid] = None

    def violations(self, pod: Pod) -> Sequence[Violation]:
        """Return the limits that a deferred pod exceeds on top of earlier claims."""
        record = self._pods.get(pod.metadata.uid)
        if record is None or not record.deferred:
            return ()
        extra: dict[Account, Sequence[int]] = {}
        for account, _ in record.request.shares:
            if record.uid not in account.claims:
                extra[account] = account.claimed
                continue
            sums = [0] * len(account.limits)
            for uid, amounts in account.claims.items():
                if uid == record.uid:
                    break
                sums = [total + amount for total, amount in zip(sums, amounts, strict=True)]
            extra[account] = sums
        return check(record, extra)

    def withdraw(self, account: Account) -> Mapping[str, Sequence[Violation]]:
        """Withdraw claims, the newest first, until the others fit on top of the taken amounts.

        Returns by UID the limits that the pods without a claim now exceed.
        """
        over = account.overclaimed()
        withdrawn: list[PodRecord] = []
        for uid in reversed(list(account.claims)) if over else ():
            if any(account.claims[uid][index] for index in over):
                record = self._pods[uid]
                self.remove(record)
                self.await_turn(uid)
                withdrawn.append(record)
                over = account.overclaimed()
                if not over:
                    break
        found: dict[str, Sequence[Violation]] = {}
        for record in reversed(withdrawn):
            violations = self.violations(record.pod)
            if violations:
                found[record.uid] = violations
            else:
                # It is smaller than the pods whose claims were withdrawn, and still fits.
                self.add(record.uid)
        return found

    def take_claimable(self, account: Account) -> list[Pod]:
        """Return the first pods that await a claim and whose claims fit together in the rest.

        They stop awaiting a claim. Empty if nothing was freed since the last call.
        """
        if not account.freed:
            return []
        account.freed = False
        namespace = self._namespaces[account.namespace]
        extra = {each: [*each.claimed] for each in namespace.accounts.values()}
        pods: list[Pod] = []
        misfits = 0
        for uid in namespace.awaiting_claim:
            record = namespace.pods[uid]
            if check(record, extra):
                misfits += 1
                if misfits == MAX_MISFITS:
                    break
            else:
                add_request(extra, record.request)
                pods.append(record.pod)
        for pod in pods:
            del namespace.awaiting_claim[pod.uid]
        return pods

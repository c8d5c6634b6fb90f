"""The ledger: who uses how much of which quota, and who waits for it (KEP-5465 design 2.6-2.10).

It is told of pods, quotas, nominations and reservations, and answers three questions from memory:
what a pod would violate, whom to release, and what each quota's usage is. No I/O, no clock: whoever
needs time hands it in. One ledger serves all profiles of a process; it is touched from one loop.

Invariants, which `validate` checks by a full recount:
* a pod is in an account at most once, in one role (`accounts`);
* what is reserved was checked in the same step, so that assigned and reserved pods never exceed a
  limit unless others bound them, or the limit was lowered (Q7);
* a reservation ends with the sight of the binding, with `unreserve`, or with the pod.

Releases are not made where quota is freed, which may be deep in a scheduling cycle, but in
`run_due`, which the scheduling loop calls between cycles.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from plugins.resource_quota.accounts import (
    Account,
    QuotaMode,
    QuotaTerms,
    Role,
    read_terms,
)
from plugins.resource_quota.deferral import counts_until, is_deferred, is_terminal
from plugins.resource_quota.messages import Pairs, Violation, violated_pairs
from plugins.resource_quota.pod_records import NOTHING, Namespace, PodRecord, role_in
from plugins.resource_quota.recount import account_drift, misplaced_pods, sums_drift
from plugins.resource_quota.starvation_guard import StarvationGuard, yields_to
from plugins.resource_quota.usage import UsageCache
from plugins.resource_quota.wait_queues import QuotaRequest
from scheduler.api.pod import Pod
from scheduler.api.policy import ResourceQuota
from scheduler.api.requests import limits_differ

RELEASE_WINDOW: Final = 0.25
"""Seconds that pods which were let out have to use the quota, before more are let out."""
FIRST_OVERRELEASE: Final = 16
"""How many more than fit together are let out then; doubled each time, until one uses the quota."""
MAX_MISFITS: Final = 16
"""How many pods that do not fit are looked at, when something has become free to be claimed."""
EXPIRY_MARGIN: Final = 0.001
"""Seconds past a deadline that it takes for the deadline to be over."""

_Extra = dict[Account, list[int]]


class LedgerDriftError(AssertionError):
    """Incremental sums and a full recount differ: a bug. The text lists every difference."""


@dataclass(frozen=True, slots=True)
class LedgerStatistics:
    """A moment's view."""

    pods: int
    quotas: int
    """Quotas with a limit that is enforced here."""
    held: int
    """Pods that a quota holds."""
    reserved: int
    """Pods between Reserve and the sight of their binding, and nominated ones."""


class Ledger:
    """See the module's docstring. Callbacks are set by the host and must be quick."""

    def __init__(
        self,
        mode: QuotaMode = QuotaMode.DEFERRED_KEYS,
        *,
        hold_after: float | None = None,
        max_hold: float = 1800.0,
    ) -> None:
        """Seconds of `holdAfter` (None: no fairness) and `maxHold`."""
        self.mode = mode
        #: Whether all pods and quotas are known; until then nothing is let through.
        self.synced = False
        self._namespaces: dict[str, Namespace] = {}
        self._pods: dict[str, PodRecord] = {}
        self._usage = UsageCache()
        self._ends: list[tuple[float, str]] = []
        #: (time, namespace) at which released pods have had their chance.
        self._windows: list[tuple[float, str]] = []
        self._dirty: set[str] = set()
        self._sequence = 0
        #: Let in before everything was known, in that order.
        self._unsynced: dict[str, None] = {}
        #: By quota: pods that other active schedulers are about to bind.
        self._foreign: dict[tuple[str, str], frozenset[str]] = {}
        #: `on_release(uids)`: these may pass now, in this order; run PreEnqueue for them.
        self.on_release: Callable[[Sequence[str]], None] = lambda _uids: None
        #: `on_recheck(uids)`: these were let in before all was known, and should not have been.
        self.on_recheck: Callable[[Sequence[str]], None] = lambda _uids: None
        #: `on_changed(account)`: the account's sums have changed, or it is new.
        self.on_changed: Callable[[Account], None] = lambda _account: None
        #: `on_forgotten(account)`: its quota is gone or asks for something else now.
        self.on_forgotten: Callable[[Account], None] = lambda _account: None
        #: `on_overcommitted(account)`: more is taken than allowed, by a binding that was not ours,
        #: a resize, or (after a start) before we came.
        self.on_overcommitted: Callable[[Account], None] = lambda _account: None
        #: Called when `next_due` moved to an earlier time.
        self.on_timer: Callable[[], None] = lambda: None
        self._starvation_guard = StarvationGuard(
            hold_after, max_hold, check=self._check, free=self._free, on_timer=self._timer_moved
        )

    # -- what is told ----------------------------------------------------------------------------

    def observe(self, pod: Pod, *, once_gated: bool = False) -> None:
        """A pod as it is now: new or changed. `once_gated`: it was, whatever the object says."""
        uid = pod.metadata.uid
        record = self._pods.get(uid)
        if record is None:
            record = self._pods[uid] = PodRecord(pod)
            self._space(pod.metadata.namespace).pods[uid] = record
            record.deferred = once_gated or is_deferred(pod, None)
            record.foreign = self._is_foreign(uid)
        elif record.pod is pod:
            return
        else:
            same = _same_terms(record.pod, pod)
            record.pod = pod
            record.deferred = is_deferred(pod, record.deferred)
            if not same:
                record.usage = None
        space = self._namespaces[pod.metadata.namespace]
        record.ended = is_terminal(pod)
        self._watch_end(record)
        if pod.spec.node_name:
            record.reserved = record.nominated = False
        self._reconcile(space, record)
        # It may have grown: what is kept for it must be granted anew.
        self._renew_nomination(record)
        if pod.spec.node_name or record.ended:
            self._dequeue(space, record)
            self._settled(space, record)
            self._starvation_guard.satisfied(space, record)
            self._unclaim(record)

    def observe_newer(self, pod: Pod) -> None:
        """As `observe`, unless what is known is newer: for callers that may hold an old object."""
        record = self._pods.get(pod.metadata.uid)
        if record is None or (record.pod is not pod and _newer(pod, record.pod)):
            self.observe(pod)

    def forget(self, uid: str) -> None:
        """The pod is gone, or has left the watch because it has finished."""
        record = self._pods.pop(uid, None)
        if record is None:
            return
        namespace = record.pod.metadata.namespace
        space = self._namespaces[namespace]
        record.ended = True
        self._reconcile(space, record)
        self._dequeue(space, record)
        self._settled(space, record)
        self._starvation_guard.satisfied(space, record)
        self._unclaim(record)
        del space.pods[uid]
        self._unsynced.pop(uid, None)
        self._prune(space)

    def set_quota(self, quota: ResourceQuota) -> QuotaTerms:
        """A quota as it is now. Returns what was read, for findings to be reported."""
        meta = quota.metadata
        space = self._space(meta.namespace)
        terms = read_terms(quota, self.mode)
        old = space.accounts.get(meta.name)
        fresh = Account(quota, terms) if terms.limits else None
        if old is not None and fresh is not None and _same_scopes_and_names(old, fresh):
            self._change_limits(space, old, terms)
            return terms
        self._replace(space, meta.name, fresh)
        self._prune(space)
        return terms

    def remove_quota(self, namespace: str, name: str) -> None:
        """A quota is gone; pods it held and reservations in it are free (O5)."""
        space = self._namespaces.get(namespace)
        if space is not None:
            self._replace(space, name, None)
            self._prune(space)

    def mark_synced(self) -> None:
        """All pods and quotas are known: those that were turned down until now may try."""
        for record in self._pods.values():
            self._renew_nomination(record)
        self.synced = True
        for space in self._namespaces.values():
            for account in space.accounts.values():
                self._note_commitment(account)
                self.on_changed(account)
        self.on_timer()

    def nominate(self, pod: Pod, node_name: str) -> None:
        """A pod is nominated, or (empty name) no longer. Deferred pods keep quota while they are.

        Without that, victims die and a smaller pod takes the quota (2.9). Nothing is kept where it
        does not fit. The engine ends the nomination just before Reserve, which honours it still.
        """
        record = self._pods.get(pod.metadata.uid)
        if record is None or bool(node_name) == record.nominated:
            return
        if node_name:
            record.had_booking = False
            if record.pod.spec.node_name or not record.deferred or self._check(record):
                return
            record.nominated = True
        else:
            record.nominated, record.had_booking = False, True
        self._reconcile(self._namespaces[record.pod.metadata.namespace], record)

    # -- the plugin's questions ------------------------------------------------------------------

    def deferred(self, pod: Pod) -> bool:
        """Whether the pod was gated once."""
        record = self._pods.get(pod.metadata.uid)
        return is_deferred(pod, None) if record is None else record.deferred

    def known(self, uid: str) -> bool:
        """Whether the pod is in the ledger."""
        return uid in self._pods

    def holds(self, uid: str) -> bool:
        """Whether a quota holds the pod."""
        record = self._pods.get(uid)
        return record is not None and record.order is not None

    def limits_pods_of(self, namespace: str) -> bool:
        """Whether any quota of the namespace is enforced here."""
        space = self._namespaces.get(namespace)
        return space is not None and bool(space.accounts)

    def violations(self, pod: Pod) -> Sequence[Violation]:
        """What the pod would violate now, never counting the pod itself; changes nothing."""
        space = self._namespaces.get(pod.metadata.namespace)
        if space is None or not space.accounts:
            return ()
        record = self._pods.get(pod.metadata.uid)
        if record is None:
            record = PodRecord(pod)
            record.deferred = is_deferred(pod, None)
            record.request = self._request_of(space, record)
        return self._check(record)

    def violations_with(
        self, pod: Pod, account: Account, amounts: Sequence[int]
    ) -> Sequence[Violation]:
        """As `violations`, with so much more taken from one account, by limit."""
        record = self._pods.get(pod.metadata.uid)
        return () if record is None else self._check(record, {account: list(amounts)})

    def set_foreign(self, key: tuple[str, str], uids: frozenset[str]) -> None:
        """Other active schedulers have booked these pods, and no others, in a quota."""
        before = self._foreign.get(key, frozenset())
        if uids == before:
            return
        if uids:
            self._foreign[key] = uids
        else:
            del self._foreign[key]
        for uid in before ^ uids:
            record = self._pods.get(uid)
            if record is not None:
                record.foreign = self._is_foreign(uid)
                self._reconcile(self._namespaces[record.pod.metadata.namespace], record)

    def _is_foreign(self, uid: str) -> bool:
        return any(uid in uids for uids in self._foreign.values())

    def reserve(self, pod: Pod) -> Sequence[Violation]:
        """Check and book in one step; violations mean that nothing was booked.

        A pod that is not known is gone: its binding will fail, so there is nothing to book.
        """
        record = self._pods.get(pod.metadata.uid)
        if record is None:
            return ()
        found = self._check(record, had_booking=record.had_booking)
        record.had_booking = False
        if not found:
            space = self._namespaces[record.pod.metadata.namespace]
            record.reserved = True
            self._reconcile(space, record)
            self._dequeue(space, record)
            self._starvation_guard.satisfied(space, record)
            self._unclaim(record)
            if record.released_at is not None:
                del space.released[record.uid]
                record.released_at = None
                space.overrelease = 0
        return found

    def reserve_unchecked(self, uid: str) -> None:
        """Book what a pod was let through with before any quota asked; may overcommit."""
        record = self._pods.get(uid)
        if record is not None and not record.pod.spec.node_name:
            record.reserved = True
            self._reconcile(self._namespaces[record.pod.metadata.namespace], record)

    def unreserve(self, uid: str) -> None:
        """Undo `reserve`; may be called at any time, any number of times."""
        record = self._pods.get(uid)
        if record is None:
            return
        record.had_booking = False
        if record.reserved:
            record.reserved = False
            self._reconcile(self._namespaces[record.pod.metadata.namespace], record)

    # -- held pods -------------------------------------------------------------------------------

    def hold(self, uid: str, violations: Sequence[Violation], now: float) -> bool:
        """The gate is closed before a pod. Returns whether to tell people: the set is new."""
        record = self._pods.get(uid)
        if record is None:
            return False
        space = self._namespaces[record.pod.metadata.namespace]
        record.had_booking = False
        if record.nominated:
            # What was kept for it does not fit any more, and others could use some of it.
            record.nominated = False
            self._reconcile(space, record)
        self._settled(space, record)
        if record.order is None:
            self._sequence += 1
            record.order = (-record.pod.priority, self._sequence)
            space.wait_queues.add(record)
            # Charged nothing while it is held, unless that is so anyway.
            self._reconcile(space, record)
        if record.held_since is None:
            record.held_since = now
        self._unclaim(record)
        self._starvation_guard.wait(space, record, now)
        return self.report_change(record, violated_pairs(violations))

    def report_change(self, record: PodRecord, violated: Pairs) -> bool:
        """Whether what is violated differs from what was said last; it counts as said then."""
        if record.reported == violated:
            return False
        record.reported = violated
        return True

    def recheck_after_sync(self, uid: str) -> None:
        """The pod was let in although not everything is known yet: look again then."""
        self._unsynced[uid] = None

    def admit(self, uid: str, now: float) -> float | None:
        """The gate is open for a pod. Returns the seconds it was held, None if it was not."""
        record = self._pods.get(uid)
        if record is None or record.held_since is None:
            return None
        self._dequeue(self._namespaces[record.pod.metadata.namespace], record)
        since, record.held_since = record.held_since, None
        return max(0.0, now - since)

    def attempted(self, uid: str) -> None:
        """The pod's attempt has failed for another reason than quota: others may try."""
        record = self._pods.get(uid)
        if record is not None:
            space = self._namespaces[record.pod.metadata.namespace]
            record.reported = frozenset()
            record.had_booking = False
            self._settled(space, record)
            self._starvation_guard.satisfied(space, record)

    def claim(self, uid: str) -> None:
        """A deferred pod fits the quota and no node: note its claim, for `claim_violations`."""
        record = self._pods.get(uid)
        if record is not None and record.deferred and record.role is None:
            self._namespaces[record.pod.metadata.namespace].awaiting_claim.pop(uid, None)
            for account, amounts in record.request.shares:
                account.claim(uid, amounts)

    def withdraw_claims(self, account: Account) -> Mapping[str, Sequence[Violation]]:
        """Take claims back, the newest first, until the others fit beside what is taken.

        Somebody without a claim has taken the quota: who claimed it needs no node any more. Returns
        what they would violate now, by UID.
        """
        over = account.overclaimed()
        withdrawn: list[PodRecord] = []
        for uid in reversed(list(account.claims)) if over else ():
            if any(account.claims[uid][index] for index in over):
                record = self._pods[uid]
                self._unclaim(record)
                self.await_claim(uid)
                withdrawn.append(record)
                over = account.overclaimed()
                if not over:
                    break
        found: dict[str, Sequence[Violation]] = {}
        for record in reversed(withdrawn):
            violations = self.claim_violations(record.pod)
            if violations:
                found[record.uid] = violations
            else:
                # A smaller one than those that had to go.
                self.claim(record.uid)
        return found

    def await_claim(self, uid: str) -> None:
        """A pod fits the quotas and no node, but others have claimed what it would take."""
        record = self._pods.get(uid)
        if record is not None and record.role is None and record.order is None:
            self._namespaces[record.pod.metadata.namespace].awaiting_claim[uid] = None

    def take_claimable(self, account: Account) -> list[Pod]:
        """Those that stood back, the first ones, as many as could claim what is left together."""
        if not account.freed:
            return []
        account.freed = False
        space = self._namespaces[account.namespace]
        extra: _Extra = {each: [*each.claimed] for each in space.accounts.values()}
        pods: list[Pod] = []
        refused = 0
        for uid in space.awaiting_claim:
            record = space.pods[uid]
            if self._check(record, extra):
                refused += 1
                if refused == MAX_MISFITS:
                    break
            else:
                _add(extra, record.request)
                pods.append(record.pod)
        for pod in pods:
            del space.awaiting_claim[pod.uid]
        return pods

    def pod(self, uid: str) -> Pod | None:
        """The pod as it was seen last."""
        record = self._pods.get(uid)
        return None if record is None else record.pod

    def claim_violations(self, pod: Pod) -> Sequence[Violation]:
        """What a deferred pod would violate on top of the claims of others, made before its own."""
        record = self._pods.get(pod.metadata.uid)
        if record is None or not record.deferred:
            return ()
        extra: _Extra = {}
        for account, _ in record.request.shares:
            if record.uid not in account.claims:
                extra[account] = account.claimed
                continue
            sums = [0] * len(account.limits)
            for uid, amounts in account.claims.items():
                if uid == record.uid:
                    break
                for index, amount in enumerate(amounts):
                    sums[index] += amount
            extra[account] = sums
        return self._check(record, extra)

    # -- time ------------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """Wall clock second at which `run_due` has something to do; 0: now, None: never."""
        if self._dirty or (self.synced and self._unsynced):
            return 0.0
        while self._ends and not self._awaited(*self._ends[0]):
            heapq.heappop(self._ends)
        times = [heap[0][0] for heap in (self._ends, self._windows) if heap]
        turn = self._starvation_guard.next_due()
        if turn is not None:
            times.append(turn)
        return min(times, default=None)

    def run_due(self, now: float) -> None:
        """End what is over by the clock, and release pods that may fit now."""
        while self._ends and self._ends[0][0] <= now:
            due, uid = heapq.heappop(self._ends)
            if self._awaited(due, uid):
                record = self._pods[uid]
                record.expired = True
                self._reconcile(self._namespaces[record.pod.metadata.namespace], record)
        while self._windows and self._windows[0][0] <= now:
            self._close_window(heapq.heappop(self._windows)[1], now)
        self._starvation_guard.run_due(self._namespaces, now)
        if self.synced and self._unsynced:
            waiting, self._unsynced = self._unsynced, {}
            records = (self._pods.get(uid) for uid in waiting)
            self.on_recheck([each.uid for each in records if each and self._check(each)])
        dirty, self._dirty = self._dirty, set()
        for name in sorted(dirty):
            space = self._namespaces.get(name)
            if space is not None:
                self._release(space, now)

    # -- inspection ------------------------------------------------------------------------------

    def accounts(self) -> Iterator[Account]:
        """Every account, by namespace and name."""
        for name in sorted(self._namespaces):
            yield from self._namespaces[name].accounts.values()

    def account(self, namespace: str, name: str) -> Account | None:
        """The account of a quota, None if nothing of it is enforced here."""
        space = self._namespaces.get(namespace)
        return None if space is None else space.accounts.get(name)

    def accounts_of(self, pod: Pod) -> Iterator[Account]:
        """Accounts of quotas that cover the pod and limit what it asks for."""
        record = self._pods.get(pod.metadata.uid)
        if record is not None:
            yield from (account for account, _ in record.request.shares)

    def uncharged(self, account: Account) -> list[int]:
        """What deferred pods that count nowhere yet ask for, by limit; O(pods of the namespace)."""
        sums = [0] * len(account.limits)
        space = self._namespaces.get(account.namespace)
        for record in () if space is None else space.pods.values():
            if record.deferred and record.role is None and not (record.ended or record.expired):
                for other, amounts in record.request.shares:
                    if other is account:
                        sums = [a + b for a, b in zip(sums, amounts, strict=True)]
        return sums

    def published(self, namespace: str, name: str) -> Mapping[str, str]:
        """`status.used` of a quota's deferred keys as it should be; empty for unknown quotas."""
        account = self.account(namespace, name)
        return {} if account is None else account.published()

    def held(self, namespace: str) -> int:
        """How many pods of a namespace quotas hold."""
        space = self._namespaces.get(namespace)
        return 0 if space is None else len(space.wait_queues)

    def reserved(self) -> Iterator[str]:
        """UIDs of pods between Reserve and the sight of their binding, and of nominated ones."""
        for uid, record in self._pods.items():
            if record.role is Role.RESERVED:
                yield uid

    def statistics(self) -> LedgerStatistics:
        """Counts; O(pods)."""
        return LedgerStatistics(
            pods=len(self._pods),
            quotas=sum(len(space.accounts) for space in self._namespaces.values()),
            held=sum(len(space.wait_queues) for space in self._namespaces.values()),
            reserved=sum(1 for _ in self.reserved()),
        )

    def drift(self) -> list[str]:
        """Differences between what is kept and a full recount from the pods; empty: none."""
        return sums_drift(self._namespaces)

    def drift_of(self, account: Account) -> list[str]:
        """As `drift`, for one account; empty as well when it is an account no longer."""
        space = self._namespaces.get(account.namespace)
        if space is None or space.accounts.get(account.name) is not account:
            return []
        return account_drift(space, account)

    def validate(self) -> None:
        """Raise LedgerDriftError if a full recount differs, or a held pod is out of place."""
        found = self.drift() + misplaced_pods(self._namespaces, self._pods, self._request_of)
        if found:
            raise LedgerDriftError("\n".join(found))

    # -- keeping accounts ------------------------------------------------------------------------

    def _space(self, namespace: str) -> Namespace:
        space = self._namespaces.get(namespace)
        if space is None:
            space = self._namespaces[namespace] = Namespace(namespace)
        return space

    def _prune(self, space: Namespace) -> None:
        if not space.pods and not space.accounts:
            self._namespaces.pop(space.name, None)

    def _request_of(self, space: Namespace, record: PodRecord) -> QuotaRequest:
        if not space.accounts:
            return NOTHING
        if record.usage is None:
            record.usage = self._usage.of(record.pod)
        shares = []
        for account in space.accounts.values():
            amounts = account.amounts(record.usage)
            if any(amounts) and account.covers(record.pod):
                shares.append((account, amounts))
        return QuotaRequest(record.deferred, tuple(shares))

    def _reconcile(self, space: Namespace, record: PodRecord) -> None:
        """Bring every account to what the record says."""
        old = record.request
        record.request = new = self._request_of(space, record)
        record.too_large = any(account.exceeds(amounts) for account, amounts in new.shares)
        kept = {account for account, _ in new.shares}
        for account, _ in old.shares:
            if account not in kept:
                self._set_charge(space, account, record.uid, None, ())
                account.claim(record.uid, None)
        for account, amounts in new.shares:
            role = role_in(record, account)
            self._set_charge(space, account, record.uid, role, amounts)
            if record.uid in account.claims:
                account.claim(record.uid, None if role is not None else amounts)
        if new != old:
            for account, _ in old.shares:
                if (
                    account.starvation_reservation is not None
                    and account.starvation_reservation.uid == record.uid
                ):
                    account.starvation_reservation = None
        if record.order is not None and new != old:
            space.wait_queues.add(record)
            self._free(space, {account for account, _ in (*old.shares, *new.shares)})
            if not new.shares:
                self._dirty.add(space.name)

    def _set_charge(
        self,
        space: Namespace,
        account: Account,
        uid: str,
        role: Role | None,
        amounts: tuple[int, ...],
    ) -> None:
        changed, freed = account.set_charge(uid, role, amounts)
        if not changed:
            return
        if freed:
            self._free(space, {account})
        if self.synced:
            self._note_commitment(account)
            self.on_changed(account)

    def _note_commitment(self, account: Account) -> None:
        over = account.over()
        if over and not account.overcommitted:
            self.on_overcommitted(account)
        account.overcommitted = over

    def _free(self, space: Namespace, accounts: set[Account]) -> None:
        if not len(space.wait_queues):
            return
        space.dirty |= accounts
        space.overrelease = 0
        if space.name not in self._dirty:
            self._dirty.add(space.name)
            self.on_timer()

    def _change_limits(self, space: Namespace, account: Account, terms: QuotaTerms) -> None:
        """Same names and scopes: only numbers are new, and no pod's share has changed."""
        if account.limits == terms.limits:
            account.terms = terms
            return
        account.limits, account.terms = terms.limits, terms
        account.freed = True
        for record in space.pods.values():
            if record.role is Role.PENDING:
                # It may have become too large for the quota, or be so no longer.
                self._reconcile(space, record)
        starvation_reservation = account.starvation_reservation
        if starvation_reservation is not None and any(
            amount > limit.hard
            for amount, limit in zip(starvation_reservation.amounts, terms.limits, strict=True)
        ):
            account.starvation_reservation = None
        self._free(space, {account})
        if self.synced:
            self._note_commitment(account)
            self.on_changed(account)

    def _replace(self, space: Namespace, name: str, fresh: Account | None) -> None:
        old = space.accounts.pop(name, None)
        if fresh is not None:
            space.accounts[name] = fresh
            space.accounts = dict(sorted(space.accounts.items()))
        if old is None and fresh is None:
            return
        for record in space.pods.values():
            self._reconcile(space, record)
        if old is not None:
            self.on_forgotten(old)
        self._free(space, set(space.accounts.values()))
        if len(space.wait_queues) and space.name not in self._dirty:
            self._dirty.add(space.name)
            self.on_timer()
        self._starvation_guard.reconsider(space)
        if fresh is not None and self.synced:
            self.on_changed(fresh)

    def _watch_end(self, record: PodRecord) -> None:
        ends = counts_until(record.pod)
        if ends != record.ends:
            record.ends, record.expired = ends, False
            if ends is not None:
                heapq.heappush(self._ends, (ends + EXPIRY_MARGIN, record.uid))
                self.on_timer()

    def _awaited(self, due: float, uid: str) -> bool:
        """Whether this is still the end of the pod."""
        record = self._pods.get(uid)
        return record is not None and record.ends is not None and record.ends + EXPIRY_MARGIN == due

    # -- judging ---------------------------------------------------------------------------------

    def _renew_nomination(self, record: PodRecord) -> None:
        if record.nominated and self._check(record):
            record.nominated = False
            self._reconcile(self._namespaces[record.pod.metadata.namespace], record)

    def _check(
        self, record: PodRecord, extra: _Extra | None = None, *, had_booking: bool = False
    ) -> Sequence[Violation]:
        found: list[Violation] = []
        deferred = record.request.deferred
        for account, amounts in record.request.shares:
            own = account.charges.get(record.uid)
            # A pod with a booking (it is nominated) had its share before pods that came since, and
            # they wait for it: counting them would be a deadlock.
            booked = had_booking or (own is not None and own.role is Role.RESERVED)
            pending = deferred and not booked
            more = None if extra is None else extra.get(account)
            for index, requested in enumerate(amounts):
                limit = account.limits[index]
                if not requested or (limit.native and not deferred):
                    continue
                used = account.taken(index, pending=pending)
                if own is not None and (pending or own.role is not Role.PENDING):
                    used -= own.amounts[index]
                if limit.native:
                    if limit.observed is None:
                        found.append(Violation(account, index, requested, used, unknown=True))
                        continue
                    # status.used knows of admissions that have not reached us, the ledger of our
                    # own bindings that have not reached the status (2.14).
                    used = max(used, limit.observed)
                wanted = used + requested + (more[index] if more else 0)
                if wanted > limit.hard:
                    # People see one number, that of `status.used`, whoever is refused.
                    stated = account.taken(index, pending=True)
                    if own is not None:
                        stated -= own.amounts[index]
                    found.append(Violation(account, index, requested, max(used, stated)))
                elif (
                    account.starvation_reservation is not None
                    and wanted + account.starvation_reservation.amounts[index] > limit.hard
                    and yields_to(record, account, index)
                ):
                    reserved_for = account.starvation_reservation.key
                    found.append(
                        Violation(account, index, requested, used, reserved_for=reserved_for)
                    )
        return found

    def _unclaim(self, record: PodRecord) -> None:
        self._namespaces[record.pod.metadata.namespace].awaiting_claim.pop(record.uid, None)
        for account, _ in record.request.shares:
            if record.uid in account.claims:
                account.claim(record.uid, None)
                self.on_changed(account)

    # -- releasing -------------------------------------------------------------------------------

    def _release(self, space: Namespace, now: float) -> None:
        """Let out, in queue order, as many as fit together; `overrelease` more that fit alone."""
        dirty, space.dirty = space.dirty, set()
        extra: _Extra = {}
        for record in space.released.values():
            _add(extra, record.request)
        overrelease, more = space.overrelease, False

        def concerned(request: QuotaRequest) -> bool:
            return not request.shares or any(account in dirty for account, _ in request.shares)

        def admit(record: PodRecord) -> bool:
            nonlocal overrelease, more
            if self._check(record, extra):
                if self._check(record):
                    return False
                more = True
                if not overrelease:
                    return False
                overrelease -= 1
            _add(extra, record.request)
            return True

        uids = space.wait_queues.release(concerned, admit)
        for uid in uids:
            record = self._pods[uid]
            record.order = None
            record.released_at = now
            space.released[uid] = record
            self._reconcile(space, record)
        if more or (uids and len(space.wait_queues)):
            self._open_window(space, now)
        if uids:
            self.on_release(uids)

    def _timer_moved(self) -> None:
        # Through the attribute, which the host sets later.
        self.on_timer()

    def _open_window(self, space: Namespace, now: float) -> None:
        if not space.window_open:
            space.window_open = True
            heapq.heappush(self._windows, (now + RELEASE_WINDOW, space.name))
            self.on_timer()

    def _close_window(self, namespace: str, now: float) -> None:
        space = self._namespaces.get(namespace)
        if space is None:
            return
        space.window_open = False
        late = [
            r for r in space.released.values() if (r.released_at or 0.0) + RELEASE_WINDOW <= now
        ]
        for record in late:
            record.released_at = None
            del space.released[record.uid]
        if len(space.wait_queues):
            space.overrelease = space.overrelease * 2 or FIRST_OVERRELEASE
            space.dirty |= set(space.accounts.values())
            self._dirty.add(namespace)

    def _settled(self, space: Namespace, record: PodRecord) -> None:
        """What became of a released pod is known, and it did not use the quota."""
        if record.released_at is not None:
            record.released_at = None
            del space.released[record.uid]
            shares = {account for account, _ in record.request.shares}
            if len(space.wait_queues) and shares:
                space.dirty |= shares
                self._dirty.add(space.name)
                self.on_timer()

    def _dequeue(self, space: Namespace, record: PodRecord) -> None:
        if record.order is not None:
            record.order = None
            space.wait_queues.discard(record.uid)
            self._reconcile(space, record)


def _add(extra: _Extra, request: QuotaRequest) -> None:
    for account, amounts in request.shares:
        sums = extra.setdefault(account, [0] * len(amounts))
        for index, amount in enumerate(amounts):
            sums[index] += amount


def _same_terms(old: Pod, new: Pod) -> bool:
    """Whether two objects of one pod surely use the same: one signature, and no word on limits."""
    return (
        old.interned is not None
        and old.interned is new.interned
        and new.status.resources is None
        and old.status.resources is None
        and not limits_differ(old)
        and not limits_differ(new)
    )


def _newer(pod: Pod, known: Pod) -> bool:
    try:
        return int(pod.metadata.resource_version) >= int(known.metadata.resource_version)
    except ValueError:
        return True


def _same_scopes_and_names(old: Account, new: Account) -> bool:
    """Whether only numbers differ."""
    return (
        old.uid == new.uid
        and old.scopes == new.scopes
        and [(each.key, each.name) for each in old.limits]
        == [(each.key, each.name) for each in new.limits]
    )

"""The ledger: which pod uses how much of which quota, and which pods wait for it (KEP-5465).

Callers report pods, quotas, nominations and reservations; from these the ledger derives which
limits a pod would exceed, which pods to release, and the usage of each quota. It does no I/O and
reads no clock; callers pass the time. One ledger serves all profiles of a process, from one event
loop.

`lifecycle` has the table of states and events of a pod, `accounting` updates the sums, `checks`
checks one pod against its quotas, `together` a group, and `group_holds` holds groups; `releases`,
`claims` and `starvation_guard` decide which pods get free quota.

Invariants, which `validate` checks by a full recount:
* a pod has at most one charge in an account, in one role (`accounts`);
* every reservation is checked in the same step, so bound and reserved pods never exceed a limit
  unless others bound them, or the limit was lowered (docs/deferred-quota.md, rule Q7);
* a reservation ends with the observed binding, with `unreserve`, or with the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from plugins.resource_quota.accounting import Accounting
from plugins.resource_quota.accounts import Account, QuotaMode, QuotaTerms, Role, read_terms
from plugins.resource_quota.callbacks import LedgerCallbacks
from plugins.resource_quota.checks import check
from plugins.resource_quota.claims import Claims
from plugins.resource_quota.deferral import is_deferred, is_terminal
from plugins.resource_quota.ends import Ends
from plugins.resource_quota.group_holds import GroupHolds
from plugins.resource_quota.lifecycle import SHOWN, TRANSITIONS, Effect, PodEvent, PodState
from plugins.resource_quota.messages import Violation, violated_pairs
from plugins.resource_quota.outlook import Outlook
from plugins.resource_quota.records import KeptRecord, Namespace, PodRecord, Together
from plugins.resource_quota.recount import (
    LedgerStatistics,
    account_drift,
    misplaced_pods,
    uncharged,
)
from plugins.resource_quota.releases import Releases
from plugins.resource_quota.starvation_guard import StarvationGuard
from plugins.resource_quota.together import check_group, leader_of, room_for
from plugins.resource_quota.usage import Usage
from plugins.resource_quota.versions import newer, same_usage
from scheduler.api.pod import Pod
from scheduler.api.policy import ResourceQuota


class LedgerDriftError(AssertionError):
    """The incremental sums differ from a full recount: a bug. The text lists the differences."""


class Ledger:
    """Usage, reservations and held pods of all namespaces."""

    def __init__(
        self,
        mode: QuotaMode = QuotaMode.DEFERRED_KEYS,
        callbacks: LedgerCallbacks | None = None,
        *,
        hold_after: float | None = None,
        max_hold: float = 1800.0,
    ) -> None:
        """Create a ledger; `hold_after` (None: no fairness) and `max_hold` are in seconds."""
        self.mode = mode
        self._callbacks = callbacks = callbacks or LedgerCallbacks()
        self._namespaces: dict[str, Namespace] = {}
        self._pods: dict[str, PodRecord] = {}
        self._ends = Ends(self._pods, callbacks)
        self._sequence = 0
        #: Pods admitted before all pods and quotas were known, in that order.
        self._unsynced: dict[str, None] = {}
        #: By quota: UIDs of pods that other active schedulers are about to bind.
        self._foreign: dict[tuple[str, str], frozenset[str]] = {}
        self._releases = Releases(self._namespaces, callbacks)
        self._starvation_guard = StarvationGuard(hold_after, max_hold, callbacks, self._releases)
        self._accounting = Accounting(callbacks, self._releases, self._starvation_guard)
        self.outlook = Outlook(self._pods)
        self.claims = Claims(self._namespaces, self._pods, callbacks)
        self._group_holds = GroupHolds(self._accounting.reconcile, self._follow)
        carry_out: Mapping[Effect, Callable[[PodRecord], None]] = {
            Effect.RENEW_NOMINATION: self._renew_nomination,
            Effect.RETURN_RELEASE: self._releases.give_back,
            Effect.CONSUME_RELEASE: self._releases.consume,
            Effect.ENQUEUE: self._enqueue,
            Effect.DEQUEUE: self._dequeue,
            Effect.END_STARVATION: self._starvation_guard.end,
            Effect.WITHDRAW_CLAIM: self.claims.remove,
        }
        self._transitions = {
            event: (states, [carry_out[effect] for effect in effects], new_object)
            for event, (states, effects, new_object) in TRANSITIONS.items()
        }

    @property
    def synced(self) -> bool:
        """Whether all pods and quotas are known; until then no pods are released."""
        return self._accounting.synced

    # -- pods ------------------------------------------------------------------------------------

    def observe(self, pod: Pod, *, once_gated: bool = False) -> None:
        """Record a new or changed pod; `once_gated`: it was gated, even if it shows no gates."""
        uid = pod.metadata.uid
        record = self._pods.get(uid)
        if record is None:
            namespace = self._namespace(pod.metadata.namespace)
            deferred = once_gated or is_deferred(pod, None)
            record = self._pods[uid] = PodRecord(uid, pod, namespace, deferred)
            namespace.pods[uid] = record
            record.foreign = self._is_foreign(uid)
        elif record.pod is pod:
            return
        else:
            if not same_usage(record.pod, pod):
                record.usage = None
            record.pod = pod
            record.deferred = is_deferred(pod, record.deferred)
        self._ends.watch(record)
        if is_terminal(pod):
            self._apply(record, PodEvent.FINISHED)
        else:
            self._apply(record, PodEvent.BOUND if pod.spec.node_name else PodEvent.OBSERVED)

    def observe_newer(self, pod: Pod) -> None:
        """Record a pod unless a newer version is known, for callers that may have an old one."""
        record = self._pods.get(pod.metadata.uid)
        if record is None or (record.pod is not pod and newer(pod, record.pod)):
            self.observe(pod)

    def forget(self, uid: str) -> None:
        """Drop a pod that was deleted, or that finished and so disappeared from the watch."""
        record = self._pods.pop(uid, None)
        if record is None:
            return
        self._group_holds.join(record, None)
        self._apply(record, PodEvent.FINISHED)
        del record.namespace.pods[uid]
        self._unsynced.pop(uid, None)
        self._prune(record.namespace)

    def nominate(self, pod: Pod, node_name: str) -> None:
        """Record that a pod is nominated to a node, or with an empty name no longer.

        Quota is reserved for a nominated deferred pod if it fits; otherwise a smaller pod might
        take the quota while the victims terminate. The engine ends the nomination just before
        Reserve, which still honours it.
        """
        record = self._pods.get(pod.metadata.uid)
        if record is None or bool(node_name) == record.nominated:
            return
        if not node_name:
            self._apply(record, PodEvent.NOMINATION_CLEARED)
        elif record.pod.spec.node_name or not record.deferred or check(record):
            self._apply(record, PodEvent.NOMINATION_REFUSED)
        else:
            self._apply(record, PodEvent.NOMINATED)

    def reserve(self, pod: Pod) -> Sequence[Violation]:
        """Check and reserve in one step; if there are violations, nothing was reserved.

        An unknown pod was deleted; its binding will fail, so nothing is reserved for it.
        """
        record = self._pods.get(pod.metadata.uid)
        if record is None:
            return ()
        as_reserved = record.state is PodState.NOMINATION_ENDED
        violations = check(record, as_reserved=as_reserved)
        self._apply(record, PodEvent.RESERVE_REFUSED if violations else PodEvent.RESERVED)
        return violations

    def reserve_unchecked(self, uid: str) -> None:
        """Reserve without a check for a pod that passed before quotas were enforced."""
        record = self._pods.get(uid)
        if record is not None:
            self._apply(record, PodEvent.RESERVED)

    def unreserve(self, uid: str) -> None:
        """Undo `reserve`; may be called at any time, any number of times."""
        record = self._pods.get(uid)
        if record is not None:
            self._apply(record, PodEvent.UNRESERVED)

    def hold(
        self,
        uid: str,
        violations: Sequence[Violation],
        now: float,
        together: Together | None = None,
    ) -> bool:
        """Hold a pod, or the group that it leads.

        Returns whether the set of violations is new, so that it should be reported.
        """
        record = self._pods.get(uid)
        if record is None:
            return False
        self._group_holds.join(record, together)
        self._apply(record, PodEvent.HELD)
        if record.held_since is None:
            record.held_since = now
        self._starvation_guard.start(record, now)
        before, record.reported = record.reported, violated_pairs(violations)
        return record.reported != before

    def wait_for_more(self, uids: Sequence[str]) -> None:
        """Let the held ones among these pods wait until more quota is free than now.

        They were tried together and failed. The quota that their attempts had reserved is free
        again, which is no reason to retry them.
        """
        for uid in uids:
            record = self._pods.get(uid)
            if record is not None and record.order is not None:
                self._group_holds.join(record, Together((uid,), 1, room_for(record)))

    def admit(self, uid: str, now: float) -> float | None:
        """Admit a pod; return the seconds for which it was held, None if it was not."""
        record = self._pods.get(uid)
        if record is None or record.held_since is None:
            return None
        self._group_holds.join(record, None)
        self._apply(record, PodEvent.ADMITTED)
        since, record.held_since = record.held_since, None
        return max(0.0, now - since)

    def attempted(self, uid: str) -> None:
        """Record that the pod's attempt failed for another reason than quota; others may try."""
        record = self._pods.get(uid)
        if record is not None:
            record.reported = frozenset()
            self._apply(record, PodEvent.ATTEMPT_FAILED)

    def recheck_after_sync(self, uid: str) -> None:
        """Check a pod that is admitted now again, as soon as all pods and quotas are known."""
        self._unsynced[uid] = None

    def set_foreign(self, key: tuple[str, str], uids: frozenset[str]) -> None:
        """Set the pods that other active schedulers have reserved in a quota."""
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
                self._accounting.reconcile(record)

    # -- quotas ----------------------------------------------------------------------------------

    def set_quota(self, quota: ResourceQuota) -> QuotaTerms:
        """Record a new or changed quota; return its terms, with problems to be reported."""
        namespace = self._namespace(quota.metadata.namespace)
        terms = read_terms(quota, self.mode)
        self._accounting.set_quota(namespace, quota, terms)
        self._prune(namespace)
        return terms

    def remove_quota(self, namespace: str, name: str) -> None:
        """Drop a deleted quota, with its reservations; pods that it held may pass."""
        found = self._namespaces.get(namespace)
        if found is not None:
            self._accounting.replace(found, name, None)
            self._prune(found)

    def set_devices(self, namespace: str, usage: Usage) -> None:
        """Set the usage of device claims in a namespace."""
        found = self._namespace(namespace)
        self._accounting.set_devices(found, usage)
        self._prune(found)

    def mark_synced(self) -> None:
        """Record that all pods and quotas are known; from now on pods are released."""
        for record in self._pods.values():
            self._renew_nomination(record)
        # Pods that no quota counts need no check.
        self._unsynced = dict.fromkeys(uid for uid in self._unsynced if uid in self._pods)
        self._accounting.synced = True
        for account in self.accounts():
            self._accounting.note_change(account)
        self._callbacks.on_timer()

    # -- time ------------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """Return the wall clock second at which `run_due` is due; 0: now, None: never."""
        if self.synced and self._unsynced:
            return 0.0
        due = (self._releases.next_due(), self._starvation_guard.next_due(), self._ends.next_due())
        return min((time for time in due if time is not None), default=None)

    def run_due(self, now: float) -> None:
        """Handle everything that has expired, and release pods that may fit now."""
        for record in self._ends.expire(now):
            self._accounting.reconcile(record)
        self._releases.close_windows(now)
        self._starvation_guard.run_due(self._namespaces, now)
        if self.synced and self._unsynced:
            waiting, self._unsynced = self._unsynced, {}
            records = (self._pods.get(uid) for uid in waiting)
            self._callbacks.on_recheck([each.uid for each in records if each and check(each)])
        for released in self._releases.release(now):
            for record in released:
                self._group_holds.reconcile(record)
            self._callbacks.on_release([record.uid for record in released])

    # -- queries ---------------------------------------------------------------------------------

    def deferred(self, pod: Pod) -> bool:
        """Whether the pod was ever gated."""
        record = self._pods.get(pod.metadata.uid)
        return is_deferred(pod, None) if record is None else record.deferred

    def pod(self, uid: str) -> Pod | None:
        """Return the newest version of a pod; None if it is unknown."""
        record = self._pods.get(uid)
        return None if record is None else record.pod

    def holds(self, uid: str) -> bool:
        """Whether a quota holds the pod, or its group."""
        record = self._pods.get(uid)
        return record is not None and record.held

    def leads(self, uid: str) -> bool:
        """Whether a group was held by this pod."""
        record = self._pods.get(uid)
        return record is not None and record.together is not None

    def limits_pods_of(self, namespace: str) -> bool:
        """Whether any quota of the namespace is enforced here."""
        found = self._namespaces.get(namespace)
        return found is not None and bool(found.accounts)

    def violations(self, pod: Pod) -> Sequence[Violation]:
        """Return the limits that the pod would exceed now, not counting its own charge."""
        namespace = self._namespaces.get(pod.metadata.namespace)
        if namespace is None or not namespace.accounts:
            return ()
        record = self._pods.get(pod.metadata.uid)
        if record is None:
            record = PodRecord(pod.uid, pod, namespace, is_deferred(pod, None))
            record.request = self._accounting.request_of(record)
        return check(record)

    def violations_together(
        self, uids: Sequence[str], need: int
    ) -> tuple[str, Sequence[Violation]]:
        """Return (leader's UID, violations) of any `need` of these pods together."""
        members = [self._pods[uid] for uid in uids if uid in self._pods]
        if len(members) < need:
            return "", ()
        leader = leader_of(members, need)
        together = Together(tuple(each.uid for each in members), need)
        return leader.uid, check_group(replace(leader, together=together))

    def violations_with(
        self, pod: Pod, account: Account, amounts: Sequence[int]
    ) -> Sequence[Violation]:
        """Return the violations if `amounts`, by limit, were also taken from one account."""
        record = self._pods.get(pod.metadata.uid)
        return () if record is None else check(record, {account: amounts})

    def accounts(self) -> Iterator[Account]:
        """Yield every account, by namespace and name."""
        for name in sorted(self._namespaces):
            yield from self._namespaces[name].accounts.values()

    def account(self, namespace: str, name: str) -> Account | None:
        """Return the account of a quota; None if no limit of it is enforced here."""
        found = self._namespaces.get(namespace)
        return None if found is None else found.accounts.get(name)

    def accounts_of(self, pod: Pod) -> Iterator[Account]:
        """Yield the accounts of quotas that cover the pod and limit what it requests."""
        record = self._pods.get(pod.metadata.uid)
        if record is not None:
            yield from (account for account, _ in record.request.shares)

    def uncharged(self, account: Account) -> list[int]:
        """Return the requests of deferred pods without a charge, by limit; O(pods of namespace)."""
        namespace = self._namespaces.get(account.namespace)
        return uncharged(() if namespace is None else namespace.pods.values(), account)

    def held(self, namespace: str) -> int:
        """Return how many pods of a namespace are held by quotas."""
        found = self._namespaces.get(namespace)
        return 0 if found is None else len(found.wait_queues)

    def reserved(self) -> Iterator[str]:
        """Yield UIDs of pods between Reserve and the observed binding, and of nominated ones."""
        for uid, record in self._pods.items():
            if record.role is Role.RESERVED:
                yield uid

    def statistics(self) -> LedgerStatistics:
        """Return counts; O(pods)."""
        return LedgerStatistics(
            pods=len(self._pods),
            quotas=sum(len(each.accounts) for each in self._namespaces.values()),
            held=sum(len(each.wait_queues) for each in self._namespaces.values()),
            reserved=sum(1 for _ in self.reserved()),
        )

    def drift(self) -> list[str]:
        """Return the differences between the sums and a full recount from the pods."""
        return [line for account in self.accounts() for line in self.drift_of(account)]

    def drift_of(self, account: Account) -> list[str]:
        """Return the differences in one account; empty if its quota is no longer enforced."""
        if self.account(account.namespace, account.name) is not account:
            return []
        return account_drift(self._namespaces[account.namespace], account)

    def validate(self) -> None:
        """Raise LedgerDriftError if a full recount differs, or a pod is in the wrong place."""
        found = self.drift() + misplaced_pods(
            self._namespaces, self._pods, self._accounting.request_of
        )
        if found:
            raise LedgerDriftError("\n".join(found))

    # -- bundles ---------------------------------------------------------------------------------

    def kept(self) -> Iterator[KeptRecord]:
        """Yield the state of each pod that its object does not show, in the order of held pods."""
        held: list[tuple[int, KeptRecord]] = []
        for each in self._pods.values():
            queued = each.order is not None
            kept = each.uid, int(each.state), each.deferred, queued, each.held_since
            if each.order is not None:
                held.append((each.order[1], kept))
            elif each.state not in SHOWN or each.deferred != is_deferred(each.pod, None):
                yield kept
        yield from (record for _, record in sorted(held))

    def restore(self, kept: KeptRecord) -> None:
        """Restore what `kept` yielded about one pod; an unknown pod is ignored."""
        uid, state, deferred, held, since = kept
        record = self._pods.get(uid)
        if record is None:
            return
        record.deferred, record.held_since, record.state = deferred, since, PodState(state)
        record.usage = None
        (self._enqueue if held else self._dequeue)(record)
        self._accounting.reconcile(record)

    # -- transitions -----------------------------------------------------------------------------

    def _apply(self, record: PodRecord, event: PodEvent) -> None:
        """Change the state of a pod, then its charges, then apply the effects of the event."""
        next_states, effects, new_object = self._transitions[event]
        before = record.state
        record.state = after = next_states.get(before, before)
        if after is not before or new_object:
            self._accounting.reconcile(record)
        for carry_out in effects:
            carry_out(record)

    def _renew_nomination(self, record: PodRecord) -> None:
        if record.nominated and check(record):
            self._apply(record, PodEvent.NOMINATION_REFUSED)

    def _enqueue(self, record: PodRecord) -> None:
        if record.order is None:
            self._sequence += 1
            record.order = (-record.pod.priority, self._sequence)
            record.namespace.wait_queues.add(record)
            self._group_holds.reconcile(record)

    def _dequeue(self, record: PodRecord) -> None:
        if record.order is not None:
            record.order = None
            record.namespace.wait_queues.discard(record.uid)
            self._group_holds.reconcile(record)

    def _follow(self, record: PodRecord) -> None:
        """Remove a pod from the queue of held pods, since it now follows a leader."""
        self._dequeue(record)
        self._releases.give_back(record)
        self.claims.remove(record)

    def _is_foreign(self, uid: str) -> bool:
        return any(uid in uids for uids in self._foreign.values())

    def _namespace(self, name: str) -> Namespace:
        namespace = self._namespaces.get(name)
        if namespace is None:
            namespace = self._namespaces[name] = Namespace(name)
        return namespace

    def _prune(self, namespace: Namespace) -> None:
        if not (namespace.pods or namespace.accounts or namespace.devices):
            self._namespaces.pop(namespace.name, None)

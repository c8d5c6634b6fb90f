"""QuotaEnforcement: one ledger for all profiles of a process, and its connections.

It updates the ledger from subscriptions, wakes the pods that the ledger releases, reports problems
of quotas as Events, and sets the gauges. The plugin decides about single pods.

Problems are reported in `run_due`, which runs only in the replica that schedules.

Pods are counted only from the moment when the first quota that is enforced here is observed
(`active`), so clusters without such a quota have no overhead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import repeat
from typing import Final

from plugins.resource_quota.accounts import Account, QuotaTerms, Role
from plugins.resource_quota.arguments import ResourceQuotaArgs
from plugins.resource_quota.callbacks import LedgerCallbacks
from plugins.resource_quota.deferral import REASON_VALIDATED, is_deferred
from plugins.resource_quota.device_claims import DeviceClaims
from plugins.resource_quota.keys import human
from plugins.resource_quota.ledger import Ledger
from plugins.resource_quota.messages import Violation, message, quota_reference
from plugins.resource_quota.upkeep import Audit, Sweep
from scheduler.api.pod import Pod
from scheduler.api.policy import ResourceQuota as Quota
from scheduler.api.quantity import NANO
from scheduler.api.signal import Signal
from scheduler.api.storage import ObjectReference
from scheduler.framework import Handle, plugin_names

INVALID_KEY: Final = "DeferredQuotaInvalidKey"
OVERCOMMITTED: Final = "DeferredQuotaOvercommitted"
BUILT_IN_CONFLICT: Final = "BuiltInQuotaConflict"
"""Event reasons on quotas."""
ACTION: Final = "Quota"

HELD_PODS: Final = "scheduler_resource_quota_held_pods"
HELD_DURATION: Final = "scheduler_resource_quota_held_duration_seconds"
IN_FLIGHT: Final = "scheduler_resource_quota_inflight"
DRIFT: Final = "scheduler_resource_quota_ledger_drift"
VIOLATIONS: Final = "scheduler_resource_quota_violations_total"


class QuotaEnforcement:
    """The ledger of a process. Used from one event loop only; implements `TimedWork`."""

    def __init__(self, args: ResourceQuotaArgs, handle: Handle) -> None:
        """Subscribe to objects; `handle` belongs to the first profile with the plugin."""
        self.args = args
        subscriptions = handle.subscriptions
        self._wake = subscriptions.on_time(self)
        callbacks = LedgerCallbacks(
            on_release=lambda uids: handle.wake(uids, plugin_names.RESOURCE_QUOTA),
            on_recheck=handle.recheck,
            on_changed=self._changed,
            on_forgotten=self._forgotten,
            on_overcommitted=self._overcommitted,
            on_timer=self._wake,
        )
        self.ledger = Ledger(
            args.mode,
            callbacks,
            hold_after=args.hold_after.total_seconds() if args.hold_after else None,
            max_hold=args.max_hold.total_seconds(),
        )
        self._handle = handle
        #: Whether pods are counted, since some quota is or was enforced here.
        self.active = False
        # While pods are not counted: facts that the objects of pods do not show, by UID:
        #: pods between Reserve and the observed binding,
        self._passing: set[str] = set()
        #: pods that were gated once and have no node yet,
        self._once_gated: set[str] = set()
        #: and nominations, in their order.
        self._nominated: dict[str, tuple[Pod, str]] = {}
        #: For the controllers: `status.used` of an account's quota may be out of date.
        self.on_changed = Signal[[Account]]()
        #: For the controllers: PostBind of a pod.
        self.on_bound = Signal[[Pod]]()
        self._on_given_up: Callable[[Pod], None] = lambda _pod: None
        self._share: Callable[[Pod], Awaitable[Sequence[Violation]]] | None = None
        self._findings: list[tuple[ObjectReference, str, str]] = []
        #: UID and terms of each quota, by namespace and name.
        self._known: dict[str, dict[str, tuple[str, QuotaTerms]]] = {}
        self._conflicting: set[str] = set()
        self._touched: dict[Account, None] = {}
        #: Overcommitted accounts that are to be reported.
        self._exceeded: dict[Account, None] = {}
        #: By UID of a reserved pod: pods whose claims were withdrawn because of it.
        self._displaced: dict[str, list[str]] = {}
        self._sweep = Sweep(self.ledger, handle.recheck)
        self._audit = Audit(self.ledger, lambda found: handle.metrics.gauge(DRIFT, value=found))
        devices = DeviceClaims(
            self.ledger.set_devices,
            # Listers are complete after the plugins are built.
            lambda name, namespace: handle.listers["pods"].get(name, namespace),  # noqa: PLW0108
        )
        subscriptions.on_object("pods", self._pod)
        subscriptions.on_object("resourcequotas", self._quota)
        subscriptions.on_object("deviceclasses", devices.device_class)
        subscriptions.on_object("resourceclaims", devices.claim)
        subscriptions.on_nomination(self._nomination)
        subscriptions.on_synced(devices.recount)
        subscriptions.on_synced(self.ledger.mark_synced)

    # -- connections of the controllers ----------------------------------------------------------

    def share_reservations(
        self,
        share: Callable[[Pod], Awaitable[Sequence[Violation]]],
        on_given_up: Callable[[Pod], None],
    ) -> None:
        """Share reservations with other active schedulers.

        `share(pod)` runs before the bind; violations mean that other schedulers have reserved the
        rest of the quota. `on_given_up(pod)` is called if the pod is certainly not bound.
        """
        self._share, self._on_given_up = share, on_given_up

    def statistics(self) -> Mapping[str, object]:
        """Return counts, and all differences from a full recount; O(pods)."""
        return {**asdict(self.ledger.statistics()), "drift": self.ledger.drift()}

    # -- TimedWork -------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """Return the monotonic second at which `run_due` is due."""
        if self._findings or self._touched or self._exceeded:
            return 0.0
        if not self.active:
            # No pods are counted, so nothing is due.
            return None
        clock = self._handle.clock
        now = clock.monotonic()
        wall = self.ledger.next_due()
        times = (
            self._audit.next_due(now),
            self._sweep.next_due(),
            None if wall is None else now + wall - clock.now(),
        )
        return min((time for time in times if time is not None), default=None)

    def run_due(self) -> None:
        """End grace periods, release pods, correct conditions, report problems, set gauges."""
        clock = self._handle.clock
        self.ledger.run_due(clock.now())
        self._sweep.run_due(clock.monotonic())
        if self.active:
            self._audit.run_due(clock.monotonic())
        exceeded, self._exceeded = self._exceeded, {}
        for account in exceeded:
            self._report_exceeded(account)
        findings, self._findings = self._findings, []
        for reference, reason, note in findings:
            self._handle.events.record(reference, "Warning", reason, ACTION, note)
        touched, self._touched = self._touched, {}
        for account in touched:
            self._gauge_in_flight(account, account.sums[Role.RESERVED])
            self._withdraw_claims(account)
            claimable = self.ledger.claims.take_claimable(account)
            if claimable:
                # These pods are retried now, and claim the quota if they fit no node.
                self._handle.activate(claimable)

    # -- pods and quotas --------------------------------------------------------------------------

    def gauge_held(self, namespace: str) -> None:
        """Update the gauge of held pods of a namespace."""
        self._handle.metrics.gauge(HELD_PODS, namespace, value=self.ledger.held(namespace))

    def _activate(self) -> None:
        """Start counting: add all known pods; later ones are added by events."""
        self.active = True
        now = self._handle.clock.monotonic()
        for pod in self._handle.listers["pods"].list():
            self.ledger.observe(pod, once_gated=pod.metadata.uid in self._once_gated)
            self._sweep.observe(pod, now)
        for uid in self._passing:
            self.ledger.reserve_unchecked(uid)
        for pod, node_name in self._nominated.values():
            self.ledger.nominate(pod, node_name)
        self._passing.clear()
        self._once_gated.clear()
        self._nominated.clear()

    def reserve(self, pod: Pod) -> Sequence[Violation]:
        """Check and reserve in one step; if there are violations, nothing was reserved."""
        if not self.active:
            self._passing.add(pod.metadata.uid)
            return ()
        violations = self.ledger.reserve(pod)
        if not violations:
            for account in self.ledger.accounts_of(pod):
                uids = self._withdraw_claims(account)
                if uids:
                    self._displaced.setdefault(pod.metadata.uid, []).extend(uids)
        return violations

    def must_prepare(self, pod: Pod) -> bool:
        """Whether `prepare_bind` has work to do."""
        shared = self._share is not None and any(self.ledger.accounts_of(pod))
        return shared or pod.uid in self._displaced

    async def prepare_bind(self, pod: Pod) -> Sequence[Violation]:
        """Correct conditions and share the reservation; violations: others reserved the rest.

        Before the pod is bound, pods whose claims it displaces must lose the reason
        `Unschedulable`, since an autoscaler that sees both would add one node too many.
        """
        displaced = self._displaced.pop(pod.uid, None)
        if displaced:
            await self._handle.api.status_written(displaced)
        if self._share is None or not any(self.ledger.accounts_of(pod)):
            return ()
        return await self._share(pod)

    def bound(self, pod: Pod) -> None:
        """Handle a successful bind; the reservation stays until the watch shows the binding."""
        self.on_bound(pod)

    def claim_pending(self, uid: str) -> None:
        """Claim quota for a pod that is about to get the reason Unschedulable."""
        if not self.args.claim_pending:
            return
        self.ledger.claims.add(uid)
        pod = self.ledger.pod(uid)
        for account in () if pod is None else self.ledger.accounts_of(pod):
            if account.overclaimed():
                # Quota was taken during the pod's attempt. The condition is corrected after the
                # write that is about to happen.
                self._touched[account] = None
                self._wake()

    def _withdraw_claims(self, account: Account) -> list[str]:
        """Correct the reason of pods whose claims no longer fit; autoscalers then ignore them."""
        withdrawn = self.ledger.claims.withdraw(account)
        held = []
        for uid, violations in withdrawn.items():
            pod = self.ledger.pod(uid)
            if pod is None:
                continue
            self._handle.relabel(pod, REASON_VALIDATED, message(violations))
            if self.ledger.violations(pod):
                held.append(uid)
        if held:
            self._handle.recheck(held)
        return list(withdrawn)

    def unreserve(self, pod: Pod) -> None:
        """Undo `reserve`; the pod is certainly not bound."""
        self._passing.discard(pod.uid)
        self._displaced.pop(pod.uid, None)
        self.ledger.unreserve(pod.uid)
        self._on_given_up(pod)

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        if not self.active:
            self._remember(old, new)
            return
        if new is None:
            if old is not None:
                self._forget(old)
            return
        if old is not None and old.metadata.uid != new.metadata.uid:
            self._forget(old)
        self.ledger.observe(new)
        self._sweep.observe(new, self._handle.clock.monotonic())

    def _remember(self, old: Pod | None, new: Pod | None) -> None:
        """Record facts that `_activate` could not derive from the pod's object."""
        if new is not None and not new.spec.node_name:
            if is_deferred(new, None):
                self._once_gated.add(new.metadata.uid)
            if old is None or old.metadata.uid == new.metadata.uid:
                return
        if old is not None:
            self._passing.discard(old.metadata.uid)
            self._once_gated.discard(old.metadata.uid)

    def _nomination(self, pod: Pod, node_name: str) -> None:
        uid = pod.metadata.uid
        if not self.active:
            if node_name:
                self._nominated[uid] = pod, node_name
            else:
                self._nominated.pop(uid, None)
            return
        if node_name:
            # The queue may nominate a new pod before this subscriber receives its event.
            self.ledger.observe_newer(pod)
        self.ledger.nominate(pod, node_name)

    def _forget(self, pod: Pod) -> None:
        namespace = pod.metadata.namespace
        held = self.ledger.held(namespace)
        self.ledger.forget(pod.metadata.uid)
        self._displaced.pop(pod.metadata.uid, None)
        self._sweep.forget(pod)
        if held:
            self.gauge_held(namespace)

    def _quota(self, old: Quota | None, new: Quota | None) -> None:
        if new is not None:
            terms = self.ledger.set_quota(new)
            if terms.limits and not self.active:
                self._activate()
            self._report(new, terms)
        elif old is not None:
            meta = old.metadata
            self.ledger.remove_quota(meta.namespace, meta.name)
            known = self._known.get(meta.namespace, {})
            known.pop(meta.name, None)
            if not known:
                self._known.pop(meta.namespace, None)
            self._conflicting.discard(meta.uid)

    def _changed(self, account: Account) -> None:
        self._touched[account] = None
        self._sweep.changed(account.namespace, self._handle.clock.monotonic())
        self.on_changed(account)
        self._wake()

    def _forgotten(self, account: Account) -> None:
        self._touched.pop(account, None)
        self._exceeded.pop(account, None)
        self._gauge_in_flight(account, repeat(0))

    def _gauge_in_flight(self, account: Account, amounts: Iterable[int]) -> None:
        labels = IN_FLIGHT, account.namespace, account.name
        for limit, amount in zip(account.limits, amounts, strict=False):
            self._handle.metrics.gauge(*labels, limit.name, value=amount / NANO)

    # -- findings --------------------------------------------------------------------------------

    def _report(self, quota: Quota, terms: QuotaTerms) -> None:
        """Report invalid keys of a quota, again whenever they change; then conflicts."""
        meta = quota.metadata
        known = self._known.setdefault(meta.namespace, {})
        before = known[meta.name][1].invalid if meta.name in known else ()
        known[meta.name] = meta.uid, terms
        if terms.invalid and terms.invalid != before:
            # One Event for all keys, since Events of one reason are merged into a series.
            ignored = "the key is" if len(terms.invalid) == 1 else "these keys are"
            named = "; ".join(map(str, terms.invalid))
            note = f"quota {meta.name}: {named}; {ignored} ignored, the others are not"
            self._find(meta.namespace, meta.name, meta.uid, INVALID_KEY, note)
        if self.ledger.limits_pods_of(meta.namespace):
            self._report_conflicts(meta.namespace)

    def _report_conflicts(self, namespace: str) -> None:
        """Report built-in compute names in a namespace with deferred keys, once per quota."""
        for name, (uid, terms) in self._known[namespace].items():
            if terms.built_in and uid not in self._conflicting:
                self._conflicting.add(uid)
                note = (
                    f"quota {name} limits {', '.join(terms.built_in)} in a namespace with deferred "
                    "quotas: the API server charges gated pods by it, and refuses those over the "
                    "limit"
                )
                self._find(namespace, name, uid, BUILT_IN_CONFLICT, note)

    def _overcommitted(self, account: Account) -> None:
        # Reported later, because more pods may be charged soon.
        self._exceeded[account] = None
        self._wake()

    def _report_exceeded(self, account: Account) -> None:
        over = ", ".join(
            f"{limit.name}: used {human(limit.name, taken)}, "
            f"limited {human(limit.name, limit.hard)}"
            for index, limit in enumerate(account.limits)
            for taken in (account.taken(index, pending=False),)
            if taken > limit.hard
        )
        if not over:
            return
        note = (
            f"quota {account.name} is exceeded by pods that another scheduler bound, a resize, or "
            f"a limit below what is used: {over}; nothing is stopped, pods to come are held"
        )
        self._find(account.namespace, account.name, account.uid, OVERCOMMITTED, note)

    def _find(self, namespace: str, name: str, uid: str, reason: str, note: str) -> None:
        self._findings.append((quota_reference(namespace, name, uid), reason, note))
        self._wake()

"""ResourceQuota: a pod is scheduled only within its namespace's compute quota (KEP-5465).

PreEnqueue holds a pod that does not fit (docs/deferred-quota.md, rules Q5 and Q6). PreFilter checks
again, because quota may have been taken while the pod queued; Reserve checks and reserves in one
step (Q7). A reservation ends with the observed binding. The ledger decides all this from memory: no
API call, no wait.

Quota is never a reason to preempt: there is no PostFilter, and rejections skip other PostFilters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final

import msgspec

from plugins.arguments import require_valid
from plugins.details import listed
from plugins.resource_quota.accounts import QuotaMode
from plugins.resource_quota.arguments import API, ResourceQuotaArgs, argument_problems
from plugins.resource_quota.deferral import (
    MARK_ANNOTATION,
    MARK_CONDITION,
    POD_SCHEDULED,
    REASON_EXCEEDED,
    REASON_VALIDATED,
)
from plugins.resource_quota.enforcement import HELD_DURATION, VIOLATIONS, QuotaEnforcement
from plugins.resource_quota.keys import human
from plugins.resource_quota.messages import (
    NOT_SYNCED,
    Violation,
    message,
    parse_violated_pairs,
    violated_pairs,
)
from plugins.resource_quota.records import KeptRecord, Together
from scheduler.api.meta import Condition
from scheduler.api.pod import Pod
from scheduler.framework import (
    SKIP,
    ClusterEventWithHint,
    Code,
    ConfigurationError,
    CycleState,
    Handle,
    NodeTableView,
    Permission,
    QueuedPodInfo,
    RejectedNodes,
    Status,
    plugin_names,
    unresolvable,
)
from scheduler.framework import extension_points as points
from scheduler.framework.demands import Demand
from scheduler.framework.extension_points import ExtensionPoint
from scheduler.groups import PodGroups, group_of

GATE: Final = "ResourceQuotaDeferredEnforcement"
NOT_ENFORCED: Final = "deferred quotas are not enforced"
CLAIMS_UNCOUNTED: Final = "deferred quotas do not count the devices of claims"
_DEVICES: Final = ("resourceclaims", "deviceclasses")
_PATCH: Final = ("patch",)


class ResourceQuota:
    """Does nothing while its feature gate is off, or with `quotaMode: Off`."""

    name: ClassVar[str] = plugin_names.RESOURCE_QUOTA
    #: Reservations of binding cycles under way are known to this instance only.
    restart_on_change: ClassVar[bool] = True
    aliases: ClassVar[tuple[str, ...]] = ("resourcequota",)
    args_type: ClassVar[type[ResourceQuotaArgs]] = ResourceQuotaArgs
    #: What it reads and writes while it is in force.
    required_resources: tuple[str, ...] = ()
    optional_resources: Mapping[str, str] = MappingProxyType({})
    permissions: tuple[Permission, ...] = ()
    validate_args = staticmethod(argument_problems)

    def __init__(self, args: ResourceQuotaArgs | None, handle: Handle) -> None:
        """Raises ConfigurationError if the arguments differ from those of another profile."""
        args = args or ResourceQuotaArgs()
        require_valid(argument_problems(args))
        self._handle = handle
        #: The enforcement of the process; None while the plugin is inert.
        self.enforcement: QuotaEnforcement | None = None
        #: The pod groups, maintained by GangScheduling; empty without that plugin.
        self._groups = handle.shared(PodGroups.SHARED, PodGroups)
        if not handle.feature_gates.get(GATE, False) or args.mode is QuotaMode.OFF:
            return
        self._declare(args)
        self.enforcement = handle.shared(self.name, lambda: QuotaEnforcement(args, handle))
        if self.enforcement.args != args:
            msg = f"{self.name}: the arguments must be the same in all profiles that enable it"
            raise ConfigurationError(msg)

    def _declare(self, args: ResourceQuotaArgs) -> None:
        """Declare the resources and permissions that the enforcement needs."""
        self.required_resources = ("resourcequotas", *_DEVICES)
        self.optional_resources = dict.fromkeys(_DEVICES, CLAIMS_UNCOUNTED)
        if args.reservation != API and not args.mode.native:
            self.optional_resources = {**self.optional_resources, "resourcequotas": NOT_ENFORCED}
        self.permissions = tuple(
            Permission(
                resource=resource,
                verbs=verbs,
                purpose="ResourceQuota: publishing what quotas use, while leading",
                without="the status of quotas does not show what deferred keys use",
            )
            for resource, verbs in (("resourcequotas", ("get",)), ("resourcequotas/status", _PATCH))
        )
        if args.reservation == API:
            self.permissions += (
                Permission(
                    resource="resourcequotas",
                    verbs=_PATCH,
                    purpose="ResourceQuota: reservations shared with other schedulers",
                ),
            )

    # -- extension points ------------------------------------------------------------------------

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold a pod that does not fit into a quota of its namespace."""
        if self.enforcement is None:
            return None
        ledger = self.enforcement.ledger
        if not ledger.synced:
            # No pod is tried before the initial lists are complete, so admit the pod: a rejection
            # now would look as if the pod had been gated.
            ledger.recheck_after_sync(pod.uid)
            return None
        if not self.enforcement.active:
            return None
        ledger.observe_newer(pod)
        violations = ledger.violations(pod)
        if violations:
            if self._needs_others(pod):
                return None
            return self._hold(self.enforcement, pod, violations, points.PRE_ENQUEUE)
        self._admit(self.enforcement, pod)
        return None

    def _needs_others(self, pod: Pod) -> bool:
        """Whether the pod is scheduled in a group, for which `reject_group` checks the quota.

        Members that are held one by one would not be released together.
        """
        key = group_of(pod)
        group = None if key is None else self._groups.get(key)
        return group is not None and group.need > 0

    def reject_group(self, pods: Sequence[Pod], need: int) -> Status | None:
        """Hold a group if there is quota for fewer than `need` of its pods."""
        enforcement = self.enforcement
        if enforcement is None or not enforcement.active or not enforcement.ledger.synced:
            return None
        by_uid = {each.uid: each for each in pods}
        leader, violations = enforcement.ledger.violations_together(list(by_uid), need)
        if not violations:
            for each in filter(enforcement.ledger.leads, by_uid):
                self._admit(enforcement, by_uid[each])
            return None
        together = Together(tuple(by_uid), need)
        return self._hold(enforcement, by_uid[leader], violations, points.PRE_FILTER, together)

    def group_failed(self, pods: Sequence[Pod]) -> None:
        """Let rejected members wait until more quota is free than now."""
        if self.enforcement is not None:
            self.enforcement.ledger.wait_for_more([each.metadata.uid for each in pods])

    def skips_alike(self, pod: Pod) -> bool:
        """Whether no quota of the pod's namespace is enforced here."""
        enforcement = self.enforcement
        return enforcement is None or not enforcement.ledger.limits_pods_of(pod.metadata.namespace)

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Check again, since quota may have been taken since PreEnqueue."""
        if self.enforcement is None or self.name in state.granted:
            return SKIP
        ledger = self.enforcement.ledger
        if not ledger.limits_pods_of(pod.metadata.namespace):
            return SKIP
        if not ledger.synced:
            return unresolvable(NOT_SYNCED)
        violations = ledger.violations(pod)
        if not violations:
            if state.info is not None:
                self._admit(self.enforcement, pod)
            return SKIP
        if state.info is None:
            return _rejection(violations)
        return self._hold(self.enforcement, pod, violations, points.PRE_FILTER)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Check and reserve in one step."""
        if self.enforcement is None:
            return None
        violations = self.enforcement.reserve(pod)
        if not violations:
            return None
        return self._hold(self.enforcement, pod, violations, points.RESERVE)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """End the reservation; the pod is certainly not bound."""
        if self.enforcement is not None:
            self.enforcement.unreserve(pod)

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Skip PreBind unless conditions must be corrected or the reservation must be shared."""
        if self.enforcement is None or not self.enforcement.must_prepare(pod):
            return SKIP
        return None

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Share the reservation; reject the pod if other active schedulers reserved the rest."""
        if self.enforcement is None:
            return None
        violations = await self.enforcement.prepare_bind(pod)
        if not violations:
            return None
        return self._hold(self.enforcement, pod, violations, points.PRE_BIND)

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Notify the enforcement; the reservation stays until the watch shows the binding."""
        if self.enforcement is not None:
            self.enforcement.bound(pod)

    def pod_conditions(self, pod: Pod, info: QueuedPodInfo) -> Sequence[Condition]:
        """Return the durable mark in the patch that replaces the reason SchedulingGated (rule Q5).

        There is no mark in clusters without a quota that is enforced here.
        """
        if self.enforcement is None or not self.enforcement.active:
            return ()
        ledger = self.enforcement.ledger
        held = self.name in info.unschedulable_plugins
        if not info.gated and not held:
            ledger.attempted(pod.uid)
            self.enforcement.claim_pending(pod.uid)
        if ledger.deferred(pod):
            if pod.metadata.annotations.get(MARK_ANNOTATION) == "true":
                return ()
            return (Condition(type=MARK_CONDITION, status="True", reason="SchedulingGated"),)
        if held:
            return (Condition(type=MARK_CONDITION, status="False", reason="NeverGated"),)
        return ()

    def unschedulable_reason(self, pod: Pod) -> tuple[str, str] | None:
        """Return the reason and text of a hold if the pod does not fit on top of earlier claims."""
        if self.enforcement is None or not self.enforcement.args.claim_pending:
            return None
        claimed = self.enforcement.ledger.claims.violations(pod)
        if claimed:
            self.enforcement.ledger.claims.await_turn(pod.uid)
        return (REASON_VALIDATED, message(claimed)) if claimed else None

    def explain(self, pod: Pod) -> Sequence[str]:
        """Return the pod's violations now, the pods ahead of it, and when quota becomes free."""
        if self.enforcement is None:
            return ()
        ledger = self.enforcement.ledger
        violations = ledger.violations(pod)
        if not violations:
            return ()
        held = f"held by quota: {message(violations)}"
        ahead = ledger.outlook.ahead_of(pod.uid)
        behind = (f"behind {listed(ahead, len(ahead))}",) if ahead else ()
        return (held, *behind, *ledger.outlook.frees(violations))

    def explain_rejection(
        self, state: CycleState, pod: Pod, table: NodeTableView, rejected: RejectedNodes
    ) -> str:
        """Return the held pods of the namespace that get quota first."""
        if self.enforcement is None:
            return ""
        ahead = self.enforcement.ledger.outlook.ahead_of(pod.uid)
        return f"behind {listed(ahead, len(ahead))}" if ahead else ""

    def demands(self, pod: Pod) -> Sequence[Demand]:
        """Return the limits that the quotas would need to have (`DemandingPlugin`)."""
        violations = () if self.enforcement is None else self.enforcement.ledger.violations(pod)
        if any(each.unknown or each.reserved_for for each in violations):
            return ()
        return tuple(_demand(each) for each in violations)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return no events: the ledger reacts to freed quota and to changes of the pod itself.

        So events of nodes, other pods or other namespaces never requeue a held pod.
        """
        return ()

    # -- bundles ---------------------------------------------------------------------------------

    def bundle_state(self) -> Iterator[KeptRecord]:
        """Yield the state of pods in the ledger that their objects do not show."""
        if self.enforcement is not None and self.enforcement.active:
            yield from self.enforcement.ledger.kept()

    def restore_bundle_state(self, pieces: Iterable[Any]) -> None:
        """Restore what `bundle_state` yielded. Raises ValueError."""
        for piece in pieces:
            kept = msgspec.convert(piece, KeptRecord)
            if self.enforcement is not None:
                self.enforcement.ledger.restore(kept)

    # -- inside ----------------------------------------------------------------------------------

    def _hold(
        self,
        enforcement: QuotaEnforcement,
        pod: Pod,
        violations: Sequence[Violation],
        point: ExtensionPoint,
        together: Together | None = None,
    ) -> Status:
        for account in {each.account: None for each in violations}:
            labels = account.namespace, account.name, point.label
            self._handle.metrics.count(VIOLATIONS, *labels)
        status = _rejection(violations)
        now = self._handle.clock.now()
        if enforcement.ledger.hold(pod.uid, violations, now, together):
            if not _already_reported(pod, violations):
                self._handle.events.record(
                    pod, "Warning", REASON_EXCEEDED, "Scheduling", status.message
                )
            enforcement.gauge_held(pod.metadata.namespace)
        return status

    def _admit(self, enforcement: QuotaEnforcement, pod: Pod) -> None:
        held = enforcement.ledger.admit(pod.uid, self._handle.clock.now())
        if held is not None:
            self._handle.metrics.observe(HELD_DURATION, value=held)
            enforcement.gauge_held(pod.metadata.namespace)
            # Holding the pod ended the reservation of its nomination, but not the nomination.
            node_name = self._handle.nominator.node_of(pod.uid)
            if node_name:
                enforcement.ledger.nominate(pod, node_name)


def _demand(violation: Violation) -> Demand:
    account = violation.account
    limit = account.limits[violation.index]
    wanted = violation.used + violation.requested
    more = human(limit.name, wanted - limit.hard)
    return Demand(
        kind="ResourceQuota",
        name=f"{account.namespace}/{account.name}",
        keys=("spec", "hard", limit.key),
        value=limit.value(wanted),
        text=f"quota {account.name} +{more} {limit.name}",
    )


def _rejection(violations: Sequence[Violation]) -> Status:
    return Status(
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        (message(violations),),
        condition_reason=REASON_VALIDATED,
        skip_post_filter=True,
    )


def _already_reported(pod: Pod, violations: Sequence[Violation]) -> bool:
    """Whether the pod's status has the same quotas and resources, as after a restart."""
    return any(
        each.type == POD_SCHEDULED
        and each.reason in (REASON_VALIDATED, REASON_EXCEEDED)
        and parse_violated_pairs(each.message) == violated_pairs(violations)
        for each in pod.status.conditions
    )

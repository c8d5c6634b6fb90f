"""DynamicResources: allocates devices to the claims of a pod.

Upstream: `dynamicresources.go`. PreFilter looks up the claims, Filter decides for all nodes,
Reserve allocates devices of the chosen node to the claims, and PreBind writes them. Until the watch
shows a written claim, its devices are held by the allocation in flight or by the assumed claim. As
upstream, there is no AddPod and RemovePod: preemption never frees the devices of a victim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Final

import msgspec

from plugins.arguments import require_valid
from plugins.details import listed
from plugins.dynamic_resources.arguments import DynamicResourcesArgs, argument_problems
from plugins.dynamic_resources.attempt import REASONS, DeviceAttempt, PodClaims
from plugins.dynamic_resources.budget import SearchBudget
from plugins.dynamic_resources.claims import (
    IN_FLIGHT,
    NOT_CREATED,
    ClaimsUnavailableError,
    claim_key,
    is_reserved_for,
    only_used_by,
    pod_claims,
    rejection,
    templates_without_claim,
)
from plugins.dynamic_resources.cluster_devices import ClusterDevices
from plugins.dynamic_resources.errors import AllocationError
from plugins.dynamic_resources.explaining import explain
from plugins.dynamic_resources.extended_resources import UNNAMED, considered, unnamed_claim
from plugins.dynamic_resources.features import Features
from plugins.dynamic_resources.giving_back import deallocate, delete_extra, unreserve
from plugins.dynamic_resources.permissions import (
    OPTIONAL_RESOURCES,
    PERMISSIONS,
    RESOURCES,
    unreadable,
)
from plugins.dynamic_resources.readiness import METRICS as WAIT_METRICS
from plugins.dynamic_resources.readiness import (
    NotReadyError,
    is_broken,
    wait_until_ready,
)
from plugins.dynamic_resources.requeueing import device_events
from plugins.dynamic_resources.taint_rules import RULES
from plugins.dynamic_resources.verdicts import KeptVerdicts
from plugins.dynamic_resources.writing import METRICS as WRITE_METRICS
from plugins.dynamic_resources.writing import ClaimWriter, PreBindError
from plugins.normalization import default_normalize
from plugins.row_selection import all_pass, no_scores
from scheduler import cel
from scheduler.api.devices import AllocationResult, ResourceClaim
from scheduler.api.node import Node
from scheduler.api.node_selectors import compile_node_selector
from scheduler.api.pod import Pod
from scheduler.explain.records.wording import span
from scheduler.framework import (
    NEVER,
    SKIP,
    ClusterEventWithHint,
    Codes,
    CycleState,
    Handle,
    Int64Column,
    Metric,
    NodeInfo,
    NodeTableView,
    NodeToStatus,
    Permission,
    PostFilterResult,
    PreBindPreFlightResult,
    RejectedNodes,
    ReuseRule,
    Rows,
    StateNotFoundError,
    Status,
    error,
    plugin_names,
    unresolvable,
    unschedulable,
)

NOTHING_TO_GIVE_UP: Final = unschedulable()
DEALLOCATED: Final = unschedulable("deallocation of ResourceClaim completed")
DELETED: Final = unschedulable("deletion of ResourceClaim completed")
NO_ALLOCATION: Final = "claim allocation not found for node"

_STATE: Final = plugin_names.DYNAMIC_RESOURCES
_ATTEMPT: Final = f"{plugin_names.DYNAMIC_RESOURCES}/attempt"
_NONE: Final = PodClaims()
_PARALLEL: Final = PreBindPreFlightResult(allow_parallel=True)


class DynamicResources:
    """Implements all extension points of upstream's plugin."""

    name: ClassVar[str] = plugin_names.DYNAMIC_RESOURCES
    args_type: ClassVar[type[DynamicResourcesArgs]] = DynamicResourcesArgs
    validate_args = staticmethod(argument_problems)
    required_resources: tuple[str, ...] = RESOURCES
    optional_resources: ClassVar[Mapping[str, str]] = OPTIONAL_RESOURCES
    permissions: ClassVar[tuple[Permission, ...]] = PERMISSIONS
    metrics: ClassVar[tuple[Metric, ...]] = (*WRITE_METRICS, *WAIT_METRICS)
    # Claims are separate objects, so results do not depend on the signature alone.
    filter_reuse: ClassVar[ReuseRule | None] = NEVER
    filter_depends_only_on_table: ClassVar[bool] = False
    score_reuse: ClassVar[ReuseRule | None] = NEVER

    def __init__(self, args: DynamicResourcesArgs | None, handle: Handle) -> None:
        args = args or DynamicResourcesArgs()
        require_valid(argument_problems(args))
        self._handle = handle
        self._features = features = Features.of_gates(handle.feature_gates)
        self._filter_timeout = args.filter_timeout.total_seconds() * features.filter_timeout
        self._binding_timeout = args.binding_timeout.total_seconds()
        if features.taint_rules:
            self.required_resources = (*RESOURCES, RULES)
        self._devices = handle.shared(self.name, lambda: ClusterDevices(handle, features))
        self._verdicts = KeptVerdicts()

    # -- PreEnqueue, PreFilter -------------------------------------------------------------------

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Gate a pod until all its claims exist, and none is being allocated for another pod."""
        if not pod.signature.resource_claims:
            return None
        # Here, since together with the first expression it would take too long.
        cel.prepare()
        devices = self._devices
        try:
            claims = pod_claims(pod, devices.claims.get)
        except ClaimsUnavailableError as error:
            return unreadable(self._handle) or unresolvable(str(error))
        status = None
        for claim in claims:
            if claim.status.allocation is None:
                devices.sharers.add(claim, pod.metadata.uid)
                if status is None and devices.allocated.is_in_flight(claim.metadata.uid):
                    devices.group_claims.keep_out("", (claim.metadata.uid,))
                    status = unresolvable(IN_FLIGHT.format(claim=claim_key(claim)))
        return status

    def skips_alike(self, pod: Pod) -> bool:
        """Whether the pod has no claims: then the result does not depend on its name."""
        return not pod.signature.resource_claims

    def concerns(self, pod: Pod) -> bool:
        """Whether the pod has claims, or requests an extended resource that a class serves."""
        signature = pod.signature
        if signature.resource_claims:
            return True
        classes = self._devices.by_resource
        return bool(classes) and any(name in classes for name in considered(pod))

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Look up the pod's claims; skip a pod that needs no devices."""
        earlier: PodClaims | None = state.get(_STATE)
        # Written at once, so that PostFilter knows that PreFilter of this plugin ran.
        state.write(_STATE, _NONE)
        named: Sequence[ResourceClaim] = ()
        if pod.signature.resource_claims:
            denied = unreadable(self._handle)
            if denied is not None:
                return denied
            try:
                named = pod_claims(pod, self._devices.claims.get)
            except ClaimsUnavailableError as error:
                return unresolvable(str(error))
        resources: Mapping[str, str] = {}
        if earlier is not None and earlier.created is not None:
            # The node is filtered again before the bind, after PreBind created the claim.
            named = (*named, earlier.created)
        elif self._devices.by_resource and pod.signature.requests.scalars:
            resources = self._served_resources(pod)
        if not named and not resources:
            # Score is skipped as well; upstream gives every node 0.
            state.skip_score.add(self.name)
            return SKIP
        claims, problem_status = self._classify(state, pod, named, resources)
        if problem_status is not None:
            if state.info is not None:
                self._devices.rejected(pod, state.group)
            return problem_status
        state.write(_STATE, claims)
        attempt = self._attempt(state, pod, claims)
        state.write(_ATTEMPT, attempt)
        if not attempt.scores_anything:
            state.skip_score.add(self.name)
        return None

    def _served_resources(self, pod: Pod) -> dict[str, str]:
        """Map the pod's extended resources that a class serves to the name of the class."""
        classes = self._devices.by_resource
        return {
            name: found.metadata.name
            for name in considered(pod)
            if (found := classes.get(name)) is not None
        }

    def _classify(
        self,
        state: CycleState,
        pod: Pod,
        named: Sequence[ResourceClaim],
        resources: Mapping[str, str],
    ) -> tuple[PodClaims, Status | None]:
        """Sort the claims into the fields of `PodClaims`, or return why no node can serve them."""
        if state.group:
            named = [self._as_allocated(state, each) for each in named]
        claims = PodClaims(named=tuple(named), resources=resources)
        if resources:
            claims.extra = self._devices.extra_claim(pod) or unnamed_claim(
                pod, self._new_uid(state)
            )
            claims.unserved = tuple(each for each in considered(pod) if each not in resources)
        reach, broken, waiting = [], [], []
        for claim in named:
            allocation = claim.status.allocation
            if allocation is None:
                status = rejection(
                    claim,
                    self._devices.classes,
                    is_in_flight=self._devices.allocated.is_in_flight(claim.metadata.uid),
                    prioritized_list=self._features.prioritized_list,
                )
                if status is not None:
                    return claims, status
                waiting.append(claim)
                continue
            if allocation.node_selector is not None:
                compiled = compile_node_selector(allocation.node_selector)
                for problem in compiled.errors:
                    return claims, error(problem)
                reach.append((claim, compiled))
            if self._features.binding_conditions and is_broken(
                claim, state.now, self._binding_timeout
            ):
                broken.append(claim)
        claims.open, claims.reach, claims.broken = tuple(waiting), tuple(reach), tuple(broken)
        return claims, None

    def _as_allocated(self, state: CycleState, claim: ResourceClaim) -> ResourceClaim:
        """Return a claim with the allocation that another member of the group has just made."""
        used = self._devices.group_claims.of(claim, state.group)
        if used is None or used.allocation is None:
            return claim
        state.tied_to = (*state.tied_to, used.writer)
        status = msgspec.structs.replace(claim.status, allocation=used.allocation)
        return msgspec.structs.replace(claim, status=status)

    def _attempt(self, state: CycleState, pod: Pod, claims: PodClaims) -> DeviceAttempt:
        monotonic, seconds = self._handle.clock.monotonic, self._filter_timeout

        def check_time() -> None:
            try:
                state.check_time()
            except Exception as error:  # the engine's, which passes with a note
                error.add_note(f"while it searched devices for {claims.description()}")
                raise

        return DeviceAttempt(
            pod,
            claims,
            self._devices,
            self._verdicts,
            lambda: SearchBudget(monotonic, seconds, check_time),
            self._random_uid,
        )

    def _new_uid(self, state: CycleState) -> str:
        # A trial must not advance the random source of the scheduler.
        return "" if state.info is None else self._random_uid()

    def _random_uid(self) -> str:
        """Return a random UUID (version 4)."""
        bits = self._handle.random.randrange(1 << 122)
        digits = f"{bits >> 74:012x}4{bits >> 62 & 0xFFF:03x}{8 | bits >> 60 & 3:x}"
        digits += f"{bits & (1 << 60) - 1:015x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    # -- Filter, PostFilter ----------------------------------------------------------------------

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node that cannot serve all claims."""
        attempt: DeviceAttempt | None = state.get(_ATTEMPT)
        if attempt is None:
            return None
        try:
            code = attempt.code(node)
        except AllocationError as failure:
            return error(failure)
        return REASONS[code] if code else None

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Columnar form of `filter`; raises `AllocationError` for a failure on any of `rows`."""
        attempt: DeviceAttempt | None = state.get(_ATTEMPT)
        return all_pass(rows) if attempt is None else attempt.codes(table, rows)

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return the rejection."""
        return REASONS[code]

    def explain_rejection(
        self, state: CycleState, pod: Pod, table: NodeTableView, rejected: RejectedNodes
    ) -> str:
        """Return how many devices of the nodes match, and what the others lack."""
        if rejected.status.message == NOT_CREATED.format(pod=pod.key):
            names = templates_without_claim(pod)
            return listed(names, len(names))
        claims: PodClaims = state.get(_STATE) or _NONE
        return explain(self._devices, claims, table, rejected, state.check_time)

    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeToStatus) -> PostFilterResult:
        """Deallocate a claim that is not available on the pod's nodes and that no other pod uses.

        If another plugin's PreFilter ended the attempt before this plugin's ran, the result is an
        Error, which prevents preemption, as observed in kube-scheduler v1.36.2. The write runs in
        the background; if it fails, the pod is retried.
        """
        try:
            claims: PodClaims = _NONE if self.name in state.skip_filter else state.read(_STATE)
        except StateNotFoundError as missing:
            return PostFilterResult(error(str(missing)))
        if not claims:
            return PostFilterResult(NOTHING_TO_GIVE_UP)
        if state.info is not None:
            self._devices.rejected(pod, state.group)
        given_up = self.claim_to_give_up(state, pod)
        if given_up is None:
            return PostFilterResult(NOTHING_TO_GIVE_UP)
        if state.info is not None:
            self._handle.run_in_background(
                self._give_up(pod, given_up), f"give up {claim_key(given_up)}"
            )
        is_extra = given_up is claims.extra
        return PostFilterResult(DELETED if is_extra else DEALLOCATED)

    def claim_to_give_up(self, state: CycleState, pod: Pod) -> ResourceClaim | None:
        """Return the claim that PostFilter deallocates, or deletes if it is for extended resources.

        If there are several, upstream chooses one at random; here it is the first.
        """
        claims: PodClaims = state.get(_STATE) or _NONE
        for claim in claims.named:
            uid = claim.metadata.uid
            is_stored = not self._devices.allocated.is_in_flight(uid)
            if uid in claims.unavailable and is_stored and only_used_by(claim, pod):
                return claim
        extra = claims.extra
        return None if extra is None or extra.metadata.name == UNNAMED else extra

    async def _give_up(self, pod: Pod, claim: ResourceClaim) -> None:
        try:
            await self.give_up(claim)
        except Exception:
            self._handle.wake((pod.metadata.uid,), self.name)
            raise

    async def give_up(self, claim: ResourceClaim) -> None:
        """Deallocate a claim, or delete it if it was created for extended resources."""
        if self._devices.is_extra(claim):
            await delete_extra(self._handle.api, claim)
        else:
            await deallocate(self._handle.api, claim)

    # -- Score -----------------------------------------------------------------------------------

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Prefer nodes where requests get their first alternatives."""
        attempt: DeviceAttempt | None = state.get(_ATTEMPT)
        return 0 if attempt is None else attempt.score(node)

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """Columnar form of `score`."""
        attempt: DeviceAttempt | None = state.get(_ATTEMPT)
        return no_scores(rows) if attempt is None else attempt.scores(table, rows)

    def normalize_scores(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows, scores: Int64Column
    ) -> Int64Column:
        """Scale the highest score to 100."""
        return default_normalize(scores)

    # -- Reserve, PreBind ------------------------------------------------------------------------

    def allocations(
        self, state: CycleState, node: Node
    ) -> list[tuple[ResourceClaim, AllocationResult]] | None:
        """Return the allocations that Reserve would make on a node; None if it does not fit."""
        attempt: DeviceAttempt | None = state.get(_ATTEMPT)
        return [] if attempt is None else attempt.allocate(node)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Allocate devices of the node to the open claims, in memory."""
        claims: PodClaims | None = state.get(_STATE)
        if claims is None:
            return None
        if claims.open or claims.extra is not None:
            node = self._node(node_name)
            try:
                found = None if node is None else self.allocations(state, node)
            except AllocationError as failure:
                return error(failure)
            if found is None:
                return error(NO_ALLOCATION)
            for claim, allocation in found:
                claims.reserved[claim.metadata.uid] = allocation
                self._devices.begin(claim.metadata.uid, allocation)
                if state.info is not None and not state.group:
                    self._devices.sharers.hold(claim.metadata.uid, pod.metadata.uid)
        if state.group:
            self._join(state.group, pod, claims)
        return None

    def _join(self, group: str, pod: Pod, claims: PodClaims) -> None:
        """Share the claims with other members of the group."""
        for claim in claims.named:
            uid = claim.metadata.uid
            if is_reserved_for(claim, pod):
                continue
            used = self._devices.group_claims.join(claim, group, pod, claims.reserved.get(uid))
            if used is not None:
                claims.joined[uid] = used

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo allocations that are not stored; stored ones stay, without the pod's reservation."""
        claims: PodClaims = state.get(_STATE) or _NONE
        if not claims:
            return
        for uid in claims.reserved:
            self._devices.end(uid)
        claims.reserved.clear()
        for uid, used in claims.joined.items():
            self._devices.group_claims.leave(uid, used, pod)
            if used.written is not None:
                claims.written.setdefault(uid, used.written)
        claims.joined.clear()
        api = self._handle.api
        for claim in claims.named:
            newest = claims.written.pop(claim.metadata.uid, claim)
            if newest.status.allocation is not None and is_reserved_for(newest, pod):
                self._in_background(partial(unreserve, api, pod, newest), newest)
        created, claims.created = claims.created, None
        extra = claims.extra
        if created is None and extra is not None and extra.metadata.name != UNNAMED:
            created = extra
        if created is not None:
            self._devices.end(created.metadata.uid)
            self._in_background(partial(delete_extra, api, created), created)

    def _in_background(self, work: Callable[[], object], claim: ResourceClaim) -> None:
        self._handle.run_in_background(work(), f"unreserve {claim_key(claim)}")  # type: ignore[arg-type]

    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        """Skip pods without claims."""
        return _PARALLEL if state.get(_STATE) else SKIP

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Write the claims, then wait for the binding conditions of their devices."""
        attempt: DeviceAttempt | None = state.get(_ATTEMPT)
        if attempt is None:
            return None
        node = self._node(node_name)
        if node is None:
            return error(NO_ALLOCATION)
        handle, devices, claims = self._handle, self._devices, attempt.claims
        try:
            await ClaimWriter(handle, devices, attempt, pod, node).write()
            if self._features.binding_conditions:
                names = [each.metadata.name for each in claims.named]
                if claims.created is not None:
                    names.append(claims.created.metadata.name)
                await wait_until_ready(
                    handle, devices, pod, node_name, names, self._binding_timeout
                )
        except (PreBindError, NotReadyError) as failure:
            return error(failure)
        return None

    def explain_pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> str:
        """Return for which devices PreBind waits."""
        return f"until its devices are ready, for at most {span(self._binding_timeout)}"

    def _node(self, name: str) -> Node | None:
        row = self._handle.table.row_of(name)
        return None if row is None else self._handle.table.node_info(row).node

    # -- events ----------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the registrations of `requeueing.py`."""
        return device_events(self._devices)

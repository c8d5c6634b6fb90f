"""DynamicResources, complete for pods without resource claims.

Upstream: `dynamicresources.go`. kubestow cannot allocate devices. PreFilter rejects a pod with
claims. PreEnqueue does not: a gated pod gets neither condition nor event, so its owner would not
learn the reason. For all other pods only PostFilter has an effect, as upstream.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from plugins.arguments import Arguments, require_valid
from plugins.dynamic_resources.permissions import OPTIONAL_RESOURCES, PERMISSIONS, RESOURCES
from plugins.row_selection import all_pass, no_scores
from scheduler.api.pod import Pod
from scheduler.framework import (
    SKIP,
    ClusterEventWithHint,
    Codes,
    Columns,
    CycleState,
    Handle,
    Int64Column,
    NodeInfo,
    NodeTableView,
    NodeToStatus,
    Permission,
    PostFilterResult,
    PreBindPreFlightResult,
    ReuseRule,
    Rows,
    StateNotFoundError,
    Status,
    error,
    plugin_names,
    unresolvable,
    unschedulable,
)
from scheduler.framework.field_errors import invalid

UNSUPPORTED: Final = (
    "pod uses resource claims ({claims}), which kubestow cannot allocate: "
    "remove spec.resourceClaims or use a scheduler that supports dynamic resource allocation"
)
NO_CLAIMS: Final = unschedulable("no new claims to deallocate")

_STATE: Final = plugin_names.DYNAMIC_RESOURCES


class DynamicResourcesArgs(Arguments):
    """Arguments of DynamicResources: read and validated as upstream does, without effect so far."""

    filter_timeout: dt.timedelta = dt.timedelta(seconds=10)
    """Maximum time to search devices on one node; 0 means no limit. Default 10s, as upstream."""

    binding_timeout: dt.timedelta = dt.timedelta(seconds=600)
    """Maximum wait for devices to become ready before binding. Default 600s, as upstream."""


class DynamicResources:
    """Implements upstream's extension points, so that messages and metrics agree."""

    name: ClassVar[str] = plugin_names.DYNAMIC_RESOURCES
    args_type: ClassVar[type[DynamicResourcesArgs]] = DynamicResourcesArgs
    required_resources: ClassVar[tuple[str, ...]] = RESOURCES
    optional_resources: ClassVar[Mapping[str, str]] = OPTIONAL_RESOURCES
    permissions: ClassVar[tuple[Permission, ...]] = PERMISSIONS
    pre_filter_reusable: ClassVar[bool] = True
    filter_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.EXISTENCE)
    score_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.EXISTENCE)

    def __init__(self, args: DynamicResourcesArgs | None, handle: Handle) -> None:
        if args is not None:
            require_valid(self.validate_args(args))

    @staticmethod
    def validate_args(args: DynamicResourcesArgs) -> Iterator[tuple[str, str]]:
        """Require non-negative timeouts, and at least 1 s for binding."""
        if args.filter_timeout < dt.timedelta():
            yield "filterTimeout", invalid(_shown(args.filter_timeout), "must be zero or positive")
        if args.binding_timeout < dt.timedelta(seconds=1):
            yield (
                "bindingTimeout",
                invalid(_shown(args.binding_timeout), "must be at least 1 second"),
            )

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Admit every pod; see the module's docstring."""
        return None

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Reject a pod with claims; skip all others."""
        claims = pod.signature.resource_claims
        # Lets PostFilter see that PreFilter of this plugin ran.
        state.write(_STATE, bool(claims))
        if not claims:
            return SKIP
        refusal = unresolvable(UNSUPPORTED.format(claims=", ".join(each.name for each in claims)))
        return replace(refusal, skip_post_filter=True)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Accept every node; PreFilter has rejected pods with claims."""
        return None

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Columnar form of `filter`."""
        return all_pass(rows)

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return a status; never called, since no row is rejected."""
        return NO_CLAIMS

    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeToStatus) -> PostFilterResult:
        """Find nothing to free, so the next PostFilter plugin runs.

        When another plugin's PreFilter ended the attempt before this one's, the result is an Error,
        which prevents preemption, as observed in kube-scheduler v1.36.2.
        """
        try:
            state.read(_STATE)
        except StateNotFoundError as missing:
            return PostFilterResult(error(str(missing)))
        return PostFilterResult(NO_CLAIMS)

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return 0: without claims no node is preferred."""
        return 0

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """Columnar form of `score`."""
        return no_scores(rows)

    def normalize_scores(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows, scores: Int64Column
    ) -> Int64Column:
        """Keep the zeros."""
        return scores

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Do nothing: there is no claim to reserve."""
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Do nothing: there is no claim to release."""

    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        """Skip PreBind: there is no claim."""
        return SKIP

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Do nothing: there is no claim to write."""
        return None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register nothing: a pod's claims cannot change, so no event can help a rejected pod.

        Upstream's registrations would also make the service watch claims, slices and classes.
        """
        return ()


def _shown(duration: dt.timedelta) -> str:
    return f"{duration.total_seconds():g}s"

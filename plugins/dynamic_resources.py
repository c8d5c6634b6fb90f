"""DynamicResources, exact for pods without resource claims (plugins.md 4.18).

Claims need an allocator that kubestow does not have. A pod with claims is refused in PreFilter
rather than gated in PreEnqueue, because a gated pod gets neither condition nor event and its owner
would not learn why it waits. For all other pods this plugin takes part only in PostFilter, as
upstream.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from plugins.arguments import ArgumentProblem, Arguments, invalid, require_valid
from plugins.normalization import default_normalize
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

UNSUPPORTED: Final = (
    "pod uses resource claims ({claims}), which kubestow cannot allocate: "
    "remove spec.resourceClaims or use a scheduler that supports dynamic resource allocation"
)
NO_CLAIMS: Final = unschedulable("no new claims to deallocate")

_STATE: Final = plugin_names.DYNAMIC_RESOURCES


class DynamicResourcesArgs(Arguments):
    """Arguments of DynamicResources: read and checked as upstream does, without effect so far."""

    filter_timeout: dt.timedelta = dt.timedelta(seconds=10)
    """Longest search for devices on one node; 0 means no limit. Default 10s, as upstream."""

    binding_timeout: dt.timedelta = dt.timedelta(seconds=600)
    """Longest wait for devices to become ready before binding. Default 600s, as upstream."""


class DynamicResources:
    """Stands in upstream's place, so that messages and extension points agree."""

    name: ClassVar[str] = plugin_names.DYNAMIC_RESOURCES
    args_type: ClassVar[type[DynamicResourcesArgs]] = DynamicResourcesArgs
    pre_filter_reusable: ClassVar[bool] = True
    filter_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.EXISTENCE)
    score_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.EXISTENCE)

    def __init__(self, args: DynamicResourcesArgs | None, handle: Handle) -> None:
        if args is not None:
            require_valid(self.validate_args(args))

    @staticmethod
    def validate_args(args: DynamicResourcesArgs) -> Iterator[ArgumentProblem]:
        """Timeouts must make sense."""
        if args.filter_timeout < dt.timedelta():
            yield invalid("filterTimeout", _shown(args.filter_timeout), "must be zero or positive")
        if args.binding_timeout < dt.timedelta(seconds=1):
            yield invalid(
                "bindingTimeout", _shown(args.binding_timeout), "must be at least 1 second"
            )

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Lets every pod in, see above."""
        return None

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Refuse a pod with claims; skip all others."""
        claims = pod.signature.resource_claims
        # PostFilter must be able to tell that PreFilter had its turn.
        state.write(_STATE, bool(claims))
        if not claims:
            return SKIP
        refusal = unresolvable(UNSUPPORTED.format(claims=", ".join(each.name for each in claims)))
        return replace(refusal, skip_post_filter=True)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Never reached with a pod that has claims."""
        return None

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """As `filter`."""
        return all_pass(rows)

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Asked for no code; the contract wants an answer all the same."""
        return NO_CLAIMS

    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeToStatus) -> PostFilterResult:
        """Nothing to free, so the next PostFilter plugin is asked.

        When another plugin's PreFilter ended the attempt before this one's, the answer is an
        Error, which keeps preemption from being tried: observed of kube-scheduler v1.36.2.
        """
        try:
            state.read(_STATE)
        except StateNotFoundError as missing:
            return PostFilterResult(error(str(missing)))
        return PostFilterResult(NO_CLAIMS)

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """No claims, no preference."""
        return 0

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """As `score`."""
        return no_scores(rows)

    def normalize_scores(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows, scores: Int64Column
    ) -> Int64Column:
        """All zero stays zero."""
        return default_normalize(scores)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """No claim to reserve."""
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """No claim to give back."""

    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        """PreBind has nothing to do."""
        return SKIP

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """No claim to write."""
        return None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """None: a pod's claims cannot change, so no event makes a refused pod schedulable here.

        Upstream's registrations would also make the service watch claims, slices and classes in
        vain.
        """
        return ()


def _shown(duration: dt.timedelta) -> str:
    return f"{duration.total_seconds():g}s"

"""One attempt to schedule a pod with claims: Filter, Score, and the allocations for a node.

Upstream: `dynamicresources.go: Filter, computesScore`. Filter only decides whether devices can be
allocated; Reserve repeats the same search in the same state for the chosen node. As upstream, the
allocator runs even on nodes where an allocated claim is not available, since its result determines
the message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from plugins.details import listed
from plugins.dynamic_resources.allocator import Allocator
from plugins.dynamic_resources.budget import (
    ExpensiveSelectorsError,
    SearchBudget,
    SearchTimeoutError,
)
from plugins.dynamic_resources.claims import allocated_requests, preference_score
from plugins.dynamic_resources.cluster_devices import ClusterDevices
from plugins.dynamic_resources.devices import quantity
from plugins.dynamic_resources.errors import AllocationError, NodeAllocationError
from plugins.dynamic_resources.extended_resources import (
    RequestMapping,
    claim_requests,
    with_requests,
)
from plugins.dynamic_resources.group_claims import GroupClaim
from plugins.dynamic_resources.verdicts import DeviceVerdict, KeptVerdicts, NodeVerdicts, content_of
from plugins.node_matching import node_selector_mask
from plugins.row_selection import all_pass, no_scores, selector
from scheduler.api.devices import AllocationResult, ResourceClaim
from scheduler.api.node import Node
from scheduler.api.node_selectors import CompiledNodeSelector
from scheduler.api.pod import Pod
from scheduler.framework import (
    Codes,
    Int64Column,
    NodeInfo,
    NodeTableView,
    Rows,
    Status,
    unresolvable,
)

NO_DEVICES: Final = 1
INVALID_POOLS: Final = 2
NOT_AVAILABLE: Final = 3
STALE_CLAIM: Final = 4
NO_RESOURCE: Final = 5

REASONS: Final[Mapping[int, Status]] = {
    NO_DEVICES: unresolvable("cannot allocate all claims"),
    INVALID_POOLS: unresolvable("invalid resource pools were encountered"),
    NOT_AVAILABLE: unresolvable("resourceclaim not available on the node"),
    STALE_CLAIM: unresolvable("cannot schedule extended resource claim"),
    NO_RESOURCE: unresolvable("cannot fit resource"),
}
"""The rejection for each code."""

TIMED_OUT: Final = "node {node}: timed out trying to allocate devices"
EXPENSIVE: Final = (
    "the selectors are expensive, and are evaluated for further devices after a pause"
)

_MAX_BITS: Final = 62
"""Maximum number of extended resources whose columns are combined in one integer per row."""


@dataclass(slots=True, eq=False)
class PodClaims:
    """The claims of a pod in one attempt."""

    #: The claims of the spec, in order; with the allocation that a member of the group has made.
    named: tuple[ResourceClaim, ...] = ()
    #: The claim for extended resources: an existing one, or the one that would be created.
    extra: ResourceClaim | None = None
    #: The extended resources that the pod requests, with the class that serves each.
    resources: Mapping[str, str] = field(default_factory=dict)
    #: Requested extended resources that no class serves.
    unserved: tuple[str, ...] = ()
    #: The claims in `named` without an allocation.
    open: tuple[ResourceClaim, ...] = ()
    #: Allocated claims with the node selectors of their allocations.
    reach: tuple[tuple[ResourceClaim, CompiledNodeSelector], ...] = ()
    #: Allocated claims whose devices failed or were not ready in time; available on no node.
    broken: tuple[ResourceClaim, ...] = ()
    #: UIDs of allocated claims that are not available on some node, found by Filter.
    unavailable: set[str] = field(default_factory=set)
    #: Reserved allocations by claim UID; then the claims as written by PreBind.
    reserved: dict[str, AllocationResult] = field(default_factory=dict)
    written: dict[str, ResourceClaim] = field(default_factory=dict)
    #: Claims shared with other members of the pod group, by UID.
    joined: dict[str, GroupClaim] = field(default_factory=dict)
    #: The claim for extended resources, once PreBind has created it.
    created: ResourceClaim | None = None

    def __bool__(self) -> bool:
        return bool(self.named) or self.extra is not None

    def description(self) -> str:
        """Return the names of the claims without allocation and of the extended resources."""
        texts = [f"claim {each.metadata.name}" for each in self.open]
        texts += [f"extended resource {each}" for each in self.resources]
        return listed(texts, len(texts))


class DeviceAttempt:
    """Evaluates nodes for the claims of one pod."""

    def __init__(
        self,
        pod: Pod,
        claims: PodClaims,
        devices: ClusterDevices,
        kept: KeptVerdicts,
        new_budget: Callable[[], SearchBudget],
        new_uid: Callable[[], str],
    ) -> None:
        self.claims = claims
        self._pod = pod
        self._devices = devices
        self._kept = kept
        self._new_budget = new_budget
        #: Score of the claims that are already allocated.
        self._base = sum(
            preference_score(each, allocated_requests(each.status.allocation))
            for each in claims.named
            if each.status.allocation is not None
        )
        self._allocator = Allocator(
            devices.features,
            devices.allocated.state(),
            devices.classes,
            devices.slices,
            devices.selectors,
            new_uid,
            pools=devices.pools_of,
        )
        self._requests: dict[
            tuple[str, ...], tuple[ResourceClaim | None, tuple[RequestMapping, ...]]
        ] = {}

    # -- extended resources ----------------------------------------------------------------------

    def served(self, node: Node) -> tuple[str, ...]:
        """Return the extended resources that DRA devices must serve on a node."""
        offered = node.status.allocatable
        return tuple(name for name in self.claims.resources if not quantity(offered.get(name, "0")))

    def extra_claim(
        self, served: tuple[str, ...]
    ) -> tuple[ResourceClaim | None, tuple[RequestMapping, ...]]:
        """Return the claim for extended resources on a node, and its mappings; None: no claim."""
        extra = self.claims.extra
        if extra is None or (not served and not self.claims.named):
            return None, ()
        found = self._requests.get(served)
        if found is None:
            requests, mappings = claim_requests(
                self._pod, {name: self.claims.resources[name] for name in served}
            )
            found = self._requests[served] = with_requests(extra, requests), mappings
        return found

    def _lacks(self, node: Node) -> bool:
        """Whether a requested resource is neither on the node nor served by a class."""
        return any(name not in node.status.allocatable for name in self.claims.unserved)

    @property
    def is_stale(self) -> bool:
        """Whether the claim for extended resources remains from an earlier attempt."""
        extra = self.claims.extra
        return extra is not None and bool(extra.spec.devices.requests)

    # -- one node --------------------------------------------------------------------------------

    def code(self, info: NodeInfo) -> int:
        """Return the filter code of a node, 0 if it passes; raises `AllocationError`."""
        node, claims = info.node, self.claims
        wanted = claims.open
        if claims.extra is not None:
            if self.is_stale:
                return STALE_CLAIM
            if self._lacks(node):
                return NO_RESOURCE
            extra, _ = self.extra_claim(self.served(node))
            if extra is None and not claims.named:
                return 0
            wanted = wanted if extra is None else (*wanted, extra)
        unavailable = {each.metadata.uid for each in claims.broken} | {
            each.metadata.uid
            for each, reach in claims.reach
            if not reach.matches(node.metadata.labels, node.metadata.name)
        }
        if wanted:
            code = self._search(node, wanted, self._new_budget(), scored=False).code
            if code:
                return code
        claims.unavailable |= unavailable
        return NOT_AVAILABLE if unavailable else 0

    def score(self, info: NodeInfo) -> int:
        """Return the raw score of a node that passed."""
        wanted = self._wanted(info.node)
        if not wanted:
            return self._base
        found = self._search(info.node, wanted, self._new_budget(), scored=True)
        return self._base + found.score

    def allocate(self, node: Node) -> list[tuple[ResourceClaim, AllocationResult]] | None:
        """Return the open claims with their allocations on a node, None if it does not fit."""
        wanted = self._wanted(node)
        if not wanted:
            return []
        try:
            found = self._allocator.allocate(node, wanted, self._new_budget())
        except NodeAllocationError:
            return None
        except SearchTimeoutError as error:
            raise _timed_out(node, error) from error
        return None if found is None else list(zip(wanted, found, strict=True))

    def _wanted(self, node: Node) -> tuple[ResourceClaim, ...]:
        extra = None
        if self.claims.extra is not None:
            extra, _ = self.extra_claim(self.served(node))
        return self.claims.open if extra is None else (*self.claims.open, extra)

    def _search(
        self, node: Node, wanted: Sequence[ResourceClaim], budget: SearchBudget, *, scored: bool
    ) -> DeviceVerdict:
        try:
            if not scored:
                return DeviceVerdict(
                    0 if self._allocator.fits(node, wanted, budget) else NO_DEVICES
                )
            # Not `allocate`, which would draw from the random source even in a trial.
            found = self._allocator.chosen(node, wanted, budget)
        except NodeAllocationError:
            return DeviceVerdict(INVALID_POOLS)
        except SearchTimeoutError as error:
            raise _timed_out(node, error) from error
        if found is None:
            return DeviceVerdict(NO_DEVICES)
        return DeviceVerdict(
            0, sum(preference_score(*each) for each in zip(wanted, found, strict=True))
        )

    # -- many nodes ------------------------------------------------------------------------------

    def codes(self, table: NodeTableView, rows: Rows) -> Codes:
        """Return the code of each of `rows`; raises `AllocationError`."""
        claims = self.claims
        codes = all_pass(rows)
        if claims.extra is not None and self.is_stale:
            codes[:] = STALE_CLAIM
            return codes
        for wanted, positions in self._groups(table, rows, codes):
            if wanted:
                codes[positions] = self._verdicts(wanted, table).codes(
                    rows[positions], self._searcher(wanted, table)
                )
        self._mark_unavailable(table, rows, codes)
        return codes

    def scores(self, table: NodeTableView, rows: Rows) -> Int64Column:
        """Return the raw score of each of `rows`, which passed."""
        scores = no_scores(rows) + self._base
        for wanted, positions in self._groups(table, rows, all_pass(rows)):
            if wanted and _has_alternatives(wanted):
                found = self._verdicts(wanted, table)
                found.codes(rows[positions], self._searcher(wanted, table))
                scores[positions] += found.scores(rows[positions])
        return scores

    @property
    def scores_anything(self) -> bool:
        """Whether any node may score more than 0."""
        return bool(self._base) or _has_alternatives(self.claims.open)

    def _groups(
        self, table: NodeTableView, rows: Rows, codes: Codes
    ) -> list[tuple[tuple[ResourceClaim, ...], Rows]]:
        """Group rows by the open claims there; return (claims, indices into `rows`).

        The claim for extended resources differs by node. Also writes the codes of rows that lack an
        extended resource.
        """
        claims = self.claims
        everywhere: Rows = np.arange(len(rows), dtype=np.intp)
        if claims.extra is None:
            return [(claims.open, everywhere)]
        for position in self._doubtful(table, rows):
            if self._lacks(table.node_info(int(rows[position])).node):
                codes[position] = NO_RESOURCE
        groups: dict[tuple[str, ...], list[int]] = {}
        for position, served in enumerate(self._served(table, rows)):
            if not codes[position]:
                groups.setdefault(served, []).append(position)
        found = []
        for served, positions in groups.items():
            extra, _ = self.extra_claim(served)
            wanted = claims.open if extra is None else (*claims.open, extra)
            found.append((wanted, np.array(positions, dtype=np.intp)))
        return found

    def _doubtful(self, table: NodeTableView, rows: Rows) -> list[int]:
        """Return the indices of rows that may lack a resource that no class serves."""
        index = selector(table, rows)
        doubtful = np.zeros(len(rows), dtype=np.bool_)
        for name in self.claims.unserved:
            doubtful |= table.scalar_amounts(name, index)[0] == 0
        return [int(each) for each in np.flatnonzero(doubtful)]

    def _served(self, table: NodeTableView, rows: Rows) -> list[tuple[str, ...]]:
        names = tuple(self.claims.resources)
        if len(names) > _MAX_BITS:
            return [self.served(table.node_info(row).node) for row in rows.tolist()]
        index = selector(table, rows)
        bits = no_scores(rows)
        for bit, name in enumerate(names):
            bits |= (table.scalar_amounts(name, index)[0] == 0).astype(np.int64) << bit
        by_bits = {
            each: tuple(name for bit, name in enumerate(names) if each >> bit & 1)
            for each in set(bits.tolist())
        }
        return [by_bits[each] for each in bits.tolist()]

    def _verdicts(self, wanted: tuple[ResourceClaim, ...], table: NodeTableView) -> NodeVerdicts:
        found = self._kept.of(content_of(wanted))
        found.refresh(table, self._devices.changes)
        return found

    def _searcher(
        self, wanted: tuple[ResourceClaim, ...], table: NodeTableView
    ) -> Callable[[int], DeviceVerdict]:
        verdicts, budget, scored = (
            self._kept.of(content_of(wanted)),
            self._new_budget(),
            _has_alternatives(wanted),
        )
        shared, reach_of = verdicts.shared, self._devices.slices.reach

        def search(row: int) -> DeviceVerdict:
            node = table.node_info(row).node
            reach = reach_of(node)
            if reach is None:
                return self._search(node, wanted, budget, scored=scored)
            found = shared.get(reach)
            if found is None:
                found = shared[reach] = self._search(node, wanted, budget, scored=scored)
            return found

        return search

    def _mark_unavailable(self, table: NodeTableView, rows: Rows, codes: Codes) -> None:
        """Reject rows where an allocated claim is not available, and record these claims."""
        claims = self.claims
        passed = codes == 0
        rejected = np.zeros(len(rows), dtype=np.bool_)
        index = selector(table, rows)
        for claim, reach in claims.reach:
            missed = passed & ~node_selector_mask(reach, table, rows, index)
            if missed.any():
                rejected |= missed
                claims.unavailable.add(claim.metadata.uid)
        if claims.broken and passed.any():
            rejected |= passed
            claims.unavailable.update(each.metadata.uid for each in claims.broken)
        codes[rejected] = NOT_AVAILABLE


def _timed_out(node: Node, reason: SearchTimeoutError) -> AllocationError:
    if isinstance(reason, ExpensiveSelectorsError):
        return AllocationError(EXPENSIVE)
    return AllocationError(TIMED_OUT.format(node=node.metadata.name))


def _has_alternatives(claims: Sequence[ResourceClaim]) -> bool:
    return any(request.first_available for each in claims for request in each.spec.devices.requests)

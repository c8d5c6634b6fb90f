"""Volumes of a pod on a node: bound volumes, static matches, provisioning.

Upstream: `binder.go: FindPodVolumes`. The scalar form (`one`) returns the plan for a node, the
columnar form (`rows`) the codes for many. Both follow upstream's order: bound claims; claims with a
selected node; then the others by size, each taking the smallest volume left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from plugins.row_selection import is_node
from plugins.volume_binding.assuming import AssumeCache
from plugins.volume_binding.claims import (
    ANN_SELECTED_NODE,
    NO_BINDING_MODE,
    WAIT_FOR_FIRST_CONSUMER,
    claim_class,
    fully_bound,
    requested_storage,
)
from plugins.volume_binding.migration import migrated_on, node_affinity, plugin_of_source
from plugins.volume_binding.provisioning import CONFLICT, Provision, Provisioning
from plugins.volume_binding.reachability import PositionsByLabel
from plugins.volume_binding.volumes import (
    Candidates,
    FreeVolumes,
    compiled_affinity,
    volume_affinity,
)
from scheduler.api.pod import Pod
from scheduler.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler.framework import BoolColumn, Codes, Handle, NodeInfo, PluginError, Rows

WRONG_NODE, NO_VOLUME = 1, 8
"""Bits of the plugin's codes, with CONFLICT and NO_SPACE of `provisioning.py`."""

_UNMATCHED: Final = -1
_CLOSED: Final = -2


class Binding(NamedTuple):
    """A claim and the volume to bind it to."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class Claims:
    """A pod's claims by state."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    #: Unbound claims that wait for their first consumer.
    delayed: tuple[PersistentVolumeClaim, ...] = ()
    #: Other unbound claims, which the volume controller must bind first.
    immediate: tuple[PersistentVolumeClaim, ...] = ()


@dataclass(slots=True)
class VolumePlan:
    """Bindings and provisions for a pod on one node."""

    #: Bits of the reasons to reject the node; 0 if it is accepted.
    code: int = 0
    bindings: list[Binding] = field(default_factory=list)
    provisions: list[Provision] = field(default_factory=list)


class Matcher:
    """Matches claims with volumes, assumed objects included."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self.volumes: AssumeCache[PersistentVolume] = AssumeCache(handle, "persistentvolumes")
        self.claims: AssumeCache[PersistentVolumeClaim] = AssumeCache(
            handle, "persistentvolumeclaims"
        )
        self._free = FreeVolumes(handle, self.volumes)
        self._provisioning = Provisioning(handle)

    def classify(self, pod: Pod, names: list[str]) -> Claims:
        """Sort the pod's claims by state, each name once. Raises PluginError."""
        bound, delayed, immediate = [], [], []
        for name in dict.fromkeys(names):
            claim = self.claims.get(name, pod.metadata.namespace)
            if claim is None:
                continue
            if fully_bound(claim):
                bound.append(claim)
            elif self._waits(claim) and not claim.spec.volume_name:
                delayed.append(claim)
            else:
                immediate.append(claim)
        return Claims(tuple(bound), tuple(delayed), tuple(immediate))

    def _waits(self, claim: PersistentVolumeClaim) -> bool:
        name = claim_class(claim)
        if not name:
            return False
        found: StorageClass | None = self._handle.listers["storageclasses"].get(name)
        if found is None:
            return False
        if found.volume_binding_mode is None:
            raise PluginError(NO_BINDING_MODE.format(name))
        return found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    # -- one node --------------------------------------------------------------------------------

    def one(self, claims: Claims, node: NodeInfo) -> VolumePlan:
        """Return the plan for a node."""
        plan = VolumePlan(self._bound_on(claims, node))
        if claims.delayed:
            self._delayed_on(claims, node, plan)
        return plan

    def reachable(self, volume: PersistentVolume, node: NodeInfo) -> bool:
        """Whether a volume's node affinity, after migration, accepts a node."""
        csi_node: CSINode | None = self._handle.listers["csinodes"].get(node.name)
        required = node_affinity(volume, csi_node)
        return required is None or compiled_affinity(required).matches(node.labels, "")

    def _bound_on(self, claims: Claims, node: NodeInfo) -> int:
        for claim in claims.bound:
            volume = self.volumes.get(claim.spec.volume_name)
            if volume is None:
                return NO_VOLUME
            if not self.reachable(volume, node):
                return WRONG_NODE
        return 0

    def _delayed_on(self, claims: Claims, node: NodeInfo, plan: VolumePlan) -> None:
        chosen, others = _by_selected_node(claims)
        if any(claim.metadata.annotations[ANN_SELECTED_NODE] != node.name for claim in chosen):
            plan.code |= CONFLICT
            return
        to_provision = list(chosen)
        taken: set[str] = set()
        for claim in others:
            volume = _match(self._free.candidates(claim), node, taken)
            if volume is None:
                to_provision.append(claim)
            else:
                taken.add(volume.metadata.name)
                plan.bindings.append(Binding(claim, volume))
        for claim in to_provision:
            provision = self._provisioning.one(claim, node)
            if not isinstance(provision, Provision):
                plan.code |= provision
                return
            plan.provisions.append(provision)

    # -- many nodes ------------------------------------------------------------------------------

    def rows(self, claims: Claims, positions: PositionsByLabel) -> Codes:
        """Return `VolumePlan.code` of each row."""
        codes = np.zeros(positions.count, dtype=np.int32)
        if claims.bound:
            self._bound_rows(claims, positions, codes)
        if claims.delayed:
            codes |= self._delayed_rows(claims, positions)
        return codes

    def _bound_rows(self, claims: Claims, positions: PositionsByLabel, codes: Codes) -> None:
        for claim in claims.bound:
            volume = self.volumes.get(claim.spec.volume_name)
            if volume is None:
                codes[codes == 0] = NO_VOLUME
                return
            reached = self._reached(volume, positions)
            if reached is not None:
                codes[(codes == 0) & ~reached] = WRONG_NODE

    def _reached(self, volume: PersistentVolume, positions: PositionsByLabel) -> BoolColumn | None:
        """Return the rows a bound volume accepts, None for all; migration depends on the node."""
        plugin = plugin_of_source(volume.spec)
        if plugin and any(
            migrated_on(plugin, each) for each in self._handle.listers["csinodes"].list()
        ):
            table = positions.table
            return np.array(
                [self.reachable(volume, table.node_info(row)) for row in positions.rows.tolist()],
                dtype=np.bool_,
            )
        affinity = volume_affinity(volume)
        if affinity is None:
            return None
        mask: BoolColumn = np.zeros(positions.count, dtype=np.bool_)
        mask[positions.reached(affinity)] = True
        return mask

    def _delayed_rows(self, claims: Claims, positions: PositionsByLabel) -> Codes:
        codes = np.zeros(positions.count, dtype=np.int32)
        chosen, others = _by_selected_node(claims)
        for claim in chosen:
            chosen_node = claim.metadata.annotations[ANN_SELECTED_NODE]
            codes[~is_node(positions.table, positions.rows, chosen_node)] = CONFLICT
        everywhere: BoolColumn = np.ones(positions.count, dtype=np.bool_)
        needed = [(claim, everywhere) for claim in chosen]
        taken = _Taken()
        for claim in others:
            matched = self._match_rows(claim, positions, taken)
            needed.append((claim, ~matched))
        for claim, missing in needed:
            undecided = missing & (codes == 0)
            if undecided.any():
                provisioning_codes = self._provisioning.rows(claim, positions)
                codes[undecided] = provisioning_codes[undecided]
        return codes

    def _match_rows(
        self, claim: PersistentVolumeClaim, positions: PositionsByLabel, taken: _Taken
    ) -> BoolColumn:
        """Return the rows where the claim gets a volume; adds the choice to `taken`."""
        choice = np.full(positions.count, _UNMATCHED, dtype=np.int64)
        candidates = self._free.candidates(claim)
        left = positions.count
        for volume in candidates.volumes:
            number = taken.number(volume.metadata.name)
            affinity = volume_affinity(volume)
            here = slice(None) if affinity is None else positions.reached(affinity)
            open_here = choice[here] == _UNMATCHED
            for earlier in taken.choices:
                open_here &= earlier[here] != number
            choice[here] = np.where(open_here, number, choice[here])
            left -= int(open_here.sum())
            if candidates.reserved:
                choice[choice == _UNMATCHED] = _CLOSED
            if not left:
                break
        taken.choices.append(choice)
        matched: BoolColumn = choice >= 0
        return matched


class _Taken:
    """Volumes taken by earlier claims of the pod, per row."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.choices: list[Rows] = []

    def number(self, name: str) -> int:
        """Return the number of a volume."""
        return self._numbers.setdefault(name, len(self._numbers))


def _by_selected_node(
    claims: Claims,
) -> tuple[list[PersistentVolumeClaim], list[PersistentVolumeClaim]]:
    """Return the delayed claims with a selected node, and the others by size."""
    chosen = [each for each in claims.delayed if ANN_SELECTED_NODE in each.metadata.annotations]
    others = [each for each in claims.delayed if ANN_SELECTED_NODE not in each.metadata.annotations]
    return chosen, sorted(others, key=lambda claim: requested_storage(claim) or 0)


def _match(candidates: Candidates, node: NodeInfo, taken: set[str]) -> PersistentVolume | None:
    for volume in candidates.volumes:
        if volume.metadata.name in taken:
            continue
        affinity = volume_affinity(volume)
        if affinity is None or affinity.matches(node.labels, ""):
            return volume
    return None

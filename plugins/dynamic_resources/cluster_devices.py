"""The devices of the cluster: slices, classes, claims, and allocations.

There is one object per process, shared by the plugins of all profiles (upstream: `dra_manager.go:
DefaultDRAManager`). It is kept up to date by watch events; nothing is computed before there is a
claim. A change of a device is recorded for the nodes that can access it, so that results for all
other nodes stay valid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from plugins.dynamic_resources.allocated import AllocatedDevices
from plugins.dynamic_resources.budget import Check
from plugins.dynamic_resources.claim_cache import ClaimCache
from plugins.dynamic_resources.devices import SliceView
from plugins.dynamic_resources.extended_resources import classes_by_resource, owner_of_extra_claim
from plugins.dynamic_resources.features import Features
from plugins.dynamic_resources.group_claims import GroupClaims
from plugins.dynamic_resources.permissions import CLAIMS, CLASSES, SLICES
from plugins.dynamic_resources.pools import Pool, PoolKey, Reach, SliceIndex, gather_pools
from plugins.dynamic_resources.precedence import Precedence
from plugins.dynamic_resources.selectors import Selectors
from plugins.dynamic_resources.sharers import Sharers
from plugins.dynamic_resources.taint_rules import RULES, TaintRules
from scheduler.api.devices import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.framework import Handle, plugin_names

EVERY_NODE: Final = ""
MAX_CHANGES: Final = 1 << 14
MAX_REJECTED: Final = 1 << 14
"""Maximum number of pods to wake when an allocation fails; others wait for the periodic flush."""


class DeviceChanges:
    """The names of nodes whose devices changed, in order, within a bounded window."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._first = 0

    @property
    def sequence(self) -> int:
        """Number of changes so far."""
        return self._first + len(self._names)

    def add(self, name: str) -> None:
        """Record a change of the devices of a node, or of `EVERY_NODE`."""
        self._names.append(name)
        if len(self._names) > MAX_CHANGES:
            del self._names[: MAX_CHANGES // 2]
            self._first += MAX_CHANGES // 2

    def since(self, sequence: int) -> frozenset[str] | None:
        """Return the nodes that changed after `sequence`; None: all."""
        if sequence == self.sequence:
            return frozenset()
        if sequence < self._first:
            return None
        changed = frozenset(self._names[sequence - self._first :])
        return None if EVERY_NODE in changed else changed


class ClusterDevices:
    """All devices and claims of the cluster. Used only from the scheduling loop."""

    def __init__(self, handle: Handle, features: Features) -> None:
        self.features = features
        self.selectors = Selectors()
        self.slices = SliceIndex()
        self.classes: dict[str, DeviceClass] = {}
        #: The class that serves each extended resource, by resource name.
        self.by_resource: dict[str, DeviceClass] = {}
        self.changes = DeviceChanges()
        self.allocated = AllocatedDevices(features, self._pool_changed)
        self.claims = ClaimCache(self._watched_claim, self.allocated.claim_changed)
        self.sharers = Sharers(handle)
        self.group_claims = GroupClaims()
        self._handle = handle
        self._listers = handle.listers
        #: UIDs of pods that were rejected while allocations were in flight.
        self._rejected: set[str] = set()
        #: UIDs of claims whose allocation may or may not have been stored (no response).
        self.unsettled: set[str] = set()
        #: Name and namespace of the claim for extended resources, by pod UID.
        self._extra: dict[str, tuple[str, str]] = {}
        self._pools: dict[Reach | str, list[Pool]] = {}
        self.precedence = Precedence(features, self.allocated, self.slices)
        self._rules = TaintRules(self._retaint) if features.taint_rules else None
        self._sources: dict[str, ResourceSlice] = {}
        subscriptions = handle.subscriptions
        subscriptions.on_object(CLAIMS, self._claim_event, in_trials=True)
        subscriptions.on_object(SLICES, self._slice_event, in_trials=True)
        subscriptions.on_object(CLASSES, self._class_event, in_trials=True)
        if self._rules is not None:
            subscriptions.on_object(RULES, self._rules.event, in_trials=True)
        subscriptions.on_trial(self._begin_trial)

    def _watched_claim(self, name: str, namespace: str) -> ResourceClaim | None:
        claim: ResourceClaim | None = self._listers[CLAIMS].get(name, namespace)
        return claim

    def pools_of(self, node: Node, check: Check | None = None) -> list[Pool]:
        """Return the pools with devices for a node; `check` is called for each slice examined.

        The result is cached for all nodes with the same slices. For nodes with local slices it is
        cached only while the devices of each slice concern a single node, so that the result
        depends on the node's name alone.
        """
        key: Reach | str | None = self.slices.reach(node)
        if key is None and self.slices.all_local:
            key = node.metadata.name
        if key is None:
            return gather_pools(self.slices, node, self.features, check)
        pools = self._pools.get(key)
        if pools is None:
            pools = gather_pools(self.slices, node, self.features, check)
            self._pools[key] = pools
        return pools

    def extra_claim(self, pod: Pod) -> ResourceClaim | None:
        """Return the existing claim for extended resources of a pod, if any."""
        key = self._extra.get(pod.metadata.uid)
        return None if key is None else self.claims.get(*key)

    def is_extra(self, claim: ResourceClaim) -> bool:
        """Whether a claim was created for the extended resources of a pod."""
        return bool(owner_of_extra_claim(claim))

    # -- allocations -----------------------------------------------------------------------------

    def begin(self, uid: str, allocation: AllocationResult) -> None:
        """Mark devices as allocated to a claim before its status is written."""
        self.allocated.begin(uid, allocation)

    def end(self, uid: str) -> None:
        """End an allocation in flight, unless it is unknown whether it was stored.

        If it was not stored, its devices are free again. No watch event shows this, so pods that
        were rejected meanwhile are woken.
        """
        if uid in self.unsettled or not self.allocated.is_in_flight(uid):
            return
        self.allocated.end(uid)
        if self.group_claims.is_unseen(uid):
            return
        self.sharers.release(uid)
        if self._rejected and uid not in self.allocated.stored():
            self._handle.wake(self._rejected, plugin_names.DYNAMIC_RESOURCES)
            self._rejected = set()
        elif not self.allocated.any_in_flight:
            self._rejected.clear()

    def rejected(self, pod: Pod, group: str = "") -> None:
        """Record that a pod was rejected, perhaps because of an allocation in flight.

        Rejections caused by other members of the same `group` do not count: their allocations end
        with the same cycle, so the group would be retried endlessly.
        """
        if not self.allocated.any_in_flight or len(self._rejected) >= MAX_REJECTED:
            return
        if not self.group_claims or self.group_claims.keep_out(group, self.allocated.in_flight()):
            self._rejected.add(pod.metadata.uid)

    def _begin_trial(self) -> Callable[[], None]:
        restore_order, restore_claims = self.precedence.begin_trial(), self.claims.begin_trial()

        def restore() -> None:
            restore_order()
            restore_claims()

        return restore

    def validate(self) -> None:
        """Raise AssertionError if the parts contradict each other."""
        self.claims.validate()
        self.allocated.validate()

    # -- events ----------------------------------------------------------------------------------

    def _claim_event(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._forget_extra(old)
            self.sharers.forget(old.metadata.uid)
        if new is not None and new.status.allocation is not None:
            self.sharers.forget(new.metadata.uid)
        if new is not None and (owner := owner_of_extra_claim(new)):
            self._extra[owner] = new.metadata.name, new.metadata.namespace
        self.precedence.event(old, new)
        self.claims.event(old, new)

    def _forget_extra(self, claim: ResourceClaim) -> None:
        owner, key = owner_of_extra_claim(claim), (claim.metadata.name, claim.metadata.namespace)
        if owner and self._extra.get(owner) == key:
            del self._extra[owner]

    def _slice_event(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if old is not None:
            self._sources.pop(old.metadata.name, None)
            self._slices_changed(_pool_of(old))
            self.slices.remove(old.metadata.name)
            self._slices_changed(_pool_of(old))
            # For nodes that only the old version selected.
            self._node_changed(SliceView(old))
        if new is not None:
            self._sources[new.metadata.name] = new
            self._set_slice(new)

    def _set_slice(self, source: ResourceSlice) -> None:
        if self._rules is not None:
            source = self._rules.tainted(source)
        view = SliceView(source)
        self.slices.set(view)
        self._slices_changed((view.driver, view.pool))

    def _retaint(self) -> None:
        """Rebuild all slices after a taint rule has changed."""
        for source in self._sources.values():
            self._set_slice(source)

    def _class_event(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        if old is not None:
            self.classes.pop(old.metadata.name, None)
        if new is not None:
            self.classes[new.metadata.name] = new
        if self.features.extended_resources:
            self.by_resource = classes_by_resource(self.classes.values())
        self.changes.add(EVERY_NODE)

    # -- which nodes a change concerns -----------------------------------------------------------

    def _pool_changed(self, key: PoolKey) -> None:
        names = self.slices.nodes_of_pool(key)
        if names is None:
            self.changes.add(EVERY_NODE)
            return
        for name in names:
            self.changes.add(name)

    def _node_changed(self, view: SliceView) -> None:
        self.changes.add(view.nodes.node_name if view.is_local else EVERY_NODE)
        self._pools.pop(view.nodes.node_name, None)

    def _slices_changed(self, key: PoolKey) -> None:
        names = self.slices.nodes_of_pool(key)
        if names is None or self.slices.has_counters(key):
            # All nodes with devices of a pool depend on its counters.
            self.changes.add(EVERY_NODE)
            self._pools.clear()
            return
        for name in names:
            self.changes.add(name)
            self._pools.pop(name, None)


def _pool_of(source: ResourceSlice) -> PoolKey:
    return source.spec.driver, source.spec.pool.name

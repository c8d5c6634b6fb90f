"""The devices of the cluster: slices, classes, claims, and who holds what.

One object per process, shared by the plugins of all profiles (upstream: `dra_manager.go:
DefaultDRAManager`). It follows the events of the watches; nothing is computed before there is a
claim. Every change of a device is noted for the nodes that reach it, so that results per node stay
valid for all others.
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
"""Pods to wake when an allocation fails; any others wait as long as unschedulable pods do."""


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
        """Note a change of the devices that a node reaches, or `EVERY_NODE`."""
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
    """All devices and claims of the cluster. Touched from the scheduling loop only."""

    def __init__(self, handle: Handle, features: Features) -> None:
        self.features = features
        self.selectors = Selectors()
        self.slices = SliceIndex()
        self.classes: dict[str, DeviceClass] = {}
        #: The class that serves an extended resource, by its name.
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
        #: UIDs of claims of which nobody knows whether their allocation was stored.
        self.unsettled: set[str] = set()
        #: Name and namespace of claims for extended resources, by the UID of their pod.
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
        """Return the pools that a node reaches; `check` is called for the slices looked at.

        They are kept for all nodes that reach the same slices, and for a node with slices of its
        own while all devices of a slice concern one node: then they depend on its name alone.
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
        """Return the claim for extended resources that exists for a pod."""
        key = self._extra.get(pod.metadata.uid)
        return None if key is None else self.claims.get(*key)

    def is_extra(self, claim: ResourceClaim) -> bool:
        """Whether a claim was made for the extended resources of a pod."""
        return bool(owner_of_extra_claim(claim))

    # -- allocations -----------------------------------------------------------------------------

    def begin(self, uid: str, allocation: AllocationResult) -> None:
        """Take devices for a claim before they are stored in its status."""
        self.allocated.begin(uid, allocation)

    def end(self, uid: str) -> None:
        """Forget an allocation in flight, unless it may have been stored unseen.

        If it was not stored its devices are free again. No event shows that, so the pods that were
        rejected meanwhile are woken.
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
        """Note a rejection, which an allocation in flight may have caused.

        Not one that other members of a `group` caused, which end with the same cycle: the group
        would be tried without end.
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
            # Nodes that only the old version reached.
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
        """Make all slices anew, since a taint rule changed."""
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
            # Whether a pool with counters is usable concerns all nodes.
            self.changes.add(EVERY_NODE)
            self._pools.clear()
            return
        for name in names:
            self.changes.add(name)
            self._pools.pop(name, None)


def _pool_of(source: ResourceSlice) -> PoolKey:
    return source.spec.driver, source.spec.pool.name

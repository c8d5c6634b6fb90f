"""Trials: changes made to the live state, decided on by the real engine, and taken back.

A trial changes stores and node table through the same event handlers as the watches do, so that
every plugin sees them. The queue hears of nothing. Of the plugins' callbacks for objects only those
are called that were subscribed for trials (`framework.Subscriptions`). Leaving the trial takes all
changes back in reverse order, with the random source and the state of plugins: no decision that
follows differs from one without the trial. Only the change log has grown, so that results of the
changed rows are evaluated once more.

Invariant: a trial runs in one piece on the event loop, between scheduling cycles. While it is open
nothing else may read or write the state.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self, cast

from scheduler.api.pod import Pod
from scheduler.api.quantity import QuantityError
from scheduler.api.signatures.interner import PodSignatures
from scheduler.api.stored import Existing
from scheduler.cache import Cache
from scheduler.client.deltas import Delta, DeltaType
from scheduler.client.kinds import Kinds
from scheduler.client.resources import NODES, PODS, Resource
from scheduler.client.store import Store
from scheduler.engine import Engine, WaitingPods
from scheduler.explain.examining.trial_decision import TrialDecision, TrialDecisions
from scheduler.explain.records import Change
from scheduler.explain.what_if.changes import ChangeError, edited, resource_of
from scheduler.framework import ActionType, Clock, CycleState
from scheduler.queue.cluster_events import EventFeatures
from scheduler.service.event_handlers import EventHandlers
from scheduler.service.manifests import Manifests
from scheduler.service.pod_intake import check_node
from scheduler.service.questions import QuestionFailedError
from scheduler.service.subscriptions import SubscriptionBoard


@dataclass(frozen=True, slots=True)
class TrialParts:
    """The live state that trials work on."""

    cache: Cache
    engine: Engine
    #: The objects of each resource, by plural.
    stores: Mapping[str, Store[Any]]
    #: The kinds of the objects that changes may name.
    kinds: Kinds
    signatures: PodSignatures
    subscriptions: SubscriptionBoard
    random: random.Random
    clock: Clock
    features: EventFeatures
    registered: dict[str, ActionType]
    #: What is known to whoever stores another object.
    existing: Existing


class _FrozenNominator:
    """The nominator as event handlers see it in a trial: it keeps its nominations."""

    def add_nominated_pod(self, *_: object) -> None:
        """Keep the nominations."""

    def update_nominated_pod(self, *_: object) -> None:
        """Keep the nominations."""

    def delete_nominated_pod_if_exists(self, *_: object) -> None:
        """Keep the nominations."""


class _FrozenQueue:
    """The queue as event handlers see it in a trial: it keeps its pods as they are."""

    nominator = _FrozenNominator()

    def move_all_to_active_or_backoff(self, *_: object) -> int:
        """Move nothing."""
        return 0

    def add(self, pod: Pod) -> None:
        """Queue nothing."""

    def update(self, old: Pod | None, new: Pod) -> None:
        """Keep the old object."""

    def delete(self, pod: Pod) -> None:
        """Keep the pod."""


class _TrialBoard:
    """Publishes changes of objects to the subscribers that hear of trials."""

    def __init__(self, board: SubscriptionBoard) -> None:
        self.plurals = board.tried_plurals
        self.publish_object = board.publish_tried


class _NoMeasurements:
    """In place of the metrics of event handlers; a handler that fails ends the trial."""

    measures_events = False

    def event_handling(self, *_: object) -> None:
        """Measure nothing."""

    #: Whether changes are being taken back.
    undoing = False

    def handler_error(self, plural: str) -> None:
        """Raise: the state may differ from what was asked for."""
        error = sys.exception()
        if isinstance(error, QuestionFailedError):
            if self.undoing:
                # Only the plugin's index is wrong; the handler logs it, as for a change of a watch.
                return
            raise error
        raise ChangeError(f"a change of {plural} cannot be tried: {error!r}") from error


class TrialError(RuntimeError):
    """A change could not be taken back."""


class WhatIfTrial:
    """Changes to try, as a context manager."""

    def __init__(self, parts: TrialParts, decisions: TrialDecisions | None = None) -> None:
        """`decisions` keeps results from one trial of a question to the next."""
        self._parts = parts
        self._decisions = decisions or TrialDecisions(parts.engine)
        self._measurements = _NoMeasurements()
        handlers = EventHandlers(
            parts.cache,
            cast("Any", _FrozenQueue()),
            WaitingPods(),
            scheduler_names=parts.engine.frameworks,
            registered=parts.registered,
            subscriptions=cast("Any", _TrialBoard(parts.subscriptions)),
            clock=parts.clock,
            metrics=cast("Any", self._measurements),
            features=parts.features,
            honor_foreign_nominations=False,
        )
        self._nodes, self._pods, self._other = handlers.nodes, handlers.pods, handlers.other
        #: Takes back what was done, the last first, and all of it even if one step fails.
        self._undo = ExitStack()
        self._ordered: set[str] = set()
        self._uids = 0

    def __enter__(self) -> Self:
        parts = self._parts
        with ExitStack() as undo:
            undo.callback(parts.random.setstate, parts.random.getstate())
            undo.callback(parts.cache.external_changes_kept())
            parts.subscriptions.begin_trial(undo)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._measurements.undoing = True
        try:
            self._undo.close()
        except Exception as failed:
            raise TrialError("a what-if question left a trace in the live state") from failed
        finally:
            self._measurements.undoing = False
            self._ordered.clear()

    # -- reading ---------------------------------------------------------------------------------

    def find(self, kind: str, name: str) -> Any | None:
        """Return an object, `namespace/name` or name, as it is now in the trial; None: none."""
        return self.find_in(resource_of(kind, self._parts.kinds), name)

    def find_in(self, resource: Resource[Any], key: str) -> Any | None:
        """Return an object of a resource, as it is now in the trial; None: none."""
        store = self._parts.stores.get(resource.plural)
        return None if store is None else store.by_key(key)

    def objects(self, kind: str) -> Iterable[Any]:
        """Return all objects of a kind; none where no plugin in use reads them."""
        store = self._parts.stores.get(resource_of(kind, self._parts.kinds).plural)
        return () if store is None else store.list()

    # -- changes ---------------------------------------------------------------------------------

    def apply(self, changes: Collection[Change]) -> None:
        """Make changes, in order. Raises ChangeError for one that cannot be made."""
        manifests = Manifests(self._parts.existing)
        for change in changes:
            resource, old, new = edited(change, self._parts.kinds, self.find_in, manifests)
            try:
                if new is None:
                    self.remove(resource, old)
                else:
                    self.put(resource, new)
            except QuantityError as error:
                raise ChangeError(f"{change.kind} {change.name}: {error}") from error

    def put(self, resource: Resource[Any], item: Any) -> None:
        """Add or replace a typed object. Raises ChangeError, or QuantityError for an amount."""
        plural, key = resource.plural, resource.key(item)
        store = self._parts.stores.get(plural)
        if store is None:
            raise ChangeError(f"{resource.kind} {key}: no plugin in use reads {plural}")
        old = store.by_key(key)
        self._identify(item, old)
        if resource is NODES:
            check_node(item)
        elif resource is PODS:
            if old is not None:
                self._check_movable(old)
            self._check_uid(item, key)
            if item.interned is None:
                self._parts.signatures.intern(item)
                self._undo.callback(self._parts.signatures.release, item)
            self._note_order(old)
        self._change(plural, key, old, item)

    def remove(self, resource: Resource[Any], item: Any) -> None:
        """Remove a typed object that exists, a pod at once. Raises ChangeError."""
        plural, key = resource.plural, resource.key(item)
        if plural == "pods":
            self._check_movable(item)
            self._note_order(item)
        self._change(plural, key, item, None)

    def _change(self, plural: str, key: str, old: Any | None, new: Any | None) -> None:
        """Replace an object, None for none, and prepare to put the old one back."""
        store = self._parts.stores[plural]
        item: Any = old if new is None else new
        raw = store.raw(item.metadata.name, item.metadata.namespace)

        def put(before: Any | None, item: Any | None, raw: bytes | None = None) -> None:
            if item is None:
                store.remove(key)
            else:
                store.put(key, item, raw)
            self._deliver(plural, _deltas(before, item))

        self._undo.callback(put, new, old, raw)
        put(old, new)

    def _identify(self, item: Any, old: Any | None) -> None:
        metadata = item.metadata
        if old is not None:
            # The version stays, so that nothing that was assumed about the object is dropped.
            metadata.uid = metadata.uid or old.metadata.uid
            metadata.resource_version = old.metadata.resource_version
        elif not metadata.uid:
            metadata.uid = self.new_uid()

    def new_uid(self) -> str:
        """Return a UID that no pod of the node table has; the same ones in equal trials."""
        while True:
            self._uids += 1
            uid = f"trial-{self._uids}"
            if self._parts.cache.get_pod(uid) is None:
                return uid

    def _check_uid(self, pod: Pod, key: str) -> None:
        """Raise ChangeError if the cache has another pod of this UID, which it would displace."""
        placed = self._parts.cache.get_pod(pod.uid)
        if placed is not None and placed.key != key:
            raise ChangeError(f"Pod {key}: its uid is that of pod {placed.key}; leave it out")

    def _check_movable(self, pod: Pod) -> None:
        if self._parts.cache.is_assumed(pod.uid):
            raise ChangeError(f"pod {pod.key} is being bound at this moment; ask again")

    def _note_order(self, pod: Pod | None) -> None:
        """Remember the order of the pods of a node, from which one may be taken."""
        node = "" if pod is None else pod.spec.node_name
        if node and node not in self._ordered:
            self._ordered.add(node)
            table = self._parts.cache.table
            # The node may be gone, but its row stays as long as a pod is counted there.
            row = table.row_for_pods(node)
            self._undo.callback(table.reorder_pods, row, list(table.pods[row]))

    # -- decisions -------------------------------------------------------------------------------

    def decide(
        self,
        pod: Pod,
        *,
        seconds: float = float("inf"),
        preempt: bool = True,
        keep: bool = False,
        reserve: bool = False,
        details: bool = False,
        granted: frozenset[str] = frozenset(),
    ) -> TrialDecision:
        """Decide about a pod without a node.

        Args:
            pod: in the store of pods, as a plugin may look it up there.
            seconds: CPU time after which the decision is cut.
            preempt: say who would be evicted if no node fits.
            keep: keep its place to the end of the trial, so that the next pod finds what is left.
            reserve: with `keep`, run Reserve as well. In a live scheduler this is not free of
                consequences: plugins may report what they reserved.
            details: ask the plugins for the numbers behind rejections.
            granted: plugins whose demands count as met.
        """
        decision = self._decisions.decide(
            pod,
            self._parts.clock.now(),
            seconds=seconds,
            preempt=preempt,
            details=details,
            granted=granted,
        )
        if decision and keep:
            self.place(pod, decision.node, reserve=reserve)
        return decision

    def place(self, pod: Pod, node: str, *, reserve: bool = False) -> None:
        """Count a pod on a node to the end of the trial."""
        cache = self._parts.cache
        placed = cache.assume_pod(pod, node)
        self._undo.callback(cache.forget_pod, pod.uid)
        if reserve:
            state = CycleState(self._parts.clock.now())
            framework = self._parts.engine.frameworks[pod.spec.scheduler_name]
            self._undo.callback(framework.run_unreserve, state, placed, node)
            framework.run_reserve(state, placed, node)

    def _deliver(self, plural: str, deltas: Sequence[Delta[Any]]) -> None:
        if plural == "nodes":
            self._nodes(deltas)
        elif plural == "pods":
            self._pods(deltas)
        else:
            self._other(plural, "")(deltas)


def _deltas(old: Any | None, new: Any | None) -> tuple[Delta[Any], ...]:
    """Return the changes that lead from one object to another of the same key."""
    if old is None:
        return (Delta(DeltaType.ADDED, new),)
    if new is None:
        return (Delta(DeltaType.DELETED, old, old),)
    moved = isinstance(old, Pod) and old.spec.node_name != new.spec.node_name
    if old.metadata.uid != new.metadata.uid or moved:
        return Delta(DeltaType.DELETED, old, old), Delta(DeltaType.ADDED, new)
    return (Delta(DeltaType.MODIFIED, new, old),)

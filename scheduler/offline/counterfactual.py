"""Counterfactual: the same arrivals, run times and nodes in a world in which our decisions hold.

Two worlds are replayed in virtual time. In `there` pods are placed where and when they were seen to
be; in `here` they arrive at the same times, and are placed by the configuration of the shadow. Both
are measured alike, at the same times. A pod that ended runs as long after its placement here as it
ran there; one that has not ended goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from statistics import fmean
from typing import Any, Final

import msgspec

from config import Configuration
from scheduler.api.pod import Pod
from scheduler.api.requests import incoming_requests
from scheduler.api.signatures.packed_spec import replaced
from scheduler.client.resources import PODS
from scheduler.explain.records.shadow import Counterfactual, ShadowMoment
from scheduler.framework import Registry
from scheduler.offline.figures import MAX_SIZES, Gauge
from scheduler.offline.happenings import Change, Happenings, Life
from scheduler.offline.world import World

SAMPLES: Final = 60
OWN: Final = frozenset({"persistentvolumes", "persistentvolumeclaims", "resourceclaims"})
"""Kinds that a scheduler changes for a pod: of these only new and deleted objects are replayed."""
MEASURES: Final = ("cpu_allocation", "cpu_fragmentation", "memory_allocation", "waiting")

NOTES: Final = (
    "pods that have not ended are taken to go on; how long they would run is not known",
    "nobody reacts to decisions here: no pod takes the place of one that only one side evicts",
    "no node comes or goes because of a decision here, as an autoscaler would have it",
    "a pod that was deleted without ever having run there is deleted here at the same time",
)


def replay(
    happenings: Happenings, configuration: Configuration, registry: Registry, ended: float
) -> Counterfactual:
    """Replay what was seen until `ended` (wall clock) twice, and compare."""
    assert happenings.began is not None
    began = happenings.began
    ended = ended if happenings.full is None else min(ended, happenings.full)
    sides = [
        _Side(happenings, configuration, registry, began, ended, ours=ours)
        for ours in (False, True)
    ]
    there, here = (each.run() for each in sides)
    moments = tuple(
        ShadowMoment(time, one, other)
        for (time, one), (_, other) in zip(sides[0].samples, sides[1].samples, strict=True)
    )
    notes = list(NOTES)
    if happenings.full is not None:
        notes.append("more happened than is kept: what is compared ends earlier")
    return Counterfactual(
        seconds=ended - began, there=there, here=here, moments=moments, notes=tuple(notes)
    )


class _Side:
    """One of the two worlds."""

    def __init__(
        self,
        happenings: Happenings,
        configuration: Configuration,
        registry: Registry,
        began: float,
        ended: float,
        *,
        ours: bool,
    ) -> None:
        """`ours`: whether the decisions are those of the configuration."""
        self._lives, self._began, self._ours = list(happenings.lives.values()), began, ours
        self._length = ended - began
        self._world = World(configuration=configuration, registry=registry, start=began)
        self.samples: list[tuple[float, dict[str, float]]] = []
        self._tables = self._world._assembly.tables
        kinds = self._tables.stores
        for plural, item in happenings.initial:
            if plural in kinds:
                self._world._put_item(kinds[plural].resource, copy(item))
        for change in happenings.changes:
            if change.plural in kinds and (change.plural not in OWN or None in change[2:]):
                self._at(change.time, partial(self._change, change))
        for life in self._lives:
            self._plan(life)

    def _at(self, time: float, action: Callable[[], object]) -> None:
        self._world.at(max(0.0, time - self._began), action)

    def _plan(self, life: Life) -> None:
        if life.followed and self._ours:
            self._at(life.arrived, partial(self._arrive, life))
            if life.bound is None and life.ended is not None:
                self._at(life.ended, partial(self._remove, life.pod))
            return
        if life.bound is not None and life.placed is not None:
            self._at(life.bound, partial(self._put, life.placed))
        if life.ended is not None:
            self._at(life.ended, partial(self._remove, life.pod))

    def _arrive(self, life: Life) -> None:
        """Let a pod arrive as it was before anybody had decided about it."""
        pod = life.pod
        status = msgspec.structs.replace(pod.status, conditions=(), nominated_node_name="")
        new = msgspec.structs.replace(
            pod, spec=replaced(pod.spec, node_name=""), status=status, interned=None
        )
        if life.bound is not None and life.ended is not None:
            self._world._runs(new.uid, life.ended - life.bound)
        self._world._put_item(PODS, new)

    def _put(self, pod: Pod) -> None:
        new = copy(pod)
        new.interned = None
        self._world._put_item(PODS, new)

    def _remove(self, pod: Pod) -> None:
        known = self._tables.pods.get(pod.metadata.name, pod.metadata.namespace)
        if known is not None and known.uid == pod.uid:
            self._world._take_item(PODS, known)

    def _change(self, change: Change) -> None:
        resource = self._tables.stores[change.plural].resource
        item = change.new if change.new is not None else change.old
        known = self._tables.stores[change.plural].by_key(resource.key(item))
        if change.new is not None:
            self._world._put_item(resource, copy(change.new))
        elif known is not None:
            self._world._take_item(resource, known)

    def run(self) -> dict[str, float]:
        """Let the time pass; return the figures."""
        with self._world as world:
            gauge = Gauge(world, sizes=self._sizes())
            for number in range(1, SAMPLES + 1):
                self._world.at(number * self._length / SAMPLES, partial(self._sample, gauge))
            result = world.run(until=self._length)
            waits = (
                [each.waited for each in result.placed] if self._ours else list(self._waits_there())
            )
            waiting = self._waiting(self._length)
            evicted = (
                len(result.evicted) if self._ours else sum(each.preempted for each in self._lives)
            )
        means = {
            f"{name}_mean": fmean(each[name] for _, each in self.samples)
            for name in MEASURES[:-1]
        }  # fmt: skip
        return {
            "placed": float(len(waits)),
            "waiting": float(waiting),
            "evicted": float(evicted),
            "wait_mean": fmean(waits) if waits else 0.0,
            "wait_p90": _at_share(waits, 0.9),
            "wait_max": max(waits, default=0.0),
            **means,
        }

    def _sample(self, gauge: Gauge) -> None:
        measured = gauge.sample()
        measured["waiting"] = float(self._waiting(measured["time"]))
        self.samples.append((measured["time"], {name: measured[name] for name in MEASURES}))

    def _waiting(self, time: float) -> int:
        """Return how many of the followed pods have no node at a virtual second."""
        if self._ours:
            return sum(1 for _ in self._tables.pods.on_node(""))
        now = self._began + time
        return sum(
            1
            for each in self._lives
            if each.followed
            and each.arrived <= now
            and (each.bound is None or each.bound > now)
            and (each.ended is None or each.ended > now)
        )

    def _waits_there(self) -> Iterator[float]:
        for each in self._lives:
            if each.followed and each.bound is not None:
                yield each.bound - each.arrived

    def _sizes(self) -> Sequence[tuple[Any, int]]:
        counts = Counter(incoming_requests(each.pod) for each in self._lives)
        return sorted(counts.items(), key=lambda each: (-each[1], repr(each[0])))[:MAX_SIZES]


def _at_share(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0

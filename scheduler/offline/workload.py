"""Workload: lets the pods of arrivals enter a world at their times, and knows how long they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final
from weakref import proxy

import msgspec

from scheduler.api.pod import Pod
from scheduler.client.resources import PODS
from scheduler.offline.editing import Editing
from scheduler.offline.tables import Tables, bound
from scheduler.offline.trace import Arrival
from scheduler.offline.virtual_time import Agenda

MAX_TEMPLATES: Final = 1000
"""Templates whose decoded form is kept."""


class Workload:
    """The pods that are to come to one world."""

    def __init__(self, world: Editing, tables: Tables, agenda: Agenda) -> None:
        # Weak, so that a world that nobody uses any more is closed at once.
        self._world: Editing = proxy(world)
        self._tables = tables
        self._agenda = agenda
        #: Templates by their identity, and what was decoded of each.
        self._templates: dict[int, tuple[Mapping[str, Any], Pod]] = {}
        #: Seconds that a pod runs once it is bound, by UID.
        self._durations: dict[str, float] = {}
        #: Where the agenda has the end of the patience of a pod, by UID.
        self._patience: dict[str, int] = {}

    def begin(self, arrivals: Iterable[Arrival]) -> None:
        """Let the first pod arrive at its time, and the next one be scheduled then."""
        waiting = sorted(arrivals, key=lambda each: each.time)
        if not waiting:
            return
        waiting.reverse()

        def arrive() -> None:
            now = self._agenda.now
            while waiting and waiting[-1].time <= now:
                self._arrive(waiting.pop(), now)
            if waiting:
                self._agenda.at(waiting[-1].time, arrive)

        self._agenda.at(waiting[-1].time, arrive)

    def _arrive(self, arrival: Arrival, now: float) -> None:
        world, template = self._world, self._template(arrival.pod)
        metadata = template.metadata
        name, namespace = arrival.name or metadata.name, metadata.namespace
        world._need_namespace(namespace)
        for _ in range(arrival.count):
            free = name
            if arrival.count > 1 or self._tables.pods.get(name, namespace) is not None:
                # One of several, or an earlier pod of the template still exists.
                free = world._free_name("pods", namespace, name)
            uid = self._tables.new_uid()
            own = msgspec.structs.replace(metadata, name=free, uid=uid)
            pod = msgspec.structs.replace(template, metadata=own)
            if pod.interned is not None:
                self._tables.signatures.intern_copy(pod)
            world._put_checked(PODS, pod)
            if template.interned is None:
                template = self._keep_interned(arrival.pod, pod, metadata.name)
            if arrival.duration is not None:
                self._durations[uid] = arrival.duration
            if arrival.patience is not None:
                give_up = partial(self._give_up, free, namespace, uid)
                self._patience[uid] = self._agenda.at(now + arrival.patience, give_up)

    def runs(self, uid: str, seconds: float) -> None:
        """Let a pod end so long after it is bound."""
        self._durations[uid] = seconds

    def bound(self, uid: str) -> float | None:
        """Take note that a pod has a node; returns the seconds that it runs, None: for ever."""
        patience = self._patience.pop(uid, None)
        if patience is not None:
            self._agenda.cancel(patience)
        return self._durations.pop(uid, None)

    def _give_up(self, name: str, namespace: str, uid: str) -> None:
        """Delete a pod that has waited long enough, unless it has a node."""
        del self._patience[uid]
        pod = self._tables.pods.get(name, namespace)
        if pod is not None and pod.metadata.uid == uid and not bound(pod):
            self._durations.pop(uid, None)
            self._world._take_item(PODS, pod)

    def _keep_interned(self, given: Mapping[str, Any], pod: Pod, name: str) -> Pod:
        """Keep the first pod of a template instead: those that follow share its signature."""
        metadata = msgspec.structs.replace(pod.metadata, name=name)
        template = msgspec.structs.replace(pod, metadata=metadata)
        self._templates[id(given)] = given, template
        return template

    def _template(self, pod: Mapping[str, Any]) -> Pod:
        """Decode the template of an arrival, once for those that share it."""
        known = self._templates.get(id(pod))
        if known is None:
            if len(self._templates) >= MAX_TEMPLATES:
                self._templates.clear()
            decoded: Pod = self._world._decoded(pod)[1]
            # The mapping is kept, so that no other one gets its identity.
            known = self._templates[id(pod)] = pod, decoded
        return known[1]

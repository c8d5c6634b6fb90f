"""A snapshot of one moment: references first, in one short slice; then lines, as slowly as needed.

Objects, deltas and decisions are never changed in place, so that references to them are enough.
Records of the queue and state of plugins are copied while the scheduler is held
(`SchedulingLoop.held`); `hold` does that in steps, so that the event loop continues.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from config import configz
from scheduler.api.pod import Pod
from scheduler.client.custom_resources import is_reference
from scheduler.client.resources import PODS, Resource
from scheduler.framework import QueuedPodInfo
from scheduler.framework.bundled import StateInBundle
from scheduler.history import Decision
from scheduler.queue.snapshots import kept_fields
from scheduler.recording.custom_objects import encode_custom, left_out
from scheduler.recording.format import (
    ASSUMED,
    CONFIGURATION,
    DECISION,
    LEDGER,
    OBJECT,
    PLUGIN,
    QUEUE,
    ROW,
    STATE,
    encode,
)
from scheduler.recording.journal import memory_of
from scheduler.recording.objects import encode_object, without_secrets
from scheduler.recording.redaction_words import struct_fields
from scheduler.stages.wiring import Wiring

NEVER_BUNDLED: Final = frozenset(("leases", "events"))


@dataclass(slots=True)
class Snapshot:
    """The parts of a moment. Build it, then run `hold` to its end while the scheduler is held."""

    wiring: Wiring
    kept_annotations: Collection[str]
    leading: bool
    on_error: Callable[[Exception], None]
    #: Wall clock seconds.
    time: float = 0.0
    _state: dict[str, Any] = field(default_factory=dict)
    _objects: list[tuple[Resource[Any], list[Any]]] = field(default_factory=list)
    #: Fields of the types that plugins declare, by custom resource.
    _custom_fields: dict[str, list[str]] = field(default_factory=dict)
    _rows: list[list[Pod]] = field(default_factory=list)
    _names: list[str] = field(default_factory=list)
    _assumed: dict[str, Pod] = field(default_factory=dict)
    _assumed_records: list[dict[str, Any]] = field(default_factory=list)
    _queue: list[dict[str, Any]] = field(default_factory=list)
    _plugins: list[dict[str, Any]] = field(default_factory=list)
    _ledger: list[dict[str, Any]] = field(default_factory=list)
    #: What could not be collected, one sentence each.
    left_out: list[str] = field(default_factory=list)
    _decisions: Iterator[Decision] = field(default_factory=lambda: iter(()))

    def hold(self) -> Iterator[None]:
        """Collect everything; the first step is the one that cannot be divided."""
        wiring = self.wiring
        connections, cache, queue = (
            wiring.connections,
            wiring.state.cache,
            wiring.scheduling.queue,
        )
        clock = connections.clock
        self.time = clock.now()
        names, free = cache.table.layout()
        algorithms = wiring.scheduling.engine.algorithms
        self._state = {
            "time": self.time,
            "monotonic": clock.monotonic(),
            "leading": self.leading,
            "random": connections.random.getstate(),
            "rotations": {name: each.search.rotation for name, each in algorithms.items()},
            "freeRows": free,
            "nominations": [[pod.key, node] for pod, node in queue.nominator.nominations()],
            "statistics": queue.statistics(),
        }
        self._names = names
        self._objects = [
            (each.resource, list(each.store.list()))
            for each in wiring.reflectors
            if each.resource.plural not in NEVER_BUNDLED
        ]
        custom = [resource for resource, _ in self._objects if is_reference(resource.plural)]
        self.left_out += left_out(custom)
        self._custom_fields = {each.plural: sorted(struct_fields(each.type)) for each in custom}
        self._decisions = wiring.scheduling.decisions.history.every()
        under_way = {uid: each.info for uid, each in wiring.scheduling.binding.under_way.items()}
        yield
        for row in range(len(names)):
            pods = list(cache.table.pods[row].values())
            self._rows.append(pods)
            self._assumed |= {pod.uid: pod for pod in pods if cache.is_assumed(pod.uid)}
            yield
        for uid, pod in self._assumed.items():
            self._assumed_records.append(
                {"pod": pod.key, "uid": uid, "node": pod.spec.node_name}
                | self._record(under_way.get(uid))
            )
            yield
        for info, place in queue.records():
            self._queue.append(
                {"pod": info.key, "uid": info.uid, "place": place} | self._record(info)
            )
            yield
        yield from self._hold_plugins()

    def _hold_plugins(self) -> Iterator[None]:
        """Collect what plugins keep, and the accounts of the quota ledger."""
        for profile, framework in self.wiring.profiles.frameworks.items():
            for name, plugin in framework.plugins.items():
                if isinstance(plugin, StateInBundle):
                    yield from self._hold_plugin(profile, name, plugin)
        enforcement = self.wiring.controllers.quota.enforcement
        for account in () if enforcement is None else enforcement.ledger.accounts():
            limits = {
                each.name: [each.value(account.taken(index, pending=True)), each.value(each.hard)]
                for index, each in enumerate(account.limits)
            }
            self._ledger.append(
                {"quota": f"{account.namespace}/{account.name}", "usedAndHard": limits}
            )
            yield

    def _hold_plugin(self, profile: str, name: str, plugin: StateInBundle) -> Iterator[None]:
        found: list[dict[str, Any]] = []
        try:
            for piece in plugin.bundle_state():
                state = msgspec.Raw(encode(piece))
                found.append({"profile": profile, "plugin": name, "state": state})
                yield
        except Exception as error:  # noqa: BLE001 - plugin boundary: the bundle goes without it
            self._leave_out(f"the state of plugin {name}", error)
        else:
            self._plugins += found

    def _record(self, info: QueuedPodInfo | None) -> dict[str, Any]:
        if info is None:
            return {}
        record: dict[str, Any] = {"info": kept_fields(info)}
        if info.plugin_memory:
            try:
                record["memory"] = memory_of(info)
            except Exception as error:  # noqa: BLE001 - plugin boundary, as above
                self._leave_out("what a plugin keeps about pods", error)
        return record

    def _leave_out(self, subject: str, error: Exception) -> None:
        """Note a gap, in the file and in the log; once for each subject."""
        sentence = f"{subject} could not be encoded: a replay may decide differently"
        if sentence not in self.left_out:
            self.left_out.append(sentence)
            self.on_error(error)

    def lines(self, feature_gates: Mapping[str, bool]) -> Iterator[tuple[str, Any]]:
        """Yield sections and their data, in the order of the file; bytes are JSON already."""
        configuration = configz(self.wiring.connections.configuration)["componentconfig"]
        yield (
            CONFIGURATION,
            {
                "configuration": without_secrets(configuration),
                "featureGates": feature_gates,
                "plugins": self._plugin_classes(),
                "customFields": self._custom_fields,
            },
        )
        yield STATE, self._state
        for row, name in enumerate(self._names):
            # Positions in the table, empty ones included: they decide between equal nodes.
            yield ROW, {"node": name, "pods": [pod.uid for pod in self._rows[row]]}
        # Pods last: what they refer to is known then.
        for resource, items in sorted(self._objects, key=lambda each: each[0] is PODS):
            encoded = (self._encoded(resource, each) for each in items)
            yield from ((OBJECT, each) for each in encoded if each is not None)
        yield from ((QUEUE, each) for each in self._queue)
        yield from ((ASSUMED, each) for each in self._assumed_records)
        yield from ((PLUGIN, each) for each in self._plugins)
        yield from ((LEDGER, each) for each in self._ledger)
        yield from ((DECISION, each) for each in self._decisions)

    def _encoded(self, resource: Resource[Any], item: Any) -> bytes | None:
        if is_reference(resource.plural):
            return encode_custom(resource, item, self.kept_annotations)
        return encode_object(resource, item, self.kept_annotations)

    def _plugin_classes(self) -> dict[str, list[str]]:
        """Return the class of every plugin, by profile, so that missing ones can be named."""
        return {
            profile: [
                f"{type(plugin).__module__}:{type(plugin).__qualname__}"
                for plugin in framework.plugins.values()
            ]
            for profile, framework in self.wiring.profiles.frameworks.items()
        }

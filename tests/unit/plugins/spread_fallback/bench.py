"""One pod, its queue record and the plugin, on a small cluster; the test plays queue and cycle.

Z1 has node a with one pod of app `a`; Z2 has node b. A hard zone constraint with maxSkew 1 allows b
only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec

from plugins import PodTopologySpread
from plugins.pod_topology_spread.arguments import PodTopologySpreadArgs
from plugins.pod_topology_spread.fallback_annotation import ANNOTATION
from plugins.pod_topology_spread.fallback_condition import CONDITION
from scheduler.api import Pod
from scheduler.api.meta import Condition
from scheduler.framework import (
    SKIP,
    CycleState,
    PostFilterOutcome,
    QueuedPodInfo,
    QueueingHint,
    Status,
)
from scheduler.framework.events import (
    ATTEMPT_OUTCOME,
    TIME_TICK,
    ActionType,
    ClusterEvent,
    EventResource,
)
from tests.unit.plugins.clusters import Cluster, node
from tests.unit.plugins.clusters import pod as make_pod

NAME = "PodTopologySpread"
ZONE = "zone"
HOST = "host"
NPF = "NodeProvisioningFailed"
PF = "PreemptionFailed"
PROVISIONING = "NodeProvisioningInProgress"
START = 1_000_000.0

OWN_STATUS = ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_SCHEDULING_STATUS)
OWN_ANNOTATION = ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_ANNOTATION)


@dataclass
class Clock:
    wall: float = START
    steady: float = 50.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.steady

    def advance(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


@dataclass
class Handle:
    """The parts of `framework.Handle` that the plugin uses, nominator and recorder included."""

    cluster: Cluster
    clock: Clock = field(default_factory=Clock)
    gate: bool = True
    nominated: str = ""
    notes: list[tuple[str, str]] = field(default_factory=list)
    counted: list[tuple[str, ...]] = field(default_factory=list)
    profile_name: str = "test"

    def __post_init__(self) -> None:
        self.table = self.cluster.table
        self.listers = self.cluster.objects
        self.feature_gates = {"PodTopologySpreadFallbackMode": self.gate}
        self.nominator = self.events = self.metrics = self.subscriptions = self

    def node_of(self, uid: str) -> str:
        return self.nominated

    def record(self, regarding: Any, kind: str, reason: str, action: str, note: str) -> None:
        self.notes.append((reason, note))

    def count(self, name: str, *labels: str, amount: float = 1.0) -> None:
        self.counted.append((name, *labels))

    def observe(self, name: str, *labels: str, value: float) -> None:
        self.counted.append((name, *labels))

    def on_bind(self, callback: Any) -> None:
        self.bound = callback


def constraint(key: str = ZONE, *criteria: str, **fields: Any) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
        **({"fallbackCriteria": list(criteria)} if criteria else {}),
        **fields,
    }


def two_zones() -> Cluster:
    made = Cluster(
        [node("a", labels={ZONE: "Z1", HOST: "a"}), node("b", labels={ZONE: "Z2", HOST: "b"})]
    )
    made.place(make_pod(metadata={"labels": {"app": "a"}, "name": "placed"}), "a")
    return made


class Bench:
    """See the module's docstring."""

    def __init__(
        self,
        *constraints: dict[str, Any],
        annotation: str | None = None,
        timeout: float | None = None,
        cluster: Cluster | None = None,
        gate: bool = True,
        **args: Any,
    ) -> None:
        self.cluster = cluster or two_zones()
        self.handle = Handle(self.cluster, gate=gate)
        self.clock = self.handle.clock
        arguments = PodTopologySpreadArgs(
            node_provisioning_timeout=None if timeout is None else timedelta(seconds=timeout),
            **args,
        )
        handle: Any = self.handle
        self.plugin = PodTopologySpread(arguments, handle)
        self._arguments = arguments
        metadata: dict[str, Any] = {"labels": {"app": "a"}, "name": "p"}
        if annotation is not None:
            metadata["annotations"] = {ANNOTATION: annotation}
        self.pod = self.cluster.intern(
            make_pod(
                {"topologySpreadConstraints": list(constraints) or [constraint()]},
                metadata=metadata,
            )
        )
        self.info = QueuedPodInfo(self.pod, self.clock.now())
        self.state = CycleState(self.clock.now())

    # -- the pod ---------------------------------------------------------------------------------

    def change(self, **status: Any) -> Pod:
        """Deliver another status of the pod."""
        pod = msgspec.structs.replace(
            self.pod, status=msgspec.structs.replace(self.pod.status, **status)
        )
        self.pod = self.info.pod = self.cluster.intern(pod)
        return pod

    def annotate(self, value: str | None) -> None:
        annotations = {} if value is None else {ANNOTATION: value}
        metadata = msgspec.structs.replace(self.pod.metadata, annotations=annotations)
        pod = msgspec.structs.replace(self.pod, metadata=metadata)
        self.pod = self.info.pod = self.cluster.intern(pod)

    def set(self, kind: str, status: str, reason: str = "", message: str = "") -> None:
        """Set a condition of the pod."""
        others = [each for each in self.pod.status.conditions if each.type != kind]
        made = Condition(type=kind, status=status, reason=reason, message=message)
        self.change(conditions=(*others, made))

    # -- attempts --------------------------------------------------------------------------------

    def begin(self) -> Status | None:
        """Pop and PreFilter."""
        self.info.attempts += 1
        self.state = CycleState(self.clock.now())
        self.state.info = self.info
        status = self.plugin.pre_filter(self.state, self.pod, self.cluster.table)
        self.skipped = status is SKIP
        return status

    def fits(self) -> list[str]:
        """Return the nodes that pass the plugin's Filter in the last begun attempt."""
        table = self.cluster.table
        if self.skipped:
            return [table.names[row] for row in table.rows.tolist()]
        codes = self.plugin.filter_rows(self.state, self.pod, table, table.rows)
        return [table.names[row] for row in table.rows[codes == 0].tolist()]

    def soft(self) -> list[str]:
        """Return the keys that fell back in the last begun attempt."""
        annotations = self.state.binding_annotations or {}
        found = annotations.get("kubestow.io/topology-spread-fallback-applied", "")
        return found.split(",") if found else []

    def reject(
        self, outcome: PostFilterOutcome = PostFilterOutcome.FAILED, *plugins: str
    ) -> QueueingHint:
        """Fail the attempt, by default by this plugin; return the hint for its outcome."""
        self.reject_without_hints(outcome, *plugins)
        return self.hint(ATTEMPT_OUTCOME)

    def reject_without_hints(self, outcome: PostFilterOutcome, *plugins: str) -> None:
        """Fail the attempt without calling hints."""
        self.info.clear_rejectors()
        self.info.unschedulable_plugins = set(plugins or (NAME,))
        self.info.post_filter = outcome
        self.info.timestamp = self.clock.now()

    def attempt_without_hints(self) -> None:
        """Run a whole rejected attempt without calling hints."""
        self.begin()
        self.reject_without_hints(PostFilterOutcome.FAILED)

    def attempt(self, outcome: PostFilterOutcome = PostFilterOutcome.FAILED) -> list[str]:
        """Run a whole rejected attempt; return the keys that were soft in it."""
        self.begin()
        soft = self.soft()
        self.reject(outcome)
        return soft

    def next(self) -> list[str]:
        """Begin the next attempt; return its soft keys."""
        self.begin()
        return self.soft()

    # -- questions -------------------------------------------------------------------------------

    def hint(self, event: ClusterEvent = OWN_STATUS) -> QueueingHint:
        """Return the hint of the plugin's registration for `event`."""
        old: Any = None if event in (ATTEMPT_OUTCOME, TIME_TICK) else self.pod
        new: Any = {ATTEMPT_OUTCOME: self.info, TIME_TICK: None}.get(event, self.pod)
        for each in self.plugin.events_to_register():
            if each.event.matches(event) and each.hint is not None:
                return each.hint(self.pod, old, new)
        raise AssertionError(f"nothing registered for {event.label}")

    def condition(self) -> Condition | None:
        """Return the plugin's current condition."""
        found = self.plugin.pod_conditions(self.pod, self.info)
        return found[0] if found else None

    def restart(self) -> None:
        """Replace plugin and queue record, as by a restart."""
        made = self.condition()
        if made is not None:
            self.set(CONDITION, made.status, made.reason, made.message)
        handle: Any = self.handle
        self.plugin = PodTopologySpread(self._arguments, handle)
        self.info = QueuedPodInfo(self.pod, self.clock.now())

"""A simulated cluster autoscaler: node groups that grow when pods have no place, or fail to.

A loop in simulated time: every `scanInterval` it looks at the pods that a scheduler called
Unschedulable, leaves out those that fit on nodes that are there or on their way, and lets the first
group grow that would help under the *strict* rules. As cluster-autoscaler, one group grows in a
loop, and pods are told that nothing is done for them only in a loop in which no group grew or was
refused; as Karpenter, one loop provides for all pods, and tells the others. A group that failed is
left alone until its backoff is over. Silent while it has no groups. It does not shrink groups.

In a native cluster (KEP-3990's gate of the controllers is on) it also writes the condition
NodeProvisioningInProgress and simulates a pod whose criteria hold with the constraint relaxed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scheduler.api import Node, Pod, QuantityError, SelectorError, node_allocatable
from simulator.api import STRATEGIC_PATCH, Api
from simulator.controllers.autoscaler_events import (
    AT_MAX_SIZE,
    AT_MAX_TOTAL,
    IN_BACKOFF,
    AutoscalerVerdict,
    ClusterAutoscalerReports,
    Growth,
    Reports,
)
from simulator.controllers.autoscaler_groups import GROUP_LABEL, NodeGroup, Settings
from simulator.controllers.autoscaler_world import (
    AutoscalerWorld,
    Candidate,
    Estimate,
    SimNode,
    estimate,
)
from simulator.controllers.karpenter import NODE_CLAIMS, KarpenterReports
from simulator.errors import ApiError
from simulator.objects import JsonObject, format_time
from simulator.store import StoreChange

CONDITION: Final = "NodeProvisioningInProgress"
_DECODE_POD: Final = msgspec.json.Decoder(Pod).decode
_DECODE_NODE: Final = msgspec.json.Decoder(Node).decode


@dataclass(slots=True)
class _Machine:
    """A node that was ordered."""

    group: NodeGroup
    """As it was then: its state decides the fate of the machine."""
    name: str
    since: float

    def due(self, settings: Settings) -> float:
        """Return the time at which this scale-up completes or fails."""
        if self.group.state == "hang":
            return self.since + settings.max_node_provision_time
        return self.since + self.group.provision_seconds


@dataclass(slots=True)
class _Loop:
    """Observations of one loop."""

    world: AutoscalerWorld
    placed: list[tuple[Pod, str]] = field(default_factory=list)
    """Pods that have room on a node, there or on its way."""
    waiting: list[Candidate] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Reasons of groups that were not considered."""
    estimates: list[tuple[NodeGroup, Estimate]] = field(default_factory=list)


class Autoscaler:
    """The controller. Configure it with `configure`; owned by the cluster's event loop."""

    def __init__(self, api: Api, native: Callable[[], bool]) -> None:
        self._api = api
        self._native = native
        self._pods = api.resources.of_kind("v1", "Pod")
        self._nodes = api.resources.of_kind("v1", "Node")
        self.settings = Settings()
        self._machines: list[_Machine] = []
        self._backoff: dict[str, float] = {}
        self._next = 0.0
        self._loops = 0
        self._last: JsonObject = {}
        self._decoded: dict[str, tuple[int, Pod]] = {}
        self._reports: dict[str, Reports] = {
            "cluster-autoscaler": ClusterAutoscalerReports(api, self._limited),
            "karpenter": KarpenterReports(api),
        }

    def _limited(self) -> bool:
        return self.settings.limit_events

    def configure(self, settings: Settings) -> None:
        """Replace the settings. Machines on their way stay."""
        now = self._api.clock.now()
        if settings.flavor == "karpenter":
            self._api.resources.add(NODE_CLAIMS)
        if not self.settings.groups or settings.scan_interval != self.settings.scan_interval:
            self._next = now + settings.scan_interval
        for group in settings.groups:
            before = self.settings.group(group.name)
            if before is not None and before.state != group.state:
                # Who changes the state by hand wants to see what comes of it.
                self._backoff.pop(group.name, None)
        self.settings = settings

    def observe(self, table: str, change: StoreChange, now: float) -> None:
        """Forget deleted pods; everything else is read from the store when needed."""
        if table == "pods" and change.type == "DELETED":
            self._decoded.pop(str(change.version.obj["metadata"].get("uid")), None)

    def next_due(self) -> float | None:
        """Return the time of the next loop, or of the next machine that arrives or fails."""
        dues = [machine.due(self.settings) for machine in self._machines]
        if self.settings.groups:
            dues.append(self._next)
        return min(dues, default=None)

    def work(self, now: float, limit: int) -> None:
        """Deliver machines, then run the loop if it is due. One loop is one piece of work."""
        self._deliver(now)
        if self.settings.groups and self._next <= now:
            self._next = now + self.settings.scan_interval
            self.loop(now)

    def loop_now(self) -> JsonObject:
        """Deliver due machines and run the loop at once; return its record."""
        now = self._api.clock.now()
        self._deliver(now)
        self._next = now + self.settings.scan_interval
        return self.loop(now)

    # ----------------------------------------------------------------------------------- the cloud

    def _deliver(self, now: float) -> None:
        due = [machine for machine in self._machines if machine.due(self.settings) <= now]
        if not due:
            return
        self._machines = [machine for machine in self._machines if machine not in due]
        failures: dict[tuple[str, str], list[_Machine]] = {}
        for machine in due:
            if machine.group.state == "ok":
                self._register(machine)
            else:
                failures.setdefault((machine.group.name, machine.group.state), []).append(machine)
        for machines in failures.values():
            self._give_up(machines, now)

    def _register(self, machine: _Machine) -> None:
        self._backoff.pop(machine.group.name, None)
        # A node of that name may have been created meanwhile; then it counts as arrived.
        with contextlib.suppress(ApiError):
            self._api.create(self._nodes, "", machine.group.node(machine.name))
        self._report.arrived(machine.name)

    def _give_up(self, machines: list[_Machine], now: float) -> None:
        group, names = machines[0].group, [machine.name for machine in machines]
        if group.state == "hang":
            self._report.timed_out(group, names, self.settings.max_node_provision_time)
        else:
            self._report.failed(group, names)
        self._backoff[group.name] = now + self.settings.backoff

    # ------------------------------------------------------------------------------------ the loop

    @property
    def _report(self) -> Reports:
        return self._reports[self.settings.flavor]

    def loop(self, now: float) -> JsonObject:
        """Run one loop and return its observations and actions."""
        self._loops += 1
        self._fill_up(now)
        seen = self._look()
        waiting = [candidate.pod.key for candidate in seen.waiting]
        for pod, node in seen.placed:
            self._report.fits(pod, node)
        result, groups = self._provide(seen, now)
        remaining = self._remaining(seen)
        if not groups or not self._report.one_group_per_loop:
            for pod, verdict in remaining:
                self._report.not_triggered(pod, verdict)
        if self._native() and result != "refused":
            for pod, verdict in remaining:
                self._write_condition(pod, "False", verdict, now)
        self._last = {
            "time": format_time(now),
            "result": result or ("not triggered" if remaining else "nothing to do"),
            "waiting": waiting,
            "group": groups[0] if groups else None,
        }
        return self._last

    def _provide(self, seen: _Loop, now: float) -> tuple[str, list[str]]:
        """Scale up groups; return the last result, and all groups that were tried."""
        result, groups = "", []
        while (choice := self._choose(seen, now)) is not None:
            group, found = choice
            result = self._grow(group, found, now)
            groups.append(group.name)
            if self._report.one_group_per_loop:
                break
            helped = {candidate.pod.uid for candidate in found.pods}
            seen.waiting = [each for each in seen.waiting if each.pod.uid not in helped]
        return result, groups

    def _look(self) -> _Loop:
        """Return the present world, and the pods that fit no node or machine on its way."""
        world = AutoscalerWorld(self._existing())
        for machine in self._machines:
            world.nodes.setdefault(machine.name, _template(machine.group, machine.name))
        pending: list[Pod] = []
        for pod in self._all_pods():
            phase, node = pod.status.phase, pod.spec.node_name
            if phase in ("Succeeded", "Failed"):
                continue
            home = node or pod.status.nominated_node_name
            if home:
                _occupy(world, home, pod)
            elif is_unschedulable(pod):
                pending.append(pod)
        pending.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.key))
        seen = _Loop(world)
        for pod in pending:
            try:
                candidate = Candidate(pod, relaxed_keys(pod) if self._native() else ())
            except (SelectorError, QuantityError):
                # No autoscaler can do anything for a pod that cannot be understood.
                continue
            place = world.place(candidate)
            if place is None:
                seen.waiting.append(candidate)
            else:
                seen.placed.append((pod, place.name))
        return seen

    def _existing(self) -> list[SimNode]:
        found = []
        for version in self._api.store.items("nodes"):
            try:
                found.append(SimNode.of(_DECODE_NODE(version.encoded())))
            except (msgspec.DecodeError, QuantityError):
                # A node that cannot be understood takes no pods.
                continue
        return found

    def _all_pods(self) -> list[Pod]:
        found = []
        for version in self._api.store.items("pods"):
            uid = str(version.obj["metadata"].get("uid"))
            known = self._decoded.get(uid)
            if known is None or known[0] != version.rv:
                try:
                    known = (version.rv, _DECODE_POD(version.encoded()))
                except msgspec.DecodeError:
                    # As a client that cannot read it: the pod is not there.
                    continue
                self._decoded[uid] = known
            found.append(known[1])
        return found

    def _size(self, group: NodeGroup) -> int:
        """Count the nodes of a group, with those on their way."""
        standing = sum(
            1
            for version in self._api.store.items("nodes")
            if (version.obj["metadata"].get("labels") or {}).get(GROUP_LABEL) == group.name
        )
        return standing + sum(1 for each in self._machines if each.group.name == group.name)

    def _room_in_cluster(self) -> int | None:
        """Return how many nodes the cluster may still get; None for any number."""
        limit = self.settings.max_nodes_total
        if not limit:
            return None
        return max(0, limit - self._api.store.count("nodes") - len(self._machines))

    def _fill_up(self, now: float) -> None:
        """Order nodes for groups below their minimum, except groups that fail."""
        for group in self.settings.groups:
            missing = group.min - self._size(group)
            if missing > 0 and group.state == "ok":
                growth = self._growth(group, missing)
                self._report.ordering(growth)
                self._order(growth, now)
                self._report.ordered(growth, ())

    def _choose(self, seen: _Loop, now: float) -> tuple[NodeGroup, Estimate] | None:
        """Return the first group that helps a pod."""
        seen.skipped.clear()
        seen.estimates.clear()
        if not seen.waiting:
            return None
        room = self._room_in_cluster()
        if room == 0:
            self._report.total_reached(self.settings.max_nodes_total)
            return None
        for group in self.settings.groups:
            left = group.max - self._size(group)
            if group.state == "off":
                continue
            if self._backoff.get(group.name, 0.0) > now:
                seen.skipped.append(IN_BACKOFF)
            elif left <= 0:
                seen.skipped.append(AT_MAX_SIZE)
            else:
                most = left if room is None else min(left, room)
                template = _template(group, f"{group.name}-new")
                seen.estimates.append((group, estimate(seen.world, seen.waiting, template, most)))
        return next(((group, found) for group, found in seen.estimates if found.pods), None)

    def _remaining(self, seen: _Loop) -> list[tuple[Pod, AutoscalerVerdict]]:
        """Return the pods that no group would help, with reasons."""
        helped = {candidate.pod.uid for _, found in seen.estimates for candidate in found.pods}
        return [
            (candidate.pod, self._verdict(seen, candidate.pod.uid))
            for candidate in seen.waiting
            if candidate.pod.uid not in helped
        ]

    def _verdict(self, seen: _Loop, uid: str) -> AutoscalerVerdict:
        if self._room_in_cluster() == 0:
            return AutoscalerVerdict("MaxSizeReached", AT_MAX_TOTAL)
        reasons = seen.skipped + [
            found.rejected[uid] for _, found in seen.estimates if uid in found.rejected
        ]
        counts = {reason: reasons.count(reason) for reason in reasons}
        text = ", ".join(f"{count} {reason}" for reason, count in counts.items())
        if IN_BACKOFF in counts:
            return AutoscalerVerdict("ScaleUpBackoff", text)
        return AutoscalerVerdict("MaxSizeReached" if AT_MAX_SIZE in counts else "NoNodeGroup", text)

    def _grow(self, group: NodeGroup, found: Estimate, now: float) -> str:
        pods = [candidate.pod for candidate in found.pods]
        growth = self._growth(group, found.nodes, found.homes)
        self._report.ordering(growth)
        if group.state == "refuse":
            self._report.refused(growth, pods)
            self._backoff[group.name] = now + self.settings.backoff
            return "refused"
        self._order(growth, now)
        self._report.ordered(growth, pods)
        if self._native():
            text = f"{group.name} {growth.current}->{growth.wanted} (max: {group.max})"
            for pod in pods:
                self._write_condition(pod, "True", AutoscalerVerdict("TriggeredScaleUp", text), now)
        return "triggered"

    def _growth(
        self, group: NodeGroup, count: int, homes: Mapping[str, int] | None = None
    ) -> Growth:
        size = self._size(group)
        taken = {version.name for version in self._api.store.items("nodes")}
        taken.update(machine.name for machine in self._machines)
        names = self._report.names(group, count, taken)
        places = {uid: names[number] for uid, number in (homes or {}).items()}
        return Growth(group, size, size + count, names, places)

    def _order(self, growth: Growth, now: float) -> None:
        self._machines += [_Machine(growth.group, name, now) for name in growth.names]

    def _write_condition(
        self, pod: Pod, status: str, verdict: AutoscalerVerdict, now: float
    ) -> None:
        """Write NodeProvisioningInProgress, as the autoscaler's own field manager."""
        before = next((each for each in pod.status.conditions if each.type == CONDITION), None)
        if before and (before.status, before.reason) == (status, verdict.reason):
            return
        same = before is not None and before.status == status
        moment = before.last_transition_time if before is not None and same else format_time(now)
        entry: JsonObject = {
            "type": CONDITION,
            "status": status,
            "reason": verdict.reason,
            "message": verdict.message,
            "lastProbeTime": None,
            "lastTransitionTime": moment,
        }
        patch: JsonObject = {
            "metadata": {"uid": pod.uid, "managedFields": [_managed(self._report.source, now)]},
            "status": {"conditions": [entry]},
        }
        try:
            self._api.patch(
                self._pods,
                pod.metadata.namespace,
                pod.metadata.name,
                patch,
                STRATEGIC_PATCH,
                subresource="status",
            )
        except ApiError:
            # Gone, or another pod of that name by now.
            return

    # -------------------------------------------------------------------------------- from outside

    def describe(self) -> JsonObject:
        """Describe settings, groups with their nodes and orders, and the last loop."""
        now = self._api.clock.now()
        whole: JsonObject = msgspec.to_builtins(self.settings)
        whole["groups"] = [self.describe_group(group) for group in self.settings.groups]
        return {**whole, "native": self._native(), "loops": self._loops, "lastLoop": self._last} | (
            {"nextLoop": format_time(self._next)}
            if self.settings.groups and self._next > now
            else {}
        )

    def describe_group(self, group: NodeGroup) -> JsonObject:
        """Describe one group."""
        until = self._backoff.get(group.name, 0.0)
        coming = [each.name for each in self._machines if each.group.name == group.name]
        return {
            **msgspec.to_builtins(group),
            "size": self._size(group),
            "coming": coming,
            "backoffUntil": format_time(until) if until > self._api.clock.now() else None,
        }


def _template(group: NodeGroup, name: str) -> SimNode:
    node = _DECODE_NODE(msgspec.json.encode(group.node(name)))
    node_allocatable(node)
    made = SimNode.of(node)
    made.group = group.name
    return made


def _occupy(world: AutoscalerWorld, node: str, pod: Pod) -> None:
    try:
        world.occupy(node, pod)
    except QuantityError:
        # It runs, but its usage is unknown; count it as nothing.
        return


def _managed(source: str, now: float) -> JsonObject:
    """Return the managedFields entry of the autoscaler's condition."""
    return {
        "manager": source,
        "operation": "Update",
        "apiVersion": "v1",
        "time": format_time(now),
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {"f:conditions": {f'k:{{"type":"{CONDITION}"}}': {".": {}}}}},
        "subresource": "status",
    }


def is_unschedulable(pod: Pod) -> bool:
    """Whether autoscalers look at the pod: called Unschedulable, nominated nowhere, not gated."""
    return (
        not pod.terminating
        and not pod.spec.scheduling_gates
        and not pod.status.nominated_node_name
        and any(
            each.type == "PodScheduled"
            and each.status == "False"
            and each.reason == "Unschedulable"
            for each in pod.status.conditions
        )
    )


def relaxed_keys(pod: Pod) -> set[str]:
    """Return topology keys whose criteria all hold for an unschedulable pod, as KEP-3990 states."""
    provisioning = next((c.status for c in pod.status.conditions if c.type == CONDITION), "")
    holds = {
        "NodeProvisioningFailed": provisioning == "False",
        "PreemptionFailed": not pod.status.nominated_node_name,
    }
    return {
        each.topology_key
        for each in pod.spec.topology_spread_constraints
        if each.fallback_criteria
        and all(holds.get(criterion, False) for criterion in each.fallback_criteria)
    }

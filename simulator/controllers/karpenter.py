"""Events of Karpenter 1.14, its suppression of repeats, and its NodeClaims.

Of a reason and an object it sends one event in 2 minutes (5 minutes for FailedScheduling), whatever
the message, and five `Nominated` a second in all; one that is left out for that counts as sent
(kubernetes-sigs/karpenter: `pkg/events/recorder.go`,
`pkg/controllers/provisioning/scheduling/events.go`). So the claim that follows one without capacity
is seldom nominated in an event. Each machine has a NodeClaim: created with the order, deleted
when it fails, and without any event when its node never registers
(`pkg/controllers/nodeclaim/lifecycle/launch.go`, `liveness.go`). NodePools are the simulator's node
groups, and no objects here; claims outlive deleted nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from scheduler.api import Pod
from simulator.api import MERGE_PATCH, Api
from simulator.controllers.autoscaler_events import (
    AutoscalerVerdict,
    Growth,
    exhausted,
    pod_reference,
)
from simulator.controllers.autoscaler_groups import NodeGroup
from simulator.controllers.event_recorder import PendingEvent, Recorder, SpamFilter, TokenBucket
from simulator.errors import ApiError
from simulator.objects import JsonObject, format_time
from simulator.resources import Resource

NODE_CLAIMS: Final = Resource(
    "karpenter.sh",
    "v1",
    "nodeclaims",
    "NodeClaim",
    namespaced=False,
    subresources=("status",),
    generation=True,
)
"""Served once an autoscaler of this kind is configured, as if its CRD were installed."""
DEDUPLICATION_SECONDS: Final = {"FailedScheduling": 300.0}
"""How long an event of a reason about one object is not sent again; `OTHERS_SECONDS` for others."""
OTHERS_SECONDS: Final = 120.0
NOMINATIONS: Final = (0.2, 10)
"""Seconds for one more `Nominated`, and how many may come at once."""
_POOL_LABEL: Final = "karpenter.sh/nodepool"
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Of names that Kubernetes generates."""


class _Deduplication:
    """Karpenter's own, before client-go counts and combines."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], float] = {}
        self._nominations = TokenBucket(*NOMINATIONS)

    def admits(self, event: PendingEvent, now: float) -> bool:
        """Whether an event is published."""
        key = (event.reason, event.object_key)
        if now <= self._until.get(key, float("-inf")):
            return False
        # Set before the rate is looked at: what is left out for that stays silent as long.
        self._until[key] = now + DEDUPLICATION_SECONDS.get(event.reason, OTHERS_SECONDS)
        return event.reason != "Nominated" or self._nominations.take(now)


class KarpenterReports:
    """Events and NodeClaims of Karpenter."""

    source = "karpenter"
    one_group_per_loop = False

    def __init__(self, api: Api) -> None:
        self._api = api
        self._deduplication = _Deduplication()
        self._recorder = Recorder(api, self.source, SpamFilter())
        self._made = 0

    def names(self, group: NodeGroup, count: int, taken: Collection[str]) -> tuple[str, ...]:
        """Return the group's name with five letters; a name is used once."""
        self._made += count
        numbers = range(self._made - count, self._made)
        return tuple(f"{group.name}-{_letters(number)}" for number in numbers)

    def ordering(self, growth: Growth) -> None:
        """Create the NodeClaims."""
        for name in growth.names:
            body: JsonObject = {
                "apiVersion": NODE_CLAIMS.group_version,
                "kind": NODE_CLAIMS.kind,
                "metadata": {"name": name, "labels": {_POOL_LABEL: growth.group.name}},
                "spec": {"requirements": _requirements(growth.group)},
            }
            try:
                self._api.create(NODE_CLAIMS, "", body)
            except ApiError:
                # Another client created one of that name, or a fault rule rejects it.
                continue
            self._set_conditions(
                name, Launched="Unknown", Registered="Unknown", Initialized="Unknown"
            )

    def ordered(self, growth: Growth, pods: Sequence[Pod]) -> None:
        """Send Nominated on each pod; launch the claims unless the cloud will fail them."""
        self._nominate(growth, pods)
        if growth.group.state in ("ok", "hang"):
            for name in growth.names:
                self._set_conditions(
                    name, Launched="True", Registered="Unknown", Initialized="Unknown"
                )

    def refused(self, growth: Growth, pods: Sequence[Pod]) -> None:
        """Send Nominated all the same: Karpenter nominates before it calls the cloud."""
        self._nominate(growth, pods)
        self.failed(growth.group, growth.names)

    def arrived(self, name: str) -> None:
        """Mark the NodeClaim as registered and initialized."""
        self._set_conditions(name, Launched="True", Registered="True", Initialized="True")

    def failed(self, group: NodeGroup, names: Sequence[str]) -> None:
        """Send InsufficientCapacityError on each NodeClaim, and delete it."""
        for name in names:
            text = f"NodeClaim {name} event: insufficient capacity, {exhausted(group)}"
            about = self._reference(name)
            self._publish(PendingEvent(about, "Warning", "InsufficientCapacityError", text))
            self._delete(name)

    def timed_out(self, group: NodeGroup, names: Sequence[str], seconds: float) -> None:
        """Delete the NodeClaims, without an event."""
        for name in names:
            self._delete(name)

    def total_reached(self, limit: int) -> None:
        """Report nothing: Karpenter has limits of pools only."""

    def fits(self, pod: Pod, node: str) -> None:
        """Send Nominated again, for the machine on its way or the node."""
        claim = self._api.store.get(NODE_CLAIMS.table, "", node) is not None
        there = self._api.store.get("nodes", "", node) is not None
        where = [f"nodeclaim/{node}"] * claim + [f"node/{node}"] * there
        text = f"Pod should schedule on: {', '.join(where)}"
        self._publish(PendingEvent(pod_reference(pod), "Normal", "Nominated", text))

    def not_triggered(self, pod: Pod, verdict: AutoscalerVerdict) -> None:
        """Send FailedScheduling on the pod, as schedulers do, from another source."""
        text = f"Failed to schedule pod, {verdict.message or 'no nodepool found'}"
        self._publish(PendingEvent(pod_reference(pod), "Warning", "FailedScheduling", text))

    def _publish(self, event: PendingEvent) -> None:
        if self._deduplication.admits(event, self._api.clock.now()):
            self._recorder.record(event)

    def _nominate(self, growth: Growth, pods: Sequence[Pod]) -> None:
        for pod in pods:
            text = f"Pod should schedule on: nodeclaim/{growth.homes[pod.uid]}"
            self._publish(PendingEvent(pod_reference(pod), "Normal", "Nominated", text))

    def _set_conditions(self, name: str, **conditions: str) -> None:
        """Write a claim's conditions; Ready sums them up."""
        ready = "True" if set(conditions.values()) == {"True"} else "Unknown"
        moment = format_time(self._api.clock.now())
        status: JsonObject = {
            "conditions": [
                {"type": kind, "status": value, "reason": kind, "lastTransitionTime": moment}
                for kind, value in {**conditions, "Ready": ready}.items()
            ]
        }
        if ready == "True":
            status["nodeName"] = name
        try:
            self._api.patch(
                NODE_CLAIMS, "", name, {"status": status}, MERGE_PATCH, subresource="status"
            )
        except ApiError:
            # Another client deleted it.
            return

    def _reference(self, name: str) -> JsonObject:
        claim = self._api.store.get(NODE_CLAIMS.table, "", name)
        uid = claim.obj["metadata"]["uid"] if claim is not None else name
        about = {"kind": NODE_CLAIMS.kind, "apiVersion": NODE_CLAIMS.group_version}
        return {**about, "name": name, "uid": uid}

    def _delete(self, name: str) -> None:
        try:
            self._api.delete(NODE_CLAIMS, "", name)
        except ApiError:
            # Another client deleted it.
            return


def _requirements(group: NodeGroup) -> list[JsonObject]:
    wanted = {_POOL_LABEL: group.name, "topology.kubernetes.io/zone": group.zone}
    return [
        {"key": key, "operator": "In", "values": [value]} for key, value in wanted.items() if value
    ]


def _letters(number: int) -> str:
    """Return five letters, the end of a generated name.

    >>> _letters(0), _letters(27)
    ('bbbbb', 'bbbcb')
    """
    found = ""
    for _ in range(5):
        number, rest = divmod(number, len(_LETTERS))
        found = _LETTERS[rest] + found
    return found

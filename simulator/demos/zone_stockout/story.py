"""The story of KEP-3990 on a stock API server.

A strict attempt, a cluster autoscaler that tries and fails, the bridge that turns its events into a
pod condition, and the relaxed placement. The cluster's clock runs faster, and only it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

from rich.text import Text

from simulator.clock import SimClock
from simulator.cluster import EmbeddedCluster
from simulator.controllers.autoscaler_groups import Flavor
from simulator.demos.board import Board, News
from simulator.demos.story import Story
from simulator.demos.zone_stockout.objects import (
    CRITERION,
    DEPLOYMENT,
    NAME,
    REPLICAS,
    ROOMY,
    SOLD_OUT,
    ZONE,
    autoscaler,
    nodes,
)
from simulator.objects import JsonObject, dig
from simulator.store import StoreChange

PATIENCE_SECONDS: Final = 20.0
"""Real time for the scheduler, all in all, before the story counts as stuck."""
STORY_SECONDS: Final = 90.0
"""Upper bound of the autoscaler's part, by the cluster's clock."""
SPEED: Final = 5.0
"""Seconds of the cluster in a real one."""
MERGE_SECONDS: Final = 0.3
"""Real seconds in which the same event of another pod joins a line."""
GATE: Final = "PodTopologySpreadFallbackMode"
APPLIED: Final = "kubestow.io/topology-spread-fallback-applied"
_SCALE_UP: Final = "the autoscaler to ask for a node"
_SOLD_OUT: Final = "the cloud to be sold out"
_NO_SCALE_UP: Final = "the autoscaler to give up"
_EVENTS: Final[dict[Flavor, dict[str, str]]] = {
    "cluster-autoscaler": {
        "TriggeredScaleUp": _SCALE_UP,
        "ScaleUpFailed": _SOLD_OUT,
        "NotTriggerScaleUp": _NO_SCALE_UP,
    },
    "karpenter": {
        "Nominated": _SCALE_UP,
        "InsufficientCapacityError": _SOLD_OUT,
        "FailedScheduling": _NO_SCALE_UP,
    },
}
"""Reasons of the events that each autoscaler sends in this story."""
_PROVISIONING: Final = "NodeProvisioningInProgress"
_STYLES: Final = {
    "story": "bold cyan",
    "kubestow": "green",
    "autoscaler": "yellow",
    "bridge": "magenta",
}
_GUIDE: Final = """
The cluster keeps running. In another terminal:

  export KUBECONFIG={kubeconfig}
  kubectl get pods -o wide
  kubestow queue                                 # who waits; explain says why
  kubectl get events --sort-by=.lastTimestamp
  kubectl get pods -o yaml | grep -A5 topology-spread-fallback
  # give the zone capacity again, then ask for more:
  curl -X POST {url}/_kubestow/autoscaler/groups/zone-b -d '{{"state": "ok"}}'
  kubectl scale deployment checkout --replicas 12

Ctrl-C ends it.
"""


def milestones(flavor: Flavor = "cluster-autoscaler") -> dict[str, str]:
    """Return what must happen, in this order: text by name."""
    return {
        "waits": "a pod to be rejected by the strict constraint",
        **_EVENTS[flavor],
        "condition": "the condition NodeProvisioningInProgress=False",
        "fallback": "a pod to be placed with the constraint softened",
    }


class StoryOutcome(NamedTuple):
    """The placements at one moment."""

    zones: Counter[str]
    """Bound pods by zone."""
    relaxed: int
    """Pods that were placed with the constraint softened."""
    pods: int

    @property
    def bound(self) -> int:
        """Return the number of pods with a node."""
        return sum(self.zones.values())

    @property
    def skew(self) -> int:
        """Return the difference between the fullest and the emptiest zone."""
        return max(self.zones.values(), default=0) - min(self.zones.values(), default=0)

    def summary(self) -> str:
        """Return what became of the constraint."""
        spread = ", ".join(f"{zone} {count}" for zone, count in sorted(self.zones.items()))
        return (
            f"\nconstraint  {ZONE}, maxSkew 1, DoNotSchedule"
            f"\ncriteria    {CRITERION}"
            f"\npods        {spread}"
            f"\nskew        {self.skew}; {self.relaxed} pods were placed after the constraint had "
            "softened, strictly they would be Pending"
        )

    def __str__(self) -> str:
        return (
            f"kubestow demo zone-stockout: {self.bound} bound, {self.relaxed} by fallback, "
            f"skew {self.skew}"
        )


class ZoneStockout(Story):
    """A zone is sold out; strict spreading gives way."""

    feature_gates = {GATE: True}

    def __init__(
        self, *, speed: float = SPEED, flavor: Flavor = "cluster-autoscaler", port: int = 0
    ) -> None:
        self.port = port
        self.cluster = EmbeddedCluster(
            port=port, clock=SimClock(rate=speed), autoscaler=autoscaler(flavor), seed=self.seed
        )
        self.board = Board(
            self.cluster.clock.now, real_clock=time.monotonic, merge_seconds=MERGE_SECONDS
        )
        self.happened: dict[str, float] = {}
        """When each milestone was first reached, by the cluster's clock."""
        self._flavor: Flavor = flavor
        self._rejected: set[str] = set()

    def prepare(self) -> None:
        """Create the nodes and observe what happens."""
        for obj in nodes():
            self.cluster.create(obj)
        self.cluster.store.subscribe("pods", self._observe_pod)
        self.cluster.store.subscribe("events", self._observe_event)

    async def play(self) -> None:
        """Play from the first `kubectl apply` until every pod has a node."""
        board, runner = self.board, self.cluster.runner
        board.begin()
        board.add(
            "story", f"2 nodes: 12 CPUs in {ROOMY}, 2 in {SOLD_OUT}, where no more can be had"
        )
        board.add(
            "story",
            f"apply Deployment {NAME}: {REPLICAS} replicas of 1 CPU, spread strictly over zones, "
            f"softens on {CRITERION}",
        )
        # The autoscaler acts when the strict attempts are over, however slow the machine is.
        runner.switch("autoscaler", False)
        self.cluster.create(DEPLOYMENT)
        try:
            async with asyncio.timeout(self._patience()):
                await board.until(lambda: self.outcome().bound + len(self._rejected) == REPLICAS)
                runner.switch("autoscaler", True)
                await board.until(lambda: self.outcome().bound == REPLICAS)
        except TimeoutError:
            return  # `problems` tells what is missing

    def _patience(self) -> float:
        return PATIENCE_SECONDS + STORY_SECONDS / max(self.cluster.clock.rate, 1.0)

    def outcome(self) -> StoryOutcome:
        """Return the placements that the API server holds now."""
        store = self.cluster.store
        zones = Counter({self._zone(version.name): 0 for version in store.items("nodes")})
        pods = [version.obj for version in store.items("pods")]
        bound = [pod for pod in pods if pod["spec"].get("nodeName")]
        zones.update(self._zone(pod["spec"]["nodeName"]) for pod in bound)
        return StoryOutcome(zones, sum(map(_relaxed, bound)), len(pods))

    def problems(self) -> list[str]:
        """Return the first milestone that is missing or too early, and pods without a node."""
        before = ""
        wanted = milestones(self._flavor)
        for milestone, what in wanted.items():
            if milestone not in self.happened:
                return [f"waited {self._patience():.0f} s for {what}, which did not happen"]
            if before and self.happened[before] > self.happened[milestone]:
                return [f"{wanted[before]} came after {what}"]
            before = milestone
        bound = self.outcome().bound
        return [] if bound == REPLICAS else [f"{bound} of {REPLICAS} pods are bound"]

    # -- observing ---------------------------------------------------------------------------------

    def reach(self, milestone: str) -> None:
        """Record the first time of a milestone."""
        self.happened.setdefault(milestone, self.board.elapsed())

    def add(self, source: str, text: str, pod: str = "") -> None:
        """Add an event to the board; one that happens to several pods at once is one line."""
        line = self.board.line_to_join(source, text) if pod else None
        line = line or self.board.add(source, text, text if pod else "")
        if pod:
            line.members[pod] = None

    def _observe_event(self, _table: str, change: StoreChange) -> None:
        event = change.version.obj
        if dig(event, "source", "component") != self._flavor:
            return
        involved = event["involvedObject"]
        pod = involved["name"] if involved["kind"] == "Pod" else ""
        self.reach(event["reason"])
        self.add("autoscaler", f"{event['reason']}: {event['message']}", pod)

    def _observe_pod(self, _table: str, change: StoreChange) -> None:
        if change.type == "DELETED":
            return
        self.board.notify()
        pod, before = change.version.obj, change.previous.obj if change.previous else {}
        name, node = change.version.name, pod["spec"].get("nodeName")
        if node and not dig(before, "spec", "nodeName"):
            if _relaxed(pod):
                self.reach("fallback")
            how = " (softened)" if _relaxed(pod) else ""
            self.add("kubestow", f"placed in {self._zone(node)}{how}", name)
        for kind, report in (("PodScheduled", self._rejection), (_PROVISIONING, self._bridge)):
            new, old = _condition(pod, kind), _condition(before, kind)
            if new and (new["status"], new.get("reason")) != (old.get("status"), old.get("reason")):
                report(name, new)

    def _rejection(self, pod: str, condition: JsonObject) -> None:
        if condition["status"] == "False":
            self.reach("waits")
            self._rejected.add(pod)
            # What follows the first sentence is about preemption and resource claims.
            why = str(condition.get("message", "")).partition(". ")[0]
            self.add("kubestow", f"Pending: {why}", pod)

    def _bridge(self, pod: str, condition: JsonObject) -> None:
        if condition["status"] == "False":
            self.reach("condition")
        text = f"{_PROVISIONING}={condition['status']} ({condition.get('reason')})"
        self.add("bridge", text, pod)

    def _zone(self, node: str) -> str:
        found = self.cluster.store.get("nodes", "", node)
        return str(dig(found.obj, "metadata", "labels", ZONE)) if found else "?"

    # -- telling -----------------------------------------------------------------------------------

    def line(self, news: News) -> Text:
        """Return a line of the timeline: time, source, number of pods, event."""
        minutes, seconds = divmod(int(news.at), 60)
        count = f"{len(news.members)} {'pod' if len(news.members) == 1 else 'pods'}  "
        text = Text()
        text.append(f"{minutes}:{seconds:02}  ", "dim")
        text.append(f"{news.kind:<10}  ", _STYLES.get(news.kind, ""))
        told = f"{count if news.members else ''}{news.text}"
        text.append(told, "bold" if news.kind == "story" else "")
        return text

    def summary(self) -> str:
        """Return what became of the constraint."""
        return self.outcome().summary()

    def guide(self, kubeconfig: Path) -> str:
        """Return what to try with kubectl."""
        return _GUIDE.format(kubeconfig=kubeconfig, url=self.cluster.url)

    def __str__(self) -> str:
        return str(self.outcome())


def _condition(pod: JsonObject, kind: str) -> JsonObject:
    for condition in dig(pod, "status", "conditions") or []:
        if condition.get("type") == kind:
            found: JsonObject = condition
            return found
    return {}


def _relaxed(pod: JsonObject) -> bool:
    return APPLIED in (pod["metadata"].get("annotations") or {})

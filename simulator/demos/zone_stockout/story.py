"""`kubestow demo zone-stockout`: a zone is sold out, and a strict spread constraint gives way.

The whole of KEP-3990 on a stock API server: a strict attempt, a cluster autoscaler that tries and
fails, the bridge that turns its events into a pod condition, and the relaxed placement. The
scheduler is that of `kubestow run`; the cluster's clock runs faster, and only it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple, get_args

import click
from rich.console import Console

from simulator.demos.performing import (
    Interruption,
    log_file_option,
    perform,
    port_option,
    say,
)
from simulator.demos.runner import DemoError, scheduling
from simulator.demos.board import Timeline
from scheduler.cli.reporting import EXIT_INTERRUPTED
from simulator import EmbeddedCluster, SimClock
from simulator.controllers.autoscaler_groups import Flavor
from simulator.objects import JsonObject, dig
from simulator.store import Change
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

PATIENCE_SECONDS: Final = 20.0
"""Real time that the scheduler may take, all in all, before the story counts as stuck."""
STORY_SECONDS: Final = 90.0
"""More than the autoscaler's part takes, by the cluster's clock."""
SPEED: Final = 5.0
"""Seconds of the cluster in a real one."""
GATE: Final = "PodTopologySpreadFallbackMode"
APPLIED: Final = "kubestow.io/topology-spread-fallback-applied"
_ASKED: Final = "the autoscaler to ask for a node"
_SOLD_OUT: Final = "the cloud to be sold out"
_GAVE_UP: Final = "the autoscaler to give up"
_EVENTS: Final[dict[Flavor, dict[str, str]]] = {
    "cluster-autoscaler": {
        "TriggeredScaleUp": _ASKED,
        "ScaleUpFailed": _SOLD_OUT,
        "NotTriggerScaleUp": _GAVE_UP,
    },
    "karpenter": {
        "Nominated": _ASKED,
        "InsufficientCapacityError": _SOLD_OUT,
        "FailedScheduling": _GAVE_UP,
    },
}
"""Reasons of the events that each autoscaler sends in this story."""


def milestones(flavor: Flavor = "cluster-autoscaler") -> dict[str, str]:
    """What must happen, in this order."""
    return {
        "waits": "a pod to be refused by the strict constraint",
        **_EVENTS[flavor],
        "condition": "the condition NodeProvisioningInProgress=False",
        "fallback": "a pod to be placed with the constraint softened",
    }


_HELP: Final = f"""\
A zone is sold out; strict spreading gives way, and only then.

Deployment {NAME} wants {REPLICAS} replicas spread over two zones, maxSkew 1, DoNotSchedule. Zone
{SOLD_OUT} has room for two of them, and its node group cannot grow: the cloud has nothing left
there. An ordinary scheduler leaves three replicas Pending although {ROOMY} has room. Here the pods
carry an annotation that says when the constraint may soften: when node provisioning failed.

\b
What the timeline shows, in minutes of the cluster's clock:
  story       what you would do with kubectl
  kubestow    placements, and pods that wait
  autoscaler  the events of cluster-autoscaler or Karpenter: their real texts, and their silence
  bridge      the pod condition that kubestow makes of these events

The API server is a stock one that knows nothing of the feature. The manifest is in
examples/zone-stockout and works on a real cluster unchanged. The exit code is 0 if everything
happened in this order, 1 if not.

\b
Examples:
  kubestow demo zone-stockout              about 10 seconds
  kubestow demo zone-stockout --speed 30   quicker
  kubestow demo zone-stockout --serve      then look around with kubectl
  kubestow demo zone-stockout --autoscaler karpenter
"""
_GUIDE: Final = """
The cluster keeps running. In another terminal:

  export KUBECONFIG={kubeconfig}
  kubectl get pods -o wide
  kubectl get events --sort-by=.lastTimestamp
  kubectl get pods -o yaml | grep -A5 topology-spread-fallback
  # give the zone capacity again, then ask for more:
  curl -X POST {url}/_kubestow/autoscaler/groups/zone-b -d '{{"state": "ok"}}'
  kubectl scale deployment checkout --replicas 12

Ctrl-C ends it.
"""


@click.command("zone-stockout", help=_HELP)
@click.option(
    "--speed",
    type=click.FloatRange(1, 60),
    default=SPEED,
    show_default=True,
    metavar="FACTOR",
    help="Seconds of the cluster's clock in a real one.",
)
@click.option(
    "--autoscaler",
    "flavor",
    type=click.Choice(get_args(Flavor)),
    default="cluster-autoscaler",
    show_default=True,
    help="The autoscaler that is imitated.",
)
@click.option(
    "--serve", is_flag=True, help="Keep cluster and scheduler running afterwards, for kubectl."
)
@port_option
@log_file_option
def command(*, speed: float, flavor: Flavor, serve: bool, port: int, log_file: Path | None) -> None:
    """Run the story; leaves with its exit code."""
    perform(lambda folder: _perform(folder, speed, flavor, port, serve=serve), log_file)


async def _perform(folder: Path, speed: float, flavor: Flavor, port: int, *, serve: bool) -> int:
    interruption = Interruption()
    console = Console()
    cluster = EmbeddedCluster(
        port=port, clock=SimClock(rate=speed), autoscaler=autoscaler(flavor), seed=1
    )
    code = 0
    async with _opened(cluster, folder, port) as kubeconfig:
        timeline = Timeline(console, cluster.clock.now, time.monotonic)
        story = Story(cluster, timeline)
        async with writing(story, timeline):
            done = await interruption.until(story.play())
        outcome = story.outcome()
        if done:
            story.check(outcome)
            say(console, outcome.summary())
        else:
            code = EXIT_INTERRUPTED
        if done and serve:
            say(console, _GUIDE.format(kubeconfig=kubeconfig, url=cluster.url))
            async with writing(story, timeline):
                await interruption.until(_for_ever())
            outcome = story.outcome()
    say(console, str(outcome))
    return code


async def _for_ever() -> None:
    await asyncio.Event().wait()


@asynccontextmanager
async def writing(story: Story, timeline: Timeline) -> AsyncIterator[None]:
    """What the story notes is written, while the context lasts."""
    with story.watching():
        async with asyncio.TaskGroup() as tasks:
            writer = tasks.create_task(timeline.write(), name="timeline")
            try:
                yield
            finally:
                writer.cancel()


@asynccontextmanager
async def _opened(cluster: EmbeddedCluster, folder: Path, port: int) -> AsyncIterator[Path]:
    try:
        await cluster.__aenter__()
    except OSError as error:
        msg = f"the API server cannot listen on port {port}: {error.strerror}"
        raise DemoError(msg) from error
    try:
        for obj in nodes():
            cluster.create(obj)
        kubeconfig = cluster.write_kubeconfig(folder / "kubeconfig")
        async with scheduling(kubeconfig, seed=1, feature_gates={GATE: True}):
            yield kubeconfig
    finally:
        await cluster.__aexit__(None, None, None)


class Outcome(NamedTuple):
    """How it ended."""

    zones: Counter[str]
    """Bound pods by zone."""
    relaxed: int
    """Pods that were placed with the constraint softened."""
    pods: int

    @property
    def skew(self) -> int:
        """Between the fullest and the emptiest zone."""
        return max(self.zones.values(), default=0) - min(self.zones.values(), default=0)

    def summary(self) -> str:
        """What became of the constraint."""
        spread = ", ".join(f"{zone} {count}" for zone, count in sorted(self.zones.items()))
        return (
            f"\nconstraint  {ZONE}, maxSkew 1, DoNotSchedule"
            f"\ncriteria    {CRITERION}"
            f"\npods        {spread}"
            f"\nskew        {self.skew}; {self.relaxed} pods were placed after the constraint had "
            "softened, strictly they would be Pending"
        )

    def __str__(self) -> str:
        bound = sum(self.zones.values())
        return (
            f"kubestow demo zone-stockout: {bound} bound, {self.relaxed} by fallback, "
            f"skew {self.skew}"
        )


class Story:
    """Plays it, and notes what happens from the store's changes alone."""

    def __init__(self, cluster: EmbeddedCluster, timeline: Timeline) -> None:
        self._cluster = cluster
        self._timeline = timeline
        self._flavor: Flavor = cluster.autoscaler.settings.flavor
        self._changed = asyncio.Event()
        self._waited: set[str] = set()
        self._zones = {
            version.name: version.obj["metadata"]["labels"][ZONE]
            for version in cluster.store.items("nodes")
        }

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note what happens, while the context lasts."""
        store = self._cluster.store
        undo = [store.subscribe("pods", self._pod), store.subscribe("events", self._event)]
        try:
            yield
        finally:
            for forget in undo:
                forget()

    async def play(self) -> None:
        """From the first `kubectl apply` until every pod has a node, or patience ends."""
        self._timeline.begin()
        told = self._timeline.tell
        told("story", f"2 nodes: 12 CPUs in {ROOMY}, 2 in {SOLD_OUT}, where no more can be had")
        told(
            "story",
            f"apply Deployment {NAME}: {REPLICAS} replicas of 1 CPU, spread strictly over zones, "
            f"softens on {CRITERION}",
        )
        # The autoscaler looks when the strict attempts are over, however slow the machine is.
        self._cluster.runner.switch("autoscaler", False)
        self._cluster.create(DEPLOYMENT)
        try:
            async with asyncio.timeout(self._patience()):
                await self._until(lambda: self._bound() + len(self._waited) == REPLICAS)
                self._cluster.runner.switch("autoscaler", True)
                await self._until(lambda: self._bound() == REPLICAS)
        except TimeoutError:
            # `check` says what is missing, better than a timeout could.
            return

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._changed.clear()
            await self._changed.wait()

    def _patience(self) -> float:
        return PATIENCE_SECONDS + STORY_SECONDS / max(self._cluster.clock.rate, 1.0)

    def _bound(self) -> int:
        return sum(self.outcome().zones.values())

    def outcome(self) -> Outcome:
        """As the API server has it now."""
        zones = Counter(dict.fromkeys(self._zones.values(), 0))
        relaxed = 0
        pods = [version.obj for version in self._cluster.store.items("pods")]
        for pod in pods:
            node = pod["spec"].get("nodeName")
            if node:
                zones[self._zone(node)] += 1
                relaxed += _relaxed(pod)
        return Outcome(zones, relaxed, len(pods))

    def check(self, outcome: Outcome) -> None:
        """Raise DemoError unless everything happened, in order."""
        happened = self._timeline.happened
        before = ""
        wanted = milestones(self._flavor)
        for milestone, what in wanted.items():
            if milestone not in happened:
                raise DemoError(f"waited {self._patience():.0f} s in vain for {what}")
            if before and happened[before] > happened[milestone]:
                raise DemoError(f"{wanted[before]} came after {what}")
            before = milestone
        bound = sum(outcome.zones.values())
        if bound != REPLICAS:
            raise DemoError(f"{bound} of {REPLICAS} pods are bound")

    def _zone(self, node: str) -> str:
        found = self._cluster.store.get("nodes", "", node)
        return str(dig(found.obj, "metadata", "labels", ZONE)) if found else "?"

    def _event(self, _table: str, change: Change) -> None:
        event = change.version.obj
        if dig(event, "source", "component") != self._flavor:
            return
        involved = event["involvedObject"]
        whom = involved["name"] if involved["kind"] == "Pod" else ""
        self._timeline.reach(event["reason"])
        self._timeline.tell("autoscaler", f"{event['reason']}: {event['message']}", whom)

    def _pod(self, _table: str, change: Change) -> None:
        if change.type == "DELETED":
            return
        self._changed.set()
        pod, before = change.version.obj, change.previous.obj if change.previous else {}
        name = change.version.name
        node = pod["spec"].get("nodeName")
        if node and not dig(before, "spec", "nodeName"):
            how = " (softened)" if _relaxed(pod) else ""
            if how:
                self._timeline.reach("fallback")
            self._timeline.tell("kubestow", f"placed in {self._zone(node)}{how}", name)
        for kind, told in (("PodScheduled", self._refused), (_PROVISIONING, self._provisioning)):
            new, old = _condition(pod, kind), _condition(before, kind)
            if new and (new["status"], new.get("reason")) != (
                old.get("status"),
                old.get("reason"),
            ):
                told(name, new)

    def _refused(self, name: str, condition: JsonObject) -> None:
        if condition["status"] == "False":
            self._timeline.reach("waits")
            self._waited.add(name)
            # What follows the first sentence is about preemption and resource claims.
            why = str(condition.get("message", "")).partition(". ")[0]
            self._timeline.tell("kubestow", f"Pending: {why}", name)

    def _provisioning(self, name: str, condition: JsonObject) -> None:
        if condition["status"] == "False":
            self._timeline.reach("condition")
        text = f"{_PROVISIONING}={condition['status']} ({condition.get('reason')})"
        self._timeline.tell("bridge", text, name)


_PROVISIONING: Final = "NodeProvisioningInProgress"


def _condition(pod: JsonObject, kind: str) -> JsonObject:
    for condition in dig(pod, "status", "conditions") or []:
        if condition.get("type") == kind:
            found: JsonObject = condition
            return found
    return {}


def _relaxed(pod: JsonObject) -> bool:
    return APPLIED in (pod["metadata"].get("annotations") or {})

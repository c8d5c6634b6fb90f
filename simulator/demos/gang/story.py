"""The story of gangs: two that each half fit, one that needs a rack, one that preempts.

Audited at every change: no member is bound while fewer than the minimum of its group can be.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final

from scheduler.api.pod_groups import POD_GROUP_LABEL
from simulator.cluster import EmbeddedCluster
from simulator.demos.board import Board
from simulator.demos.gang.objects import BATCH, POD_GROUPS, URGENT, base, group, pods
from simulator.demos.story import Story
from simulator.objects import JsonObject, dig
from simulator.store import StoreChange

PATIENCE_SECONDS: Final = 30.0
"""Time for each scene, before it counts as stuck."""
PAUSE_SECONDS: Final = 1.2
"""Between two scenes, to read."""
_GUIDE: Final = """
The cluster keeps running. In another terminal:

  export KUBECONFIG={kubeconfig}
  kubestow gangs
  kubectl get pods -o wide
  kubectl get events

Ctrl-C ends it.

{totals}"""


class GangBoard(Board):
    """A board that also knows where each pod is."""

    def __init__(self) -> None:
        super().__init__(time.monotonic)
        #: Names of pods to their nodes; empty for those that wait.
        self.nodes: dict[str, str] = {}
        self.evicted: list[str] = []
        self.ended: set[str] = set()
        self._told: dict[str, str] = {}

    def observe(self, _table: str, change: StoreChange) -> None:
        """Take note of a write to a pod."""
        pod = change.version.obj
        name = str(dig(pod, "metadata", "name"))
        if change.type == "DELETED":
            self.nodes.pop(name, None)
            self.evicted.append(name)
            self.add("evicted", name)
        else:
            if dig(pod, "status", "phase") == "Succeeded":
                self.ended.add(name)
            before = self.nodes.get(name)
            self.nodes[name] = str(dig(pod, "spec", "nodeName") or "")
            if self.nodes[name] and not before:
                self.add("bound", f"{name} to {self.nodes[name]}")
            elif not self.nodes[name]:
                self._tell_why(pod)
        self.notify()

    def bound(self, stem: str) -> list[str]:
        """Return the nodes of the bound pods whose names begin with `stem`."""
        return [node for name, node in self.nodes.items() if name.startswith(stem) and node]

    def _tell_why(self, pod: JsonObject) -> None:
        """Add a line when the reason of a group's wait is another one."""
        labels = dig(pod, "metadata", "labels") or {}
        stem = labels.get(POD_GROUP_LABEL) or labels.get("app", "")
        for condition in dig(pod, "status", "conditions") or ():
            text = str(condition.get("message", "")).partition(": 0/")[0]
            if condition.get("status") == "False" and text and self._told.get(stem) != text:
                self._told[stem] = text
                self.add("waits", text)


class Gangs(Story):
    """Groups of pods on two racks of two nodes with four CPUs."""

    board: GangBoard
    feature_gates = {"GenericWorkload": True}

    def __init__(self, *, port: int = 0) -> None:
        self.port = port
        self.cluster = EmbeddedCluster(port=port, seed=self.seed, more_resources=(POD_GROUPS,))
        self.board = GangBoard()
        self._stuck = ""

    def prepare(self) -> None:
        """Create nodes and priority classes, and observe pods."""
        self.cluster.store.subscribe("pods", self.board.observe)
        for obj in base():
            self.cluster.create(obj)

    async def play(self) -> None:
        """Play the scenes one after the other."""
        try:
            async with asyncio.timeout(3 * PATIENCE_SECONDS):
                await self._two_halves()
                await self._one_rack()
                await self._urgent()
        except TimeoutError:
            self._stuck = "the story is stuck"

    def problems(self) -> list[str]:
        """Return what did not end as promised."""
        board = self.board
        found = [*board.faults, *filter(None, [self._stuck])]
        racks = {node.rpartition("-")[0] for node in board.bound("rack")}
        if len(racks) != 1:
            found.append(f"the gang rack is in {len(racks)} racks")
        if len(board.evicted) != 6 or not all(name.startswith("batch") for name in board.evicted):
            found.append(f"evicted are {', '.join(board.evicted) or 'no pods'}")
        return found

    def guide(self, kubeconfig: Path) -> str:
        """Return what to try with kubectl."""
        return _GUIDE.format(kubeconfig=kubeconfig, totals=self)

    def __str__(self) -> str:
        bound = sum(map(bool, self.board.nodes.values()))
        return f"kubestow demo: {bound} bound, {len(self.board.nodes) - bound} waiting"

    # -- scenes ----------------------------------------------------------------------------------

    async def _two_halves(self) -> None:
        self.board.add("story", "gangs red and blue of 10 pods each; 16 CPUs: each would half fit")
        for name in ("red", "blue"):
            self.cluster.create(group(name, 10))
        for pair in zip(pods("red", 10, seconds=3), pods("blue", 10, seconds=3), strict=True):
            for pod in pair:
                self.cluster.create(pod)
        board = self.board
        await board.until(lambda: len(board.bound("red")) + len(board.bound("blue")) >= 10)
        await asyncio.sleep(PAUSE_SECONDS)
        if {len(board.bound("red")), len(board.bound("blue"))} != {0, 10}:
            board.fault("neither red nor blue is whole while the other has nothing")
        await board.until(lambda: len(board.bound("red")) + len(board.bound("blue")) == 20)

    async def _one_rack(self) -> None:
        board = self.board
        await board.until(lambda: len(board.ended) == 20)
        board.add("story", "gang rack of 8 pods, all in one rack")
        self.cluster.create(group("rack", 8, one_rack=True))
        for pod in pods("rack", 8, priority=URGENT):
            self.cluster.create(pod)
        await board.until(lambda: len(board.bound("rack")) == 8)

    async def _urgent(self) -> None:
        board = self.board
        await asyncio.sleep(PAUSE_SECONDS)
        board.add("story", "8 batch pods of low priority fill the other rack")
        for pod in pods("batch", 8, priority=BATCH, grouped=False):
            self.cluster.create(pod)
        await board.until(lambda: len(board.bound("batch")) == 8)
        await asyncio.sleep(PAUSE_SECONDS)
        board.add("story", "gang urgent of 6 pods: six of them must go, and no more")
        self.cluster.create(group("urgent", 6))
        for pod in pods("urgent", 6, priority=URGENT):
            self.cluster.create(pod)
        await board.until(lambda: len(board.bound("urgent")) == 6)

"""The story that plays the script of the morning."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final

from rich.text import Text

from simulator.cluster import EmbeddedCluster
from simulator.demos.board import News
from simulator.demos.morning.audit import audit
from simulator.demos.morning.cluster import ClusterBoard
from simulator.demos.morning.objects import SCHEDULER, demo_cluster
from simulator.demos.morning.script import SHOW_SECONDS, Beat, Kubectl, write_script
from simulator.demos.morning.view import MorningView
from simulator.demos.scheduling import DemoError
from simulator.demos.story import Story
from simulator.store import StoreChange

PATIENCE_SECONDS: Final = 30.0
"""Time for the scheduler to do what one beat waits for, before the run counts as stuck."""

_WORDS: Final = {
    "story": "--",
    "progress": "==",
    "reload": "--",
    "waits": "waits:",
    "fault": "FAULT",
}
_GUIDE: Final = """
The cluster keeps running. In another terminal:

  export KUBECONFIG={kubeconfig}
  kubectl get nodes
  kubectl get pods -A --field-selector=status.phase=Pending
  kubestow explain batch/giant-1                 # why it waits, and what would help
  kubestow whatif batch/giant-1 --set cpu=4      # would it fit then?
  kubestow queue                                 # all that wait; top, ui and bundle work too

  # let a gated pod go, and see it placed:
  kubectl patch pod -n research prepare-4 --type=json \\
    -p '[{{"op": "remove", "path": "/spec/schedulingGates"}}]'
  # place a pod of your own:
  kubectl run hello --image=nginx --overrides='{{"spec": {{"schedulerName": "kubestow"}}}}'

Ctrl-C ends it.

{totals}"""


class Morning(Story):
    """A morning in a cluster of 39 nodes.

    `duration` is in seconds; 0 does everything as soon as it may be done.
    """

    board: ClusterBoard

    def __init__(self, *, seed: int = 1, duration: float = SHOW_SECONDS, port: int = 0) -> None:
        self.seed = seed
        self.port = port
        self.cluster = EmbeddedCluster(port=port, seed=seed)
        self.board = ClusterBoard(SCHEDULER, time.monotonic)
        self._duration = duration
        self._demo = demo_cluster(seed)
        self._kubectl = Kubectl(self.cluster)
        self.script = write_script(self._demo, self._kubectl)

    def prepare(self) -> None:
        """Create the nodes and observe them."""
        for table in ("pods", "nodes"):
            self.cluster.store.subscribe(table, self.board.observe)
        for obj in self._demo.base:
            self._kubectl.create(obj)
        self.picture = MorningView(self.board, self.script.pods, self.cluster.url)

    async def play(self) -> None:
        """Play the beats, then wait until everything is scheduled that can be."""
        board, duration = self.board, self._duration
        started = board.elapsed()
        for beat in self.script.beats:
            due = started + beat.at * duration / SHOW_SECONDS
            if duration:
                await asyncio.sleep(max(due - board.elapsed(), 0.0))
            await self._act(beat)
        try:
            await board.until(lambda: self.script.settled(board), PATIENCE_SECONDS)
        except TimeoutError:
            return  # the audit tells what is missing
        if duration:
            await asyncio.sleep(max(started + duration - board.elapsed(), 0.0))

    async def _act(self, beat: Beat) -> None:
        after = beat.after
        if after is not None:
            try:
                await self.board.until(lambda: after(self.board), PATIENCE_SECONDS)
            except TimeoutError as error:
                msg = (
                    f"waited {PATIENCE_SECONDS:.0f} s for {beat.awaiting}; is the scheduler alive?"
                )
                raise DemoError(msg) from error
        if beat.text:
            self.board.add("story", beat.text)
        beat.act()

    def problems(self) -> list[str]:
        """Return what the audit finds at the end of the script."""
        return audit(self.board, self._recounted(), self.script)

    def violations(self) -> list[str]:
        """Return what the audit finds after users changed the cluster."""
        return audit(self.board, self._recounted())

    def _recounted(self) -> ClusterBoard:
        """Count what the API server holds now, on a new board."""
        board = ClusterBoard(SCHEDULER, time.monotonic)
        for table in ("nodes", "pods"):
            for version in self.cluster.store.items(table):
                board.observe(table, StoreChange("ADDED", version, None, version.rv))
        return board

    def progress(self) -> str:
        """Return the counts of this moment."""
        board = self.board
        waiting = len(board.waiting())
        return f"{board.bound} of {self.script.pods} pods bound, {waiting} waiting"

    def line(self, news: News) -> Text:
        """Return a line of the board as it is written."""
        return Text(f"{news.at:5.1f} s  {_WORDS.get(news.kind, news.kind)} {news.text}")

    def guide(self, kubeconfig: Path) -> str:
        """Return what to try."""
        return _GUIDE.format(kubeconfig=kubeconfig, totals=self)

    def __str__(self) -> str:
        return f"kubestow demo: {self.board.bound} bound, {len(self.board.waiting())} waiting"

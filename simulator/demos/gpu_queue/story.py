"""The story of deferred quota on a stock API server.

Ten gated pods are admitted although the quota has room for eight, a small Kueue lets them go, eight
run, two are held by quota with a condition, and each is released when a job before it ends.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from simulator.cluster import EmbeddedCluster
from simulator.demos.gpu_queue.jobs import JobBoard
from simulator.demos.gpu_queue.objects import (
    JOBS,
    KUEUE,
    LIMIT,
    NAMESPACE,
    jobs,
    namespace,
    nodes,
)
from simulator.demos.story import Story

PATIENCE_SECONDS: Final = 25.0
"""Time for the whole story, before it counts as stuck."""
GATE: Final = "ResourceQuotaDeferredEnforcement"
_GUIDE: Final = """
The cluster keeps running. In another terminal:

  export KUBECONFIG={kubeconfig}
  kubestow quota show -n gpu-queue
  kubestow queue --namespace gpu-queue
  kubectl describe quota -n gpu-queue
  kubectl get events -n gpu-queue --field-selector reason=ResourceQuotaExceeded
  # two GPUs are enough? Then queue the jobs again and watch:
  kubestow quota set -n gpu-queue --gpu nvidia.com/gpu=2
  kubectl delete jobs --all -n gpu-queue
  kubectl create -f examples/gpu-queue/jobs.yaml
  kubectl get pods -n gpu-queue --watch

Ctrl-C ends it.

{totals}"""


class GpuQueue(Story):
    """Ten GPU jobs, eight GPUs of quota."""

    board: JobBoard
    feature_gates = {GATE: True}
    picture_while_serving = True

    def __init__(self, *, port: int = 0) -> None:
        self.port = port
        self.cluster = EmbeddedCluster(port=port, seed=self.seed, kueue=KUEUE)
        self.board = JobBoard(time.monotonic)
        self.picture = self.board

    def prepare(self) -> None:
        """Create the nodes and observe what happens."""
        for table in ("pods", "resourcequotas", "events"):
            self.cluster.store.subscribe(table, self.board.observe)
        for obj in nodes():
            self.cluster.create(obj)

    async def play(self) -> None:
        """Play from the first `kubectl apply` until every job is done."""
        board, cluster = self.board, self.cluster
        board.add("story", f"namespace {NAMESPACE}: a quota of {LIMIT} GPUs; the nodes have 12")
        for obj in namespace():
            cluster.create(obj)
        # Jobs are created when the quota is known, as on any cluster that is older than its jobs.
        cluster.runner.work_once()
        board.add("story", f"{JOBS} jobs of one GPU each, gated: all admitted, none charged")
        for obj in jobs():
            cluster.create(obj)
        try:
            await board.until(board.finished, PATIENCE_SECONDS)
        except TimeoutError:
            return  # `problems` tells what is missing

    def problems(self) -> list[str]:
        """Return what the jobs' states show."""
        return self.board.problems()

    def guide(self, kubeconfig: Path) -> str:
        """Return what to try with kubectl."""
        return _GUIDE.format(kubeconfig=kubeconfig, totals=self)

    def __str__(self) -> str:
        return str(self.board)

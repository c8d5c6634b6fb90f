"""`kubestow demo gpu-queue`: ten GPU jobs, eight GPUs of quota.

The whole of deferred quota on a stock API server: ten gated pods are admitted although the quota
has room for eight, a small Kueue lets them go, eight run, two are held by quota and say so, and
each is released when a job before it ends. The scheduler is that of `kubestow run`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.live import Live

from simulator.demos.gpu_queue.jobs import GpuBoard
from simulator.demos.performing import (
    Interruption,
    can_draw,
    log_file_option,
    perform,
    port_option,
    say,
)
from simulator.demos.runner import DemoError, scheduling
from scheduler.cli.reporting import EXIT_INTERRUPTED
from simulator import EmbeddedCluster
from simulator.demos.gpu_queue.objects import JOBS, KUEUE, LIMIT, NAMESPACE, jobs, namespace, nodes

PATIENCE_SECONDS: Final = 25.0
"""After which the story counts as stuck."""
GATE: Final = "ResourceQuotaDeferredEnforcement"
_FRAME_SECONDS: Final = 0.1

_HELP: Final = f"""\
Ten GPU jobs, eight GPUs of quota.

{JOBS} jobs of one GPU each are queued in namespace {NAMESPACE}, whose quota is {LIMIT} GPUs. A
stock quota would refuse the last two, or charge those that only wait. Here all of them are admitted
with a scheduling gate and charge nothing. A small Kueue lets them go, two at a time. Eight are
placed; two are held by quota, with a condition that no autoscaler takes for a reason to buy nodes,
and placed as soon as a job ends. The nodes would have room for all ten.

\b
What the table shows, for each job:
  gated      admitted over the limit, not charged
  let go     the gate is gone
  held       by quota: PodScheduled=False, reason ResourceQuotaValidated
  running    placed and charged
  done       finished; what it used is free

Every change of a pod is audited: more than {LIMIT} GPUs bound at any moment, or a held pod that
says Unschedulable, ends the demo with exit code 1. The API server is a stock one that knows nothing
of the feature. The manifests are in examples/gpu-queue and work on a real cluster unchanged.

\b
Examples:
  kubestow demo gpu-queue            about 12 seconds
  kubestow demo gpu-queue --serve    then look around with kubectl
"""
_GUIDE: Final = """
The cluster keeps running. In another terminal:

  export KUBECONFIG={kubeconfig}
  kubestow quota show -n gpu-queue
  kubectl describe quota -n gpu-queue
  kubectl get events -n gpu-queue --field-selector reason=ResourceQuotaExceeded
  # two GPUs are enough? Then queue the jobs again and watch:
  kubestow quota set -n gpu-queue --gpu nvidia.com/gpu=2
  kubectl delete jobs --all -n gpu-queue
  kubectl create -f examples/gpu-queue/jobs.yaml
  kubectl get pods -n gpu-queue --watch

Ctrl-C ends it.
"""


@click.command("gpu-queue", help=_HELP)
@click.option(
    "--serve", is_flag=True, help="Keep cluster and scheduler running afterwards, for kubectl."
)
@port_option
@log_file_option
def command(*, serve: bool, port: int, log_file: Path | None) -> None:
    """Run the story; leaves with its exit code."""
    perform(lambda folder: _perform(folder, port, serve=serve), log_file)


async def _perform(folder: Path, port: int, *, serve: bool) -> int:
    interruption = Interruption()
    console = Console()
    cluster = EmbeddedCluster(port=port, seed=1, kueue=KUEUE)
    board = GpuBoard(time.monotonic)
    async with _opened(cluster, board, folder, port) as kubeconfig:
        async with _audience(board, console):
            done = await interruption.until(_play(cluster, board))
        if not done:
            say(console, str(board))
            return EXIT_INTERRUPTED
        problems = board.problems()
        if problems:
            raise DemoError("\n".join(problems))
        if serve:
            say(console, _GUIDE.format(kubeconfig=kubeconfig))
            say(console, str(board))
            async with _audience(board, console):
                await interruption.until(_for_ever())
    say(console, str(board))
    return 0


@contextlib.asynccontextmanager
async def _opened(
    cluster: EmbeddedCluster, board: GpuBoard, folder: Path, port: int
) -> AsyncIterator[Path]:
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(cluster)
        except OSError as error:
            msg = f"the API server cannot listen on port {port}: {error.strerror}"
            raise DemoError(msg) from error
        for table in ("pods", "resourcequotas", "events"):
            stack.callback(cluster.store.subscribe(table, board.observe))
        for obj in nodes():
            cluster.create(obj)
        kubeconfig = cluster.write_kubeconfig(folder / "kubeconfig")
        await stack.enter_async_context(scheduling(kubeconfig, seed=1, feature_gates={GATE: True}))
        yield kubeconfig


async def _play(cluster: EmbeddedCluster, board: GpuBoard) -> None:
    """From the first `kubectl apply` until every job is done, or patience ends."""
    board.tell("story", f"namespace {NAMESPACE}: a quota of {LIMIT} GPUs; the nodes have 12")
    for obj in namespace():
        cluster.create(obj)
    # Jobs are created when the quota is known, as on any cluster that is older than its jobs.
    cluster.runner.work_once()
    board.tell("story", f"{JOBS} jobs of one GPU each, gated: all admitted, none charged")
    for obj in jobs():
        cluster.create(obj)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not board.finished():
                await board.changed()
    except TimeoutError:
        # `problems` says what is missing, better than a timeout could.
        return


async def _for_ever() -> None:
    await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def _audience(board: GpuBoard, console: Console) -> AsyncIterator[None]:
    """Show the board while the context lasts: a live table, or lines."""
    watch = _watch_live if can_draw(console) else _watch_lines
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watch(board, console), name="audience")
        try:
            yield
        finally:
            watching.cancel()


async def _watch_live(board: GpuBoard, console: Console) -> None:
    with Live(board, console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            live.refresh()
            await asyncio.sleep(_FRAME_SECONDS)


async def _watch_lines(board: GpuBoard, console: Console) -> None:
    try:
        while True:
            await asyncio.sleep(_FRAME_SECONDS)
            for line in board.news():
                say(console, line)
    finally:
        for line in board.news():
            say(console, line)

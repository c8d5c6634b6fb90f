"""Runs the demo: embedded API server, real scheduler over real HTTP, the story, and its audience.

All on one event loop. The order of stopping matters: the story ends first, then the scheduler (it
finishes its binds), then the API server, so that nothing is cut off that the audit would then call
lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog

from config import FeatureGates
from simulator.demos.morning.audit import audit
from simulator.demos.morning.cluster import Board
from simulator.demos.morning.story import SHOW_SECONDS, Beat, Stage, Story, tell
from scheduler.service.application import Application
from scheduler.service.options import (
    RunOptions,
    ServingOptions,
    available_plugins,
    read_configuration,
)
from simulator import EmbeddedCluster
from simulator.demos.morning.objects import SCHEDULER, demo_cluster
from simulator.store import Change

_log = structlog.get_logger(__name__)

PATIENCE_SECONDS: Final = 30.0
"""How long the story waits for the scheduler at one point before it calls the run stuck."""

_LOCAL_QPS: Final = 5000
"""Requests per second allowed to the scheduler. Its default of 50 spares API servers of other
people; this one is its own."""


class DemoError(Exception):
    """The demo could not run, or the scheduler did something wrong. The text says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """What the command line asked for."""

    seed: int = 1
    #: Seconds that the story takes; 0 does everything as soon as it may be done.
    duration: float = SHOW_SECONDS
    #: Of the API server; 0 takes a free one.
    port: int = 0


class Totals(NamedTuple):
    """How it ended."""

    bound: int
    waiting: int

    def __str__(self) -> str:
        return f"kubestow demo: {self.bound} bound, {self.waiting} waiting"


class Running(NamedTuple):
    """A demo that is under way, for its audience."""

    board: Board
    story: Story
    server: str
    kubeconfig: Path
    recount: Callable[[], Board]
    """A new board made of what the API server holds now."""

    @property
    def totals(self) -> Totals:
        """The counts of this moment."""
        return Totals(self.board.bound, len(self.board.waiting()))


@contextlib.asynccontextmanager
async def opened(options: DemoOptions, folder: Path) -> AsyncIterator[Running]:
    """A demo cluster with the scheduler at work on it; `folder` takes the kubeconfig.

    Raises:
        DemoError: the port is taken, or the scheduler ended by itself.
    """
    cluster = EmbeddedCluster(port=options.port, seed=options.seed)
    demo = demo_cluster(options.seed)
    board = Board(SCHEDULER, time.monotonic)
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(cluster)
        except OSError as error:
            msg = f"the API server cannot listen on port {options.port}: {error.strerror}"
            raise DemoError(msg) from error
        stack.callback(cluster.store.subscribe("pods", board.observe))
        stack.callback(cluster.store.subscribe("nodes", board.observe))
        stage = Stage(cluster)
        for obj in demo.base:
            stage.create(obj)
        story = tell(demo, stage)
        kubeconfig = cluster.write_kubeconfig(folder / "kubeconfig")
        await stack.enter_async_context(scheduling(kubeconfig, seed=options.seed))
        yield Running(board, story, cluster.url, kubeconfig, partial(_recount, cluster))


def _recount(cluster: EmbeddedCluster) -> Board:
    board = Board(SCHEDULER, time.monotonic)
    for table in ("nodes", "pods"):
        for version in cluster.store.items(table):
            board.observe(table, Change("ADDED", version, None, version.rv))
    return board


@contextlib.asynccontextmanager
async def scheduling(
    kubeconfig: Path,
    *,
    seed: int,
    overrides: Mapping[str, Any] | None = None,
    feature_gates: Mapping[str, bool] | None = None,
) -> AsyncIterator[None]:
    """The scheduler of `kubestow run` on a cluster of our own, while the context lasts.

    Raises:
        DemoError: it ended by itself.
    """
    run_options = RunOptions(
        overrides={
            "clientConnection.kubeconfig": str(kubeconfig),
            "clientConnection.qps": _LOCAL_QPS,
            "clientConnection.burst": _LOCAL_QPS,
            "leaderElection.leaderElect": False,
            "kubestow.eventsPerSecond": _LOCAL_QPS,
            "kubestow.seed": seed,
            **(overrides or {}),
        },
        feature_gates=FeatureGates(feature_gates),
        serving=ServingOptions(secure_port=0),
    )
    registry = available_plugins()
    application = Application(read_configuration(run_options, registry), registry, run_options)
    stopping = False

    async def serve() -> None:
        try:
            code = await application.serve(handle_signals=False)
        except Exception as error:
            # The scheduler's boundary: whatever it dies of is one sentence to the viewer, and a
            # traceback in the log.
            _log.exception("the scheduler failed")
            raise DemoError(f"the scheduler failed: {_told(error)}") from error
        if not stopping:
            raise DemoError(f"the scheduler ended by itself with code {code}")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve(), name="scheduler")
        try:
            yield
        finally:
            stopping = True
            application.stop()


def _told(problem: BaseException) -> str:
    if isinstance(problem, BaseExceptionGroup):
        return "; ".join(_told(one) for one in problem.exceptions)
    return f"{type(problem).__name__}: {problem}"


async def play(running: Running, duration: float) -> None:
    """Play the story to its end, then check what became of it.

    Raises:
        DemoError: it got stuck, or the audit found something.
    """
    board, story = running.board, running.story
    started = board.elapsed()
    for beat in story.beats:
        due = started + beat.at * duration / SHOW_SECONDS
        if duration:
            await asyncio.sleep(max(due - board.elapsed(), 0.0))
        await _act(board, beat)
    try:
        await _until(board, lambda: story.settled(board))
    except TimeoutError:
        # The audit says what is missing, better than a timeout could.
        pass
    else:
        rest = started + duration - board.elapsed()
        if duration and rest > 0:
            await asyncio.sleep(rest)
    problems = audit(board, running.recount(), story)
    if problems:
        raise DemoError("\n".join(problems))


async def _act(board: Board, beat: Beat) -> None:
    after = beat.after
    if after is not None:
        try:
            await _until(board, lambda: after(board))
        except TimeoutError as late:
            msg = f"waited {PATIENCE_SECONDS:.0f} s for {beat.awaiting}; is the scheduler alive?"
            raise DemoError(msg) from late
    if beat.text:
        board.announce(beat.text)
    beat.act()


async def _until(board: Board, holds: Callable[[], bool]) -> None:
    """Wait until it holds; looks again after every change. Raises TimeoutError."""
    changed = asyncio.Event()
    forget = board.on_change(changed.set)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds():
                changed.clear()
                await changed.wait()
    finally:
        forget()

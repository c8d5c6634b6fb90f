"""The scheduler of `kubestow run`, in this process, for a demo's cluster.

The one module of the simulator that starts the scheduler itself; see the contracts in
pyproject.toml.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from config import FeatureGates
from scheduler.process.application import Application
from scheduler.service.options import (
    RunOptions,
    ServingOptions,
    available_plugins,
    read_configuration,
)
from simulator.demos.board import Board
from simulator.demos.morning.objects import SCHEDULER
from simulator.demos.story import Story

_log = structlog.get_logger(__name__)

_HOST: Final = "127.0.0.1"
_LOCAL_QPS: Final = 5000
"""Requests per second allowed to the scheduler. Its default of 50 spares API servers that others
use as well; nobody else uses this one."""


_LOOK_SECONDS: Final = 0.3
"""Between two looks at what was reloaded."""


class DemoError(Exception):
    """The demo could not run, or the scheduler did something wrong. The text says what."""


@contextlib.asynccontextmanager
async def scheduling(kubeconfig: Path, story: Story, *, serve: bool) -> AsyncIterator[None]:
    """Run the scheduler of a story while the context lasts.

    With `serve` it leads and answers `kubestow explain` and the like, on this machine only.

    Raises:
        DemoError: it ended by itself, or its configuration is not for the pods of the story.
        ConfigurationError: lists every problem of the configuration.
    """
    options = RunOptions(
        overrides={
            "clientConnection.kubeconfig": str(kubeconfig),
            "clientConnection.qps": _LOCAL_QPS,
            "clientConnection.burst": _LOCAL_QPS,
            "leaderElection.leaderElect": serve,
            "kubestow.eventsPerSecond": _LOCAL_QPS,
            "kubestow.seed": story.seed,
        },
        config_file=story.config_file,
        plugin_dirs=story.plugin_dirs,
        feature_gates=FeatureGates(story.feature_gates),
        serving=ServingOptions(bind_address=_HOST, secure_port=_free_port() if serve else 0),
    )
    registry = available_plugins()
    configuration = read_configuration(options, registry)
    names = [each.scheduler_name for each in configuration.profiles]
    if SCHEDULER not in names:
        raise DemoError(
            f"{story.config_file}: no profile has schedulerName: {SCHEDULER}, which the pods of "
            f"the demo name; there is {', '.join(names)}"
        )
    application = Application(configuration, registry, options)
    stopping = False

    async def run() -> None:
        try:
            code = await application.serve(handle_signals=False)
        except Exception as error:
            # The boundary to the scheduler: viewers read one sentence, the log has the traceback.
            _log.exception("the scheduler failed")
            raise DemoError(f"the scheduler failed: {_sentence(error)}") from error
        if not stopping:
            raise DemoError(f"the scheduler ended by itself with code {code}")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run(), name="scheduler")
        telling = tasks.create_task(_tell_reloads(application, story.board), name="reloads")
        try:
            yield
        finally:
            stopping = True
            telling.cancel()
            application.stop()


class InForce(NamedTuple):
    """The configuration in force, and why a newer one is not."""

    generation: int = 1
    problems: tuple[str, ...] = ()

    def news(self, before: InForce) -> str:
        """Return a line about the change since `before`."""
        if self.problems:
            return f"the saved files have a problem, the old plugins go on: {self.problems[0]}"
        if self.generation == before.generation:
            return "the saved files are those in force again"
        return "took over the saved files"


async def _tell_reloads(application: Application, board: Board) -> None:
    """Add a line to the board for each reload of configuration and plugins."""
    told = InForce()
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        if (reloader := application.reloader) is not None:
            refusal = reloader.refusal
            now = InForce(reloader.generation, () if refusal is None else refusal.problems)
            if now != told:
                board.add("reload", now.news(told))
                told = now


def _free_port() -> int:
    """Return a port of this machine on which nothing listens now."""
    with socket.create_server((_HOST, 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def _sentence(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_sentence(one) for one in error.exceptions)
    return f"{type(error).__name__}: {error}"

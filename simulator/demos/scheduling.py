"""The scheduler of `kubestow run`, in this process, for a demo's cluster.

The one module of the simulator that starts the scheduler itself; see the contracts in
pyproject.toml.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import structlog

from config import FeatureGates
from scheduler.service.application import Application
from scheduler.service.options import (
    RunOptions,
    ServingOptions,
    available_plugins,
    read_configuration,
)
from simulator.demos.morning.objects import SCHEDULER
from simulator.demos.story import Story

_log = structlog.get_logger(__name__)

_LOCAL_QPS: Final = 5000
"""Requests per second allowed to the scheduler. Its default of 50 spares API servers that others
use as well; nobody else uses this one."""


class DemoError(Exception):
    """The demo could not run, or the scheduler did something wrong. The text says what."""


@contextlib.asynccontextmanager
async def scheduling(kubeconfig: Path, story: Story) -> AsyncIterator[None]:
    """Run the scheduler of a story while the context lasts.

    Raises:
        DemoError: it ended by itself, or its configuration is not for the pods of the story.
        ConfigurationError: lists every problem of the configuration.
    """
    options = RunOptions(
        overrides={
            "clientConnection.kubeconfig": str(kubeconfig),
            "clientConnection.qps": _LOCAL_QPS,
            "clientConnection.burst": _LOCAL_QPS,
            "leaderElection.leaderElect": False,
            "kubestow.eventsPerSecond": _LOCAL_QPS,
            "kubestow.seed": story.seed,
        },
        config_file=story.config_file,
        plugin_dirs=story.plugin_dirs,
        feature_gates=FeatureGates(story.feature_gates),
        serving=ServingOptions(secure_port=0),
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

    async def serve() -> None:
        try:
            code = await application.serve(handle_signals=False)
        except Exception as error:
            # The boundary to the scheduler: viewers read one sentence, the log has the traceback.
            _log.exception("the scheduler failed")
            raise DemoError(f"the scheduler failed: {_sentence(error)}") from error
        if not stopping:
            raise DemoError(f"the scheduler ended by itself with code {code}")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve(), name="scheduler")
        try:
            yield
        finally:
            stopping = True
            application.stop()


def _sentence(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_sentence(one) for one in error.exceptions)
    return f"{type(error).__name__}: {error}"

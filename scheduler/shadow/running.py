"""Running a shadow: connect, read the first lists, follow until the time is over or it is stopped.

Errors that no patience mends end the run at the start: an API server that cannot be reached, and
rights that are missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final

from scheduler.client.errors import ApiError, RequestError
from scheduler.client.resources import NODES
from scheduler.service.supervision import Supervisor
from scheduler.shadow.wiring import ShadowWiring

LOOK_SECONDS: Final = 0.05
"""Between two looks at whether the first lists have arrived."""
FORBIDDEN_SECONDS: Final = 2.0
"""How long a missing right is waited for at the start: others may be missing as well."""


class UnreachableError(Exception):
    """The API server cannot be reached."""


class UnauthenticatedError(Exception):
    """The API server does not accept the credentials."""


class NotPermittedError(Exception):
    """Rights to read are missing."""


@asynccontextmanager
async def following(wiring: ShadowWiring) -> AsyncIterator[None]:
    """Follow the cluster while the context is open; it has synced when that is entered.

    Raises:
        UnreachableError: the API server cannot be reached.
        UnauthenticatedError: it does not accept the credentials.
        NotPermittedError: rights are missing without which nothing can be decided.
    """
    await _check_reachable(wiring)
    clock, random = wiring.connections.clock, wiring.connections.random
    keep = Supervisor(clock, random).keep
    async with _unwrapped(), asyncio.TaskGroup() as group:
        tasks: list[asyncio.Task[Any]] = [
            group.create_task(keep(each.run, f"reflector {each.resource.plural}"))
            for each in wiring.reflectors
        ]
        try:
            await _synced(wiring)
            wiring.state.subscriptions.publish_synced()
            wiring.tally.begin(wiring.time.now())
            tasks.append(group.create_task(wiring.scheduling.loop.run(), name="scheduling loop"))
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await wiring.state.background.cancel()
            await wiring.close()


@asynccontextmanager
async def _unwrapped() -> AsyncIterator[None]:
    """Raise the only exception of a group itself."""
    try:
        yield
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        raise group.exceptions[0] from None


async def _check_reachable(wiring: ShadowWiring) -> None:
    """Read one node, as the first thing that needs the API server and a right."""
    try:
        await wiring.connections.client.list_page(NODES, limit=1)
    except ApiError as error:
        if error.status == HTTPStatus.UNAUTHORIZED:
            raise UnauthenticatedError(str(error)) from error
        if error.status != HTTPStatus.FORBIDDEN:
            raise UnreachableError(str(error)) from error
    except RequestError as error:
        raise UnreachableError(str(error)) from error


async def _synced(wiring: ShadowWiring) -> None:
    """Wait for the first lists. Raises NotPermittedError."""
    clock, permissions = wiring.connections.clock, wiring.state.permissions
    refused: float | None = None
    while not all(each.synced.is_set() for each in wiring.reflectors):
        missing, now = permissions.ready(), clock.monotonic()
        refused = None if missing is None else refused or now
        if missing is not None and refused is not None and now - refused > FORBIDDEN_SECONDS:
            raise NotPermittedError(missing)
        await clock.sleep(LOOK_SECONDS)
    if (missing := permissions.ready()) is not None:
        raise NotPermittedError(missing)


async def until(
    stop: asyncio.Event, seconds: float | None, each: float, look: Callable[[], Awaitable[None]]
) -> None:
    """Call `look` every `each` seconds until `stop` is set, or `seconds` have passed."""
    loop = asyncio.get_running_loop()
    end = None if seconds is None else loop.time() + seconds
    while not stop.is_set():
        left = None if end is None else end - loop.time()
        if left is not None and left <= 0:
            return
        try:
            async with asyncio.timeout(each if left is None else min(each, left)):
                await stop.wait()
        except TimeoutError:
            await look()

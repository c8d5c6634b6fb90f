"""Reading a changed configuration and importing its plugins, in a thread that may hang.

Code at the top of a plugin's module may raise anything, exit the process or never return. None of
this may reach the event loop: an exception becomes text, and a thread that does not return is
abandoned. It is a daemon thread, so it does not delay a shutdown.
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from config import Configuration
from scheduler.framework import ConfigurationError, Registry
from scheduler.reload.plugin_modules import FreshImports
from scheduler.service.options import RunOptions, available_plugins, read_configuration

T = TypeVar("T")

IMPORT_TIMEOUT: Final = 60.0
"""Maximum seconds for importing the modules of the plugin folders. Generous, because scheduling
continues meanwhile."""


@dataclass(frozen=True, slots=True)
class Read:
    """A configuration with the plugins that it names."""

    configuration: Configuration
    registry: Registry


class HangingError(Exception):
    """The work did not end in time; its thread is abandoned."""

    def __init__(self, thread: threading.Thread) -> None:
        super().__init__(thread.name)
        self.thread = thread


def read(options: RunOptions, imports: FreshImports | None) -> Read | tuple[str, ...]:
    """Read the configuration and return it, or all its problems; raise nothing.

    `imports`: re-import the modules of plugin folders; undone if there are problems.
    """
    problems: tuple[str, ...]
    try:
        registry = available_plugins()
        if imports is not None:
            imports.begin()
        found = Read(read_configuration(options, registry), registry)
    except ConfigurationError as error:
        problems = tuple(error.problems)
    except BaseException as error:  # noqa: BLE001 - boundary: plugin modules may even call sys.exit
        problems = (described(error, imports),)
    else:
        if imports is not None and not imports.undone:
            imports.end()
        elif imports is not None:
            # The caller has stopped waiting.
            imports.undo()
        return found
    if imports is not None:
        imports.undo()
    return problems


def described(error: BaseException, imports: FreshImports | None) -> str:
    """Return the text of a plugin's exception and the line in the plugin folders that raised it."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) or imports is None:
        return text
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if imports.contains(each.filename)]
    return f"{text} ({own[-1].filename}, line {own[-1].lineno})" if own else text


async def in_daemon_thread(work: Callable[[], T], name: str, timeout_seconds: float) -> T:
    """Return what `work` returns; it must not raise.

    Raises:
        HangingError: it has not returned in time.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def finish(result: T) -> None:
        if not done.done():
            done.set_result(result)

    def run() -> None:
        result = work()
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, result)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        async with asyncio.timeout(timeout_seconds):
            return await done
    except TimeoutError:
        raise HangingError(thread) from None

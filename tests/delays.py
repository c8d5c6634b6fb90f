"""Provoke races: delay one class of the embedded API server's writes, responses or watch events.

    python -m pytest -p tests.delays --delay before:patch:pods/status:0.3 tests/integration

A test that assumes an order which is not guaranteed passes on an idle machine and fails now and
then on a busy one. With a delay of the write, response or watch event on which it must not rely, it
fails each time. A delay is WHEN:VERB:RESOURCE:SECONDS, where WHEN is

- `before`: the request is carried out late, so its effect is visible late;
- `after`: it is carried out at once, but its response is sent late;
- `event`: watch events of the resource are delivered late (VERB must be `watch`).

VERB and RESOURCE are shell patterns for the names that fault rules use (`create`, `pods/binding`).
`--reverse` runs all tests in the reverse order, so that no test depends on state that another left
behind; `--hog` keeps a second thread busy in the process, so that the event loop rarely runs;
`--drag SECONDS` lengthens each iteration of every event loop by that time, as a slow machine does.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from simulator.errors import ApiError
from simulator.routing import resolve, split_path
from simulator.server import ApiServer
from simulator.watching import WatchStream


class Delay(NamedTuple):
    """The value of one `--delay` option."""

    when: str
    verb: str
    resource: str
    seconds: float

    @classmethod
    def parse(cls, text: str) -> Delay:
        """Read WHEN:VERB:RESOURCE:SECONDS. Raises ValueError for anything else."""
        when, verb, resource, seconds = text.split(":")
        if when not in ("before", "after", "event"):
            raise ValueError(f"{text}: WHEN is before, after or event")
        return cls(when, verb, resource, float(seconds))


class Delays:
    """The delays of all `--delay` options."""

    def __init__(self, delays: list[Delay]) -> None:
        self._delays = delays

    async def wait(self, when: str, verb: str, resource: str) -> None:
        """Sleep for the seconds of the first delay that matches; return at once if none does."""
        for each in self._delays:
            if (
                each.when == when
                and fnmatchcase(verb, each.verb)
                and fnmatchcase(resource, each.resource)
            ):
                await asyncio.sleep(each.seconds)
                return

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Patch the classes of the embedded API server, so that all servers apply the delays."""
        answer, drain = ApiServer._answer, WatchStream._drain

        async def late_answer(self: ApiServer, request: web.BaseRequest) -> web.StreamResponse:
            verb, label = _asked(self, request)
            await delays.wait("before", verb, label)
            response = await answer(self, request)
            await delays.wait("after", verb, label)
            return response

        async def late_drain(self: WatchStream, sink: Any) -> bool:
            if self._queue:
                await delays.wait("event", "watch", self._target.label)
            return await drain(self, sink)

        delays = self
        patch.setattr(ApiServer, "_answer", late_answer)
        patch.setattr(WatchStream, "_drain", late_drain)


def _asked(server: ApiServer, request: web.BaseRequest) -> tuple[str, str]:
    segments, query = split_path(request.raw_path)
    try:
        target = resolve(request.method, segments, query, server.api.resources)
    except ApiError:
        return "", ""
    return ("", "") if target is None else (target.verb, target.label)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the module's docstring."""
    group = parser.getgroup("kubestow delays")
    group.addoption("--delay", action="append", default=[], metavar="WHEN:VERB:RESOURCE:SECONDS")
    group.addoption("--reverse", action="store_true", help="run the tests in reverse order")
    group.addoption("--hog", action="store_true", help="compete for the interpreter")
    group.addoption("--drag", type=float, default=0.0, help="seconds for each turn of a loop")


def pytest_configure(config: pytest.Config) -> None:
    """Install what the options select, until the end of the session."""
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    Delays([Delay.parse(each) for each in config.getoption("--delay")]).install(patch)
    if drag := config.getoption("--drag"):
        _drag(patch, drag)
    if config.getoption("--hog"):
        over = threading.Event()
        config.add_cleanup(over.set)
        threading.Thread(target=_hog, args=(over.is_set,), daemon=True).start()


def _drag(patch: pytest.MonkeyPatch, seconds: float) -> None:
    turn = asyncio.BaseEventLoop._run_once  # type: ignore[attr-defined]

    def late_turn(self: asyncio.BaseEventLoop) -> None:
        time.sleep(seconds)
        turn(self)

    patch.setattr(asyncio.BaseEventLoop, "_run_once", late_turn)


def _hog(over: Callable[[], bool]) -> None:
    while not over():
        sum(range(10_000))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Reverse the order of the tests if `--reverse` is given."""
    if config.getoption("--reverse"):
        items.reverse()

"""Shared configuration: the Hypothesis profile, and the fixtures of the real control plane.

Fixtures of one subject belong to the conftest of its folder, so that reading a test needs two files
at most.

Hypothesis profiles, chosen by `HYPOTHESIS_PROFILE`:

- `ci` (the default): the same examples on every run and no deadline, so that a red run is red again
  on the next machine and a slow machine is not an error;
- `explore`: new examples on every run and many more of them, for a search by hand.
"""

from __future__ import annotations

import gc
import os
import signal
import warnings
from collections.abc import Generator, Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.otlp_receiver import require_opentelemetry

pytest_plugins = ["tests.envtest.fixtures"]

settings.register_profile(
    "ci",
    # Of the random mutants that such tests kill, most die within ten examples.
    max_examples=30,
    derandomize=True,
    deadline=None,
    # Generation is timed by the wall clock; a loaded machine would fail it at random.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_configure() -> None:
    """Refuse to run without libraries that CI requires, hear Ctrl-C, and print tracebacks plainly.

    To lay one out with Rich takes many times what a test takes, and nobody sees most of them.
    """
    require_opentelemetry()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A script that runs pytest in the background ignores SIGINT, and so would what tests start.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for each in structlog.get_config()["processors"]:
        if isinstance(each, structlog.dev.ConsoleRenderer):
            each.exception_formatter = structlog.dev.plain_traceback


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without garbage collections, which take a fifth of the time in vain.

    Collections during the tests do not look at what was collected: it lasts until the end.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def _connections_cut_by_a_killed_server_leak_nothing(
    request: pytest.FixtureRequest,
) -> Iterator[None]:
    """Collect what a killed API server left behind before another test is blamed for it.

    asyncio loses track of a transport whose TLS handshake is cancelled while the peer dies, and
    warns (ResourceWarning) whenever the collector happens to run: by default in some later test.
    Tests without a real server keep the strict rule.
    """
    yield
    if request.node.get_closest_marker("envtest") is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()

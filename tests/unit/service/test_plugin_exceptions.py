"""Exceptions of plugins: the first of each place is logged with its frames, all are counted."""

from __future__ import annotations

from collections import Counter

import pytest
from structlog.testing import capture_logs

from scheduler.api.pod import Pod
from scheduler.service.plugin_exceptions import MAX_LOGGED, MAX_PLACES, PluginExceptions

POD = Pod()


class Counted(Counter[tuple[str, str]]):
    """Counts as the metric does."""

    def add(self, plugin: str, point: str) -> None:
        self[plugin, point] += 1


def raised(error: Exception) -> Exception:
    """Return an exception with the frame of a plugin, which is this function."""
    try:
        raise error
    except type(error) as caught:
        return caught


def test_the_first_of_each_place_is_logged_and_all_are_counted() -> None:
    counted = Counted()
    exceptions = PluginExceptions(counted.add)
    with capture_logs() as logs:
        for _ in range(1000):
            exceptions.raised("Gpu", "Filter", POD, raised(ValueError("no such gpu")))
        exceptions.raised("Gpu", "Score", POD, raised(KeyError("gpu")))
    assert counted == {("Gpu", "Filter"): 1000, ("Gpu", "Score"): 1}
    assert [(each["plugin"], each["where"], each["error"]) for each in logs] == [
        ("Gpu", "Filter", "ValueError: no such gpu"),
        ("Gpu", "Score", "KeyError: 'gpu'"),
    ]
    (frame,) = logs[0]["frames"]
    assert frame.startswith(__file__)
    assert frame.endswith("in raised")
    lines = exceptions.of_plugins({"Gpu", "Other"})
    assert lines["Gpu"][0].startswith(
        f"raised 1000 times in Filter since the start, first ValueError at {__file__}:"
    )
    assert lines["Gpu"][1].startswith("raised once in Score since the start, first KeyError")
    assert exceptions.of_plugins({"Other"}) == {}


def test_the_first_exception_after_a_reload_is_news() -> None:
    exceptions = PluginExceptions(Counted().add)
    with capture_logs() as logs:
        for _ in range(2):
            exceptions.raised("Gpu", "Filter", POD, raised(ValueError("x")))
            exceptions.forget()
    assert len(logs) == 2


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("mute")


class LongError(Exception):
    def __str__(self) -> str:
        return "x" * 10_000_000


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (MuteError(), "MuteError: MuteError, whose text cannot be read"),
        (LongError(), "LongError: " + "x" * MAX_LOGGED),
    ],
)
def test_a_hostile_exception_is_logged_in_a_bounded_line(error: Exception, text: str) -> None:
    exceptions = PluginExceptions(Counted().add)
    with capture_logs() as logs:
        exceptions.raised("Gpu", "Filter", POD, raised(error))
    assert [each["error"] for each in logs] == [text]


def recurse(depth: int) -> None:
    if depth:
        recurse(depth - 1)
    raise ValueError


def test_the_frames_of_a_deep_recursion_and_the_places_are_bounded() -> None:
    counted = Counted()
    exceptions = PluginExceptions(counted.add)
    with capture_logs() as logs:
        try:
            recurse(500)
        except ValueError as error:
            for number in range(MAX_PLACES + 5):
                exceptions.raised(f"P{number}", "Filter", POD, error)
    assert len(logs) == MAX_PLACES
    assert len(logs[0]["frames"]) == 10
    assert counted.total() == MAX_PLACES + 5

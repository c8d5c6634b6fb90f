"""A plugin that raises, or returns nonsense, costs one pod an attempt and other pods nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from devtools.embedded_service import (
    bound_to,
    condition,
    event_notes,
    node,
    plugin,
    pod,
    sample,
    scheduling,
    settled,
    until,
)
from scheduler.framework import (
    SKIP,
    PostFilterResult,
    PreBindPreFlightResult,
    Status,
    unschedulable,
)
from simulator import EmbeddedCluster

BROKEN = {
    # method of the plugin: how the message begins
    "pre_filter": 'running PreFilter plugin "{}": ',
    "filter": 'running "{}" filter plugin: ',
    "filter_rows": 'running "{}" filter plugin: ',
    "pre_score": 'running PreScore plugin "{}": ',
    "score": 'running Score plugins: plugin "{}" failed with: ',
    "score_rows": 'running Score plugins: plugin "{}" failed with: ',
    "normalize_scores": 'running Normalize on Score plugins: plugin "{}" failed with: ',
    "reserve": 'running Reserve plugin "{}": ',
    "permit": 'running Permit plugin "{}": ',
    "pre_bind_pre_flight": 'running PreBindPreFlight "{}": ',
    "pre_bind": 'running PreBind plugin "{}": ',
    "bind": 'running Bind plugin "{}": ',
}
"""Points whose error the pod's condition shows."""

QUIET = ("pre_enqueue", "post_bind", "unreserve", "post_filter")


def victim_of(method: str) -> str:
    return f"victim-{method.replace('_', '-')}"


class Faults:
    """Raises for the victims until `healed` is set."""

    def __init__(self) -> None:
        self.healed = False
        self.raised: list[str] = []

    def method(self, method: str, result: Any) -> Callable[..., Any]:
        """A method that raises for its victim, and otherwise returns (or calls) `result`."""

        def called(*arguments: Any) -> Any:
            pods = [each for each in arguments if hasattr(each, "metadata")]
            if not self.healed and pods[0].metadata.name == victim_of(method):
                self.raised.append(method)
                msg = f"{method} is broken"
                raise RuntimeError(msg)
            return result(*arguments) if callable(result) else result

        return called

    def plugin(self, method: str) -> type[Any]:
        """A plugin with this one point, named after it."""
        results: dict[str, Any] = {
            "permit": (None, 0.0),
            "score": 0,
            "bind": SKIP,
            "post_filter": PostFilterResult(unschedulable("no help")),
            "filter_rows": lambda _state, _pod, _table, rows: np.zeros(len(rows), np.int32),
            "score_rows": lambda _state, _pod, _table, rows: np.zeros(len(rows), np.int64),
            "normalize_scores": lambda _state, _pod, _table, _rows, scores: scores,
        }
        more: dict[str, Any] = {
            "filter_rows": {"filter": lambda *_: None, "filter_status": lambda *_: None},
            "score_rows": {"score": lambda *_: 0},
            "normalize_scores": {"score": lambda *_: 0},
            "reserve": {"unreserve": lambda *_: None},
            "unreserve": {"reserve": self._reject_first},
            "pre_bind_pre_flight": {"pre_bind": lambda *_: None},
        }
        return plugin(
            f"Broken-{method}",
            **{method: self.method(method, results.get(method)), **more.get(method, {})},
        )

    def _reject_first(self, _state: Any, pod: Any, _node: str) -> Status | None:
        refuse = pod.metadata.name == victim_of("unreserve") and not self.healed
        return unschedulable("not yet") if refuse else None


async def test_every_extension_point_may_raise(cluster: EmbeddedCluster) -> None:
    """One plugin for each point, all in one profile, each with a victim of its own."""
    faults = Faults()
    methods = [*BROKEN, *QUIET]
    cluster.create(node("n1", cpu="100"))
    cluster.create(node("n2", cpu="100"))
    bind_plugins = {
        "bind": {"enabled": [{"name": "Broken-bind"}, {"name": "DefaultBinder"}],
                 "disabled": [{"name": "*"}]},
    }  # fmt: skip
    async with scheduling(
        cluster, [faults.plugin(method) for method in methods], points=bind_plugins
    ) as scheduler:
        for method in methods:
            cpu = "1000" if method == "post_filter" else "1"
            cluster.create(pod(victim_of(method), cpu=cpu))
            cluster.create(pod(f"next-to-{victim_of(method)}"))
        await until(
            lambda: all(bound_to(cluster, f"next-to-{victim_of(each)}") for each in methods),
            "all others bound",
        )
        await until(lambda: set(faults.raised) == set(methods), f"all raised: {faults.raised}")
        await until(
            lambda: all(condition(cluster, victim_of(each)) for each in BROKEN), "conditions"
        )
        seen = {each: condition(cluster, victim_of(each)) for each in BROKEN}
        assert {each: (shown["reason"], shown["message"]) for each, shown in seen.items()} == {
            each: ("SchedulerError", text.format(f"Broken-{each}") + f"{each} is broken")
            for each, text in BROKEN.items()
        }
        assert bound_to(cluster, victim_of("post_bind")), "bound is bound"
        assert not bound_to(cluster, victim_of("pre_enqueue")), "gated"
        assert not condition(cluster, victim_of("pre_enqueue"))
        for method in methods:
            label = "".join(each.capitalize() for each in method.removesuffix("_rows").split("_"))
            assert sample(
                scheduler,
                "kubestow_plugin_exceptions_total",
                plugin=f"Broken-{method}",
                extension_point=label,
            ), method
        faults.healed = True
        cluster.create(node("n3", cpu="2000"))
        await until(
            lambda: all(bound_to(cluster, victim_of(each)) for each in methods), "victims bound"
        )
        await settled(scheduler)
        await until(lambda: not scheduler.state.cache.statistics().assumed_pods, "all confirmed")
        assert sample(scheduler, "scheduler_schedule_attempts_total", result="error") >= len(BROKEN)
        await until(lambda: len(event_notes(cluster, "Scheduled")) == 2 * len(methods), "events")


NO_ANSWER = (
    '0/2 nodes are available: 2 Insufficient cpu. PostFilter plugin "Odd" answered True, '
    "not a PostFilterResult"
)


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("pre_filter", 'running PreFilter plugin "Odd": answered True, which is not a Status'),
        ("filter", 'running "Odd" filter plugin: answered True, which is not a Status'),
        ("pre_score", 'running PreScore plugin "Odd": answered True, which is not a Status'),
        (
            "score",
            'running Score plugins: plugin "Odd" failed with: score returned \'not a number\'',
        ),
        ("reserve", 'running Reserve plugin "Odd": answered True, which is not a Status'),
        ("permit", "running Permit plugin \"Odd\": 'bool' object is not subscriptable"),
        ("pre_bind", 'running PreBind plugin "Odd": answered True, which is not a Status'),
        ("bind", 'running Bind plugin "Odd": answered True, which is not a Status'),
        ("post_filter", NO_ANSWER),
    ],
)  # fmt: skip
async def test_an_invalid_result_is_the_error_of_one_attempt(
    cluster: EmbeddedCluster, method: str, text: str
) -> None:
    odd = "not a number" if method == "score" else True
    usual: dict[str, Any] = {"permit": (None, 0.0), "score": 0, "bind": SKIP}

    def result(*arguments: Any) -> Any:
        pods = [each for each in arguments if hasattr(each, "metadata")]
        return odd if pods[0].metadata.name == "odd" else usual.get(method)

    more = {"unreserve": lambda *_: None} if method == "reserve" else {}
    points: dict[str, Any] = {
        "bind": {"enabled": [{"name": "Odd"}, {"name": "DefaultBinder"}],
                 "disabled": [{"name": "*"}]},
        "postFilter": {"enabled": [{"name": "Odd"}], "disabled": [{"name": "*"}]},
    }  # fmt: skip
    camel = {"bind": "bind", "post_filter": "postFilter"}.get(method)
    document: dict[str, Any] = {"points": {camel: points[camel]}} if camel else {}
    cluster.create(node("n1"))
    cluster.create(node("n2"))
    async with scheduling(cluster, [plugin("Odd", **{method: result}, **more)], **document):
        cluster.create(pod("odd", cpu="100" if method == "post_filter" else "1"))
        await until(lambda: condition(cluster, "odd"), "condition")
        assert condition(cluster, "odd")["message"].startswith(text)
        cluster.create(pod("usual"))
        await until(lambda: bound_to(cluster, "usual"), "the loop goes on")


@pytest.mark.parametrize("method", ["pre_bind", "bind"])
async def test_a_plugin_whose_own_work_was_cancelled_does_not_lose_the_pod(
    cluster: EmbeddedCluster, method: str
) -> None:
    calls: list[str] = []

    async def once(_state: Any, pod: Any, _node: str) -> Status | None:
        calls.append(pod.metadata.name)
        if len(calls) == 1:
            raise asyncio.CancelledError
        return SKIP if method == "bind" else None

    points = {
        "bind": {"enabled": [{"name": "Waits"}, {"name": "DefaultBinder"}],
                 "disabled": [{"name": "*"}]},
    }  # fmt: skip
    document: dict[str, Any] = {"points": points} if method == "bind" else {}
    cluster.create(node("n1"))
    async with scheduling(
        cluster, [plugin("Waits", **{method: once})], podInitialBackoffSeconds=1, **document
    ):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p"), "bound at the second attempt")
        assert calls == ["p", "p"]


@pytest.mark.parametrize("together", [False, True])
async def test_a_plugin_that_cancels_the_task_it_runs_in_does_not_lose_the_pod(
    cluster: EmbeddedCluster, together: bool
) -> None:
    calls: list[str] = []

    async def once(_state: Any, pod: Any, _node: str) -> None:
        calls.append(pod.metadata.name)
        if len(calls) == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)

    async def nothing(*_: Any) -> None:
        pass

    flight = PreBindPreFlightResult(allow_parallel=together)
    made = [
        plugin(name, pre_bind=method, pre_bind_pre_flight=lambda *_: flight)
        for name, method in (("Cancels", once), ("Other", nothing))
    ]
    cluster.create(node("n1"))
    async with scheduling(cluster, made, podInitialBackoffSeconds=1):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p"), "bound at the second attempt")
        assert calls == ["p", "p"]


@pytest.mark.parametrize("waits", [False, True])
async def test_a_bind_plugin_that_cancels_the_task_it_runs_in_does_not_lose_the_pod(
    cluster: EmbeddedCluster, waits: bool
) -> None:
    calls: list[str] = []

    async def once(_state: Any, pod: Any, _node: str) -> Status:
        calls.append(pod.metadata.name)
        if len(calls) == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            if waits:
                await asyncio.sleep(0)
        return SKIP

    points = {
        "bind": {"enabled": [{"name": "Cancels"}, {"name": "DefaultBinder"}],
                 "disabled": [{"name": "*"}]},
    }  # fmt: skip
    cluster.create(node("n1"))
    async with scheduling(
        cluster, [plugin("Cancels", bind=once)], podInitialBackoffSeconds=1, points=points
    ):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p"), "bound")
        if waits:
            # Else the Binding may have been sent before the cancellation comes.
            assert len(calls) == 2
        cluster.create(pod("usual"))
        await until(lambda: bound_to(cluster, "usual"), "others go on")


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("method", ["filter", "reserve"])
async def test_the_result_of_a_cancelled_task_does_not_end_scheduling(
    cluster: EmbeddedCluster, method: str, waits: bool
) -> None:
    def look(*arguments: Any) -> None:
        pods = [each for each in arguments if hasattr(each, "metadata")]
        if pods[0].metadata.name == "odd":
            raise asyncio.CancelledError

    async def pre_filter(*_: Any) -> None:
        await asyncio.sleep(0)

    more = {"unreserve": lambda *_: None} if method == "reserve" else {}
    made = [plugin("Looks", **{method: look}, **more)]
    if waits:
        made.append(plugin("Waits", pre_filter=pre_filter))
    cluster.create(node("n1"))
    async with scheduling(cluster, made):
        cluster.create(pod("odd"))
        await until(lambda: condition(cluster, "odd"), "condition")
        assert condition(cluster, "odd")["message"] == "scheduling cycle: CancelledError()"
        cluster.create(pod("usual"))
        await until(lambda: bound_to(cluster, "usual"), "the loop goes on")


class MuteError(Exception):
    """Cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("mute")

    __repr__ = __str__


class LongError(Exception):
    """Has a text of megabytes."""

    def __str__(self) -> str:
        return "x" * 10_000_000


@pytest.mark.parametrize("error", [MuteError, LongError])
@pytest.mark.parametrize("method", ["pre_enqueue", "filter", "pre_bind"])
async def test_an_exception_with_a_hostile_text_costs_one_attempt(
    cluster: EmbeddedCluster, method: str, error: type[Exception]
) -> None:
    """Its text is bounded, and that it cannot be read ends nothing."""
    name = f"Broken-{method}"

    def called(*arguments: Any) -> None:
        pods = [each for each in arguments if hasattr(each, "metadata")]
        if pods[0].metadata.name == "victim":
            raise error

    cluster.create(node("n1", cpu="100"))
    broken = plugin(name, **{method: called})
    async with scheduling(cluster, [broken]) as scheduler:
        cluster.create(pod("victim"))
        await until(
            lambda: sample(scheduler, "kubestow_plugin_exceptions_total", plugin=name), "counted"
        )
        cluster.create(pod("next"))
        await until(lambda: bound_to(cluster, "next"), "the next pod is bound")
        assert not bound_to(cluster, "victim")
        if method != "pre_enqueue":
            await until(lambda: condition(cluster, "victim"), "the condition")
            assert len(condition(cluster, "victim")["message"]) < 20_000

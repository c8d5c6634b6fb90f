"""PriceGate: pods run when it is cheapest, never too late, and never wait for nothing."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from examples.price_gate.price_gate import (
    ANNOTATION,
    HORIZON_SECONDS,
    MAX_PRICE,
    MAX_STEPS,
    PriceGate,
    PriceGateArgs,
    Prices,
    Step,
    parse_time,
)
from scheduler.framework.plugin_class import class_problems
from scheduler.testing import Cluster, check_plugin, node, pod

EXAMPLE: Final = Path(__file__).parents[3] / "examples" / "price_gate"
NAME: Final = "example.com/PriceGate"
HOUR: Final = 3600.0
UTC: Final = dt.UTC


def steps(*prices: float, begin: float = 0.0) -> tuple[Step, ...]:
    """A price for each hour."""
    return tuple(
        Step(dt.datetime.fromtimestamp(begin + number * HOUR, UTC), price)
        for number, price in enumerate(prices)
    )


@pytest.mark.parametrize(
    ("prices", "latest", "hours", "start"),
    [
        ((9, 5, 9), 3, 1, 1),
        ((9, 5, 5), 3, 1, 1),  # the earlier of two that cost the same
        ((9, 9, 1), 1, 1, 0),  # the last hour that is early enough saves nothing
        ((9, 9, 1), 0.5, 1, 0),
        ((1, 5, 9), 3, 1, 0),
        ((9, 8, 1, 1, 8), 4, 2, 2),
        ((9, 1, 8, 2, 2, 9), 5, 2, 3),  # two fair hours before one that is cheap
        ((9, 5, 1), 3, 0.5, 2),
        ((), 3, 1, 0),
    ],
)
def test_the_cheapest_period_begins(
    prices: tuple[float, ...], latest: float, hours: float, start: float
) -> None:
    found = Prices(steps(*prices)).best_start(0.0, latest * HOUR, hours * HOUR)
    assert found.time == start * HOUR


@given(
    prices=st.lists(st.integers(-3, 9), min_size=1, max_size=8),
    now=st.integers(0, 6),
    latest=st.integers(0, 12),
    hours=st.integers(1, 5),
)
@example(prices=[9, 1], now=0, latest=1, hours=1)
def test_no_other_hour_is_cheaper(prices: list[int], now: int, latest: int, hours: int) -> None:
    found = Prices(steps(*prices)).best_start(now * HOUR, latest * HOUR, hours * HOUR)
    by_hour = [*prices, *[prices[-1]] * 40]
    costs = [sum(by_hour[first : first + hours]) for first in range(now, max(latest, now) + 1)]
    # With whole hours, the cheapest period begins at a whole hour.
    assert found.time % HOUR == 0
    assert costs[int(found.time / HOUR) - now] == min(costs)
    assert now * HOUR <= found.time <= max(latest, now) * HOUR


@pytest.mark.parametrize(
    "unusable",
    [
        (),
        (Step(dt.datetime(2030, 1, 1), 5.0),),  # noqa: DTZ001 - without offset
        (Step(dt.datetime(2030, 1, 1, tzinfo=UTC), 2 * MAX_PRICE),),
        steps(1, 2, 3, begin=9e9),
    ],
)
def test_a_forecast_that_says_nothing_about_now_holds_nobody(unusable: tuple[Step, ...]) -> None:
    assert Prices(unusable).best_start(5e9, 6e9, HOUR).time == 5e9


def test_a_long_forecast_is_read_up_to_its_limit() -> None:
    long = Prices(steps(*range(MAX_STEPS * 2, 0, -1)))
    assert long.best_start(0.0, 1e12, HOUR).time <= HORIZON_SECONDS
    assert long.best_start(0.0, 1e12, HOUR).time == (MAX_STEPS - 1) * HOUR


# -- in the scheduler, in virtual time -----------------------------------------------------------


def forecast(cluster: Cluster, *prices: float, name: str = "electricity") -> None:
    """Replace the forecast: a price for each hour from now on."""
    begin = cluster.now
    cluster.add(
        {
            "apiVersion": "example.com/v1",
            "kind": "PriceForecast",
            "metadata": {"name": name},
            "spec": {
                "prices": [
                    {"time": each.time.isoformat(), "price": each.price}
                    for each in steps(*prices, begin=begin)
                ]
            },
        }
    )


def deferrable(cluster: Cluster, name: str, within: float, hours: float = 1) -> dict[str, Any]:
    """A pod that has to end within some hours from now."""
    latest = dt.datetime.fromtimestamp(cluster.now + within * HOUR, UTC)
    return pod(
        name,
        annotations={ANNOTATION: latest.isoformat()},
        spec={"activeDeadlineSeconds": int(hours * HOUR)},
    )


@pytest.fixture
def running(cluster: Cluster) -> Cluster:
    """A cluster with the gate and a node."""
    cluster.enable(PriceGate)
    cluster.add_node(node("n1"))
    return cluster


def waits(cluster: Cluster, name: str, until: float) -> None:
    """Assert that a pod is held until some hours from now."""
    time = dt.datetime.fromtimestamp(cluster.now + until * HOUR, UTC)
    reason = f"waiting until {time:%Y-%m-%dT%H:%M:%SZ}"
    cluster.assert_unschedulable(name, plugin=NAME, reason=reason)


def test_a_pod_starts_at_the_time_that_its_message_names(running: Cluster) -> None:
    forecast(running, 90, 80, 20, 70)
    running.add_pods(deferrable(running, "batch", within=12))
    running.add_pods(pod("web"))
    running.assert_scheduled("web")
    waits(running, "batch", until=2)
    (event,) = (each for each in running.events if each.reason == "WaitingForPrice")
    assert "77 percent lower" in event.note
    running.tick(2 * HOUR - 1)
    waits(running, "batch", until=1 / HOUR)
    running.tick(1)
    running.assert_scheduled("batch")


def test_a_deadline_is_met_at_any_price(running: Cluster) -> None:
    forecast(running, 90, 50, 80, 1)
    running.add_pods(deferrable(running, "soon", within=2.5, hours=1))
    running.add_pods(deferrable(running, "late", within=0.5, hours=1))
    running.assert_scheduled("late")
    waits(running, "soon", until=1)
    running.tick(HOUR)
    running.assert_scheduled("soon")


def test_a_small_saving_is_not_worth_the_wait(running: Cluster) -> None:
    forecast(running, 100, 91)
    running.add_pods(deferrable(running, "batch", within=12))
    running.assert_scheduled("batch")


def test_a_new_forecast_moves_the_start(running: Cluster) -> None:
    forecast(running, 90, 80, 20)
    running.add_pods(deferrable(running, "batch", within=12))
    waits(running, "batch", until=2)
    forecast(running, 90, 10, name="other")
    waits(running, "batch", until=2)
    forecast(running, 90, 10, 20, 90)
    waits(running, "batch", until=1)
    running.tick(HOUR / 2)
    forecast(running, 5, 80)
    running.assert_scheduled("batch")


def test_without_a_forecast_nobody_waits(running: Cluster) -> None:
    running.add_pods(deferrable(running, "first", within=12))
    running.assert_scheduled("first")
    forecast(running, 90, 20, 90)
    running.add_pods(deferrable(running, "second", within=12))
    waits(running, "second", until=1)
    running.world.remove("PriceForecast", "electricity")
    running.assert_scheduled("second")


@pytest.mark.parametrize("text", ["", "soon", "2030-01-31T12:00:00"])
def test_a_deadline_that_is_no_time_is_told_and_ignored(running: Cluster, text: str) -> None:
    forecast(running, 90, 20)
    running.add_pods(pod("batch", annotations={ANNOTATION: text}))
    running.assert_scheduled("batch")
    (event,) = (each for each in running.events if each.reason == "InvalidDeadline")
    assert f'"{text}" is no time' in event.note


def test_an_earlier_deadline_frees_the_pod(running: Cluster) -> None:
    forecast(running, 90, 80, 20)
    running.add_pods(deferrable(running, "batch", within=12))
    waits(running, "batch", until=2)
    running.add(deferrable(running, "batch", within=1))
    running.assert_scheduled("batch")


def test_a_day_of_jobs_with_the_files_of_the_example() -> None:
    with Cluster(config=EXAMPLE / "config.yaml", plugin_dirs=[EXAMPLE]) as cluster:
        cluster.add_node(node("n1", cpu=64))
        night, day, evening = 20.0, 60.0, 90.0
        prices = [*[night] * 6, *[day] * 11, *[evening] * 4, *[night] * 9]
        forecast(cluster, *prices)
        starts: dict[int, int] = {}
        for hour in range(24 + 8):
            if hour < 24:
                cluster.add_pods(deferrable(cluster, f"job-{hour}", within=8, hours=2))
            # A job needs a node for the moment of its start only, which is what is tested.
            cluster.decisions()
            for name in cluster.world.placements():
                starts.setdefault(int(name.removeprefix("default/job-")), hour)
            cluster.tick(HOUR)
    # At night at once; by day before the evening; and what may wait until the night, at night.
    expected = [*range(6), *range(6, 15), 21, 21, 21, 21, 21, 21, *range(21, 24)]
    assert [starts[hour] for hour in range(24)] == expected


def test_the_forecast_of_the_example_is_one() -> None:
    definition, made = yaml.safe_load_all((EXAMPLE / "forecast.yaml").read_text(encoding="utf-8"))
    (version,) = definition["spec"]["versions"]
    group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
    assert (f"{group}/{version['name']}/{plural}",) == PriceGate.required_resources
    assert all(parse_time(each["time"]) for each in made["spec"]["prices"])


@pytest.mark.parametrize(
    ("args", "paths"),
    [
        (PriceGateArgs(), []),
        (PriceGateArgs(forecast=""), ["forecast"]),
        (PriceGateArgs(default_duration=dt.timedelta(0)), ["defaultDuration"]),
        (PriceGateArgs(min_saving_percent=0), ["minSavingPercent"]),
        (PriceGateArgs(min_saving_percent=101), ["minSavingPercent"]),
    ],
)
def test_wrong_arguments_are_named(args: PriceGateArgs, paths: list[str]) -> None:
    assert [path for path, _ in PriceGate.validate_args(args)] == paths


def test_the_contract_holds() -> None:
    check_plugin(PriceGate, clusters=3)
    assert list(class_problems(PriceGate)) == []

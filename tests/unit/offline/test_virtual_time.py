"""Time in worlds: what waits for a moment happens at that moment, and the agenda keeps order."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog

from scheduler import offline
from scheduler.offline.virtual_time import Step, VirtualLoop, only_errors_logged

ROOT = Path(__file__).parents[3]
ZONE = "topology.kubernetes.io/zone"

CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
"""
FALLBACK = f"""\
{CONFIGURATION}
    pluginConfig:
      - name: PodTopologySpread
        args: {{nodeProvisioningTimeout: 300s}}
"""
GATE_UNTIL = f"""\
{CONFIGURATION}
    plugins:
      multiPoint: {{enabled: [{{name: 'not_before:NotBefore'}}]}}
"""


def spread_over_zones(name: str) -> dict[str, Any]:
    """Return a pod that wants its zone to have as many of its kind as any, or else no new nodes."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    spec = {"topologySpreadConstraints": [constraint]}
    pod = offline.pod(name, cpu=2, labels={"app": "web"}, spec=spec)
    pod["metadata"]["annotations"] = {
        "kubestow.io/topology-spread-fallback": f"{ZONE}=NodeProvisioningFailed"
    }
    return pod


def test_a_spread_constraint_falls_back_when_no_node_has_come_in_time(tmp_path: Path) -> None:
    config = tmp_path / "profiles.yaml"
    config.write_text(FALLBACK)
    with offline.World(config=config) as world:
        world.add_nodes(offline.node("large", cpu=16, labels={ZONE: "a"}))
        world.add_nodes(offline.node("full", cpu=1, labels={ZONE: "b"}))
        world.add_pods(spread_over_zones("first"))
        world.add_pods(spread_over_zones("second"))
        result = world.run(until=299.0)
        assert [each.pod for each in result.placed] == ["default/first"]
        assert result["default/second"].explain().startswith("default/second waits, unschedulable")
        (placed,) = world.run(until=900.0).placed
        assert (placed.pod, placed.node) == ("default/second", "large")
        assert 300.0 <= placed.time <= 360.0


@pytest.fixture
def import_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take back what `plugin_dirs` does to the process."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("not_before", None)


@pytest.mark.usefixtures("import_path")
def test_a_plugin_that_waits_for_a_moment_is_tried_again_then(tmp_path: Path) -> None:
    config = tmp_path / "profiles.yaml"
    config.write_text(GATE_UNTIL)
    plugins = ROOT / "examples" / "gate_until"
    with offline.World(config=config, plugin_dirs=[plugins]) as world:
        world.add_nodes(offline.node())
        pod = offline.pod("later")
        pod["metadata"]["annotations"] = {"example.com/not-before": "2026-01-01T06:00:00Z"}
        world.add_pods(pod)
        assert world.schedule().waiting[0].state == "gated"
        (placed,) = world.run(until=86_400.0).placed
        assert placed.time == pytest.approx(6 * 3600, abs=1.0)


def test_backoff_grows_in_virtual_time() -> None:
    with offline.World(feature_gates={"SchedulerPopFromBackoffQ": False}) as world:
        world.add_nodes(offline.node("small", cpu=1))
        world.add_pods(offline.pod("big", cpu=8))
        cordoned = offline.node("large", cpu=16, unschedulable=True)
        for second in range(1, 40):
            # A cordoned node wakes the pod and does not help; the next backoff is twice as long.
            world.at(float(second), lambda: world.add_nodes(cordoned, count=2))
        attempts = world.run(until=40.0).waiting[0].attempts
        assert 4 <= attempts <= 8


def test_calls_are_made_in_the_order_of_their_times_and_then_of_their_entry() -> None:
    loop = VirtualLoop()
    agenda = loop.agenda
    told: list[tuple[float, str]] = []

    def say(what: str) -> None:
        told.append((loop.time(), what))

    def first() -> None:
        say("first")
        agenda.at(0.0, lambda: say("past"))
        agenda.at(2.0, lambda: say("between"))

    agenda.at(3.0, lambda: say("third"))
    agenda.at(1.0, first)
    agenda.at(3.0, lambda: say("fourth"))
    assert len(agenda) == 3
    loop.run(10.0, lambda _due: False)
    assert told == [
        (1.0, "first"),
        (1.0, "past"),
        (2.0, "between"),
        (3.0, "third"),
        (3.0, "fourth"),
    ]
    assert len(agenda) == 0
    loop.close()


def test_a_call_that_fails_does_not_hold_the_others_up() -> None:
    loop = VirtualLoop()
    agenda = loop.agenda
    told: list[str] = []

    def fail() -> None:
        raise ValueError("on purpose")

    agenda.at(1.0, fail)
    agenda.at(1.0, lambda: told.append("same time"))
    agenda.at(2.0, lambda: told.append("later"))
    with pytest.raises(ValueError, match="on purpose"):
        loop.run(5.0, lambda _due: False)
    assert told == ["same time", "later"]
    loop.close()


def test_a_cancelled_call_is_not_made_and_no_time_passes_for_it() -> None:
    loop = VirtualLoop()
    agenda = loop.agenda
    told: list[str] = []
    numbers = [agenda.at(second, partial(told.append, f"{second}")) for second in (1.0, 2.0, 3.0)]
    agenda.at(0.5, lambda: agenda.cancel(numbers[0]))
    # Behind another one, and the last of all.
    agenda.cancel(numbers[2])
    agenda.at(4.0, partial(told.append, "4.0"))
    seen: list[float] = []

    def idle(due: float) -> bool:
        seen.append(due)
        return False

    loop.run(10.0, idle)
    assert told == ["2.0", "4.0"]
    assert seen == [0.5, 2.0, 4.0, math.inf]
    assert len(agenda) == 0
    loop.close()


@pytest.mark.parametrize("start", [0.0, 1.0, 3e7, 1e12])
def test_calls_within_a_nanosecond_are_made_in_order_and_lose_no_later_one(start: float) -> None:
    loop = VirtualLoop()
    agenda = loop.agenda
    told: list[str] = []
    times = [start]
    while len(times) < 4:
        times.append(math.nextafter(times[-1], math.inf))

    def first() -> None:
        # Something else to do: the loop looks at its timers before the clock moves on.
        loop.call_soon(lambda: None)
        told.append("0")

    agenda.at(times[0], first)
    for number, time in enumerate(times[1:], start=1):
        agenda.at(time, partial(told.append, str(number)))
    agenda.at(start + 1.0, lambda: told.append("later"))
    loop.run(start + 2.0, lambda _due: False)
    assert told == ["0", "1", "2", "3", "later"]
    loop.close()


def test_no_timer_is_called_before_its_time() -> None:
    loop = VirtualLoop()
    early: list[float] = []
    due = [1.0 + number * 1e-10 for number in range(20)]

    def check(time: float) -> None:
        loop.call_soon(lambda: None)
        if loop.time() < time:
            early.append(time)

    for time in due:
        loop.call_at(time, check, time)
    loop.run(5.0, lambda _due: False)
    assert not early
    loop.close()


def test_steps_run_in_order_with_other_calls_and_their_failures_end_the_run() -> None:
    loop = VirtualLoop()
    order: list[int] = []
    loop.add_step(Step(lambda: order.append(1)))
    loop.call_soon(order.append, 2)
    loop.add_step(Step(lambda: order.append(3)))
    loop.add_step(Step(lambda: 1 // 0))
    loop.call_soon(order.append, 4)
    with pytest.raises(ZeroDivisionError):
        loop.run(1.0, lambda _due: False)
    assert order == [1, 2, 3, 4]
    loop.close()


def test_cancelled_timers_do_not_accumulate() -> None:
    loop = VirtualLoop()
    called: list[int] = []
    for number in range(1000):
        loop.call_at(1000.0 + number, called.append, number).cancel()
        loop.call_at(number / 1000, lambda: None)
    loop.call_at(2.0, called.append, -1)
    loop.run(3.0, lambda _due: False)
    assert len(loop._scheduled) < 200
    loop.run(5000.0, lambda _due: False)
    assert called == [-1]
    loop.close()


@pytest.mark.parametrize("waiting", [0, 2])
def test_a_time_in_which_nothing_happens_costs_nothing(
    waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves: list[float] = []
    move_on = VirtualLoop.move_on

    def counted(loop: VirtualLoop) -> None:
        moves.append(loop.time())
        move_on(loop)

    with offline.World() as world:
        world.add_nodes(offline.node(cpu=4))
        world.add_pods(offline.pod("web", cpu=1), count=2)
        pod = offline.pod("gated", spec={"schedulingGates": [{"name": "example.com/gate"}]})
        world.add_pods(pod, count=waiting)
        world.schedule()
        monkeypatch.setattr(VirtualLoop, "move_on", counted)
        world.run(until=100 * 86_400.0)
        assert world.now == 100 * 86_400.0
    assert len(moves) < 10


def test_worlds_that_end_in_any_order_restore_the_log() -> None:
    structlog.reset_defaults()
    first, second = only_errors_logged(), only_errors_logged()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert structlog.is_configured(), "one is open"
    second.__exit__(None, None, None)
    assert not structlog.is_configured()

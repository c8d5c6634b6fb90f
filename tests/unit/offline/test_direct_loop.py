"""The direct loop decides as the tasks of the service do, in the same order and the same words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import offline
from tests.unit.offline.waiting_plugins import DELAY, POINT

ZONE = "topology.kubernetes.io/zone"
PLUGINS = "tests.unit.offline.waiting_plugins"
HEAD = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
"""
SLOW = f"multiPoint: {{enabled: [{{name: '{PLUGINS}:Slow'}}]}}"
BINDER = f"""\
{SLOW}
      bind:
        enabled: [{{name: '{PLUGINS}:SlowBinder'}}, {{name: DefaultBinder}}]
        disabled: [{{name: '*'}}]
"""
CONFIGURATIONS = {
    "default plugins": HEAD,
    "Permit and PreBind wait": f"{HEAD}profiles:\n  - plugins:\n      {SLOW}\n",
    "Bind waits, too": f"{HEAD}profiles:\n  - plugins:\n      {BINDER}\n",
}

Change = tuple[float, str, Mapping[str, Any]]
"""A virtual second, the name of a change below, and what it is about."""

SECONDS = st.floats(0.0, 400.0).map(lambda each: round(each, 3))
PODS = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from([0.5, 1, 2, 3]),
        "priority": st.sampled_from([0, 0, 5, 10]),
        "duration": st.one_of(st.none(), st.floats(0.0, 200.0).map(lambda each: round(each, 3))),
        "count": st.integers(1, 4),
        "grace": st.sampled_from([0, 1, 30]),
        "gated": st.booleans(),
        "spread": st.sampled_from(["", "", "DoNotSchedule", "ScheduleAnyway"]),
        "waits_at": st.sampled_from(["", "", "Permit", "PreBind", "Bind"]),
        "delay": st.sampled_from([0.0, 0.5, 5.0, 20.0]),
    }
)
CHANGES = st.one_of(
    st.tuples(SECONDS, st.just("arrive"), PODS),
    st.tuples(
        SECONDS,
        st.just("add_node"),
        st.fixed_dictionaries({"cpu": st.integers(1, 5), "zone": st.sampled_from("ab")}),
    ),
    st.tuples(
        SECONDS,
        st.sampled_from(["drop_node", "cordon", "open_gates", "delete"]),
        st.fixed_dictionaries({"which": st.integers(0, 9)}),
    ),
)


def manifest(number: int, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod of the change with this number."""
    spec: dict[str, Any] = {"terminationGracePeriodSeconds": wanted["grace"]}
    if wanted["spread"]:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": wanted["spread"],
                "labelSelector": {"matchLabels": {"app": "spread"}},
            }
        ]
    if wanted["gated"]:
        spec["schedulingGates"] = [{"name": "example.com/gate"}]
    pod = offline.pod(
        f"p{number}",
        cpu=wanted["cpu"],
        priority=wanted["priority"],
        labels={"app": "spread"} if wanted["spread"] else {},
        spec=spec,
    )
    pod["metadata"]["annotations"] = {DELAY: str(wanted["delay"]), POINT: wanted["waits_at"]}
    return pod


def apply(world: offline.World, kind: str, about: Mapping[str, Any]) -> None:
    """Make a change of the world."""
    tables = world._assembly.tables
    if kind == "add_node":
        node = offline.node("n", cpu=about["cpu"], labels={ZONE: about["zone"]})
        world.add_nodes(node, count=2)
        return
    plural = "nodes" if kind in ("drop_node", "cordon") else "pods"
    items = list(tables.stores[plural].list())
    if not items:
        return
    item = items[about["which"] % len(items)]
    if kind == "drop_node":
        world.drop_node(item.name)
    elif kind == "cordon":
        world.cordon(item.name, unschedulable=not item.spec.unschedulable)
    elif kind == "delete":
        world.delete_pod(item.key)
    else:
        for pod in [each for each in items if each.spec.scheduling_gates]:
            ungated = offline.pod(pod.metadata.name, cpu=1, priority=pod.priority)
            world.add(ungated)


def happens(
    config: Path, changes: list[Change], seed: int, *, direct: bool
) -> tuple[bytes, dict[str, str], list[str], int]:
    """Return the results of both kinds of runs, and what pods wait for and were tried."""
    with (
        patch("scheduler.offline.assembly.suits", lambda _engine: direct),
        offline.World(config=config, seed=seed) as world,
    ):
        assert (world._assembly.direct is not None) == direct
        world.add_nodes(offline.node("first", cpu=3, labels={ZONE: "a"}), count=2)
        arrivals = []
        for number, (second, kind, about) in enumerate(changes):
            # In what order two things happen at the very same time is not promised, and thus not
            # which of several pods goes first whose waits end together.
            time = second + math.sqrt(2.0) * 1e-4 * (number + 1)
            if kind == "arrive":
                pod, duration = manifest(number, about), about["duration"]
                if duration is not None:
                    duration += math.pi * 1e-4 * (number + 1)
                count = 1 if about["waits_at"] else about["count"]
                arrivals.append(offline.Arrival(time, pod, duration, count))
            else:
                world.at(time, partial(apply, world, kind, about))
        ran = world.run(until=500.0, workload=arrivals)
        world.add_nodes(offline.node("last", cpu=4, labels={ZONE: "b"}))
        settled = world.schedule()
        world._assembly.scheduling.queue.validate()
        steps = world._assembly.scheduling.queue.statistics().scheduling_cycle
        told = [each.explain() for each in (*ran, *settled)]
        return ran.to_json() + settled.to_json(), world.placements(), told, steps


@pytest.fixture(scope="module")
def configurations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("configurations")
    found = {}
    for name, text in CONFIGURATIONS.items():
        found[name] = folder / f"{name}.yaml"
        found[name].write_text(text)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
@settings(max_examples=8, deadline=None)
@given(changes=st.lists(CHANGES, min_size=3, max_size=14), seed=st.integers(0, 3))
def test_the_direct_loop_and_the_tasks_of_the_service_give_equal_results(
    configurations: dict[str, Path], name: str, changes: list[Change], seed: int
) -> None:
    config = configurations[name]
    assert happens(config, changes, seed, direct=True) == happens(
        config, changes, seed, direct=False
    )


@pytest.mark.parametrize("direct", [True, False])
def test_no_pod_is_attempted_after_a_plugin_raised(direct: bool, tmp_path: Path) -> None:
    """The tasks of the service schedule where a cycle may be suspended."""
    config = tmp_path / "config.yaml"
    raising = f"multiPoint: {{enabled: [{{name: '{PLUGINS}:Raising'}}]}}"
    config.write_text(f"{HEAD}profiles:\n  - plugins:\n      {raising}\n")
    with patch("scheduler.offline.assembly.suits", return_value=direct):
        world = offline.World(config=config)
    with world:
        world._assembly.end_on_exception()
        world.add_nodes(offline.node(cpu=8), count=2)
        for name in ("first", "bad", "second", "third"):
            world.add_pods(offline.pod(name, cpu=1))
        world.schedule()
        assert "first ValueError at" in world._assembly.plugin_errors()
        attempts = {each.pod: each.attempts for each in world.waiting()}
        assert attempts["default/bad"] == 1
        assert attempts["default/second"] == attempts["default/third"] == 0

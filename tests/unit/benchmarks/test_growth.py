"""The growth benchmark measures what it says: its worlds are as meant, its figures complete."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import growth_measures
from benchmarks.engine_world import EngineWorld
from benchmarks.growth import main
from benchmarks.growth_measures import apart, queue_events
from benchmarks.growth_workloads import KINDS, NODE_CPU, PREEMPTION_SCENARIOS, fill, pod, struggle


@pytest.fixture(autouse=True, scope="module")
def collector() -> Iterator[None]:
    """Measurements freeze the heap and change the thresholds of the collector."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.collect()
    # What the tests were collected into, as before: see `pytest_collection`.
    gc.freeze()
    gc.set_threshold(*thresholds)


@pytest.mark.parametrize("name", KINDS)
def test_pods_of_every_kind_end_as_they_should(name: str) -> None:
    world, kind = EngineWorld(20), KINDS[name]
    fill(world, 2)
    attempt = world.attempt(pod(world, kind))
    assert (attempt.failure is None) == kind.fits
    world.cache.validate()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("resources", "6 Preemption is not helpful for scheduling"),
        ("resources, held by others", "5 Insufficient cpu"),
        ("anti-affinity", "5 node(s) didn't match pod anti-affinity rules"),
        ("anti-affinity of others", "5 node(s) didn't satisfy existing pods anti-affinity rules"),
        ("ports", "5 node(s) didn't have free ports for the requested pod ports"),
        ("spread", "5 node(s) didn't match pod topology spread constraints"),
    ],
)
def test_preemption_fails_for_the_reason_that_is_measured(name: str, reason: str) -> None:
    world, what = EngineWorld(6, cpu=NODE_CPU), PREEMPTION_SCENARIOS[name]
    struggle(world, what, 24)
    failure = world.attempt(what.incoming(world)).failure
    assert failure is not None
    assert reason in failure.message.partition("preemption:")[2]


@pytest.mark.parametrize(
    "name", [name for name, each in PREEMPTION_SCENARIOS.items() if each.fruitful]
)
def test_preemption_nominates_a_node_where_it_should(name: str) -> None:
    world, what = EngineWorld(6, cpu=NODE_CPU), PREEMPTION_SCENARIOS[name]
    struggle(world, what, 24)
    failure = world.attempt(what.incoming(world)).failure
    assert failure is not None
    assert failure.nominating is not None
    assert failure.nominating.node_name


@pytest.mark.slow
def test_figures_are_printed_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of the pods that preemption chooses from, one in twenty.
    monkeypatch.setattr(
        growth_measures, "struggle", lambda world, what, low: struggle(world, what, low // 20)
    )
    output = tmp_path / "growth.json"
    options = ["--nodes", "60", "--repeat", "5", "--json", str(output)]
    result = CliRunner().invoke(main, ["--only", "cycles", "--only", "preemption", *options])
    assert result.exit_code == 0, result.output
    figures = json.loads(output.read_text(encoding="utf-8"))
    cycles = [each["case"] for each in figures if each["section"] == "cycles"]
    assert cycles == list(KINDS)
    searched = {each["case"] for each in figures if each["section"] == "preemption"}
    assert searched > set(PREEMPTION_SCENARIOS)
    assert all(each["value"] > 0 for each in figures)
    assert all(name in result.output for name in ("plain", "median"))


@pytest.mark.slow
def test_an_attempt_that_ends_otherwise_is_no_figure() -> None:
    result = CliRunner().invoke(main, ["--only", "cycles", "--nodes", "5", "--repeat", "5"])
    assert result.exit_code == 1
    assert "required anti-affinity was rejected: use more --nodes" in result.output


@pytest.mark.slow
def test_the_memory_of_waiting_pods_is_measured_in_a_process_of_its_own() -> None:
    found = apart(queue_events, pending=3, nodes=5, events=4)
    assert [each.case for each in found] == ["unrelated", "registered, no help"]
    assert all(each.pods == 3 and each.value > 0 for each in found)

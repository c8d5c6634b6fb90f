"""A result is shown, tabled, measured and plotted, in a script or a notebook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler import offline
from scheduler.offline.experiment import Scenario, Simulation
from scheduler.offline.figures import FIXED
from scheduler.offline.records import Result

HOUR = 3600.0
ARRIVALS = [
    offline.Arrival(60.0 * number, offline.pod("job", cpu=3), 600.0, name=f"job-{number}")
    for number in range(30)
]


def run(**options: Any) -> Result:
    with offline.World() as world:
        world.add_nodes(offline.node("n", cpu=4), count=2)
        world.add(offline.pod("<b>giant</b>", cpu=64))
        return world.run(until=HOUR, workload=ARRIVALS, **options)


def test_a_result_is_short_to_look_at() -> None:
    result = run()
    assert repr(result) == "<Result 0 s to 3600 s: 13 placed, 18 waiting, 0 evicted, 11 finished>"
    assert len(result._repr_html_()) < 2000


def test_html_groups_what_waits_by_reason_and_escapes_it() -> None:
    shown = run()._repr_html_()
    assert "<b>giant</b>" not in shown.replace("<p><b>", "")
    assert shown.count("Insufficient cpu") <= 2
    assert "18 waiting" in shown


def test_a_table_has_a_record_for_each_pod_with_the_same_fields() -> None:
    result = run()
    table = result.table()
    assert [each["pod"] for each in table] == [each.pod for each in result]
    assert {tuple(each) for each in table} == {
        ("pod", "state", "node", "time", "waited", "attempts", "reason")
    }
    assert {each["state"] for each in table} > {"placed"}


def test_figures_are_those_of_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    nodes = [offline.node(f"n-{number}", cpu=4) for number in range(2)]
    path.write_text(json.dumps({"kind": "List", "items": nodes}))
    scenario = Scenario((str(path),), workload=lambda _seed: ARRIVALS, until=HOUR, adopt=True)
    command = Simulation(scenario).run("default")
    with offline.World.load(path, adopt=True) as world:
        world._settle()
        result = world.run(until=HOUR, workload=ARRIVALS, samples=200)
    assert result.figures() == command.figures
    assert result.samples == command.samples
    assert set(FIXED) <= set(result.figures())


def test_without_samples_the_figures_are_those_of_the_records() -> None:
    some = run().figures()
    every = run(samples=10).figures()
    assert some.items() <= every.items()
    assert {"placed", "wait_p90", "time"} <= set(some)
    assert "cpu_allocation_mean" in every.keys() - some.keys()


@pytest.mark.slow
def test_samples_change_no_result() -> None:
    assert run(samples=50) == run()
    assert run(samples=50).to_json() == run().to_json()


def test_samples_are_seen_while_the_world_runs() -> None:
    seen: list[float] = []
    result = run(samples=10, on_sample=lambda sample: seen.append(sample["time"]))
    # The last one, at the end, takes the place of another one of that time.
    assert list(dict.fromkeys(seen)) == [each["time"] for each in result.samples]
    assert (len(result.samples), seen[-1]) == (10, HOUR)


def test_a_plot_shows_every_resource_and_who_waits() -> None:
    pytest.importorskip("matplotlib")
    figure = run(samples=20).plot()
    used, waiting = figure.axes
    assert [line.get_label() for line in used.lines] == ["cpu", "memory", "pods"]
    assert max(waiting.lines[0].get_ydata()) >= 18
    assert used.get_xlabel() == "minute"


def test_a_plot_needs_samples() -> None:
    with pytest.raises(ValueError, match="samples=200"):
        run().plot()


def test_one_attempt_for_all_is_measured_on_request() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node("n", cpu=4), count=2)
        world.add_pods(offline.pod("web", cpu=1), count=2)
        result = world.schedule(measure=True)
    assert result.figures()["cpu_allocation"] == 25.0
    assert len(result.samples) == 1

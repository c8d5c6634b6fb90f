"""A call of a plugin that does not return ends its run, and no other."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path

import pytest

from scheduler import offline
from scheduler.offline.experiment import Scenario, SimulatedRun, Simulation

PLUGINS = "tests.unit.offline.endless_plugins"
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: kubestow
  plugins: {{filter: {{enabled: [{{name: '{name}'}}]}}}}
"""


@pytest.fixture
def simulation(tmp_path: Path) -> Simulation:
    pods = [offline.pod(name, cpu=1) for name in ("a", "bad", "c")]
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"kind": "List", "items": [offline.node("n", cpu=8), *pods]}))
    return Simulation(Scenario((str(dump),), adopt=True, plugin_timeout=0.3))


def run(simulation: Simulation, folder: Path, plugin: str) -> SimulatedRun:
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(name=f"{PLUGINS}:{plugin}"))
    return simulation.run("p", str(config))


@pytest.mark.parametrize("plugin", ["Endless", "Stuck"])
def test_a_call_without_end_ends_its_run(
    simulation: Simulation, tmp_path: Path, plugin: str
) -> None:
    before = signal.getsignal(signal.SIGURG)
    found = run(simulation, tmp_path, plugin)
    assert found.error.startswith(f"plugin example.com/{plugin} raised once in Filter")
    assert ": the call had not ended after 0.3 s, in " in found.error
    assert "endless_plugins.py:" in found.error
    assert [each.pod for each in found.result.placed] == ["default/a"]
    assert not found.figures
    assert simulation.run("default").figures["placed"] == 3
    assert signal.getsignal(signal.SIGURG) == before


def test_a_call_without_end_ends_its_run_in_any_thread(
    simulation: Simulation, tmp_path: Path
) -> None:
    found: list[SimulatedRun] = []
    thread = threading.Thread(
        target=lambda: found.append(run(simulation, tmp_path, "Endless")), daemon=True
    )
    thread.start()
    thread.join()
    assert ": the call had not ended after 0.3 s, in " in found[0].error

"""Sweep files: every combination is a run, and every fault is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scheduler.offline.figures import FIXED
from simulator import sweeps
from simulator.sweeps.plan import read_plan, simulated
from tests.unit.simulator.sweeps.sweep_files import CONFIG, prepare, sweep_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return prepare(tmp_path)


TRACE = {"trace": {"file": "trace.csv", "templates": ["a.yaml"]}}


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, ["default-0", "pack-0"]),
        ({"seeds": "2-3"}, ["default-2", "default-3", "pack-2", "pack-3"]),
        ({"seeds": [7, 7, 5], "policies": {"p": None}}, ["p-7", "p-5"]),
        ({"workloads": TRACE, "seeds": 1}, ["default-trace-1", "pack-trace-1"]),
    ],
)
def test_every_combination_is_a_run(folder: Path, fields: dict[str, Any], names: list[str]) -> None:
    assert [each.name for each in read_plan(sweep_file(folder, **fields)).runs] == names


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"dump": "x"}, "unknown field `dump`"),
        ({"dumps": "x"}, "Expected `array`"),
        ({"dumps": []}, "give at least one of `dumps`"),
        ({"seeds": "3-2"}, "give a number or FIRST-LAST"),
        ({"seeds": "x"}, "give a number or FIRST-LAST"),
        ({"seeds": "0-200000"}, "at most 100000 seeds"),
        ({"seeds": "1-99999"}, "199998 runs; at most"),
        ({"dumps": ["x.json"], "pluginDirs": ["y"]}, "x.json: no such file"),
        ({"dumps": ["x.json"], "pluginDirs": ["y"]}, "y: no such file"),
        ({"workloads": {"w": {}}}, "missing required field `file`"),
        ({"workloads": {"w": {"file": "trace.csv"}}}, "trace.csv:2: template 'a' is unknown"),
        ({"workloads": {"w": {"file": "a.yaml"}, **TRACE}}, "a.yaml: rate: "),
    ],
)
def test_a_fault_is_named(folder: Path, fields: dict[str, Any], error: str) -> None:
    with pytest.raises(sweeps.SweepError) as caught:
        read_plan(sweep_file(folder, **fields))
    assert error in str(caught.value)


def test_faults_of_dumps_and_workloads_are_found_before_the_first_run(folder: Path) -> None:
    (folder / "bad.json").write_text('{"apiVersion": "v1", "kind": "Node", "metadata": 7}')
    workloads = {"w": {"file": "trace.csv"}}
    with pytest.raises(sweeps.SweepError) as caught:
        read_plan(sweep_file(folder, dumps=["bad.json"], workloads=workloads))
    assert "bad.json:1: " in str(caught.value)
    assert "trace.csv:2: " in str(caught.value)


@pytest.mark.parametrize("content", [b"[", b"\xff", b"a: &a [*a]", b"- 1", b"", b" " * (2 << 20)])
def test_a_file_that_is_none_is_an_error(folder: Path, content: bytes) -> None:
    path = folder / "sweep.yaml"
    path.write_bytes(content)
    with pytest.raises(sweeps.SweepError, match=r"sweep\.yaml: "):
        read_plan(path)


def test_the_version_follows_the_files(folder: Path) -> None:
    path = sweep_file(folder)
    before = read_plan(path).version
    assert read_plan(path).version == before
    (folder / "pack.yaml").write_text(CONFIG + "# changed\n")
    assert read_plan(path).version != before


def test_a_run_has_figures(folder: Path) -> None:
    once, trace = (
        simulated(read_plan(sweep_file(folder, **fields)).runs[0].parameters)
        for fields in ({}, {"workloads": TRACE})
    )
    assert set(FIXED) <= once.keys()
    assert (once["placed"], once["nodes_used"], once["time"]) == (1, 1, 0.0)
    assert (trace["placed"], trace["finished"], trace["waiting"]) == (6, 5, 0)
    assert trace["wait_max"] > 50.0


POD_LIST = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase\n" + "".join(
    f"pod-{number},1000,64,0,0,,LS,Running\n" for number in range(3)
)
GENERATOR = "rate: 0.2\nuntil: 60s\npods: [{template: a, duration: 1s}]\n"


@pytest.mark.parametrize(
    ("file", "content", "templates"),
    [
        ("trace.jsonl", '{"arrival": 5, "duration": 60, "template": "a"}\n', ["a.yaml"]),
        ("openb_pod_list.csv", POD_LIST, []),
        ("generated.yaml", GENERATOR, ["a.yaml"]),
    ],
)
def test_a_workload_is_any_file_of_the_command(
    folder: Path, file: str, content: str, templates: list[str]
) -> None:
    (folder / file).write_text(content)
    workloads = {"w": {"file": file, "templates": templates}}
    runs = read_plan(sweep_file(folder, workloads=workloads, seeds="0-1")).runs
    found = [simulated(each.parameters) for each in runs[:2]]
    assert all(each["placed"] > 1 for each in found)
    # Only a generator draws arrivals from the seed.
    assert (found[0] != found[1]) == (file == "generated.yaml")

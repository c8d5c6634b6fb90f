"""The page shows bundles and recordings as runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.cli.exit_codes import UNUSABLE_BUNDLE, CommandError
from scheduler.cli.page.bundle_runs import run_of
from scheduler.cli.page.recorded import RecordedSource
from scheduler.history import DecisionResult
from scheduler.history.run import frame_at
from scheduler.recording.format import (
    ATTEMPT,
    BINDING,
    DECISION,
    DELTA,
    OBJECT,
    Header,
)
from scheduler.recording.writing import BundleWriter
from tests.unit.history.runs import decision

CREATED = 1_000.0


def node(name: str, zone: str = "a") -> dict[str, Any]:
    labels = {"topology.kubernetes.io/zone": zone}
    size = {"cpu": "4", "memory": "1Gi", "pods": "10", "nvidia.com/gpu": "2"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": size},
    }


def pod(name: str, node_name: str = "", created: str = "1970-01-01T00:15:00Z") -> dict[str, Any]:
    requests = {"requests": {"cpu": "500m", "nvidia.com/gpu": "1"}}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "uid": name, "creationTimestamp": created
        },
        "spec": {"containers": [{"name": "c", "resources": requests}], "nodeName": node_name},
    }  # fmt: skip


def bundle(folder: Path, *lines: tuple[str, Any], kind: str = "Bundle") -> str:
    """Write a bundle with these lines."""
    header = Header(api_version="bundle.kubestow.io/v1", kind=kind, version="0.1", created=CREATED)
    writer = BundleWriter(header)
    content = [writer.begin(), *(writer.add(section, data) for section, data in lines)]
    path = folder / "today.bundle"
    path.write_bytes(b"".join([*content, writer.end()]))
    return str(path)


def test_a_bundle_spans_the_decisions_it_remembers(tmp_path: Path) -> None:
    placed = decision(7, 950.0, "default/web", uid="web", bound=951.0)
    path = bundle(
        tmp_path,
        (OBJECT, node("n1")),
        (OBJECT, pod("web", "n1")),
        (OBJECT, pod("old", "n1")),
        (OBJECT, {"kind": "Service", "metadata": {"name": "s"}}),
        (DECISION, msgspec.to_builtins(placed)),
    )
    run = run_of(path)
    assert (run.begin, run.end, run.title) == (950.0, CREATED, "bundle today.bundle")
    (n1,) = run.nodes
    assert (n1.zone, n1.allocatable["cpu"], n1.allocatable["nvidia.com/gpu"]) == ("a", 4, 2)
    run.begin = 900.0
    early, late = frame_at(run, 949.0), frame_at(run, 999.0)
    assert ([each.name for each in early.waiting], len(early.placed["n1"])) == (["web"], 1)
    assert sorted(each.name for each in late.placed["n1"]) == ["old", "web"]
    assert late.placed["n1"][0].requests == {"cpu": 0.5, "nvidia.com/gpu": 1}


def test_a_recording_adds_changes_attempts_and_bindings(tmp_path: Path) -> None:
    def delta(time: float, plural: str, kind: str, item: dict[str, Any]) -> tuple[str, Any]:
        return DELTA, {"time": time, "plural": plural, "type": kind, "object": item}

    attempt = {"pod": "default/web", "uid": "web", "info": {"attempts": 2}}
    rejected = {"reason": "Unschedulable", "message": "0/1", "rejectedBy": ["NodeResourcesFit"]}
    chosen = {"node": "n2", "evaluated": 2, "feasible": 1}
    path = bundle(
        tmp_path,
        (OBJECT, node("n1")),
        (OBJECT, pod("web")),
        (ATTEMPT, {"time": 1_001.0, **attempt, "outcome": rejected}),
        delta(1_002.0, "nodes", "ADDED", node("n2", "b")),
        (ATTEMPT, {"time": 1_003.0, **attempt, "outcome": chosen}),
        (BINDING, {"time": 1_004.0, "uid": "web", "step": "bound"}),
        delta(1_005.0, "pods", "DELETED", pod("web", "n2")),
        delta(1_006.0, "nodes", "DELETED", node("n1")),
        kind="Recording",
    )
    run = run_of(path)
    assert (run.begin, run.end) == (CREATED, 1_006.0)
    assert [(each.result, each.bound) for each in run.decisions] == [
        (DecisionResult.UNSCHEDULABLE, 0.0),
        (DecisionResult.PLACED, 1_004.0),
    ]
    assert run.decisions[0].rejections[0].plugin == "NodeResourcesFit"
    seen = [
        (sorted(frame.nodes), len(frame.waiting), len(frame.placed["n2"]))
        for frame in (frame_at(run, time) for time in (1_001.5, 1_002.5, 1_003.5, 1_006.0))
    ]
    assert seen == [(["n1"], 1, 0), (["n1", "n2"], 1, 0), (["n1", "n2"], 0, 1), (["n2"], 0, 0)]


def test_a_binding_that_failed_gives_no_node(tmp_path: Path) -> None:
    placed = decision(7, 950.0, "default/web", uid="web", bound=0.0)
    path = bundle(
        tmp_path,
        (OBJECT, pod("web")),
        (DECISION, msgspec.to_builtins(placed)),
        (BINDING, {"time": 1_001.0, "uid": "web", "step": "failed"}),
    )
    assert [each.name for each in frame_at(run_of(path), 1_001.0).waiting] == ["web"]


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    path = bundle(
        tmp_path,
        (OBJECT, {**node("n1"), "status": {"allocatable": {"cpu": "many"}}}),
        (OBJECT, "no object"),
        (DECISION, {"seq": "x"}),
        (OBJECT, node("n2")),
    )
    assert [each.name for each in run_of(path).nodes] == ["n2"]


def test_a_damaged_bundle_has_its_exit_code(tmp_path: Path) -> None:
    path = Path(bundle(tmp_path, (OBJECT, node("n1"))))
    assert RecordedSource.load(str(path)).describe().title == "bundle today.bundle"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CommandError, match=r"today\.bundle.* cut") as raised:
        RecordedSource.load(str(path))
    assert raised.value.exit_code == UNUSABLE_BUNDLE

"""Bundles and recordings made by hand, with one node and one pending pod."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from scheduler import offline
from scheduler.recording.format import API_VERSION, Header
from scheduler.recording.writing import BundleWriter

Line = tuple[str, Any]
CONFIGURATION: Final = {
    "configuration": {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
    }
}
STATE: Final = {"time": 1e9, "monotonic": 50.0, "random": [3, [*range(1, 625), 1], None]}
ATTEMPT: Final = {
    "time": 1e9, "monotonic": 51.0, "now": 1e9, "seq": 1, "pod": "default/web", "uid": "web-uid",
    "random": {"position": 1}, "rotation": 0,
    "outcome": {"node": "n", "evaluated": 1, "feasible": 1},
}  # fmt: skip


def small(*stream: Line, **changes: Any) -> list[Line]:
    """Return the lines of a file with one node and one pending pod."""
    sections: dict[str, Any] = {
        "configuration": [CONFIGURATION],
        "state": [STATE],
        "row": [{"node": "n", "pods": []}],
        "object": [stored(offline.node("n", cpu=4)), stored(offline.pod("web", cpu=1))],
        "queue": [{"pod": "default/web", "uid": "web-uid", "place": "active"}],
    } | changes
    return [*((name, each) for name, found in sections.items() for each in found), *stream]


def stored(made: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with a UID; pods are those of the default profile."""
    metadata = {"uid": f"{made['metadata']['name']}-uid", **made["metadata"]}
    if made["kind"] == "Pod":
        metadata.setdefault("namespace", "default")
        made = {**made, "spec": {**made["spec"], "schedulerName": "kubestow"}}
    return {**made, "metadata": metadata}


def change(
    made: Mapping[str, Any], kind: str = "ADDED", plural: str = "pods", second: float = 0.5
) -> Line:
    """Return a recorded change, so many seconds after the start."""
    times = {"time": 1e9 + second, "monotonic": 50.0 + second}
    return "delta", {**times, "plural": plural, "type": kind, "object": made}


def write_bundle(path: Path, lines: list[Line], kind: str = "Recording") -> Path:
    """Write lines as a file, a recording if it may have a stream."""
    writer = BundleWriter(Header(api_version=API_VERSION, kind=kind, version="9.9"))
    pieces = [writer.begin(), *(writer.add(*line) for line in lines), writer.end()]
    path.write_bytes(b"".join(pieces))
    return path

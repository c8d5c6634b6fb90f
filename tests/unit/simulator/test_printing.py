"""Tables as kubectl shows them."""

from __future__ import annotations

import pytest

from simulator.objects import JsonObject, format_time
from simulator.printing import human_duration, pod_status, table
from simulator.resources import ResourceTable
from tests.unit.simulator.objects import START, node, pod


def _cells(kind: str, obj: JsonObject) -> dict[str, object]:
    obj["metadata"].setdefault("creationTimestamp", format_time(START - 90))
    made = table(kind, [obj], START)
    names = [column["name"] for column in made["columnDefinitions"]]
    return dict(zip(names, made["rows"][0]["cells"], strict=True))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (9 * 3600, "9h"),
        (50 * 3600, "2d2h"),
        (9 * 86400, "9d"),
        (800 * 86400, "2y"),
        (-5, "<invalid>"),
    ],
)
def test_ages(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


_GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}


@pytest.mark.parametrize(
    ("status", "meta", "expected"),
    [
        ({"phase": "Pending"}, {}, "Pending"),
        ({"phase": "Pending", "conditions": [_GATED]}, {}, "SchedulingGated"),
        ({"phase": "Running"}, {"deletionTimestamp": "x"}, "Terminating"),
        (
            {
                "phase": "Succeeded",
                "containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}],
            },
            {},
            "Completed",
        ),
    ],
)
def test_the_status_of_a_pod(status: JsonObject, meta: JsonObject, expected: str) -> None:
    assert pod_status({"metadata": meta, "status": status}) == expected


def test_a_pod_and_a_node() -> None:
    cells = _cells("pods", pod("a", nodeName="n1"))
    assert (cells["Ready"], cells["Restarts"], cells["Age"]) == ("0/1", "0", "90s")
    assert (cells["Node"], cells["IP"]) == ("n1", "<none>")
    made = node("n1")
    made["spec"] = {"unschedulable": True}
    made["metadata"]["labels"] = {"node-role.kubernetes.io/worker": ""}
    cells = _cells("nodes", made)
    assert (cells["Status"], cells["Roles"]) == ("Unknown,SchedulingDisabled", "worker")


def test_every_kind_prints_an_empty_object() -> None:
    for row in ResourceTable():
        cells = _cells(row.table, {"metadata": {"name": "x"}})
        assert "Age" in cells or row.kind in ("CustomResourceDefinition", "Event")


def test_rows_hold_the_requested_object() -> None:
    obj = pod("a")
    assert "object" not in table("pods", [obj], START, include="None")["rows"][0]
    assert table("pods", [obj], START, include="Object")["rows"][0]["object"] is obj
    part = table("pods", [obj], START)["rows"][0]["object"]
    assert (part["kind"], part["metadata"]) == ("PartialObjectMetadata", obj["metadata"])

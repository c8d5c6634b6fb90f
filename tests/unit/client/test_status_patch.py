"""Times and contents of writes to a pod's status."""

from __future__ import annotations

import json

import pytest

from scheduler.api.meta import Condition, ObjectMeta
from scheduler.api.pod import Pod, PodStatus
from scheduler.client.status_patch import PodStatusPatch, plan_status_patch, version_of

OLD, NOW = "2023-01-01T00:00:00Z", "2024-01-01T00:00:00Z"
WAITS = Condition(
    type="PodScheduled",
    status="False",
    reason="Unschedulable",
    message="0/1 nodes",
    last_transition_time=OLD,
)


def a_pod(*conditions: Condition, nominated: str = "") -> Pod:
    metadata = ObjectMeta(name="p", namespace="ns", uid="u")
    return Pod(
        metadata=metadata, status=PodStatus(conditions=conditions, nominated_node_name=nominated)
    )


def condition(status: str = "False", message: str = "0/1 nodes", generation: int = 0) -> Condition:
    return Condition(
        type="PodScheduled",
        status=status,
        reason="Unschedulable",
        message=message,
        observed_generation=generation or None,
    )


def test_a_first_condition_begins_now() -> None:
    patch = plan_status_patch(a_pod(), condition(generation=3), None, NOW)
    assert patch is not None
    assert json.loads(patch.encode()) == {
        "metadata": {"uid": "u"},
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/1 nodes",
                    "lastTransitionTime": NOW,
                    "observedGeneration": 3,
                }
            ]
        },
    }


@pytest.mark.parametrize(
    ("new", "time"),
    [
        (condition(), None),
        (condition(generation=9), None),
        (condition(message="0/2 nodes"), OLD),
        (condition(status="True"), NOW),
    ],
)
def test_only_what_changed_is_written(new: Condition, time: str | None) -> None:
    patch = plan_status_patch(a_pod(WAITS), new, None, NOW)
    if time is None:
        assert patch is None
    else:
        assert patch is not None
        assert patch.conditions[0].last_transition_time == time


@pytest.mark.parametrize(
    ("before", "wanted", "written"),
    [("", None, None), ("", "n", "n"), ("n", "n", None), ("n", "", ""), ("", "", None)],
)
def test_nominations(before: str, wanted: str | None, written: str | None) -> None:
    patch = plan_status_patch(a_pod(nominated=before), None, wanted, NOW)
    assert (patch.nominated_node_name if patch else None) == written


@pytest.mark.parametrize("nominated", ["", "n"])
def test_a_nomination_is_written_again_where_the_pod_may_be_old(nominated: str) -> None:
    pod = a_pod(WAITS, nominated=nominated)
    patch = plan_status_patch(pod, condition(), nominated, NOW, renominate=True)
    assert patch == PodStatusPatch("ns", "p", "u", nominated_node_name=nominated)
    assert plan_status_patch(pod, condition(), None, NOW, renominate=True) is None


@pytest.mark.parametrize(
    ("body", "version"),
    [
        (b'{"kind":"Pod","metadata":{"name":"p","resourceVersion":"12"}}', "12"),
        (b'{"metadata":{}}', ""),
        (b"{}", ""),
        (b'{"metadata":null}', ""),
        (b'{"metadata":{"resourceVersion":"\xff"}}', ""),
        (b"", ""),
    ],
)
def test_the_version_in_a_response(body: bytes, version: str) -> None:
    assert version_of(body) == version


def test_clearing_a_nomination_removes_the_field() -> None:
    patch = PodStatusPatch("ns", "p", "u", nominated_node_name="")
    assert json.loads(patch.encode())["status"] == {"nominatedNodeName": None}


def test_a_newer_patch_inherits_the_fields_that_it_does_not_set() -> None:
    other = Condition(type="Other", status="True")
    older = PodStatusPatch("ns", "p", "u", (other, condition(message="old")), "n")
    merged = PodStatusPatch("ns", "p", "u", (condition(message="new"),)).over(older)
    assert merged.conditions == (other, condition(message="new"))
    assert merged.nominated_node_name == "n"
    cleared = PodStatusPatch("ns", "p", "u", (), "").over(older)
    assert cleared.nominated_node_name == ""


def test_text_that_is_not_unicode_is_sent_escaped() -> None:
    body = PodStatusPatch("ns", "p", "u", (condition(message="team \udcff"),)).encode()
    assert body.isascii()
    assert json.loads(body)["status"]["conditions"][0]["message"] == "team \udcff"

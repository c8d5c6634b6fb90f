"""Node status reported by a fake kubelet."""

from __future__ import annotations

from simulator.controllers.node_status import (
    LEASE_SECONDS,
    RENEW_SECONDS,
    NodeTemplate,
    correction,
    lease,
    registration,
)
from simulator.objects import JsonObject, format_time
from tests.unit.simulator.objects import START


def registered() -> JsonObject:
    return registration(NodeTemplate("n1", "198.18.0.1", zone="z"), START)


def test_a_node_is_registered_ready_with_its_zone_and_address() -> None:
    node = registered()
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "z"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n1"
    assert node["status"]["allocatable"] == node["status"]["capacity"]
    assert node["status"]["addresses"][0] == {"type": "InternalIP", "address": "198.18.0.1"}
    states = {one["type"]: one["status"] for one in node["status"]["conditions"]}
    assert states.pop("Ready") == "True"
    assert set(states.values()) == {"False"}, "no pressure"


def test_a_node_without_a_zone_has_no_zone_label() -> None:
    labels = registration(NodeTemplate("n1", "198.18.0.1"), START)["metadata"]["labels"]
    assert "topology.kubernetes.io/zone" not in labels


def test_a_node_that_is_well_needs_no_correction() -> None:
    assert correction(registered(), START + 1000) is None


def test_allocatable_gains_and_loses_what_capacity_does() -> None:
    node = registered()
    own = dict(node["status"]["capacity"])
    node["status"]["capacity"] = {**own, "example.com/foo": "5"}
    assert correction(node, START) == {"allocatable": {**own, "example.com/foo": "5"}}
    node["status"] |= {"capacity": own, "allocatable": {**own, "example.com/foo": "5"}}
    assert correction(node, START) == {"allocatable": {**own, "example.com/foo": None}}


def test_a_node_that_was_called_lost_gets_its_conditions_back_and_keeps_those_of_others() -> None:
    node = registered()
    foreign = {"type": "example.com/Kept", "status": "True"}
    node["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}, foreign]
    patch = correction(node, START + 60)
    assert patch is not None
    conditions = {one["type"]: one for one in patch["conditions"]}
    assert conditions["example.com/Kept"] == foreign
    assert conditions["Ready"]["status"] == "True"
    assert conditions["Ready"]["lastTransitionTime"] == format_time(START + 60)
    assert set(patch) == {"conditions"}


def test_a_lease_belongs_to_its_node_and_outlasts_missed_renewals() -> None:
    node = {"metadata": {"name": "n1", "uid": "u"}}
    made = lease(node, "2026-01-01T00:00:00.000000Z")
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert made["spec"]["holderIdentity"] == "n1"
    assert made["spec"]["renewTime"] == "2026-01-01T00:00:00.000000Z"
    assert LEASE_SECONDS >= 3 * RENEW_SECONDS

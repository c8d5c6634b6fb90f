"""Terms: the demands of objects of both spellings, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.api.pod_groups import NATIVE_POD_GROUPS
from scheduler.groups import GroupKey, PodGroups, Source, group_of, terms_of
from scheduler.groups.terms import (
    DISRUPTION,
    PRIORITY_CLASS,
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
)
from tests.unit.groups.objects import member, native_group, pod_group

ALPHA, *_, BETA = NATIVE_POD_GROUPS
GANG = {"gang": {"minCount": 3}}


def test_the_field_and_the_label_name_groups_of_two_worlds() -> None:
    assert group_of(member("a", "g")) == GroupKey("default", "g", Source.CRD)
    assert group_of(member("a", "", field="g")) == GroupKey("default", "g", Source.NATIVE)
    assert group_of(member("a", "")) is None
    assert GroupKey("default", "g") != GroupKey("default", "g", Source.NATIVE)


def test_g6_the_field_wins_over_the_label() -> None:
    assert group_of(member("a", "h", field="g")) == GroupKey("default", "g", Source.NATIVE)


def test_a_native_gang_demands_its_min_count() -> None:
    terms = terms_of(native_group({"schedulingPolicy": GANG, "priority": 7}), ALPHA)
    assert (terms.minimum, terms.priority, terms.resource) == (3, 7, ALPHA)
    assert not terms.refused
    assert not terms.whole, "the default is to disrupt pods one by one"


def test_a_basic_group_demands_nothing_of_several_pods() -> None:
    groups = PodGroups()
    group = groups.set_object(native_group({"schedulingPolicy": {"basic": {}}}), ALPHA)
    groups.observe(member("a", "", field="g"), ours=True)
    assert group.terms is not None
    assert (group.terms.refused, group.need, group.ready) == ("", 0, True)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({}, "spec.schedulingPolicy has neither basic nor gang"),
        (
            {"schedulingPolicy": {"basic": {}, **GANG}},
            "spec.schedulingPolicy has both basic and gang",
        ),
        (
            {
                "schedulingPolicy": GANG,
                "schedulingConstraints": {"topology": [{"key": "rack"}, {"key": "zone"}]},
            },
            (
                "it requires one domain of the node label rack and, by another field or "
                "annotation, of zone"
            ),
        ),
        (
            {"schedulingPolicy": {"gang": {"minCount": 10_001}}},
            "spec.schedulingPolicy.gang.minCount is 10001; at most 10000 pods can start together",
        ),
    ],
)
def test_an_object_that_contradicts_itself_is_refused(spec: dict[str, Any], text: str) -> None:
    assert terms_of(native_group(spec), ALPHA).refused == text


def test_an_annotation_that_contradicts_the_field_refuses_the_object() -> None:
    spec = {"schedulingPolicy": GANG, "schedulingConstraints": {"topology": [{"key": "rack"}]}}
    other = native_group(spec, annotations={TOPOLOGY_REQUIRED: "zone"})
    assert "rack" in terms_of(other, ALPHA).refused
    same = native_group(spec, annotations={TOPOLOGY_REQUIRED: "rack"})
    assert (terms_of(same, ALPHA).refused, terms_of(same, ALPHA).required_key) == ("", "rack")


@pytest.mark.parametrize(
    ("mode", "whole"),
    [
        (None, False),
        ("Pod", False),
        ("PodGroup", True),
        ({"single": {}}, False),
        ({"all": {}}, True),
        ("Whatever", False),
    ],
)
def test_the_disruption_mode_of_both_versions(mode: object, whole: bool) -> None:
    spec = {"schedulingPolicy": GANG, "disruptionMode": mode}
    assert terms_of(native_group(spec), BETA).whole is whole


def test_annotations_say_what_the_custom_resource_cannot() -> None:
    annotations = {
        TOPOLOGY_REQUIRED: "zone",
        TOPOLOGY_PREFERRED: "example.com/rack, row",
        DISRUPTION: "Pod",
        PRIORITY_CLASS: " batch ",
    }
    terms = terms_of(pod_group(2, annotations=annotations))
    assert terms.required_key == "zone"
    assert terms.preferred_keys == ("example.com/rack", "row")
    assert (terms.whole, terms.priority_class, terms.ignored) == (False, "batch", ())
    assert terms_of(pod_group(2)).whole, "one member less makes the others wait"


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        (TOPOLOGY_REQUIRED, "a b", '"a b" is not the key of a node label'),
        (TOPOLOGY_PREFERRED, "rack,,zone", '"" is not the key of a node label'),
        (TOPOLOGY_PREFERRED, ",".join("abcdefghi"), "has more than 8 keys"),
        (TOPOLOGY_PREFERRED, "x," * 100_000, "has more than 8 keys"),
        (DISRUPTION, "All", '"All" is neither PodGroup nor Pod'),
        (PRIORITY_CLASS, "Batch", '"Batch" is not the name of a PriorityClass'),
        (TOPOLOGY_REQUIRED, "x" * 100_000, "is not the key of a node label"),
    ],
)
def test_an_unreadable_annotation_is_left_out_whole_and_named(
    name: str, value: str, fault: str
) -> None:
    terms = terms_of(pod_group(2, annotations={name: value}))
    assert (terms.required_key, terms.preferred_keys, terms.whole) == ("", (), True)
    assert terms.priority_class == ""
    (text,) = terms.ignored
    assert name in text
    assert fault in text
    assert len(text) < 300


def test_of_two_versions_of_an_object_the_newer_one_counts() -> None:
    groups = PodGroups()
    groups.set_object(native_group(3), ALPHA)
    group = groups.set_object(native_group(4), BETA)
    groups.set_object(native_group(5), ALPHA)
    assert group.terms is not None
    assert (group.terms.minimum, group.terms.resource) == (4, BETA)
    groups.set_object(native_group(6, uid="pg-2"), ALPHA)
    assert group.terms.minimum == 6, "another object of the name"


def test_the_late_deletion_of_a_predecessor_changes_nothing() -> None:
    groups = PodGroups()
    group = groups.set_object(native_group(3, uid="new"), ALPHA)
    assert groups.remove_object(native_group(3, uid="old")) is group
    assert group.terms is not None
    assert groups.remove_object(native_group(3, uid="new")) is None
    assert len(groups) == 0


def test_groups_of_one_name_in_both_worlds_are_two() -> None:
    groups = PodGroups()
    groups.set_object(pod_group(2))
    groups.set_object(native_group(3), ALPHA)
    groups.observe(member("a"), ours=True)
    groups.observe(member("b", "", field="g"), ours=True)
    assert {each.key.source: len(each) for each in groups} == {Source.CRD: 1, Source.NATIVE: 1}
    assert groups.validate() == []

"""Selectors of requests and of objects."""

from __future__ import annotations

import pytest

from simulator.errors import ApiError
from simulator.objects import JsonObject
from simulator.resources import ResourceTable
from simulator.selectors import compile_selectors, matches_selector, selector_text

_POD: JsonObject = {
    "metadata": {"name": "a", "namespace": "ns", "labels": {"app": "web", "tier": "2"}},
    "spec": {"nodeName": "n1", "schedulerName": "kubestow", "hostNetwork": True},
    "status": {"phase": "Running"},
}
_PODS = ResourceTable().of_kind("v1", "Pod").selectable


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("app=web", True),
        ("app==web", True),
        ("app=db", False),
        ("app!=db", True),
        ("gone!=x", True),
        ("app in (web, db)", True),
        ("app notin (web,db)", False),
        ("gone notin (x)", True),
        ("app", True),
        ("!app", False),
        ("!gone", True),
        ("tier>1", True),
        ("tier<1", False),
        ("app>1", False),
        ("app in (web,db),tier=2", True),
        ("app=web,tier=3", False),
    ],
)
def test_label_selectors(labels: str, expected: bool) -> None:
    predicate = compile_selectors(labels, "", _PODS)
    assert predicate is not None
    assert predicate(_POD) is expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("spec.nodeName=n1", True),
        ("spec.nodeName=", False),
        ("spec.nodeName!=n2", True),
        ("status.phase!=Succeeded,status.phase!=Failed", True),
        ("metadata.name=a,metadata.namespace=ns", True),
        ("spec.schedulerName=default-scheduler", False),
        ("spec.hostNetwork=true", True),
        ("status.nominatedNodeName=", True),
    ],
)
def test_field_selectors(fields: str, expected: bool) -> None:
    predicate = compile_selectors("", fields, _PODS)
    assert predicate is not None
    assert predicate(_POD) is expected


@pytest.mark.parametrize(
    ("labels", "fields", "message"),
    [
        ("a in (", "", "unable to parse requirement"),
        ("", "spec.foo=1", "field label not supported: spec.foo"),
        ("", "metadata.name", "can't understand"),
    ],
)
def test_a_selector_that_cannot_be_read_is_a_bad_request(
    labels: str, fields: str, message: str
) -> None:
    with pytest.raises(ApiError, match=message) as raised:
        compile_selectors(labels, fields, _PODS)
    assert raised.value.code == 400


def test_no_selector_restricts_nothing() -> None:
    assert compile_selectors("", "", _PODS) is None


@pytest.mark.parametrize(
    ("selector", "expected", "text"),
    [
        (None, False, "<none>"),
        ({}, True, "<none>"),
        ({"matchLabels": {"app": "web"}}, True, "app=web"),
        (
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]},
            True,
            "app notin (db)",
        ),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False, "!app"),
    ],
)
def test_selectors_of_objects(selector: JsonObject | None, expected: bool, text: str) -> None:
    assert matches_selector(selector, _POD["metadata"]["labels"]) is expected
    assert selector_text(selector) == text

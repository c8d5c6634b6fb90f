"""Bodies of requests to extenders and of their responses."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api import Pod
from scheduler.extenders.protocol import (
    ExtenderResultError,
    FilterResponse,
    MalformedResponseError,
    PrioritizeResponse,
    Victims,
    binding_request,
    nodes_request,
    parse_binding_response,
    parse_filter_response,
    parse_preemption_response,
    parse_prioritize_response,
    preemption_request,
)
from scheduler.framework.preemption import Candidate
from tests.unit.engine.harness import World

POD = b'{"metadata":{"name":"p"},"spec":{"unknown":1}}'


def pod(name: str) -> Pod:
    return World().pod(name)


def test_nodes_go_whole_or_by_name() -> None:
    whole = nodes_request(POD, ["a"], [b'{"metadata":{"name":"a"},"odd":2}'])
    assert whole == (
        b'{"Pod":' + POD + b',"Nodes":{"metadata":{},"items":[{"metadata":{"name":"a"},"odd":2}]}'
        b',"NodeNames":null}'
    )
    assert json.loads(nodes_request(POD, ["a", "b"], None)) == {
        "Pod": json.loads(POD),
        "Nodes": None,
        "NodeNames": ["a", "b"],
    }


@pytest.mark.parametrize("whole", [True, False])
def test_victims_go_whole_or_by_uid(whole: bool) -> None:
    candidate = Candidate("n", (pod("v"), pod("w")), 1)
    victims = [b'{"v":1}', b'{"w":1}'] if whole else None
    sent = json.loads(preemption_request(POD, [(candidate, victims)]))
    long = {"n": {"Pods": [{"v": 1}, {"w": 1}], "NumPDBViolations": 1}}
    short = {"n": {"Pods": [{"UID": "v"}, {"UID": "w"}], "NumPDBViolations": 1}}
    assert sent == {
        "Pod": json.loads(POD),
        "NodeNameToVictims": long if whole else None,
        "NodeNameToMetaVictims": None if whole else short,
    }


def test_a_binding_names_pod_and_node() -> None:
    assert json.loads(binding_request(pod("p"), "n")) == {
        "PodName": "p",
        "PodNamespace": "default",
        "PodUID": "p",
        "Node": "n",
    }


@pytest.mark.parametrize(
    ("response", "passing"),
    [
        ({"NodeNames": ["b", "a"]}, ("b", "a")),
        ({"nodenames": ["a"], "nodes": None}, ("a",)),
        ({"NodeNames": None, "Nodes": {"items": [{"metadata": {"name": "b"}, "x": 1}]}}, ("b",)),
        ({"NodeNames": ["a"], "Nodes": {"items": [{"metadata": {"name": "b"}}]}}, ("a",)),
        ({"NodeNames": ["a", "a"]}, ("a",)),
        ({"NodeNames": []}, ()),
        ({"Nodes": {"items": None}}, ()),
        ({}, ()),
        (None, ()),
        ({"Error": "", "More": [1]}, ()),
    ],
)  # fmt: skip
def test_nodes_that_pass(response: Any, passing: tuple[str, ...]) -> None:
    assert (
        parse_filter_response(json.dumps(response).encode(), ["a", "b"], names=True).passing
        == passing
    )


@pytest.mark.parametrize(
    ("response", "passing"),
    [
        ({"NodeNames": [], "Nodes": {"items": [{"metadata": {"name": "a"}}]}}, ("a",)),
        ({"NodeNames": "none", "Nodes": {"items": [{"metadata": {"name": "a"}}]}}, ("a",)),
        ({"NodeNames": ["a"]}, ()),
    ],
)  # fmt: skip
def test_names_of_an_extender_that_was_sent_nodes_mean_nothing(
    response: Any, passing: tuple[str, ...]
) -> None:
    assert (
        parse_filter_response(json.dumps(response).encode(), ["a", "b"], names=False).passing
        == passing
    )


def test_reasons_are_read_in_any_case() -> None:
    body = b'{"NODENAMES":[],"failedNodes":{"a":"x"},"FailedAndUnresolvableNodes":{"b":"y"}}'
    assert parse_filter_response(body, ["a", "b"], names=True) == FilterResponse(
        (), {"a": "x"}, {"b": "y"}
    )


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "malformed response"),
        (b"{", "malformed response"),
        (b"\xff", "malformed response"),
        (b'{"NodeNames":"a"}', "NodeNames: Expected `array | null`, got `str`"),
        (b'{"FailedNodes":["a"]}', "FailedNodes: Expected `object | null`, got `array`"),
        (b'{"Nodes":[]}', "Nodes: Expected `object | null`, got `array`"),
        (b'{"NodeNames":["x","y","z","q","r"]}',
         'a filtered node "x", "y", "z" and 2 more which is not found in the input node list'),
    ],
)  # fmt: skip
def test_filter_responses_that_cannot_be_used(body: bytes, text: str) -> None:
    with pytest.raises(MalformedResponseError) as caught:
        parse_filter_response(body, ["a"], names=True)
    assert text in str(caught.value)


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,ae10Nn', max_size=40).map(str.encode))
def test_whatever_the_body_it_is_parsed_or_malformed(body: bytes) -> None:
    for read in (
        lambda: parse_filter_response(body, ["a"], names=True),
        lambda: parse_prioritize_response(body, ["a"]),
        lambda: parse_preemption_response(body),
        lambda: parse_binding_response(body),
    ):
        # Any other exception fails the test.
        with suppress(MalformedResponseError):
            read()


def test_scores() -> None:
    body = b'[{"Host":"a","Score":10},{"host":"b","score":0}]'
    assert parse_prioritize_response(body, ["a", "b", "c"]) == PrioritizeResponse({"a": 10, "b": 0})
    assert parse_prioritize_response(b"null", ["a"]) == PrioritizeResponse({})
    assert parse_prioritize_response(b'[{"Host":"a"}]', ["a"]) == PrioritizeResponse({"a": 0})


@pytest.mark.parametrize(
    ("body", "scores", "unusual"),
    [
        (b'[{"Host":"a","Score":11}]', {"a": 11}, 'gives node "a" the score 11'),
        (b'[{"Host":"a","Score":-1}]', {"a": -1}, "not in the range of [0, 10]"),
        (b'[{"Host":"z","Score":1}]', {}, 'scores a node "z" that was not sent to it'),
    ],
)
def test_unusual_scores(body: bytes, scores: dict[str, int], unusual: str) -> None:
    response = parse_prioritize_response(body, ["a", "b"])
    assert response.scores == scores
    assert unusual in response.unusual


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'[{"Host":"a","Score":1.5}]', "[0].Score: Expected `int | null`, got `float`"),
        (b'[{"Host":"a"},{"Host":"b","Score":"1"}]', "[1].Score: Expected `int | null`"),
        (b'{"a":1}', "Expected `array | null`, got `object`"),
    ],
)
def test_scores_that_cannot_be_used(body: bytes, text: str) -> None:
    with pytest.raises(MalformedResponseError) as caught:
        parse_prioritize_response(body, ["a", "b"])
    assert text in str(caught.value)


def test_victims() -> None:
    body = (
        b'{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"u"},{"uid":"v"}],"NumPDBViolations":2},'
        b'"b":{"Pods":null},"c":null}}'
    )
    assert parse_preemption_response(body) == {
        "a": Victims(("u", "v"), 2),
        "b": Victims(),
        "c": Victims(),
    }
    assert parse_preemption_response(b'{"NodeNameToMetaVictims":null}') == {}


def test_an_error_that_the_extender_reports_has_an_error_class_of_its_own() -> None:
    parse_binding_response(b'{"Error":""}')
    with pytest.raises(ExtenderResultError, match="full"):
        parse_binding_response(b'{"error":"full"}')
    with pytest.raises(ExtenderResultError, match="full"):
        parse_filter_response(b'{"Error":"full","NodeNames":["unknown"]}', [], names=True)

"""`restrict`: what a user gets who may only read the pods of one namespace.

The property that matters: a name that the user may not know is nowhere in the encoded answer.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.service.serving.readers import (
    HIDDEN,
    Names,
    Reader,
    namespace_of,
    restrict,
    restricted,
)

OURS, OTHERS = "team-a", "team-b"
NAMES = Names(
    ("n1", "ip-10-0-0-1.ec2.internal", "node-7"),
    (f"{OURS}/web-0", f"{OURS}/n1-proxy", f"{OTHERS}/db-0", "kube-system/dns"),
)
NARROW, WITH_NODES, ALL = Reader(OURS), Reader(OURS, nodes=True), Reader(OURS, True, True)


def text(value: str, reader: Reader = NARROW) -> str:
    page = {"kind": "PodExplanation", "pod": {"namespace": OURS, "summary": value}}
    found: str = restrict(page, reader, NAMES)["pod"]["summary"]
    return found


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("bound to node n1 since noon", "bound to node (hidden) since noon"),
        ("n1, node-7.", "(hidden), (hidden)."),
        ("on ip-10-0-0-1.ec2.internal.", "on (hidden)."),
        ("kubernetes.io/hostname=n1", "kubernetes.io/hostname=(hidden)"),
        ("node N1: n10, xn1, n1x stay", "node (hidden): n10, xn1, n1x stay"),
        ("the volume pvc-n1-data", "the volume pvc-(hidden)-data"),
        ("evicts team-b/db-0 and team-b/unknown", "evicts (hidden) and (hidden)"),
        ("matched by db-0", "matched by (hidden)"),
        ("our team-a/web-0 and web-0", "our team-a/web-0 and web-0"),
        ("our own n1-proxy", "our own n1-proxy"),
        ("0/3 nodes are available: 1 Insufficient example.com/gpu.",) * 2,
        ("", ""),
    ],
)
def test_names_are_removed_from_texts(given: str, shown: str) -> None:
    assert text(given) == shown


def test_who_may_list_nodes_sees_nodes_and_who_may_get_all_pods_sees_pods() -> None:
    assert text("n1 and team-b/db-0", WITH_NODES) == "n1 and (hidden)"
    assert text("n1 and team-b/db-0", ALL) == "n1 and team-b/db-0"


@pytest.mark.parametrize(
    ("path", "query", "namespace"),
    [
        ("/debug/explain", {"pod": "team-a/web"}, "team-a"),
        ("/debug/decisions", {"pod": "team-a/web"}, "team-a"),
        ("/debug/queue", {"namespace": "team-a"}, "team-a"),
        ("/debug/queue", {"pod": "team-a/web"}, ""),
        ("/debug/queue", {"namespace": "team-a/.."}, ""),
        ("/debug/queue", {"namespace": "x" * 64}, ""),
        ("/debug/explain", {"pod": "/web"}, ""),
        ("/debug/decisions", {}, ""),
        ("/debug/statistics", {"namespace": "team-a"}, ""),
        ("/debug/nodes", {"namespace": "team-a"}, ""),
        ("/debug/bundle", {"namespace": "team-a"}, ""),
        ("/metrics", {"namespace": "team-a"}, ""),
    ],
)
def test_only_three_pages_are_about_one_namespace(
    path: str, query: dict[str, str], namespace: str
) -> None:
    assert namespace_of(path, query) == namespace


def test_a_parameter_that_such_a_page_does_not_know_is_dropped() -> None:
    assert restricted({"pod": "team-a/web", "node": "n1"}) == {"pod": "team-a/web"}


def view(namespace: str, name: str, place: str = "active") -> dict[str, Any]:
    return {"namespace": namespace, "name": name, "place": place, "position": 41}


def test_a_queue_shows_the_pods_of_the_namespace_and_counts_only_these() -> None:
    page = {
        "kind": "QueueList",
        "statistics": {"active": 9, "in_flight": 3, "events": 7, "closed": False, "names": ["x"]},
        "pods": [view(OURS, "web-0"), view(OTHERS, "db-0"), view(OURS, "web-1", "in-flight")],
    }
    found = restrict(page, NARROW, NAMES)
    assert [each["name"] for each in found["pods"]] == ["web-0", "web-1"]
    assert {each["position"] for each in found["pods"]} == {None}
    assert found["statistics"] == {
        "active": 1,
        "in_flight": 1,
        "events": 0,
        "closed": False,
        "names": [],
    }


def test_decisions_are_those_of_the_namespace_without_their_sequence_numbers() -> None:
    decisions = [
        {"seq": 7, "pod": "team-a/web-0", "node": "n1", "victims": ["team-b/db-0", "team-a/web-0"]},
        {"seq": 8, "pod": "team-b/db-0", "node": "n1"},
    ]
    page = {"kind": "DecisionList", "decisions": decisions}
    assert restrict(page, NARROW, NAMES)["decisions"] == [
        {"seq": 0, "pod": "team-a/web-0", "node": HIDDEN, "victims": [HIDDEN, "team-a/web-0"]}
    ]


@pytest.mark.parametrize(
    "page", [{"kind": "Summary"}, {"kind": "PodExplanation", "pod": {"namespace": OTHERS}}, {}]
)
def test_another_page_is_never_shown(page: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="namespace"):
        restrict(page, ALL, NAMES)


# -- the property --------------------------------------------------------------------------------

LABELS = st.from_regex(r"q[0-9][a-z0-9]{0,2}(-[a-z0-9]{1,3}){0,2}", fullmatch=True)
HOSTS = st.lists(LABELS, min_size=1, max_size=3).map(".".join)
BETWEEN = st.sampled_from([" ", ", ", "/", ".", "-", "=", "'", '"', ": ", "\n", "_", "()", "--"])


@st.composite
def cases(draw: st.DrawFn) -> tuple[Names, str]:
    """Return the names of a cluster, and a text that is made of them."""
    nodes = draw(st.lists(HOSTS, max_size=4))
    pods = draw(st.lists(st.tuples(st.sampled_from([OURS, OTHERS]), HOSTS), max_size=4))
    keys = [f"{namespace}/{name}" for namespace, name in pods]
    words = st.sampled_from(
        [*nodes, *keys, *(name for _, name in pods), "Insufficient", "qa1x", "q"]
    )
    parts = draw(st.lists(st.tuples(BETWEEN, words), max_size=8))
    return Names(nodes, keys), "".join(each for part in parts for each in part)


@given(cases(), st.booleans())
def test_no_forbidden_name_is_anywhere_in_the_encoded_answer(
    case: tuple[Names, str], nodes: bool
) -> None:
    names, given = case
    pod = {
        "namespace": OURS,
        "name": "own",
        "node": given,
        "nodes": {"best": [{"node": given}], "explanations": {"Plugin": [given]}, given: [given]},
    }
    reader = Reader(OURS, nodes=nodes)
    page = {"kind": "PodExplanation", "pod": pod}
    encoded = msgspec.json.encode(restrict(page, reader, names)).decode().lower()
    own = {key.partition("/")[2] for key in names.pods if key.startswith(f"{OURS}/")}
    forbidden = {key.partition("/")[2] for key in names.pods if key.startswith(f"{OTHERS}/")}
    if not nodes:
        forbidden |= set(names.nodes)
    # Where an own name begins or ends, a part of it may look like another name.
    for each in sorted(own, key=len, reverse=True):
        encoded = re.sub(rf"(?<![a-z0-9]){re.escape(each)}(?![a-z0-9])", "~", encoded)
    for each in forbidden - own:
        assert not re.search(rf"(?<![a-z0-9]){re.escape(each)}(?![a-z0-9])", encoded)

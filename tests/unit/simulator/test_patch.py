"""JSON patch, merge patch, strategic merge patch and apply, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.api.stored.merging import Merger, PatchError, merge_patch
from simulator.errors import ApiError
from simulator.objects import JsonObject, copy_tree
from simulator.patch import json_patch


@pytest.mark.parametrize(
    ("tree", "patch", "expected"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": "text"}, {"a": {"b": {"c": None, "d": 1}}}, {"a": {"b": {"d": 1}}}),
        ({}, {"a": None}, {}),
    ],
)
def test_merge_patch(tree: JsonObject, patch: JsonObject, expected: JsonObject) -> None:
    before = copy_tree(tree)
    assert merge_patch(tree, patch) == expected
    assert tree == before


_TREE: JsonObject = {"a": {"b/c": 1, "~": 2}, "list": [1, 2, 3]}


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "add", "path": "/x", "value": 1}], {**_TREE, "x": 1}),
        ([{"op": "replace", "path": "/a/b~1c", "value": 9}], {**_TREE, "a": {"b/c": 9, "~": 2}}),
        ([{"op": "remove", "path": "/a/~0"}], {**_TREE, "a": {"b/c": 1}}),
        ([{"op": "add", "path": "/list/-", "value": 4}], {**_TREE, "list": [1, 2, 3, 4]}),
        ([{"op": "add", "path": "/list/0", "value": 0}], {**_TREE, "list": [0, 1, 2, 3]}),
        ([{"op": "remove", "path": "/list/1"}], {**_TREE, "list": [1, 3]}),
        (
            [{"op": "move", "from": "/list/0", "path": "/first"}],
            {**_TREE, "list": [2, 3], "first": 1},
        ),
        ([{"op": "copy", "from": "/a", "path": "/b"}], {**_TREE, "b": _TREE["a"]}),
        ([{"op": "test", "path": "/list/2", "value": 3}], _TREE),
    ],
)
def test_json_patch(operations: list[dict[str, Any]], expected: JsonObject) -> None:
    before = copy_tree(_TREE)
    assert json_patch(_TREE, operations) == expected
    assert before == _TREE


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([{"op": "test", "path": "/list/2", "value": 4}], 422),
        ([{"op": "remove", "path": "/nope"}], 422),
        ([{"op": "replace", "path": "/list/3", "value": 1}], 422),
        ([{"op": "add", "path": "/list/x", "value": 1}], 422),
        ([{"op": "add", "path": "/list/0/deep", "value": 1}], 422),
        ([{"op": "replace", "path": "", "value": 1}], 422),
        ([{"op": "frobnicate", "path": "/a"}], 400),
        ([{"op": "add", "path": "a", "value": 1}], 400),
    ],
)
def test_json_patch_that_does_not_fit(operations: list[dict[str, Any]], code: int) -> None:
    with pytest.raises(ApiError) as raised:
        json_patch(_TREE, operations)
    assert raised.value.code == code


_STRATEGIC: list[tuple[str, JsonObject, JsonObject, JsonObject]] = [
    (
        "conditions merge by type, new ones go first",
        {"conditions": [{"type": "A", "status": "False", "x": 1}]},
        {"conditions": [{"type": "B", "status": "True"}, {"type": "A", "status": "True"}]},
        {"conditions": [{"type": "B", "status": "True"}, {"type": "A", "status": "True", "x": 1}]},
    ),
    (
        "gates are deleted by name",
        {"spec": {"schedulingGates": [{"name": "a"}, {"name": "b"}]}},
        {"spec": {"schedulingGates": [{"name": "a", "$patch": "delete"}]}},
        {"spec": {"schedulingGates": [{"name": "b"}]}},
    ),
    (
        "deleting what is not there changes nothing",
        {"spec": {"schedulingGates": [{"name": "b"}]}},
        {"spec": {"schedulingGates": [{"name": "a", "$patch": "delete"}]}},
        {"spec": {"schedulingGates": [{"name": "b"}]}},
    ),
    (
        "containers merge by name, their ports by containerPort",
        {"containers": [{"name": "c", "image": "1", "ports": [{"containerPort": 80}]}]},
        {
            "containers": [
                {"name": "c", "image": "2", "ports": [{"containerPort": 80, "name": "w"}]}
            ]
        },
        {
            "containers": [
                {"name": "c", "image": "2", "ports": [{"containerPort": 80, "name": "w"}]}
            ]
        },
    ),
    (
        "ports of a service merge by port",
        {"spec": {"ports": [{"port": 80, "name": "a"}]}},
        {"spec": {"ports": [{"port": 80, "nodePort": 1}]}},
        {"spec": {"ports": [{"port": 80, "name": "a", "nodePort": 1}]}},
    ),
    (
        "tolerations and taints are atomic",
        {"spec": {"tolerations": [{"key": "a"}], "taints": [{"key": "a"}]}},
        {"spec": {"tolerations": [{"key": "b"}], "taints": []}},
        {"spec": {"tolerations": [{"key": "b"}], "taints": []}},
    ),
    (
        "finalizers are a set, with a directive to take some out",
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"finalizers": ["b", "c"], "$deleteFromPrimitiveList/finalizers": ["a"]}},
        {"metadata": {"finalizers": ["b", "c"]}},
    ),
    (
        "retainKeys drops the other members",
        {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}},
        {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
        {"spec": {"strategy": {"type": "Recreate"}}},
    ),
    (
        "setElementOrder orders what it names",
        {"containers": [{"name": "a"}, {"name": "b"}]},
        {
            "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}, {"name": "c"}],
            "containers": [{"name": "c"}],
        },
        {"containers": [{"name": "b"}, {"name": "a"}, {"name": "c"}]},
    ),
    (
        "patch: replace replaces an object",
        {"nodeSelector": {"a": "1"}},
        {"nodeSelector": {"$patch": "replace", "b": "2"}},
        {"nodeSelector": {"b": "2"}},
    ),
    (
        "patch: replace in a list replaces the list",
        {"containers": [{"name": "a"}]},
        {"containers": [{"name": "b"}, {"$patch": "replace"}]},
        {"containers": [{"name": "b"}]},
    ),
    ("null removes", {"a": {"b": 1}}, {"a": None}, {}),
]


@pytest.mark.parametrize(
    ("tree", "patch", "expected"),
    [row[1:] for row in _STRATEGIC],
    ids=[row[0] for row in _STRATEGIC],
)
def test_strategic_merge(tree: JsonObject, patch: JsonObject, expected: JsonObject) -> None:
    before = copy_tree(tree)
    assert Merger().merge(tree, patch) == expected
    assert tree == before


def test_a_keyed_entry_without_its_key_is_refused() -> None:
    with pytest.raises(PatchError, match="merge key: name"):
        Merger().merge({}, {"containers": [{"image": "x"}]})


def test_an_unknown_directive_is_refused() -> None:
    with pytest.raises(PatchError, match="Unknown patch type"):
        Merger().merge({}, {"spec": {"$patch": "shuffle"}})


_LIVE: JsonObject = {
    "metadata": {"labels": {"mine": "1", "theirs": "2"}},
    "spec": {
        "replicas": 3,
        "containers": [{"name": "c", "image": "1", "pulled": True}, {"name": "side", "image": "s"}],
        "tolerations": [{"key": "t"}],
    },
}
_BEFORE: JsonObject = {
    "metadata": {"labels": {"mine": "1"}},
    "spec": {
        "replicas": 3,
        "containers": [{"name": "c", "image": "1"}],
        "tolerations": [{"key": "t"}],
    },
}


def test_apply_removes_only_what_its_manager_dropped() -> None:
    wanted = {"spec": {"containers": [{"name": "d", "image": "2"}]}}
    assert Merger(new_first=False).apply(_LIVE, wanted, _BEFORE) == {
        "metadata": {"labels": {"theirs": "2"}},
        "spec": {"containers": [{"name": "side", "image": "s"}, {"name": "d", "image": "2"}]},
    }


def test_apply_keeps_what_others_set_on_a_shared_entry() -> None:
    wanted = copy_tree(_BEFORE)
    wanted["spec"]["containers"][0]["image"] = "9"
    applied = Merger(new_first=False).apply(_LIVE, wanted, _BEFORE)
    assert applied["spec"]["containers"][0] == {"name": "c", "image": "9", "pulled": True}
    assert applied["metadata"] == _LIVE["metadata"]


def test_a_first_apply_only_merges() -> None:
    assert Merger(new_first=False).apply(_LIVE, {"spec": {"replicas": 1}}, None) == {
        **_LIVE,
        "spec": {**_LIVE["spec"], "replicas": 1},
    }

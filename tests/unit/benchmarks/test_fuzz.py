"""The fuzzer's own parts: what it draws, what it hears, what it calls a difference."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from benchmarks.fuzz.comparing import differences, ours, vector
from benchmarks.fuzz.kube_scheduler import Verdict
from benchmarks.fuzz.profiles import only, profiles
from benchmarks.fuzz.proxy import read_write
from benchmarks.fuzz.shrinking import readable, shrink
from benchmarks.fuzz.worlds import FAMILIES, MutatedWorld, drawn
from devtools.conformance.observing import Observation
from devtools.conformance.reading import VECTORS

Object = dict[str, Any]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_gives_the_same_world_each_time_and_another_seed_another(family: str) -> None:
    assert drawn(family, 3, 4) == drawn(family, 3, 4)
    assert drawn(family, 3, 4) != drawn(family, 4, 4)


@pytest.mark.parametrize("family", FAMILIES)
def test_our_engine_decides_about_everything_that_is_drawn(family: str) -> None:
    world = drawn(family, 5, 3)
    for index, pod in enumerate(world.incoming):
        stored = copy.deepcopy(pod)
        stored["metadata"]["uid"] = f"uid-{index}"
        config = only(profiles(), pod["spec"]["schedulerName"])
        seen = ours(vector(_with_uids(world.objects), stored, config))
        assert seen.actual["outcome"] in ("scheduled", "unschedulable", "error")


@pytest.mark.slow
def test_crossed_worlds_have_no_pods_that_wait_and_no_pods_with_a_place_come_in() -> None:
    crossing = MutatedWorld(VECTORS)
    for family in crossing.families:
        world = crossing.world(family, 1, 5)
        assert all(each["spec"]["nodeName"] for each in world.objects["pods"])
        assert not any("nodeName" in each["spec"] for each in world.incoming)
    names = {each["schedulerName"] for each in crossing.profiles}
    assert len(names) == len(crossing.profiles) > 50


@pytest.mark.parametrize(
    ("path", "resource", "subresource", "namespace", "name"),
    [
        ("/api/v1/namespaces/a/pods/p/binding", "pods", "binding", "a", "p"),
        ("/api/v1/persistentvolumes/v", "persistentvolumes", "", "", "v"),
        ("/apis/events.k8s.io/v1/namespaces/a/events", "events", "", "a", ""),
        ("/api/v1/namespaces/a", "namespaces", "", "", "a"),
    ],
)
def test_a_write_is_taken_apart(
    path: str, resource: str, subresource: str, namespace: str, name: str
) -> None:
    write = read_write("POST", path, b'{"a": 1}')
    assert (write.resource, write.subresource) == (resource, subresource)
    assert (write.namespace, write.name, write.body) == (namespace, name, {"a": 1})


def _node(name: str, cpu: str) -> Object:
    resources = {"cpu": cpu, "memory": "4Gi", "pods": "10"}
    return {"metadata": {"name": name, "uid": name}, "status": {"allocatable": resources}}


def _pod(name: str, cpu: str, **spec: Any) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"schedulerName": "default-scheduler", "containers": [container], **spec},
    }


def _case(incoming: Object, *pods: Object) -> tuple[Object, Observation]:
    objects = {"nodes": [_node("a", "2"), _node("b", "1")], "pods": list(pods)}
    given = vector(objects, incoming, only(profiles(), "default-scheduler"))
    return given, ours(given)


def _agreeing(seen: Observation) -> Verdict:
    actual = seen.actual
    score = actual["score"]
    scores = {
        name: {node: each["weight"] * value for node, value in each["normalized"].items()}
        for name, each in score["plugins"].items()
    }
    return Verdict(
        scheduled=True, node=actual["selectedNodeOptions"][0], scores=scores,
        totals=dict(score["total"]),
    )  # fmt: skip


def test_equal_placements_do_not_differ_and_a_score_that_is_off_by_one_does() -> None:
    given, seen = _case(_pod("p", "500m"))
    verdict = _agreeing(seen)
    assert list(differences(given, verdict, seen)) == []

    verdict.scores["NodeResourcesFit"]["a"] += 1
    (line,) = differences(given, verdict, seen)
    assert line.startswith("score of NodeResourcesFit (theirs, ours): {'a': ")


def test_a_message_must_be_equal_to_the_letter() -> None:
    given, seen = _case(_pod("p", "64"))
    message = seen.actual["message"]
    equal = Verdict(reason="Unschedulable", message=message)
    other = Verdict(reason="Unschedulable", message=message.replace("2 Ins", "1 Ins"))
    assert list(differences(given, equal, seen)) == []
    (line,) = differences(given, other, seen)
    assert line.startswith("message: ")


def test_victims_must_be_the_same_but_for_those_that_are_leaving_already() -> None:
    victim = _pod("victim", "1", nodeName="a", priority=1)
    leaving = _pod("leaving", "1", nodeName="a", priority=1)
    leaving["metadata"]["deletionTimestamp"] = "2026-10-10T00:00:00Z"
    given, seen = _case(_pod("p", "2", priority=5), victim, leaving)
    verdict = Verdict(
        reason="Unschedulable", message=seen.actual["message"], nominated="a",
        victims={"default/victim"},
    )  # fmt: skip
    assert list(differences(given, verdict, seen)) == []

    verdict.victims = {"default/victim", "default/leaving"}
    (line,) = differences(given, verdict, seen)
    assert line.startswith("victims on a: ")


def test_shrinking_keeps_what_the_difference_needs_and_stops_after_its_tries() -> None:
    objects = {"pods": [{"n": index} for index in range(9)], "nodes": [{"n": 1}, {"n": 2}]}

    async def shows(fewer: dict[str, list[Object]]) -> bool:
        return {"n": 4} in fewer["pods"] and {"n": 2} in fewer["nodes"]

    assert asyncio.run(shrink(objects, shows, 100)) == {"pods": [{"n": 4}], "nodes": [{"n": 2}]}
    assert asyncio.run(shrink(objects, shows, 0)) == objects


def test_a_reproduction_has_no_empty_lists_and_no_managed_fields() -> None:
    pod = _pod("p", "1")
    pod["metadata"]["managedFields"] = [{}]
    given = vector({"nodes": [_node("a", "1")], "services": []}, pod, {})
    shown = readable(given)
    assert list(shown["objects"]) == ["nodes"]
    assert "managedFields" not in shown["pod"]["metadata"]


def _with_uids(objects: dict[str, list[Object]]) -> dict[str, list[Object]]:
    found = copy.deepcopy(objects)
    for kind, listed in found.items():
        for index, each in enumerate(listed):
            each["metadata"]["uid"] = f"{kind}-{index}"
            if each["metadata"].get("deletionTimestamp") == "now":
                each["metadata"]["deletionTimestamp"] = "2026-10-10T00:00:00Z"
    return found

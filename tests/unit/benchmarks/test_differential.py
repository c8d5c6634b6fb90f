"""Two answers to one random world: what counts as a difference and what as a violation."""

from __future__ import annotations

from typing import Any

from benchmarks.differential import Placement, World, compare, draw, evaluate, reasons


def placement(
    world: World, places: dict[str, str], messages: dict[str, str] | None = None
) -> Placement:
    pods: dict[str, Any] = {}
    for workload in world.workloads:
        for pod in workload.pods:
            name = pod["metadata"]["name"]
            node = places.get(name, "")
            spec = {**pod["spec"], **({"nodeName": node} if node else {})}
            told = {"type": "PodScheduled", "message": (messages or {}).get(name, "")}
            pods[name] = {**pod, "spec": spec, "status": {"conditions": [told]}}
    return Placement("x", world.nodes, pods)


def hopeless_pods(world: World) -> list[str]:
    return [p["metadata"]["name"] for w in world.workloads if w.hopeless for p in w.pods]


def test_a_world_depends_on_its_seed_only() -> None:
    assert draw(5, 10, 12) == draw(5, 10, 12)
    assert draw(5, 10, 12) != draw(6, 10, 12)


def test_messages_of_hopeless_pods_must_be_equal_to_the_letter() -> None:
    world = draw(1, 10, 30)
    first, *_ = hopeless_pods(world)
    ours = placement(world, {}, {first: "0/10 nodes are available: 10 Insufficient cpu."})
    theirs = placement(world, {}, {first: "0/10 nodes are available: 9 Insufficient cpu."})

    found = compare(1, world, ours, theirs)

    assert [each[0] for each in found.unequal] == [first]
    assert found.compared == len(hopeless_pods(world))
    assert not compare(1, world, ours, ours).unequal


def test_reasons_are_compared_without_numbers() -> None:
    assert reasons("0/3 nodes are available: 1 A, 2 B b. preemption: none") == {"A", "B b"}


def test_violated_anti_affinity_and_full_nodes_are_violations() -> None:
    world = draw(3, 8, 60)
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    crowded = next(
        workload
        for workload in world.workloads
        if len(workload.pods) > 1
        and required in workload.pods[0]["spec"].get("affinity", {}).get("podAntiAffinity", {})
    )
    names = [pod["metadata"]["name"] for pod in crowded.pods]

    quality = evaluate(world, placement(world, dict.fromkeys(names, "node-0000")))

    assert f"{crowded.name}: two pods on a host against their anti-affinity" in quality.violations
    assert quality.placed == len(names)
    every = [p["metadata"]["name"] for w in world.workloads for p in w.pods]
    crammed = evaluate(world, placement(world, dict.fromkeys(every, "node-0000")))
    assert "node-0000 (pods) overfilled" in crammed.violations

"""Judge remedies: look for them in one offline world, carry them out in another.

The worlds are those of `benchmarks.fuzz`. A pod comes into a world in which no other waits. If it
is not placed, its remedies are looked for in trials; then a world is built anew for each remedy,
with its changes made to the manifests, and scheduled as a cluster would be.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

import yaml

from benchmarks.fuzz.profiles import HEAD, for_kubestow, own_name, profiles
from benchmarks.fuzz.worlds import FAMILIES, drawn
from devtools.conformance.world import KINDS
from scheduler import offline
from scheduler.explain.records import Change, Remedies, Step
from scheduler.explain.what_if.changes import applied, resource_of
from scheduler.explain.what_if.remedies.search import ChangeSearch

Object = dict[str, Any]
Objects = dict[tuple[str, str], Object]

PODS: Final = 4
"""Pods that come into each world, one at a time."""
_DELETED: Final = "2026-10-01T00:00:00Z"


@dataclass(slots=True)
class Judgement:
    """The counts of all worlds."""

    worlds: int = 0
    pods: int = 0
    pending: int = 0
    helped: int = 0
    remedies: int = 0
    trials: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    #: Texts of the remedies that did not place their pod.
    wrong: list[str] = field(default_factory=list)
    #: Pods without a remedy, with the reason why they wait.
    helpless: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Return the share of pending pods that have a remedy."""
        return self.helped / self.pending if self.pending else 1.0


def judge(worlds: Sequence[tuple[str, int]]) -> Judgement:
    """Judge the remedies of all pods of these worlds: (family, seed)."""
    found = Judgement()
    for family, seed in worlds:
        found.worlds += 1
        world = drawn(family, seed, PODS)
        objects = dict(_completed(world.objects))
        for incoming in world.incoming:
            found.pods += 1
            _judge_pod(found, f"{family} {seed}", objects, _own(incoming))
    return found


def worlds(count: int, first_seed: int = 0) -> list[tuple[str, int]]:
    """Return families and seeds of `count` worlds, every family in turn."""
    return [(FAMILIES[i % len(FAMILIES)], first_seed + i // len(FAMILIES)) for i in range(count)]


def _judge_pod(found: Judgement, where: str, objects: Objects, pod: Object) -> None:
    name = f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"
    reason, remedies, evicted = _remedies(objects, pod, name)
    # Preemption may have helped others of the pod's nodes already, and not sufficed.
    objects = {key: each for key, each in objects.items() if key not in evicted}
    if remedies is None:
        return
    found.pending += 1
    found.trials += remedies.tried
    right = 0
    for each in remedies.remedies:
        found.remedies += 1
        outcome = _placed(objects, pod, name, (*remedies.first, *each.steps))
        if outcome:
            found.wrong.append(f"{where} {name}: {each.text}: {outcome}")
        else:
            right += 1
            found.codes.update(each.codes)
    if right:
        found.helped += 1
    else:
        found.helpless.append(f"{where} {name}: {reason}")


def _remedies(
    objects: Objects, pod: Object, name: str
) -> tuple[str, Remedies | None, set[tuple[str, str]]]:
    """Return why a pod waits, its remedies (None if it does not wait), and who was evicted."""
    with _world([*objects.values(), pod]) as world:
        result = world.schedule()
        outcome = next((e for e in result if e.pod == name), None)
        if not isinstance(outcome, offline.Waiting):
            return "", None, set()
        evicted = {("Pod", each.pod) for each in result.evicted}
        parts = world._assembly.trial_parts()
        search = ChangeSearch(parts, name).run()
        while True:
            try:
                next(search)
            except StopIteration as end:
                return outcome.reason, end.value, evicted


def _placed(objects: Objects, pod: Object, name: str, steps: Sequence[Step]) -> str:
    """Carry out a remedy in a fresh world; return why the pod is not placed, empty if it is."""
    changed = copy.deepcopy({**objects, ("Pod", name): pod})
    for step in steps:
        for change in step.changes:
            _apply(changed, change)
    with _world(list(changed.values())) as world:
        outcome = world.schedule()[name]
        return "" if isinstance(outcome, offline.Placement) else f"{outcome.state} {outcome.reason}"


def _apply(objects: Objects, change: Change) -> None:
    key = change.kind, change.name
    if change.action == "remove":
        del objects[key]
    elif change.action == "set":
        objects[key] = applied(change, objects[key])
    else:
        version = resource_of(change.kind).api_version
        objects[key] = {"apiVersion": version, "kind": change.kind, **change.value}


def _world(objects: Sequence[Object]) -> offline.World:
    world = offline.World(config=_config(), seed=1)
    for each in objects:
        try:
            world.add(each)
        except offline.WorldError:
            # An API server refuses it as well.
            continue
    return world


@cache
def _config() -> Path:
    with NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
        yaml.safe_dump({**HEAD, **for_kubestow(profiles())}, file)
    return Path(file.name)


def _completed(objects: Mapping[str, Sequence[Object]]) -> Iterator[tuple[tuple[str, str], Object]]:
    """Yield the objects of a world by kind and name, as an API server would store them."""
    for plural, listed in objects.items():
        version, kind = KINDS[plural]
        for each in listed:
            made = copy.deepcopy({"apiVersion": version, "kind": kind, **each})
            metadata = made["metadata"]
            if "deletionTimestamp" in metadata:
                metadata["deletionTimestamp"] = _DELETED
            if kind == "Pod":
                made = _own(made)
            namespaced = resource_of(kind).namespaced
            space = f"{metadata.setdefault('namespace', 'default')}/" if namespaced else ""
            yield (kind, f"{space}{metadata['name']}"), made


def _own(pod: Object) -> Object:
    """Return a pod with the name of the same profile here, and a UID that stays the same.

    Without, worlds number their objects, and a claim made for the pod in a trial would belong to
    another pod in a world with an object less.
    """
    made = copy.deepcopy(pod)
    metadata = made["metadata"]
    metadata.setdefault("uid", f"{metadata.get('namespace', 'default')}/{metadata['name']}")
    made["spec"]["schedulerName"] = own_name(made["spec"].get("schedulerName", "default-scheduler"))
    return made

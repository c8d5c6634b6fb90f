"""Comparison of a decision of kube-scheduler with ours about the same objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.fuzz.kube_scheduler import Verdict
from devtools.conformance.observing import Observation, observe
from devtools.conformance.world import World

Object = dict[str, Any]


def vector(objects: Object, pod: Object, config: Object) -> Object:
    """Return the input of both schedulers in the form of a conformance vector."""
    given = {"objects": objects, "pod": pod, "config": config}
    return {"id": "fuzz", "input": _without_nulls(given)}


def _without_nulls(value: Any) -> Any:
    """Return a value without nulls, as the client decodes it."""
    if isinstance(value, dict):
        return {k: _without_nulls(each) for k, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value


def ours(given: Object) -> Observation:
    """Return the decision of our engine, computed in process."""
    return observe(World(given))


def differences(given: Object, theirs: Verdict, mine: Observation) -> Iterator[str]:
    """Yield every difference between the two decisions, one line each."""
    actual = mine.actual
    scored = "error" not in actual.get("score", {"error": "nothing was scored"})
    if scored or (not theirs.scheduled and actual["outcome"] != "error"):
        yield from (f"forms: {each}" for each in mine.forms)
    yield from (f"reuse: {each}" for each in mine.reuse)
    outcome = "scheduled" if theirs.scheduled else "unschedulable"
    if theirs.reason == "SchedulerError" and not theirs.scheduled:
        outcome = "error"
    if actual["outcome"] != outcome:
        reason, text = theirs.message or theirs.node, actual.get("message")
        yield f"outcome: theirs {outcome} ({reason}), ours {actual['outcome']} ({text})"
        return
    if theirs.scheduled:
        yield from _placement(theirs, actual, scored=scored)
        return
    if actual.get("message") != theirs.message:
        yield f"message: theirs {theirs.message!r}, ours {actual.get('message')!r}"
    yield from _preemption(given, theirs, actual.get("postFilter", {}))


def own_differences(verdict: Verdict, mine: Observation) -> Iterator[str]:
    """Return differences between the running process and our engine on a fresh node table."""
    actual = mine.actual
    if verdict.scheduled != (actual["outcome"] == "scheduled"):
        outcome = verdict.message or verdict.node
        yield f"process: {outcome}, engine {actual['outcome']} ({actual.get('message')})"
    elif verdict.scheduled:
        options = actual["selectedNodeOptions"]
        if verdict.node and verdict.node not in options:
            yield f"process: {verdict.node}, engine one of {options}"
    elif not verdict.message.startswith(actual["message"]):
        yield f"process: {verdict.message!r}, engine {actual['message']!r}"
    elif bool(verdict.nominated) != bool(actual.get("postFilter", {}).get("nominatedNode")):
        yield f"process: nominated {verdict.nominated!r}, engine {actual.get('postFilter')}"


def _placement(theirs: Verdict, actual: Mapping[str, Any], *, scored: bool) -> Iterator[str]:
    options = actual["selectedNodeOptions"]
    if theirs.node and theirs.node not in options:
        yield f"node: theirs {theirs.node}, ours one of {options}"
    if not theirs.totals:
        # One node is taken without scoring, which could have failed.
        if scored and len(actual["feasibleNodes"]) != 1:
            yield f"feasible: theirs one node ({theirs.node}), ours {actual['feasibleNodes']}"
        return
    score = actual["score"]
    weighted = {
        name: {node: each["weight"] * value for node, value in each["normalized"].items()}
        for name, each in score["plugins"].items()
    }
    for name in sorted({*weighted, *theirs.scores}):
        expected, mine = theirs.scores.get(name), weighted.get(name)
        if expected != mine:
            nodes = sorted({*(expected or {}), *(mine or {})})
            each = {
                node: ((expected or {}).get(node), (mine or {}).get(node))
                for node in nodes
                if (expected or {}).get(node) != (mine or {}).get(node)
            }
            yield f"score of {name} (theirs, ours): {each}"
    if theirs.totals != score["total"]:
        yield f"total: theirs {theirs.totals}, ours {score['total']}"


def _preemption(given: Object, theirs: Verdict, post_filter: Mapping[str, Any]) -> Iterator[str]:
    nominated, candidates = post_filter.get("nominatedNode", ""), post_filter.get("candidates", {})
    if bool(theirs.nominated) != bool(nominated):
        yield f"nominated: theirs {theirs.nominated!r}, ours {nominated!r} of {candidates}"
        return
    if not nominated:
        return
    if theirs.nominated not in candidates:
        yield f"nominated: theirs {theirs.nominated}, ours only {candidates}"
        return
    pods = {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod
        for pod in given["input"]["objects"]["pods"]
    }
    keys = [_harm(candidates[node], pods) for node in (theirs.nominated, nominated)]
    if keys[0] != keys[1]:
        yield f"nominated: theirs {theirs.nominated} {keys[0]}, ours {nominated} {keys[1]}"
    victims = {
        key
        for key in candidates[theirs.nominated]["victims"]
        # A pod that is on its way out is not evicted once more.
        if "deletionTimestamp" not in pods[key]["metadata"]
    }
    if victims != theirs.victims:
        node = theirs.nominated
        yield f"victims on {node}: theirs {sorted(theirs.victims)}, ours {sorted(victims)}"


def _harm(candidate: Mapping[str, Any], pods: Mapping[str, Object]) -> tuple[object, ...]:
    """Return the rank of a candidate node (`preemption.go: pickOneNodeForPreemption`)."""
    victims = [pods[key] for key in candidate["victims"]]
    priorities = [pod["spec"].get("priority") or 0 for pod in victims]
    highest = max(priorities, default=0)
    starts = [
        pod.get("status", {}).get("startTime", "now")
        for pod, priority in zip(victims, priorities, strict=True)
        if priority == highest
    ]
    return (
        candidate["pdbViolations"], highest, sum(each + 2**31 for each in priorities),
        len(victims), min(starts, default=""),
    )  # fmt: skip

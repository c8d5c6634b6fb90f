"""Steps for rejections by rules between pods, and for pods with resource claims."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import numpy as np

from scheduler.api.node import HOSTNAME, Node
from scheduler.api.pod import Pod
from scheduler.api.pod_affinity import AffinityTerm
from scheduler.explain.owners import owner_of
from scheduler.explain.records import Change, Code, Step
from scheduler.explain.what_if.changes import JsonObject, as_json, pointer
from scheduler.explain.what_if.remedies.node_steps import label_steps
from scheduler.explain.what_if.remedies.situation import Situation, evictions, names
from scheduler.framework import PodTerm, Rows, TermKind
from scheduler.framework.near_labels import MAX_COMPARED, MAX_WANTED, nearest_value

_HARD: Final = "DoNotSchedule"
_SOFT: Final = "ScheduleAnyway"
_CONSTRAINTS: Final = "/spec/topologySpreadConstraints"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_MISSING_LABEL: Final = "missing required label"
_MORE: Final = (1, 2, 4, 8)
MAX_EVICTED: Final = 20
MAX_TERMS: Final = 50
"""Affinity terms of the pod that are dropped one by one, or whose rivals are looked for."""
MAX_CONSTRAINTS: Final = 10
"""Spread constraints that are relaxed one by one; a pod may state thousands."""


def spread(situation: Situation) -> Iterator[Step]:
    """Relax spread constraints, or give the node the label that it lacks."""
    constraints = situation.spec.get("topologySpreadConstraints") or []
    hard = [i for i, each in enumerate(constraints) if each.get("whenUnsatisfiable") == _HARD]
    node = situation.node
    if node is not None and _MISSING_LABEL in situation.reasons:
        keys = {constraints[i]["topologyKey"] for i in hard} - set(node.metadata.labels)
        if len(keys) <= MAX_CONSTRAINTS:
            yield from label_steps(node, {key: _value_of(situation, key) for key in sorted(keys)})
    if not hard:
        # Those of the profile apply only to pods that state none.
        soft = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": _SOFT}
        text = "state a soft spread constraint in place of the scheduler's default"
        yield Step(Code.SPREAD_ANYWAY, text, (situation.set_pod(_CONSTRAINTS, [soft]),), 4.0)
        return
    for index in hard[:MAX_CONSTRAINTS]:
        yield from _key_corrected(situation, f"{_CONSTRAINTS}/{index}", constraints[index])
        yield from _relaxed(situation, constraints, [index])
    if len(hard) > 1:
        yield from _relaxed(situation, constraints, hard)


def _key_corrected(situation: Situation, path: str, stated: JsonObject) -> Iterator[Step]:
    """Correct the topologyKey of a constraint or of a term."""
    key = stated.get("topologyKey", "")
    if meant := situation.key_meant(key):
        change = situation.set_pod(f"{path}/topologyKey", meant)
        text = f"use topologyKey {meant} instead of {key}, which no node has"
        yield Step(Code.CORRECT_VALUE, text, (change,), 1.7)


def _relaxed(
    situation: Situation, constraints: list[dict[str, Any]], chosen: list[int]
) -> Iterator[Step]:
    keys = " and ".join(constraints[i]["topologyKey"] for i in chosen[:MAX_CONSTRAINTS])
    if len(chosen) > MAX_CONSTRAINTS:
        keys += f" and {len(chosen) - MAX_CONSTRAINTS} more"

    def changed(**fields: Any) -> tuple[Any, ...]:
        made = list(constraints)
        for index in chosen:
            both = {**constraints[index], **fields}
            made[index] = {key: value for key, value in both.items() if value is not None}
        return (situation.set_pod(_CONSTRAINTS, made),)

    if _MISSING_LABEL not in situation.reasons and len(chosen) == 1:
        skew = constraints[chosen[0]].get("maxSkew", 1)
        for more in _MORE:
            text = f"raise maxSkew of {keys} to {skew + more}"
            yield Step(Code.RAISE_MAX_SKEW, text, changed(maxSkew=skew + more), 3.0 + 0.2 * more)
        if constraints[chosen[0]].get("minDomains"):
            text = f"drop minDomains of {keys}"
            yield Step(Code.DROP_MIN_DOMAINS, text, changed(minDomains=None), 3.5)
    text = f"set whenUnsatisfiable of {keys} to {_SOFT}"
    fields = {"whenUnsatisfiable": _SOFT, "minDomains": None}
    yield Step(Code.SPREAD_ANYWAY, text, changed(**fields), 3.9 + 0.3 * len(chosen))


def _value_of(situation: Situation, key: str) -> str:
    """Return a value that some node has for a label, so that no domain is made up."""
    table = situation.table
    for row in table.rows.tolist():
        value = table.nodes[row].metadata.labels.get(key) if table.nodes[row] else None
        if value is not None:
            return str(value)
    return "true"


# -- inter-pod affinity --------------------------------------------------------------------------


def pod_affinity(situation: Situation) -> Iterator[Step]:
    """Drop affinity, make anti-affinity preferred, or evict the pods that keep this one away."""
    terms = _required(situation.spec, "podAffinity")
    path = pointer("spec", "affinity", "podAffinity", _REQUIRED)
    for index, term in enumerate(terms[:MAX_CONSTRAINTS]):
        yield from _key_corrected(situation, f"{path}/{index}", term)
    yield from _labels_corrected(situation, terms, path)
    if len(terms) > 1:
        for index, term in enumerate(terms[:MAX_TERMS]):
            left = [each for i, each in enumerate(terms) if i != index]
            text = f"drop the required pod affinity over {term.get('topologyKey')}"
            yield Step(Code.DROP_POD_AFFINITY, text, (situation.set_pod(path, left),), 4.5)
    if terms:
        text, cost = "drop the required pod affinity", 4.5 + 0.2 * len(terms)
        yield Step(Code.DROP_POD_AFFINITY, text, (situation.set_pod(path, None),), cost)
    rivals: list[Pod] = []
    if situation.node is not None and "anti-affinity" in situation.reasons:
        rivals = _rivals(situation)
    yield from _preferred_instead(situation, [e for e in rivals if situation.is_own_member(e)])
    others = [each for each in rivals if not situation.is_own_member(each)]
    if others and situation.node is not None:
        text = f"evict {names(others)}, which must not be near this pod"
        cost = 7.0 + len(others)
        yield Step(Code.EVICT_PODS, text, evictions(others), cost, situation.node.name)


def _labels_corrected(situation: Situation, terms: list[JsonObject], path: str) -> Iterator[Step]:
    """Ask for pods with a label that some have, in place of a similar one that none has."""
    named = (
        (index, term, *label)
        for index, term in enumerate(terms)
        if term.get("namespaceSelector") is None
        for label in ((term.get("labelSelector") or {}).get("matchLabels") or {}).items()
    )
    for index, term, key, value in islice(named, MAX_WANTED):
        namespaces = term.get("namespaces") or [situation.pod.metadata.namespace]
        known = situation.table.selector_counts.label_values(namespaces, key)
        near = "" if value in known else nearest_value((value,), known.most_common(MAX_COMPARED))[1]
        if near:
            at = pointer("labelSelector", "matchLabels", key)
            change = situation.set_pod(f"{path}/{index}{at}", near)
            text = f"use {near} instead of {value} in the required pod affinity for {key}"
            yield Step(Code.CORRECT_VALUE, text, (change,), 1.8)


def _required(spec: JsonObject, kind: str) -> list[JsonObject]:
    found: list[JsonObject] = ((spec.get("affinity") or {}).get(kind) or {}).get(_REQUIRED) or []
    return found


def _preferred_instead(situation: Situation, siblings: list[Pod]) -> Iterator[Step]:
    """Make required anti-affinity preferred; of the siblings that repel this pod too.

    Those run with the template of before until they are deleted, and a rollout would wait for them.
    """
    terms = _required(situation.spec, "podAntiAffinity")
    whose = deleted = ""
    if siblings:
        whose = f" of {owner_of(situation.pod, 'Deployment') or owner_of(situation.pod)}"
        deleted = ", and delete the pods that run with the old one"
    everything = tuple(range(len(terms)))
    single = [(at,) for at in everything[:MAX_TERMS]] if len(terms) > 1 else []
    for chosen in (*single, everything) if terms else ():
        over = f" over {terms[chosen[0]].get('topologyKey')}" if len(chosen) < len(terms) else ""
        changes = tuple(
            change
            for pod in (situation.pod, *siblings)
            for change in _made_preferred(pod, [terms[at] for at in chosen])
        )
        node = situation.node.name if siblings and situation.node is not None else ""
        text = f"make the required pod anti-affinity{over}{whose} preferred{deleted}"
        cost = 4.6 + (0.2 * len(terms) if len(chosen) == len(terms) else 0.0)
        yield Step(Code.DROP_POD_ANTI_AFFINITY, text, changes, cost, node)


def _made_preferred(pod: Pod, terms: list[JsonObject]) -> Iterator[Change]:
    stated = ((as_json(pod).get("spec") or {}).get("affinity") or {}).get("podAntiAffinity") or {}
    left = [each for each in stated.get(_REQUIRED) or [] if each not in terms]
    weighted = [{"weight": 100, "podAffinityTerm": each} for each in terms]
    values = {_REQUIRED: left or None, _PREFERRED: [*(stated.get(_PREFERRED) or []), *weighted]}
    for field, value in values.items():
        path = pointer("spec", "affinity", "podAntiAffinity", field)
        yield Change("set", "Pod", pod.key, path, value)


def _rivals(situation: Situation) -> list[Pod]:
    """Return the pods of the node's domain whose anti-affinity this one meets, or it theirs.

    None if they are too many to be evicted, or to be looked at.
    """
    rows = _rows_of_rivals(situation)
    if len(rows) > MAX_EVICTED:
        return []
    table = situation.table
    found = [
        pod
        for row in rows
        for pod in table.pods[row].values()
        if _repel_each_other(situation, pod, table.nodes[row])
    ]
    return sorted(found, key=lambda each: each.key) if len(found) <= MAX_EVICTED else []


def _rows_of_rivals(situation: Situation) -> list[int]:
    """Return the rows with pods that a required anti-affinity term keeps apart from this one.

    Read from the columns that the plugin reads too, since looking at every pod would take long.
    """
    table, pod = situation.table, situation.pod
    namespace, labels = pod.metadata.namespace, pod.metadata.labels
    found: set[int] = set()
    own = _namespace_labels(situation, namespace)
    for existing in table.existing_pod_terms(namespace, labels, own):
        if existing.kind is TermKind.REQUIRED_ANTI:
            rows = np.fromiter(existing.rows, np.intp)
            found.update(_in_domain(situation, rows, existing.topology_key))
    for term in pod.signature.pod_affinity_terms(namespace).required_anti[:MAX_TERMS]:
        pods = PodTerm(_namespaces(situation, term), term.selector)
        rows = np.flatnonzero(table.pod_counts((pods,), terminating=True))
        found.update(_in_domain(situation, rows, term.topology_key))
    return sorted(found)


def _in_domain(situation: Situation, rows: Rows, key: str) -> list[int]:
    """Return those of some rows whose node has the same value of a label as the one looked at."""
    table, node = situation.table, situation.node
    row = None if node is None else table.row_of(node.name)
    column = table.label_column(key)
    if row is None or column[row] < 0:
        return []
    found: list[int] = rows[table.valid[rows] & (column[rows] == column[row])].tolist()
    return found


def _repel_each_other(situation: Situation, other: Pod, node: Node | None) -> bool:
    """Whether a required anti-affinity term keeps this pod and one on another node apart."""
    assert situation.node is not None
    here, there = situation.node.metadata.labels, {} if node is None else node.metadata.labels
    return any(
        term.topology_key in here
        and here[term.topology_key] == there.get(term.topology_key)
        and term.matches(
            excluded.metadata.namespace,
            _namespace_labels(situation, excluded.metadata.namespace),
            excluded.metadata.labels,
        )
        for one, excluded in ((situation.pod, other), (other, situation.pod))
        for term in one.signature.pod_affinity_terms(one.metadata.namespace).required_anti
    )


def _namespaces(situation: Situation, term: AffinityTerm) -> frozenset[str] | None:
    """Return the namespaces of a term; None for all."""
    selector = term.namespace_selector
    if selector is None:
        return term.namespaces
    if selector.matches({}):
        return None
    known = situation.trial.objects("Namespace")
    return term.namespaces.union(
        each.metadata.name for each in known if selector.matches(each.metadata.labels)
    )


def _namespace_labels(situation: Situation, name: str) -> dict[str, str]:
    found = situation.trial.find("Namespace", name)
    labels: dict[str, str] = {} if found is None else found.metadata.labels
    return labels

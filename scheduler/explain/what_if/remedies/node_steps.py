"""Steps for rejections by properties of the node: cordon, taints, labels, ports, features."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from scheduler.api.node import HOSTNAME, Node, Taint
from scheduler.api.node_selectors import compile_node_selector_term
from scheduler.api.pod import NodeSelectorRequirement, NodeSelectorTerm
from scheduler.api.ports import conflicts
from scheduler.api.selectors import parse_label_integer
from scheduler.api.tolerations import tolerates
from scheduler.explain.records import Change, Code, Step
from scheduler.explain.what_if.changes import JsonObject, pointer
from scheduler.explain.what_if.remedies.situation import Situation, evictions, names, set_node
from scheduler.framework.near_labels import nearest_value

UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"
HARD: Final = ("NoSchedule", "NoExecute")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
MAX_TAINTS: Final = 10
"""Taints of a node that keep a pod away; of one with more, none is there by mistake."""
MAX_TERMS: Final = 10
"""Terms of a node affinity for which labels are looked for; a pod may state thousands."""
MAX_IN_TERM: Final = 50
"""Requirements and values of such a term."""
_GIVEN_PREFIXES: Final = (
    "topology.kubernetes.io/",
    "failure-domain.beta.kubernetes.io/",
    "kubernetes.io/",
    "beta.kubernetes.io/",
)
_GIVEN: Final = ("node.kubernetes.io/instance-type",)
_AFFINITY: Final = pointer("spec", "affinity", "nodeAffinity", _REQUIRED)


def cordon(situation: Situation) -> Iterator[Step]:
    """Uncordon the node."""
    node = situation.node
    if node is None:
        return
    left = [each for each in node.spec.taints if each.key != UNSCHEDULABLE_TAINT]
    changes = [set_node(node, "/spec/unschedulable", None)]
    if len(left) < len(node.spec.taints):
        changes.append(set_node(node, "/spec/taints", [_taint_json(each) for each in left]))
    yield Step(Code.UNCORDON_NODE, f"uncordon node {node.name}", tuple(changes), 2.0, node.name)
    taint = Taint(key=UNSCHEDULABLE_TAINT, effect="NoSchedule")
    yield _tolerate(situation, [taint], node.name, 4.0)


def taints(situation: Situation) -> Iterator[Step]:
    """Remove the taints that the pod does not tolerate, or tolerate them."""
    node = situation.node
    if node is None:
        return
    tolerations = situation.pod.spec.tolerations
    bad, left = list[Taint](), list[JsonObject]()
    for each in node.spec.taints:
        if each.effect in HARD and not any(tolerates(one, each) for one in tolerations):
            bad.append(each)
        else:
            left.append(_taint_json(each))
    if not 0 < len(bad) <= MAX_TAINTS:
        return
    text = ", ".join(map(_taint_text, bad))
    yield Step(
        Code.REMOVE_TAINT,
        f"remove taint {text} from {node.name}",
        (set_node(node, "/spec/taints", left),),
        3.0 + 0.2 * len(bad),
        node.name,
    )
    yield _tolerate(situation, bad, node.name, 2.5 + 0.2 * len(bad))


def _tolerate(situation: Situation, bad: list[Taint], node: str, cost: float) -> Step:
    added = [
        {"key": each.key, "effect": each.effect}
        | ({"operator": "Equal", "value": each.value} if each.value else {"operator": "Exists"})
        for each in bad
    ]
    value = [*situation.spec.get("tolerations", []), *added]
    text = ", ".join(_taint_text(each) for each in bad)
    change = situation.set_pod("/spec/tolerations", value)
    return Step(Code.TOLERATE_TAINT, f"let the pod tolerate {text}", (change,), cost, node)


def _taint_text(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _taint_json(taint: Taint) -> JsonObject:
    found = {"key": taint.key, "effect": taint.effect, "value": taint.value}
    return {key: value for key, value in found.items() if value}


# -- labels --------------------------------------------------------------------------------------


def node_affinity(situation: Situation) -> Iterator[Step]:
    """Correct a value that no node has, label the node, or drop the selector or the affinity."""
    node, spec = situation.node, situation.spec
    yield from _corrected(situation)
    if node is not None:
        yield from label_steps(node, wanted_labels(situation, node))
    selector = spec.get("nodeSelector") or {}
    if selector:
        own = {} if node is None else node.metadata.labels
        unmet = [key for key in selector if own.get(key) != selector[key]]
        if unmet:
            text = ", ".join(f"{key}={selector[key]}" for key in unmet)
            left = {key: value for key, value in selector.items() if key not in unmet}
            change = situation.set_pod("/spec/nodeSelector", left or None)
            yield Step(Code.DROP_NODE_SELECTOR, f"drop nodeSelector {text}", (change,), 4.0)
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        _AFFINITY.split("/")[-1]
    )
    if required:
        change = situation.set_pod(_AFFINITY, None)
        text = "drop the required node affinity"
        yield Step(Code.DROP_NODE_AFFINITY, text, (change,), 5.0)


def preferred_affinity(situation: Situation) -> Iterator[Step]:
    """Drop the preferred affinity, which cannot be read."""
    affinity = (situation.spec.get("affinity") or {}).get("nodeAffinity") or {}
    if affinity.get(_PREFERRED):
        path = pointer("spec", "affinity", "nodeAffinity", _PREFERRED)
        text = "drop the preferred node affinity, which is invalid"
        yield Step(Code.DROP_NODE_AFFINITY, text, (situation.set_pod(path, None),), 2.0)


def _corrected(situation: Situation) -> Iterator[Step]:
    """Ask for a label or a value that nodes have, in place of a similar one that none has."""
    stated = situation.spec.get("nodeSelector") or {}
    for key, value in list(stated.items())[:MAX_TERMS]:
        if meant := situation.key_meant(key):
            selector = {meant if each == key else each: own for each, own in stated.items()}
            change = situation.set_pod("/spec/nodeSelector", selector)
            text = f"use label {meant} instead of {key}, which no node has, in nodeSelector"
            yield Step(Code.CORRECT_VALUE, text, (change,), 1.7)
        if near := _near(situation, key, [value]):
            change = situation.set_pod(pointer("spec", "nodeSelector", key), near[1])
            text = f"use {near[1]} instead of {near[0]} in nodeSelector {key}"
            yield Step(Code.CORRECT_VALUE, text, (change,), 1.8)
    affinity = (situation.spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    expressions = (
        (f"{_AFFINITY}{pointer('nodeSelectorTerms', at, 'matchExpressions', index)}", each)
        for at, term in enumerate(terms)
        for index, each in enumerate(term.get("matchExpressions") or [])
    )
    for path, each in islice(expressions, MAX_TERMS):
        key, values = each.get("key", ""), each.get("values") or []
        if meant := situation.key_meant(key):
            change = situation.set_pod(f"{path}/key", meant)
            text = f"use label {meant} instead of {key}, which no node has, in the node affinity"
            yield Step(Code.CORRECT_VALUE, text, (change,), 1.7)
        if each.get("operator") != "In" or not (near := _near(situation, key, values)):
            continue
        corrected = [near[1] if value == near[0] else value for value in values]
        change = situation.set_pod(f"{path}/values", list(dict.fromkeys(corrected)))
        text = f"use {near[1]} instead of {near[0]} in the node affinity for {key}"
        yield Step(Code.CORRECT_VALUE, text, (change,), 1.9)


def _near(situation: Situation, key: str, values: list[str]) -> tuple[str, str] | None:
    """Return a value that no node has and the similar one that nodes have; None: another case."""
    known = situation.label_values(key)
    stated = frozenset(values)
    if any(value in stated for value, _ in known):
        return None
    wanted, near = nearest_value(values, known)
    return (wanted, near) if near else None


def label_steps(node: Node, labels: dict[str, str | None]) -> Iterator[Step]:
    """Yield a step that sets labels of a node (None removes one), if people set all of these.

    Others are set by the kubelet or the cloud provider, and say what the node is.
    """
    if not labels or any(map(_is_given, labels)):
        return
    texts = [f"{key}={value}" for key, value in labels.items() if value is not None]
    gone = [key for key, value in labels.items() if value is None]
    text = f"label node {node.name} with {', '.join(texts)}" if texts else ""
    if gone:
        text += " and " if text else ""
        text += f"remove label {', '.join(gone)} from node {node.name}"
    changes = tuple(
        Change("set", "Node", node.name, pointer("metadata", "labels", key), value)
        for key, value in labels.items()
    )
    yield Step(Code.LABEL_NODE, text, changes, 3.0 + 0.3 * len(labels), node.name)


def _is_given(key: str) -> bool:
    """Whether a label is set by the kubelet or the cloud provider."""
    return key.startswith(_GIVEN_PREFIXES) or key in _GIVEN


def wanted_labels(situation: Situation, node: Node) -> dict[str, str | None]:
    """Return the fewest labels that let the node match selector and affinity; empty: none do."""
    own = node.metadata.labels
    selector = situation.pod.spec.node_selector or {}
    found: dict[str, str | None] = {
        key: value for key, value in selector.items() if own.get(key) != value
    }
    if HOSTNAME in found:
        return {}
    for terms in _required_terms(situation):
        merged = {k: v for k, v in {**own, **found}.items() if v is not None}
        options = [label_for_term(term, merged, node.name) for term in terms[:MAX_TERMS]]
        possible = [each for each in options if each is not None]
        if not possible:
            return {}
        found |= fewest(possible)
    return found


def fewest(options: list[dict[str, str | None]]) -> dict[str, str | None]:
    """Return those labels of which people set the most, then the fewest."""
    return min(options, key=lambda each: (sum(map(_is_given, each)), len(each)))


def _required_terms(situation: Situation) -> Iterator[tuple[NodeSelectorTerm, ...]]:
    plugin = situation.framework.plugins.get("NodeAffinity")
    added = getattr(plugin, "added_affinity", None)
    if added is not None and added.required is not None:
        yield added.required.node_selector_terms
    affinity = situation.pod.spec.affinity
    if affinity is not None and affinity.node_affinity is not None:
        required = affinity.node_affinity.required
        if required is not None:
            yield required.node_selector_terms


def label_for_term(
    term: NodeSelectorTerm, labels: dict[str, str], name: str
) -> dict[str, str | None] | None:
    """Return what to change for a node to match a term; None: nothing would do."""
    if not term.match_expressions and not term.match_fields:
        return None
    stated = (*term.match_expressions, *term.match_fields)
    if len(stated) + sum(len(each.values) for each in stated) > MAX_IN_TERM:
        return None
    fields = NodeSelectorTerm(match_fields=term.match_fields)
    if term.match_fields and not compile_node_selector_term(fields, "").matches(labels, name):
        return None
    found: dict[str, str | None] = {}
    for requirement in term.match_expressions:
        alone = compile_node_selector_term(NodeSelectorTerm((requirement,)), "")
        if alone.error is not None:
            return None
        now = {k: v for k, v in {**labels, **found}.items() if v is not None}
        if alone.matches(now, name):
            continue
        if requirement.key == HOSTNAME or requirement.key in found:
            return None
        value = _value_for(requirement)
        if value is False:
            return None
        found[requirement.key] = value
    return found


def _value_for(requirement: NodeSelectorRequirement) -> Any:
    """Return a value of a label that meets a requirement, None for no label, False: none does."""
    match requirement.operator:
        case "In":
            return requirement.values[0] if requirement.values else False
        case "Exists":
            return "true"
        case "NotIn" | "DoesNotExist":
            return None
        case "Gt" | "Lt":
            bound = parse_label_integer(requirement.values[0]) if requirement.values else None
            if bound is None:
                return False
            value = bound + (1 if requirement.operator == "Gt" else -1)
            return str(value) if 0 <= value < 2**63 else False
    return False


# -- ports and features --------------------------------------------------------------------------


def ports(situation: Situation) -> Iterator[Step]:
    """Free the host ports on the node, or do without them."""
    wanted = situation.pod.signature.host_ports
    holders = [
        pod
        for pod in situation.evictable()
        if any(conflicts(pod.signature.host_ports, each) for each in wanted)
    ]
    if holders and situation.node is not None:
        text = f"remove {names(holders)} from {situation.node.name}, to free the host port"
        cost = 6.0 + len(holders)
        yield Step(Code.FREE_HOST_PORT, text, evictions(holders), cost, situation.node.name)
    spec = situation.spec
    if spec.get("hostNetwork"):
        return
    changes = [
        situation.set_pod(pointer("spec", field, at, "ports", index, key), None)
        for field in ("containers", "initContainers")
        for at, container in enumerate(spec.get(field, []))
        for index, port in enumerate(container.get("ports", []))
        for key in ("hostPort", "hostIP")
        if port.get(key)
    ]
    numbers = ", ".join(sorted({str(each.port) for each in wanted}))
    yield Step(Code.DROP_HOST_PORT, f"do without host port {numbers}", tuple(changes), 4.0)


def features(situation: Situation) -> Iterator[Step]:
    """Let the node declare the features that the pod needs."""
    node = situation.node
    if node is None:
        return
    declared = set(node.status.declared_features)
    missing = sorted(set(situation.pod.signature.required_features) - declared)
    if missing:
        change = set_node(node, "/status/declaredFeatures", sorted(declared | set(missing)))
        text = f"update node {node.name} so that it declares {', '.join(missing)}"
        yield Step(Code.DECLARE_FEATURE, text, (change,), 7.0, node.name)

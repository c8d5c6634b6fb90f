"""Validation of pods and of their updates (KEP-3521 and the immutable spec).

Rules: gate names are qualified and unique; no gates together with a node; gates are only ever
removed; while gated, node selector and required node affinity may be narrowed; otherwise only
images, the active deadline, added tolerations and a negative grace period may change. Texts as
kube-apiserver v1.37 writes them, except that the diff it appends to the immutable-spec message is
not reproduced: the changed fields are named instead.
"""

from __future__ import annotations

from typing import Any, Final

from simulator.errors import FieldCause, duplicate_value, forbidden_field, invalid_value
from simulator.objects import JsonObject, dig, encode_json
from simulator.strategies import qualified_name_errors

IMMUTABLE_SPEC: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS_PATH: Final = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"


def validate_gates(spec: JsonObject) -> list[FieldCause]:
    """Check the gates of a new pod."""
    causes: list[FieldCause] = []
    seen: set[str] = set()
    gates = spec.get("schedulingGates") or []
    if gates and spec.get("nodeName"):
        causes.append(
            forbidden_field(
                "spec.nodeName", "cannot be set until all schedulingGates have been cleared"
            )
        )
    for place, gate in enumerate(gates):
        path, name = f"spec.schedulingGates[{place}]", gate.get("name", "")
        causes += [invalid_value(path, f'"{name}"', why) for why in qualified_name_errors(name)]
        if name in seen:
            causes.append(duplicate_value(path, name))
        seen.add(name)
    return causes


def validate_pod_update(spec: JsonObject, old: JsonObject) -> list[FieldCause]:
    """Check changes of a pod's spec."""
    if spec == old:
        return []
    causes = _gate_changes(spec, old)
    causes += _toleration_changes(spec, old)
    if old.get("schedulingGates"):
        causes += _narrowing(spec, old)
    if causes:
        return causes
    changed = _immutable_changes(spec, old)
    if changed:
        listed = ", ".join(f"spec.{name}" for name in changed)
        causes.append(forbidden_field("spec", f"{IMMUTABLE_SPEC}\nchanged: {listed}\n"))
    return causes


def _gate_changes(spec: JsonObject, old: JsonObject) -> list[FieldCause]:
    had = {gate.get("name") for gate in old.get("schedulingGates") or []}
    return [
        forbidden_field(
            f"spec.schedulingGates[{place}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
        )
        for place, gate in enumerate(spec.get("schedulingGates") or [])
        if gate.get("name") not in had
    ]


def _toleration_changes(spec: JsonObject, old: JsonObject) -> list[FieldCause]:
    def identity(toleration: JsonObject) -> bytes:
        kept = {key: value for key, value in toleration.items() if key != "tolerationSeconds"}
        return encode_json(sorted(kept.items()))

    have = {identity(toleration) for toleration in spec.get("tolerations") or []}
    if all(identity(toleration) in have for toleration in old.get("tolerations") or []):
        return []
    why = "existing toleration can not be modified except its tolerationSeconds"
    return [forbidden_field("spec.tolerations", why)]


def _terms(spec: JsonObject) -> list[Any]:
    return dig(spec, "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms") or []


def _text(value: object) -> str:
    return encode_json(value).decode()


def _narrowing(spec: JsonObject, old: JsonObject) -> list[FieldCause]:
    """Check that node selector and required node affinity of a gated pod only gain terms."""
    causes: list[FieldCause] = []
    new_selector, old_selector = spec.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if any(new_selector.get(key) != value for key, value in old_selector.items()):
        why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        causes.append(invalid_value("spec.nodeSelector", _text(new_selector), why))
    new_terms, old_terms = _terms(spec), _terms(old)
    if not old_terms:
        return causes
    if len(new_terms) != len(old_terms):
        why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        causes.append(invalid_value(_TERMS_PATH, _text(new_terms or None), why))
        return causes
    for place, (new, before) in enumerate(zip(new_terms, old_terms, strict=True)):
        if not _term_narrowed(new, before):
            why = "only additions are allowed (no mutations or deletions)"
            causes.append(invalid_value(f"{_TERMS_PATH}[{place}]", _text(new), why))
    return causes


def _term_narrowed(new: JsonObject, old: JsonObject) -> bool:
    """Whether `new` keeps `old`'s requirements as its first ones. An empty term matches no node."""
    if not old.get("matchExpressions") and not old.get("matchFields") and new != old:
        return False
    for kind in ("matchExpressions", "matchFields"):
        before = old.get(kind) or []
        if (new.get(kind) or [])[: len(before)] != before:
            return False
    return True


def _without_images(containers: object) -> object:
    if not isinstance(containers, list):
        return containers
    return [{key: value for key, value in one.items() if key != "image"} for one in containers]


def _immutable_changes(spec: JsonObject, old: JsonObject) -> list[str]:
    """Return names of changed fields that no rule allows to change."""
    gated = bool(old.get("schedulingGates"))
    changed: list[str] = []
    for name in sorted({*spec, *old}):
        new, before = spec.get(name), old.get(name)
        if new == before or name in ("tolerations", "activeDeadlineSeconds", "schedulingGates"):
            continue
        if name in ("containers", "initContainers"):
            new, before = _without_images(new), _without_images(before)
        elif (name == "terminationGracePeriodSeconds" and new == 1 and (before or 0) < 0) or (
            name == "nodeSelector" and gated
        ):
            continue
        elif name == "affinity" and gated:
            new, before = _without_node_affinity(new), _without_node_affinity(before)
        if new != before:
            changed.append(name)
    return changed


def _without_node_affinity(affinity: object) -> JsonObject:
    if not isinstance(affinity, dict):
        return {}
    return {key: value for key, value in affinity.items() if key != "nodeAffinity"}

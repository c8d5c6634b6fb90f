"""Field validation: which fields of a pod this server's personality knows.

Unknown fields are dropped before admission, as decoding into Go types does, and reported by their
path. The table covers the places where an unknown field changes what a scheduler does: the pod spec
itself, spread constraints, gates, tolerations. Everything deeper, and every other kind, is kept as
it comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from simulator.admission import WriteOptions
from simulator.errors import ApiError, bad_request
from simulator.objects import JsonObject, dig
from simulator.pods import FALLBACK_GATE
from simulator.resources import Resource
from simulator.strategies import Surroundings

POD_SPEC_FIELDS: Final = frozenset(
    [
        "activeDeadlineSeconds",
        "affinity",
        "automountServiceAccountToken",
        "containers",
        "dnsConfig",
        "dnsPolicy",
        "enableServiceLinks",
        "ephemeralContainers",
        "hostAliases",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "hostUsers",
        "hostname",
        "hostnameOverride",
        "imagePullSecrets",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "os",
        "overhead",
        "preemptionPolicy",
        "priority",
        "priorityClassName",
        "readinessGates",
        "resourceClaims",
        "resources",
        "restartPolicy",
        "runtimeClassName",
        "schedulerName",
        "schedulingGates",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "subdomain",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
        "workloadRef",
        "schedulingGroup",
    ]
)
LIST_FIELDS: Final = {
    "topologySpreadConstraints": frozenset(
        [
            "labelSelector",
            "matchLabelKeys",
            "maxSkew",
            "minDomains",
            "nodeAffinityPolicy",
            "nodeTaintsPolicy",
            "topologyKey",
            "whenUnsatisfiable",
        ]
    ),
    "schedulingGates": frozenset(["name"]),
    "tolerations": frozenset(["effect", "key", "operator", "tolerationSeconds", "value"]),
}
_TEMPLATES: Final = {
    "deployments.apps",
    "replicasets.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "replicationcontrollers",
}


def _pod_specs(resource: Resource, obj: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    if resource.table == "pods":
        path: tuple[str, ...] = ("spec",)
    elif resource.table in _TEMPLATES:
        path = ("spec", "template", "spec")
    else:
        return
    spec = dig(obj, *path)
    if isinstance(spec, dict):
        yield ".".join(path), spec


def _unknown(spec: JsonObject, path: str, fallback: bool) -> Iterator[tuple[JsonObject, str, str]]:
    """Each unknown field as (object that holds it, its name, its path)."""
    for name, declared in LIST_FIELDS.items():
        known = declared
        if fallback and name == "topologySpreadConstraints":
            known = declared | {"fallbackCriteria"}
        entries = spec.get(name)
        for place, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, dict):
                for key in entry:
                    if key not in known:
                        yield entry, key, f"{path}.{name}[{place}].{key}"
    for key in spec:
        if key not in POD_SPEC_FIELDS:
            yield spec, key, f"{path}.{key}"


def prune_unknown_fields(
    obj: JsonObject, resource: Resource, options: WriteOptions, around: Surroundings
) -> None:
    """Drop unknown fields in place; refuse (Strict) or warn (Warn) with their paths."""
    fallback = around.enabled(FALLBACK_GATE)
    found = [
        entry
        for path, spec in _pod_specs(resource, obj)
        for entry in _unknown(spec, path, fallback)
    ]
    if not found:
        return
    texts = [f'unknown field "{path}"' for _, _, path in found]
    if options.field_validation == "Strict":
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: strict decoding error: {', '.join(texts)}"
        )
    if options.field_validation == "Warn":
        options.warnings.extend(texts)
    for holder, key, _ in found:
        del holder[key]


def refuse_undeclared(
    obj: JsonObject, resource: Resource, namespace: str, name: str, around: Surroundings
) -> None:
    """Server-side apply knows no leniency: an undeclared field is an error."""
    fallback = around.enabled(FALLBACK_GATE)
    for path, spec in _pod_specs(resource, obj):
        for _, _, where in _unknown(spec, path, fallback):
            message = (
                f"failed to create typed patch object ({namespace}/{name}; "
                f"{resource.group}/{resource.version}, Kind={resource.kind}): .{where}: "
                "field not declared in schema"
            )
            raise ApiError(500, "", message)

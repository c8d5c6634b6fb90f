"""Field validation: which fields of a pod this server's personality knows.

Unknown fields are dropped before admission, as decoding into Go types does, and reported by their
path. The table covers the places where an unknown field changes what a scheduler does: the pod spec
itself, spread constraints, gates, tolerations, in pods and in the templates of workloads.
Everything deeper, and every other kind, is kept as it comes.

A field that is known but whose feature gate is off is another matter: `drop_disabled_fields` clears
it silently, unless the stored object has it already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from simulator.admission import WriteOptions
from simulator.errors import ApiError, bad_request
from simulator.fallback_criteria import check_form, clear_criteria, has_criteria
from simulator.gates import FALLBACK_GATE
from simulator.objects import JsonObject, dig
from simulator.resources import Resource
from simulator.schemas import unknown_fields
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
_LIST_KEYS: Final = {
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "schedulingGates": ("name",),
}
"""Keys by which server-side apply names the members of a list; by position where there are none."""
_TEMPLATE: Final = ("spec", "template", "spec")
_POD_SPECS: Final[Mapping[str, tuple[str, ...]]] = {
    "pods": ("spec",),
    "deployments.apps": _TEMPLATE,
    "replicasets.apps": _TEMPLATE,
    "statefulsets.apps": _TEMPLATE,
    "daemonsets.apps": _TEMPLATE,
    "jobs.batch": _TEMPLATE,
    "cronjobs.batch": ("spec", "jobTemplate", *_TEMPLATE),
    "replicationcontrollers": _TEMPLATE,
}
"""Where each table's objects have a pod spec."""


class _Unknown(NamedTuple):
    """A field that the server does not know."""

    holder: JsonObject
    key: str
    path: str
    """By position in lists, as a decoder names it."""
    keyed: str
    """By keys of list members, as server-side apply names it."""


def _pod_specs(resource: Resource, obj: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    path = _POD_SPECS.get(resource.table)
    if path is None:
        return
    spec = dig(obj, *path)
    if isinstance(spec, dict):
        yield ".".join(path), spec


def _unknown(spec: JsonObject, path: str, fallback: bool) -> Iterator[_Unknown]:
    for name, declared in LIST_FIELDS.items():
        known = declared
        if fallback and name == "topologySpreadConstraints":
            known = declared | {"fallbackCriteria"}
        entries = spec.get(name)
        for place, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, dict):
                keys = [f'{key}="{entry.get(key, "")}"' for key in _LIST_KEYS.get(name, ())]
                member = ",".join(keys) or str(place)
                for key in entry:
                    if key not in known:
                        yield _Unknown(
                            entry,
                            key,
                            f"{path}.{name}[{place}].{key}",
                            f"{path}.{name}[{member}].{key}",
                        )
    for key in spec:
        if key not in POD_SPEC_FIELDS:
            yield _Unknown(spec, key, f"{path}.{key}", f"{path}.{key}")


def _unknown_of(obj: JsonObject, resource: Resource, around: Surroundings) -> Iterator[_Unknown]:
    if resource.schema:
        for each in unknown_fields(obj, resource.schema):
            yield _Unknown(each.holder, each.key, each.path, each.path)
        return
    fallback = around.knows(FALLBACK_GATE)
    for path, spec in _pod_specs(resource, obj):
        yield from _unknown(spec, path, fallback)


def prune_unknown_fields(
    obj: JsonObject, resource: Resource, options: WriteOptions, around: Surroundings
) -> None:
    """Drop unknown fields in place; refuse (Strict) or warn (Warn) with their paths."""
    found = list(_unknown_of(obj, resource, around))
    if not found:
        return
    texts = [f'unknown field "{entry.path}"' for entry in found]
    if options.field_validation == "Strict":
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: strict decoding error: {', '.join(texts)}"
        )
    if options.field_validation == "Warn":
        options.warnings.extend(texts)
    for entry in found:
        del entry.holder[entry.key]


def refuse_undeclared(
    obj: JsonObject, resource: Resource, namespace: str, name: str, around: Surroundings
) -> None:
    """Server-side apply knows no leniency: an undeclared field is an error."""
    for entry in _unknown_of(obj, resource, around):
        message = (
            f"failed to create typed patch object ({namespace}/{name}; "
            f"{resource.group}/{resource.version}, Kind={resource.kind}): "
            f".{entry.keyed}: field not declared in schema"
        )
        raise ApiError(500, "", message)


def drop_disabled_fields(
    obj: JsonObject, old: JsonObject | None, resource: Resource, around: Surroundings
) -> None:
    """Clear, in place, what a feature gate that is off guards, unless `old` uses it already.

    So no new object gets the field, and switching the gate off breaks no stored one. Raises 400
    for a value that is no list of strings, whatever the gate.
    """
    for path, spec in _pod_specs(resource, obj):
        check_form(resource.kind, resource.version, spec, path)
        if around.enabled(FALLBACK_GATE):
            continue
        before = [spec for _, spec in _pod_specs(resource, old)] if old is not None else []
        if not any(has_criteria(spec) for spec in before):
            clear_criteria(spec)

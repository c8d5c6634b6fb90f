"""Create and update strategies of each kind: defaults, validation, fields that a write may change.

`Strategy` is the behaviour of a kind that has no rules of its own; a subclass overrides what
differs. The registry is `simulator.workloads.STRATEGIES`, by table. Defaults are those a scheduler
or kubectl can see, no more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from scheduler.api.stored import Notes, admit, default
from simulator.admission import Personality
from simulator.clock import SimClock
from simulator.errors import ApiError, FieldCause, forbidden, forbidden_field, invalid_value
from simulator.existing import InStore
from simulator.gates import default_of
from simulator.objects import JsonObject, dig
from simulator.resources import Resource
from simulator.store import Store

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_PART: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_NAME_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_QUALIFIED_RULE: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
    "'12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Objects and settings that a strategy may read besides the object."""

    store: Store
    clock: SimClock
    personality: Personality
    feature_gates: Mapping[str, bool]
    """Those set explicitly; may change while the server runs (`simulator.gates`)."""

    def enabled(self, gate: str) -> bool:
        """Whether a feature gate is on; an unset gate is on in `native`, off in `stock`."""
        return self.feature_gates.get(gate, default_of(gate, self.personality))

    @property
    def existing(self) -> InStore:
        """The objects that decide how another one is stored."""
        return InStore(self.store, self.enabled)

    def knows(self, gate: str) -> bool:
        """Whether this server has the fields that the gate guards: `native`, or the gate is on.

        A server that knows a field and has its gate off decodes it and clears it silently;
        one that does not know it calls it an unknown field.
        """
        return self.personality == "native" or self.enabled(gate)


def qualified_name_errors(value: str) -> list[str]:
    """Return the errors of a qualified name (`prefix/name`, prefix optional).

    Empty when nothing is.
    """
    prefix, slash, name = value.rpartition("/")
    errors: list[str] = []
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif slash and (not _NAME.fullmatch(prefix) or len(prefix) > 253):
        errors.append(f"prefix part {_NAME_RULE}")
    if not name:
        errors.append("name part must be non-empty")
    elif len(name) > 63:
        errors.append("name part must be no more than 63 bytes")
    if not _LABEL_PART.fullmatch(name):
        errors.append(_QUALIFIED_RULE)
    return errors


def validate_metadata(obj: JsonObject) -> list[FieldCause]:
    """Check name and labels of any object."""
    meta = obj["metadata"]
    name = meta.get("name", "")
    causes: list[FieldCause] = []
    if not _NAME.fullmatch(name) or len(name) > 253:
        causes.append(invalid_value("metadata.name", f'"{name}"', _NAME_RULE))
    for key, value in (meta.get("labels") or {}).items():
        causes += [
            invalid_value("metadata.labels", f'"{key}"', why) for why in qualified_name_errors(key)
        ]
        if value and (not _LABEL_PART.fullmatch(value) or len(value) > 63):
            causes.append(invalid_value("metadata.labels", f'"{value}"', _LABEL_RULE))
    return causes


class Strategy:
    """A kind without rules of its own.

    Metadata is checked, status is kept apart where it has one.
    """

    def default(self, obj: JsonObject, around: Surroundings) -> None:
        """Fill in defaults, in place; on create and on update of the main resource.

        A kind that overrides this fills in more.
        """
        default(obj, Notes())

    def admit(self, obj: JsonObject, around: Surroundings) -> None:
        """Do, in place, what admission plugins do to a new object."""
        admit(obj, around.existing, Notes())

    def prepare_create(self, obj: JsonObject, resource: Resource, around: Surroundings) -> None:
        """Reset what a client may not set, in place."""
        if resource.has_status and resource.schema is not None:
            obj.pop("status", None)
        elif resource.has_status:
            obj["status"] = {}

    def prepare_update(self, obj: JsonObject, old: JsonObject, resource: Resource) -> None:
        """Keep what the main resource may not change, in place at the top level only."""
        if resource.has_status:
            if "status" in old:
                obj["status"] = old["status"]
            else:
                obj.pop("status", None)

    def validate_create(self, obj: JsonObject, around: Surroundings) -> list[FieldCause]:
        """Return violated rules of a new object."""
        return validate_metadata(obj)

    def validate_update(
        self, obj: JsonObject, old: JsonObject, around: Surroundings
    ) -> list[FieldCause]:
        """Return violated rules of a change; the name cannot change, so labels are checked."""
        return [] if obj["metadata"] == old["metadata"] else validate_metadata(obj)

    def validate_status(self, obj: JsonObject, around: Surroundings) -> list[FieldCause]:
        """Return violated rules of a write to the status subresource. Must not change anything."""
        return []


class NamespaceStrategy(Strategy):
    """Namespaces are Active from birth and carry their name as a label."""

    def prepare_create(self, obj: JsonObject, resource: Resource, around: Surroundings) -> None:
        """Reset the phase, which a client cannot choose."""
        obj.setdefault("spec", {})
        obj["status"] = {"phase": "Active"}


class NodeStrategy(Strategy):
    """Nodes may be created with their status: kubelets (and our demo) do."""

    def prepare_create(self, obj: JsonObject, resource: Resource, around: Surroundings) -> None:
        """Keep the status, which kubelets create nodes with."""
        obj.setdefault("spec", {})
        obj.setdefault("status", {})


class VolumeStrategy(Strategy):
    """PersistentVolumes and claims start Pending."""

    def prepare_create(self, obj: JsonObject, resource: Resource, around: Surroundings) -> None:
        """Reset the phase, which a client cannot choose."""
        obj["status"] = {"phase": "Pending"}


class BudgetStrategy(Strategy):
    """PodDisruptionBudgets start with an empty allowance."""

    def prepare_create(self, obj: JsonObject, resource: Resource, around: Surroundings) -> None:
        """Reset the allowance, which a client cannot choose."""
        obj["status"] = {
            "disruptionsAllowed": 0,
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "expectedPods": 0,
        }


class PriorityClassStrategy(Strategy):
    """PriorityClasses: value and policy never change."""

    def validate_update(
        self, obj: JsonObject, old: JsonObject, around: Surroundings
    ) -> list[FieldCause]:
        """Check immutable fields."""
        causes = super().validate_update(obj, old, around)
        for name in ("value", "preemptionPolicy"):
            if obj.get(name) != old.get(name):
                causes.append(forbidden_field(name, "may not be changed in an update."))
        return causes


class ServiceStrategy(Strategy):
    """Services get their type and ports filled in; addresses are not handed out."""

    def default(self, obj: JsonObject, around: Surroundings) -> None:
        """Fill in type, session affinity and ports."""
        super().default(obj, around)
        spec: dict[str, Any] = obj.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        for port in spec.get("ports") or []:
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))


def check_namespace(store: Store, resource: Resource, namespace: str, name: str) -> ApiError | None:
    """Return the reason against creating objects in `namespace`; None for none."""
    found = store.get("namespaces", "", namespace)
    if found is None:
        return ApiError(
            404,
            "NotFound",
            f'namespaces "{namespace}" not found',
            {"name": namespace, "kind": "namespaces"},
        )
    if dig(found.obj, "metadata", "deletionTimestamp"):
        why = (
            f"unable to create new content in namespace {namespace} because it is being terminated"
        )
        error = forbidden(resource.plural, resource.group, name, why)
        error.status["details"]["causes"] = [
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
        ]
        return error
    return None

"""ResourceQuotas on their way in: what may be limited, and how amounts must look.

Foreign keys (a domain that is not Kubernetes') are accepted and must be integers, because the API
server takes them for extended resources. Texts as kube-apiserver v1.37 writes them.
"""

from __future__ import annotations

from typing import Any, Final

from scheduler.api.quantity import NANO, QuantityError, parse
from simulator.errors import ApiError, FieldCause, bad_request, invalid_value, unsupported_value
from simulator.objects import JsonObject, dig, encode_json
from simulator.quota_usage import COMPUTE, is_native_resource, is_pod_key
from simulator.strategies import Strategy, Surroundings, qualified_name_errors, validate_metadata

_COUNTED: Final = (
    "pods",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
    "resourcequotas",
)
_STANDARD: Final = frozenset(
    [
        *COMPUTE,
        *(f"{part}.{name}" for part in ("requests", "limits") for name in COMPUTE),
        *_COUNTED,
        "requests.storage",
    ]
)
_SCOPES: Final = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)
_OPPOSITES: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})


def _is_integer_key(key: str) -> bool:
    if key in _COUNTED or key.startswith("count/"):
        return True
    if is_native_resource(key) or key.startswith("requests."):
        return False
    return not qualified_name_errors(f"requests.{key}")


def _amount_causes(path: str, listed: Any) -> list[FieldCause]:
    causes: list[FieldCause] = []
    for key, text in (listed or {}).items():
        where = f"{path}[{key}]"
        causes += [invalid_value(where, f'"{key}"', why) for why in qualified_name_errors(key)]
        if "/" not in key and not _is_standard(key):
            causes += [
                invalid_value(where, f'"{key}"', why)
                for why in (
                    "must be a standard resource type or fully qualified",
                    "must be a standard resource for quota",
                )
            ]
        amount = parse(text)
        if amount.sign < 0:
            why = "must be greater than or equal to 0"
            causes.append(invalid_value(where, f'"{amount}"', why))
        if _is_integer_key(key) and amount.nano % NANO:
            causes.append(invalid_value(where, f'"{amount}"', "must be an integer"))
    return causes


def _is_standard(key: str) -> bool:
    return key in _STANDARD or key.startswith(("hugepages-", "requests.hugepages-"))


_COUNTS_PODS: Final = ("pods", "count/pods")


def _fits_scope(key: str, scope: str) -> bool:
    """Whether a scope applies to what a key counts."""
    if scope == "BestEffort":
        return key in _COUNTS_PODS
    if scope in ("Terminating", "NotTerminating", "NotBestEffort"):
        return is_pod_key(key)
    return True


def _scope_causes(spec: JsonObject) -> list[FieldCause]:
    names = [str(name) for name in spec.get("scopes") or ()]
    causes = [
        unsupported_value("spec.scopes", name, _SCOPES) for name in names if name not in _SCOPES
    ]
    shown = encode_json(names).decode()
    hard = spec.get("hard") or {}
    causes += [
        invalid_value("spec.scopes", shown, "unsupported scope applied to resource")
        for name in names
        for key in hard
        if _is_standard(key) and not _fits_scope(key, name)
    ]
    if not causes and any(pair <= set(names) for pair in _OPPOSITES):
        why = "conflicting scopes"
        causes.append(invalid_value("spec.scopes", shown, why))
    return causes


def _read_amounts(obj: JsonObject) -> None:
    """Bring every amount to its canonical text, as decoding does.

    Raises 400 for one that is no amount.
    """
    for part in ("spec", "status"):
        for name in ("hard", "used"):
            listed = dig(obj, part, name)
            if not isinstance(listed, dict):
                continue
            for key, text in listed.items():
                try:
                    listed[key] = str(parse(text))
                except QuantityError as error:
                    raise _undecodable() from error


def _undecodable() -> ApiError:
    return bad_request(
        'ResourceQuota in version "v1" cannot be handled as a ResourceQuota: quantities must match '
        "the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )


class QuotaStrategy(Strategy):
    """ResourceQuotas."""

    def default(self, obj: JsonObject, around: Surroundings) -> None:
        """Write amounts in canonical form."""
        super().default(obj, around)
        obj.setdefault("spec", {})
        _read_amounts(obj)

    def validate_create(self, obj: JsonObject, around: Surroundings) -> list[FieldCause]:
        """Check keys, amounts and scopes."""
        spec = obj["spec"]
        return (
            validate_metadata(obj)
            + _amount_causes("spec.hard", spec.get("hard"))
            + _scope_causes(spec)
        )

    def validate_update(
        self, obj: JsonObject, old: JsonObject, around: Surroundings
    ) -> list[FieldCause]:
        """Return the errors of an update: those of a creation, and changed scopes."""
        causes = super().validate_update(obj, old, around)
        spec, before = obj["spec"], old.get("spec") or {}
        causes += _amount_causes("spec.hard", spec.get("hard")) + _scope_causes(spec)
        for name in ("scopes", "scopeSelector"):
            if (spec.get(name) or None) != (before.get(name) or None):
                shown = encode_json(spec.get(name)).decode()
                causes.append(invalid_value(f"spec.{name}", shown, "field is immutable"))
        return causes

    def validate_status(self, obj: JsonObject, around: Surroundings) -> list[FieldCause]:
        """Check the amounts of the status, from which later charges are computed."""
        status = obj.get("status") or {}
        try:
            return _amount_causes("status.hard", status.get("hard")) + _amount_causes(
                "status.used", status.get("used")
            )
        except QuantityError as error:
            raise _undecodable() from error

"""The evaluators of quota: for each kind, which keys are about it, and what an object counts.

Nothing here decides. Scopes that do not apply to a kind let none of its objects through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from simulator.objects import JsonObject, dig
from simulator.quota_devices import DeviceClaimUsage, is_device_claim_key
from simulator.quota_usage import (
    ONE,
    Amounts,
    Scope,
    claim_usage,
    is_claim_key,
    is_pod_key,
    is_service_key,
    must_specify,
    pod_in_scope,
    pod_usage,
    service_usage,
)
from simulator.resources import Resource
from simulator.store import Store

_LEGACY: Final = ("configmaps", "secrets", "replicationcontrollers", "resourcequotas")


class QuotaEvaluator(NamedTuple):
    """Usage computation for the objects of one resource."""

    handles: Callable[[str, str], bool]
    """Whether a write is looked at, by operation and subresource."""
    matches: Callable[[str], bool]
    """Whether a quota key is this evaluator's."""
    usage: Callable[[JsonObject, float], Amounts]
    constraint: Callable[[JsonObject, Iterable[str]], str]
    """The error about amounts that an object lacks, given the limited keys."""
    in_scope: Callable[[JsonObject, Scope], bool]
    alone: bool = True
    """Whether the usage of an object depends on that object only."""


def _creates(operation: str, subresource: str) -> bool:
    return operation == "CREATE" and not subresource


def _writes(operation: str, subresource: str) -> bool:
    return operation in ("CREATE", "UPDATE") and not subresource


def _creates_or_resizes(operation: str, subresource: str) -> bool:
    return _creates(operation, subresource) or (operation, subresource) == ("UPDATE", "resize")


def _nothing_missing(_obj: JsonObject, _keys: Iterable[str]) -> str:
    return ""


def _in_no_scope(_obj: JsonObject, _scope: Scope) -> bool:
    return False


_SPECIAL: Final[Mapping[str, QuotaEvaluator]] = {
    "pods": QuotaEvaluator(_creates_or_resizes, is_pod_key, pod_usage, must_specify, pod_in_scope),
    "persistentvolumeclaims": QuotaEvaluator(
        _writes, is_claim_key, claim_usage, _nothing_missing, _in_no_scope
    ),
    "services": QuotaEvaluator(
        _writes, is_service_key, service_usage, _nothing_missing, _in_no_scope
    ),
}


def evaluator_of(resource: Resource, store: Store) -> QuotaEvaluator:
    """Return the evaluator of a kind; objects of kinds without their own are only counted."""
    if resource.table == "resourceclaims.resource.k8s.io":
        return QuotaEvaluator(
            _creates,
            is_device_claim_key,
            DeviceClaimUsage(store),
            _nothing_missing,
            _in_no_scope,
            alone=False,
        )
    special = _SPECIAL.get(resource.table)
    if special is not None:
        return special
    keys = [f"count/{resource.qualified}"]
    if resource.table in _LEGACY:
        keys.append(resource.table)
    charged = dict.fromkeys(keys, ONE)
    return QuotaEvaluator(
        _creates,
        charged.__contains__,
        lambda _obj, _now: dict(charged),
        _nothing_missing,
        _in_no_scope,
    )


def scopes_of(quota: JsonObject) -> list[Scope]:
    """Return every scope of a quota; an object must be in all of them to be counted."""
    spec = quota.get("spec") or {}
    found = [Scope(str(name), "Exists", ()) for name in spec.get("scopes") or ()]
    found += [
        Scope(
            str(one.get("scopeName", "")),
            str(one.get("operator", "")),
            tuple(str(value) for value in one.get("values") or ()),
        )
        for one in dig(spec, "scopeSelector", "matchExpressions") or ()
    ]
    return found


def in_scopes(evaluator: QuotaEvaluator, quota: JsonObject, obj: JsonObject) -> bool:
    """Whether a quota is about an object at all, keys aside."""
    return all(evaluator.in_scope(obj, scope) for scope in scopes_of(quota))

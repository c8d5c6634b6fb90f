"""The ResourceQuota admission plugin: refuses what is over a limit, charges what is let in.

Runs last in the chain. Limits and usage are read from `status`, as v1.37 does, so a quota that its
controller has not seen yet limits nothing. Charging writes `status.used` of the version that was
read, in one step with the check: no two requests can both take the last unit. Keys of a foreign
domain belong to no evaluator and are ignored. Texts as kube-apiserver v1.37 writes them.

A charge is not taken back when the write fails afterwards; the controller's recount does that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from simulator.admission import AdmissionRequest
from simulator.deferral import is_uncharged
from simulator.errors import ApiError, forbidden
from simulator.gates import QUOTA_GATE
from simulator.objects import JsonObject, dig
from simulator.quota_evaluators import QuotaEvaluator, evaluator_of, in_scopes
from simulator.quota_usage import (
    Amounts,
    added,
    amounts,
    is_compute_key,
    only,
    taken_off,
    texts,
)
from simulator.store import Version
from simulator.strategies import Surroundings

if TYPE_CHECKING:
    from simulator.api import Api

QUOTAS: Final = "resourcequotas"


class _Charge(NamedTuple):
    quota: Version
    used: Amounts


class QuotaAdmission:
    """The hook. Owned by the API server of one cluster."""

    def __init__(self, api: Api, around: Surroundings) -> None:
        self._api = api
        self._around = around
        self._quotas = api.resources.of_kind("v1", "ResourceQuota")

    def __call__(self, request: AdmissionRequest) -> None:
        """Check and charge one write. Raises 403."""
        if not request.namespace:
            return
        quotas = request.store.items(QUOTAS, request.namespace)
        if not quotas:
            return
        evaluator = evaluator_of(request.resource, request.store)
        if not evaluator.handles(request.operation, request.subresource):
            return
        charges = self._check(request, evaluator, quotas)
        if request.options.dry_run:
            return
        for quota, used in charges:
            status = {**quota.obj["status"], "used": texts(used)}
            self._api.replace(self._quotas, quota, {**quota.obj, "status": status}, request.options)

    def _check(
        self, request: AdmissionRequest, evaluator: QuotaEvaluator, quotas: list[Version]
    ) -> list[_Charge]:
        limiting = []
        for quota in quotas:
            keys = [key for key in dig(quota.obj, "status", "hard") or {} if evaluator.matches(key)]
            if not keys or not in_scopes(evaluator, quota.obj, request.obj):
                continue
            missing = evaluator.constraint(request.obj, keys)
            if missing:
                raise _refused(request, f"failed quota: {quota.name}: {missing}")
            if any(key not in (dig(quota.obj, "status", "used") or {}) for key in keys):
                listed = ",".join(sorted(keys))
                why = f"status unknown for quota: {quota.name}, resources: {listed}"
                raise _refused(request, why)
            limiting.append(quota)
        if not limiting:
            return []
        requested = self._requested(request, evaluator)
        charges = [_charge(request, quota, requested) for quota in limiting] if requested else []
        return [charge for charge in charges if charge is not None]

    def _requested(self, request: AdmissionRequest, evaluator: QuotaEvaluator) -> Amounts:
        """Return what the write adds. The controller handles decreases, as in v1.37."""
        now = request.clock.now()
        requested = evaluator.usage(request.obj, now)
        if request.operation == "UPDATE" and request.old is not None:
            requested = taken_off(requested, evaluator.usage(request.old, now))
        if (
            request.resource.table == "pods"
            and self._around.enabled(QUOTA_GATE)
            and is_uncharged(request.obj)
        ):
            requested = {
                key: amount for key, amount in requested.items() if not is_compute_key(key)
            }
        return {key: amount for key, amount in requested.items() if amount.sign > 0}


def _refused(request: AdmissionRequest, why: str) -> ApiError:
    return forbidden(request.resource.plural, request.resource.group, request.name, why)


def _charge(request: AdmissionRequest, quota: Version, requested: Amounts) -> _Charge | None:
    """Return the new usage of one quota; None if it does not change. Raises 403."""
    status: JsonObject = quota.obj["status"]
    hard, used = amounts(status["hard"]), amounts(status["used"])
    wanted = only(requested, hard)
    if not wanted:
        return None
    total = added(used, wanted)
    exceeded = sorted(key for key in wanted if total[key] > hard[key])
    if exceeded:
        raise _refused(
            request,
            f"exceeded quota: {quota.name}, requested: {_listed(wanted, exceeded)}, "
            f"used: {_listed(used, exceeded)}, limited: {_listed(hard, exceeded)}",
        )
    return _Charge(quota, total)


def _listed(found: Amounts, keys: Iterable[str]) -> str:
    return ",".join(f"{key}={found[key]}" for key in keys if key in found)

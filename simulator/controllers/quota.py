"""The ResourceQuota controller: copies limits into the status and recounts usage, absolutely.

A recount happens when a quota appears or its spec changes, when an object it counts goes, when a
pod ends, is resized or changes its scope, and every resync period; not on creation or binding, as
in v1.37 (admission has charged by then). Keys nobody counts (foreign ones) keep the usage somebody
else wrote, keys that left the spec lose theirs, and a recount that changes nothing writes nothing.

With KEP-5465's gate on for controllers, deferred pods without a node are not counted, and a pod
that gets its node is a reason to recount.
"""

from __future__ import annotations

from typing import Final

from simulator.admission import WriteOptions
from simulator.api import Api
from simulator.deferral import is_uncharged
from simulator.gates import QUOTA_GATE, ServerGates
from simulator.objects import JsonObject, dig
from simulator.quota_admission import QUOTAS
from simulator.quota_evaluators import QuotaEvaluator, evaluator_of, in_scopes
from simulator.quota_usage import (
    ZERO,
    Amounts,
    added,
    amounts,
    counts_for_quota,
    is_compute_key,
    is_terminating,
    texts,
)
from simulator.store import StoreChange, Version

RESYNC_SECONDS: Final = 300.0
"""As kube-controller-manager's default `--resource-quota-sync-period`."""
_OPTIONS: Final = WriteOptions()


class QuotaController:
    """Recounts quotas of one cluster.

    `gates` are those of controllers, which need not be those of the API server.
    """

    def __init__(
        self, api: Api, gates: ServerGates, *, resync_seconds: float = RESYNC_SECONDS
    ) -> None:
        self._api = api
        self._gates = gates
        self._quotas = api.resources.of_kind("v1", "ResourceQuota")
        self._evaluators: dict[str, QuotaEvaluator] = {
            row.table: evaluator_of(row, api.store)
            for row in api.resources
            if row.namespaced and not row.storage
        }
        self._dirty: dict[tuple[str, str], None] = {}
        self._used: dict[tuple[str, str, str], tuple[int, bool, Amounts]] = {}
        self._deferring = gates.enabled(QUOTA_GATE)
        self._resync_seconds = resync_seconds
        self._next_resync = api.clock.now() + resync_seconds

    def settings(self) -> JsonObject:
        """Return the settings that can be changed while it runs."""
        return {"resyncSeconds": self._resync_seconds}

    def adjust(self, wanted: JsonObject) -> None:
        """Set it, counting from now. Raises ValueError."""
        for name, value in wanted.items():
            if name != "resyncSeconds" or type(value) not in (int, float) or value <= 0:
                raise ValueError(f"{name}: {value!r}; want resyncSeconds, a number above 0")
            self._resync_seconds = float(value)
            self._next_resync = self._api.clock.now() + self._resync_seconds

    def observe(self, table: str, change: StoreChange, now: float) -> None:
        """Queue the quotas that a change is a reason to recount."""
        version = change.version
        if table == QUOTAS:
            self._observe_quota(change)
        evaluator = self._evaluators.get(table)
        if evaluator is None:
            return
        if change.type == "DELETED":
            self._used.pop((table, version.namespace, version.name), None)
        quotas = self._api.store.items(QUOTAS, version.namespace)
        if quotas and self._matters(table, change, now):
            for quota in quotas:
                if any(evaluator.matches(key) for key in dig(quota.obj, "status", "hard") or {}):
                    self._dirty[(quota.namespace, quota.name)] = None

    def _observe_quota(self, change: StoreChange) -> None:
        key = (change.version.namespace, change.version.name)
        if change.type == "DELETED":
            self._dirty.pop(key, None)
        elif change.previous is None or change.previous.obj.get("spec") != change.version.obj.get(
            "spec"
        ):
            self._dirty[key] = None

    def _matters(self, table: str, change: StoreChange, now: float) -> bool:
        if change.type != "MODIFIED" or change.previous is None:
            return change.type == "DELETED"
        new, old = change.version.obj, change.previous.obj
        if table == "pods":
            return self._pod_matters(new, old, now)
        return table in ("services", "persistentvolumeclaims") and new["spec"] != old["spec"]

    def _pod_matters(self, new: JsonObject, old: JsonObject, now: float) -> bool:
        if counts_for_quota(old, now) != counts_for_quota(new, now):
            return True
        if is_terminating(old) != is_terminating(new) or _resized(new, old):
            return True
        return self._gates.enabled(QUOTA_GATE) and is_uncharged(old) != is_uncharged(new)

    def next_due(self) -> float | None:
        """At once while a quota is queued, or a gate was switched; else the next resync."""
        switched = self._deferring != self._gates.enabled(QUOTA_GATE)
        return 0.0 if self._dirty or switched else self._next_resync

    def work(self, now: float, limit: int) -> None:
        """Recount queued quotas; all of them when the resync is due."""
        deferring = self._gates.enabled(QUOTA_GATE)
        if now >= self._next_resync or deferring != self._deferring:
            self._deferring = deferring
            self._next_resync = now + self._resync_seconds
            for quota in self._api.store.items(QUOTAS):
                self._dirty[(quota.namespace, quota.name)] = None
        for key in list(self._dirty)[:limit]:
            del self._dirty[key]
            current = self._api.store.get(QUOTAS, *key)
            if current is not None:
                self._recount(current, now)

    def _recount(self, quota: Version, now: float) -> None:
        hard = amounts(dig(quota.obj, "spec", "hard"))
        status = quota.obj.get("status") or {}
        before = amounts(status.get("used"))
        counted = self._count(quota, hard, now)
        used = {key: amount for key, amount in (before | counted).items() if key in hard}
        known = "hard" in status and "used" in status
        if known and used == before and hard == amounts(status["hard"]):
            return
        published = {"hard": texts(hard), "used": texts(used)}
        self._api.replace(self._quotas, quota, {**quota.obj, "status": published}, _OPTIONS)

    def _count(self, quota: Version, hard: Amounts, now: float) -> Amounts:
        """Usage of every key that some evaluator counts."""
        total: Amounts = {}
        for table, evaluator in self._evaluators.items():
            keys = [key for key in hard if evaluator.matches(key)]
            if not keys:
                continue
            mine = dict.fromkeys(keys, ZERO)
            for version in self._api.store.items(table, quota.namespace):
                if in_scopes(evaluator, quota.obj, version.obj):
                    used = self._usage(table, evaluator, version, now)
                    for key in keys:
                        if key in used:
                            mine[key] = mine[key] + used[key]
            total = added(total, mine)
        return total

    def _usage(
        self, table: str, evaluator: QuotaEvaluator, version: Version, now: float
    ) -> Amounts:
        key = (table, version.namespace, version.name)
        deferring = table == "pods" and self._gates.enabled(QUOTA_GATE)
        kept = self._used.get(key)
        if kept is not None and kept[:2] == (version.rv, deferring):
            return kept[2]
        used = evaluator.usage(version.obj, now)
        if deferring and is_uncharged(version.obj):
            used = {key: amount for key, amount in used.items() if not is_compute_key(key)}
        if evaluator.alone and not version.obj["metadata"].get("deletionTimestamp"):
            # What is being deleted stops counting at a moment that no change marks.
            self._used[key] = (version.rv, deferring, used)
        return used


def _resized(new: JsonObject, old: JsonObject) -> bool:
    """Whether a kubelet gave a container other resources; a wish in the spec alone is no reason."""
    before, after = _actual_resources(old), _actual_resources(new)
    return any(after[name] != before[name] for name in before.keys() & after.keys())


def _actual_resources(pod: JsonObject) -> dict[str, object]:
    return {
        str(status.get("name")): status.get("resources")
        for status in dig(pod, "status", "containerStatuses") or ()
    }

"""Deployments, ReplicaSets and Jobs become pods; what they own goes with them.

A small level-triggered reconciler per kind, enough for `kubectl apply` of a workload to give pods:
no rolling update (old ReplicaSets shrink as the new one grows), no back-off, no indexed Jobs. Each
`reconcile` looks at the current state only, so lost or repeated notifications do no harm.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Final

from simulator.api import MERGE_PATCH, Api
from simulator.errors import ApiError
from simulator.objects import JsonObject, copy_tree, dig, encode_json, format_time
from simulator.resources import Resource
from simulator.store import StoreChange, Version

DEPLOYMENTS: Final = "deployments.apps"
REPLICASETS: Final = "replicasets.apps"
JOBS: Final = "jobs.batch"
_HASH_LABEL: Final = "pod-template-hash"

Key = tuple[str, str, str]
"""Table, namespace, name."""


def owner_of(obj: JsonObject) -> JsonObject | None:
    """Return the controlling owner reference."""
    for reference in dig(obj, "metadata", "ownerReferences") or []:
        if reference.get("controller"):
            found: JsonObject = reference
            return found
    return None


def template_hash(template: JsonObject) -> str:
    """Return a short name part that is the same for equal templates."""
    return hashlib.sha256(encode_json(template)).hexdigest()[:10]


def reference_to(owner: JsonObject) -> JsonObject:
    """Build an owner reference that makes `owner` the controller."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_from(template: JsonObject, owner: JsonObject) -> JsonObject:
    """Build a pod of a template, owned by `owner`, with a name that the server generates."""
    meta = owner["metadata"]
    made = copy_tree(template)
    made["metadata"] = {
        **{key: value for key, value in (made.get("metadata") or {}).items() if key != "name"},
        "generateName": f"{meta['name']}-",
        "namespace": meta["namespace"],
        "ownerReferences": [reference_to(owner)],
    }
    return {"apiVersion": "v1", "kind": "Pod", **made}


def is_active(pod: JsonObject) -> bool:
    """Whether a pod counts as a replica."""
    finished = dig(pod, "status", "phase") in ("Succeeded", "Failed")
    return not finished and not pod["metadata"].get("deletionTimestamp")


def is_ready(pod: JsonObject) -> bool:
    """Whether its Ready condition holds."""
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in dig(pod, "status", "conditions") or []
    )


class WorkloadController:
    """One queue of owners to look at; the index of what each owns."""

    def __init__(self, api: Api) -> None:
        self._api = api
        resources = api.resources
        self._pods = resources.of_kind("v1", "Pod")
        self._replicasets = resources.of_kind("apps/v1", "ReplicaSet")
        self._reconcilers: dict[str, tuple[Resource, Callable[[Version], None]]] = {
            DEPLOYMENTS: (resources.of_kind("apps/v1", "Deployment"), self._deployment),
            REPLICASETS: (self._replicasets, self._replicaset),
            JOBS: (resources.of_kind("batch/v1", "Job"), self._job),
        }
        self._dirty: dict[Key, None] = {}
        self._owned: dict[str, dict[Key, None]] = {}
        self._owners: dict[str, Key] = {}
        self._orphaned: dict[Key, None] = {}

    def observe(self, table: str, change: StoreChange, now: float) -> None:
        """Index ownership; queue the owner and the object itself."""
        version = change.version
        key = (table, version.namespace, version.name)
        reference = owner_of(version.obj)
        if reference is not None:
            uid = str(reference.get("uid", ""))
            if change.type == "DELETED":
                self._owned.get(uid, {}).pop(key, None)
                self._orphaned.pop(key, None)
            else:
                self._owned.setdefault(uid, {})[key] = None
            if uid in self._owners:
                self._dirty[self._owners[uid]] = None
        if table not in self._reconcilers:
            return
        uid = str(version.obj["metadata"]["uid"])
        if change.type == "DELETED":
            self._owners.pop(uid, None)
            self._dirty.pop(key, None)
            self._orphaned.update(self._owned.pop(uid, {}))
        else:
            self._owners[uid] = key
            self._dirty[key] = None

    def next_due(self) -> float | None:
        """At once while something is queued."""
        return 0.0 if self._dirty or self._orphaned else None

    def work(self, now: float, limit: int) -> None:
        """Reconcile queued owners, then collect orphans."""
        for key in list(self._dirty)[:limit]:
            self._dirty.pop(key, None)
            table, namespace, name = key
            version = self._api.store.get(table, namespace, name)
            if version is None or version.obj["metadata"].get("deletionTimestamp"):
                continue
            try:
                self._reconcilers[table][1](version)
            except ApiError:
                # Refused by admission (quota) or a race: the next change of the owner tries again.
                continue
        for table, namespace, name in list(self._orphaned)[:limit]:
            self._orphaned.pop((table, namespace, name), None)
            row = self._pods if table == "pods" else self._reconcilers[table][0]
            self._delete(row, namespace, name)

    # ---------------------------------------------------------------------------------------- kinds

    def _deployment(self, version: Version) -> None:
        obj = version.obj
        spec = obj["spec"]
        mark = template_hash(spec["template"])
        wanted = f"{version.name}-{mark}"
        sets = self._children(obj, REPLICASETS)
        if all(one.name != wanted for one in sets):
            self._create_replicaset(obj, wanted, mark)
        for one in sets:
            replicas = int(spec.get("replicas") or 0) if one.name == wanted else 0
            if one.obj["spec"].get("replicas") != replicas:
                body = copy_tree(one.obj)
                body["spec"]["replicas"] = replicas
                self._api.update(self._replicasets, one.namespace, one.name, body)
        sets = self._children(obj, REPLICASETS)
        current = [one for one in sets if one.name == wanted]
        ready = _sum(sets, "readyReplicas")
        total = _sum(sets, "replicas")
        self._set_status(
            version,
            {
                "observedGeneration": obj["metadata"].get("generation", 1),
                "replicas": total,
                "updatedReplicas": _sum(current, "replicas"),
                "readyReplicas": ready,
                "availableReplicas": ready,
                "unavailableReplicas": max(0, int(spec.get("replicas") or 0) - ready),
            },
        )

    def _create_replicaset(self, deployment: JsonObject, name: str, mark: str) -> None:
        spec, meta = deployment["spec"], deployment["metadata"]
        template = copy_tree(spec["template"])
        labels = {**(dig(template, "metadata", "labels") or {}), _HASH_LABEL: mark}
        template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
        selector = copy_tree(spec["selector"])
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), _HASH_LABEL: mark}
        body: JsonObject = {
            "metadata": {
                "name": name,
                "namespace": meta["namespace"],
                "labels": labels,
                "ownerReferences": [reference_to(deployment)],
            },
            "spec": {
                "replicas": int(spec.get("replicas") or 0),
                "selector": selector,
                "template": template,
            },
        }
        self._api.create(self._replicasets, meta["namespace"], body)

    def _replicaset(self, version: Version) -> None:
        obj = version.obj
        spec = obj["spec"]
        pods = [one for one in self._children(obj, "pods") if is_active(one.obj)]
        missing = int(spec.get("replicas") or 0) - len(pods)
        for _ in range(missing):
            made = pod_from(spec["template"], obj)
            self._api.create(self._pods, version.namespace, made)
        if missing < 0:
            # Pods that no node runs go first, as upstream ranks them.
            ranked = sorted(
                pods, key=lambda one: (bool(one.obj["spec"].get("nodeName")), is_ready(one.obj))
            )
            for one in ranked[:-missing]:
                self._delete(self._pods, one.namespace, one.name)
        pods = [one for one in self._children(obj, "pods") if is_active(one.obj)]
        ready = sum(1 for one in pods if is_ready(one.obj))
        self._set_status(
            version,
            {
                "observedGeneration": obj["metadata"].get("generation", 1),
                "replicas": len(pods),
                "fullyLabeledReplicas": len(pods),
                "readyReplicas": ready,
                "availableReplicas": ready,
            },
        )

    def _job(self, version: Version) -> None:
        obj = version.obj
        spec, status = obj["spec"], obj.get("status") or {}
        if status.get("completionTime") or spec.get("suspend"):
            return
        pods = self._children(obj, "pods")
        active = [one for one in pods if is_active(one.obj)]
        succeeded = sum(1 for one in pods if dig(one.obj, "status", "phase") == "Succeeded")
        failed = sum(1 for one in pods if dig(one.obj, "status", "phase") == "Failed")
        completions = spec.get("completions")
        left = int(spec["parallelism"]) if completions is None else int(completions) - succeeded
        exhausted = failed > int(spec.get("backoffLimit", 6))
        missing = 0 if exhausted else min(int(spec["parallelism"]), left) - len(active)
        for _ in range(missing):
            made = pod_from(spec["template"], obj)
            self._api.create(self._pods, version.namespace, made)
        now = format_time(self._api.clock.now())
        new_status: JsonObject = {
            "startTime": status.get("startTime") or now,
            "active": len(active) + max(0, missing),
            "succeeded": succeeded,
            "failed": failed,
            "ready": sum(1 for one in active if is_ready(one.obj)),
        }
        if exhausted or left <= 0:
            kind = "Failed" if exhausted else "Complete"
            new_status["conditions"] = [{"type": kind, "status": "True", "lastTransitionTime": now}]
        if left <= 0:
            new_status["completionTime"] = now
        self._set_status(version, new_status)

    # ---------------------------------------------------------------------------------------- parts

    def _children(self, owner: JsonObject, table: str) -> list[Version]:
        keys = self._owned.get(str(owner["metadata"]["uid"]), {})
        found = (self._api.store.get(*key) for key in keys if key[0] == table)
        return [version for version in found if version is not None]

    def _set_status(self, version: Version, status: JsonObject) -> None:
        resource = self._reconcilers[_table(version)][0]
        self._api.patch(
            resource,
            version.namespace,
            version.name,
            {"status": status},
            MERGE_PATCH,
            subresource="status",
        )

    def _delete(self, resource: Resource, namespace: str, name: str) -> None:
        try:
            self._api.delete(resource, namespace, name)
        except ApiError:
            return


_TABLES: Final = {"Deployment": DEPLOYMENTS, "ReplicaSet": REPLICASETS, "Job": JOBS}


def _table(version: Version) -> str:
    return _TABLES[str(version.obj["kind"])]


def _sum(versions: Iterable[Version], field: str) -> int:
    return sum(int(dig(version.obj, "status", field) or 0) for version in versions)

"""The resource claim controller, and the drivers that publish devices of simulated nodes.

Claims are made for pods that name templates, and recorded in the status of the pod. A claim is
released when the pods that it is reserved for have ended, and loses its devices with the last of
them (`resourceclaim/controller.go: syncPod, syncClaim`). Claims made from templates are deleted
with their pods. The drivers are `simulator.devices`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from simulator.api import STRATEGIC_PATCH, Api
from simulator.device_strategies import CLAIMS
from simulator.devices import DEVICES, DevicesError, slices_of
from simulator.errors import ApiError
from simulator.objects import JsonObject, copy_tree, dig
from simulator.store import StoreChange, Version

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
TEMPLATES: Final = "resourceclaimtemplates.resource.k8s.io"
SLICES: Final = "resourceslices.resource.k8s.io"

MAX_PREFIX: Final = 57
"""Characters of a generated name before the random ones."""

_FINISHED: Final = ("Succeeded", "Failed")

Key = tuple[str, str, str]
"""Table, namespace, name."""


def is_finished(pod: JsonObject) -> bool:
    """Whether a pod uses nothing any more."""
    return dig(pod, "status", "phase") in _FINISHED


def generated_claim(pod: JsonObject, entry: str, template: JsonObject) -> JsonObject:
    """Return the claim for an entry of `spec.resourceClaims` of a pod."""
    meta, made = pod["metadata"], copy_tree(template.get("spec") or {})
    given = made.get("metadata") or {}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    return {
        "metadata": {
            "generateName": f"{meta['name']}-{entry}"[: MAX_PREFIX - 1] + "-",
            "namespace": meta["namespace"],
            "labels": given.get("labels") or {},
            "annotations": {**(given.get("annotations") or {}), POD_CLAIM_NAME: entry},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": made.get("spec") or {},
    }


def owning_pod(claim: JsonObject) -> JsonObject | None:
    """Return the reference to the pod that controls a claim, None for claims of users."""
    for reference in claim["metadata"].get("ownerReferences") or []:
        if reference.get("controller") and reference.get("kind") == "Pod":
            found: JsonObject = reference
            return found
    return None


class ResourceClaimController:
    """One queue of pods, claims and nodes to look at."""

    def __init__(self, api: Api) -> None:
        self._api = api
        resources = api.resources
        self._pods = resources.of_kind("v1", "Pod")
        self._claims = resources.of_kind("resource.k8s.io/v1", "ResourceClaim")
        self._slices = resources.of_kind("resource.k8s.io/v1", "ResourceSlice")
        self._dirty: dict[Key, None] = {}
        #: Names of claims made from templates, by the UID of the pod and its entry.
        self._made: dict[tuple[str, str], str] = {}
        #: What nodes last asked for, so that their heartbeats cost nothing.
        self._asked: dict[str, str] = {}
        #: Pods that wait for a template, by the key of the template.
        self._waiting: dict[Key, dict[Key, None]] = {}

    def observe(self, table: str, change: StoreChange, now: float) -> None:
        """Queue a changed pod, claim or node, and the claims of a pod that may have ended."""
        version = change.version
        key = (table, version.namespace, version.name)
        if table == "pods" and dig(version.obj, "spec", "resourceClaims"):
            self._dirty[key] = None
            self._dirty.update(dict.fromkeys(self._claims_of(version.obj)))
        elif table == "pods" and dig(version.obj, "status", "extendedResourceClaimStatus"):
            self._dirty.update(dict.fromkeys(self._claims_of(version.obj)))
        elif table == CLAIMS:
            self._dirty[key] = None
            self._note_made(change)
        elif table == "nodes":
            asked = _asked(version.obj) if change.type != "DELETED" else ""
            if asked != self._asked.get(version.name, ""):
                self._asked[version.name] = asked
                self._dirty[key] = None
        elif table == TEMPLATES and change.type == "ADDED":
            self._dirty.update(self._waiting.pop(key, {}))

    def _note_made(self, change: StoreChange) -> None:
        claim = change.version.obj
        owner = owning_pod(claim)
        entry = (claim["metadata"].get("annotations") or {}).get(POD_CLAIM_NAME)
        if owner is None or not entry:
            return
        if change.type == "DELETED":
            self._made.pop((owner["uid"], entry), None)
        else:
            self._made[owner["uid"], entry] = change.version.name

    def next_due(self) -> float | None:
        """At once while something is queued."""
        return 0.0 if self._dirty else None

    def work(self, now: float, limit: int) -> None:
        """Look at queued objects; a write that lost a race is repeated after the next change."""
        syncs = {"pods": self._sync_pod, CLAIMS: self._sync_claim, "nodes": self._sync_node}
        for key in list(self._dirty)[:limit]:
            self._dirty.pop(key, None)
            try:
                syncs[key[0]](key)
            except ApiError:
                continue

    def _claims_of(self, pod: JsonObject) -> Iterator[Key]:
        namespace = pod["metadata"]["namespace"]
        for entry in dig(pod, "spec", "resourceClaims") or []:
            if entry.get("resourceClaimName"):
                yield CLAIMS, namespace, entry["resourceClaimName"]
        for status in dig(pod, "status", "resourceClaimStatuses") or []:
            if status.get("resourceClaimName"):
                yield CLAIMS, namespace, status["resourceClaimName"]
        extended = dig(pod, "status", "extendedResourceClaimStatus", "resourceClaimName")
        if extended:
            yield CLAIMS, namespace, extended

    # -- pods ------------------------------------------------------------------------------------

    def _sync_pod(self, key: Key) -> None:
        version = self._api.store.get(*key)
        if version is None or is_finished(version.obj):
            return
        pod = version.obj
        if pod["metadata"].get("deletionTimestamp") and not pod["spec"].get("nodeName"):
            return
        known = {
            each["name"]: each.get("resourceClaimName")
            for each in dig(pod, "status", "resourceClaimStatuses") or []
        }
        made = {}
        for entry in pod["spec"].get("resourceClaims") or []:
            name, template = entry["name"], entry.get("resourceClaimTemplateName")
            if template and not self._has_claim(pod, known.get(name)):
                claim = self._make_claim(key, pod, name, template)
                if claim is not None:
                    made[name] = claim
        if made:
            names = {**{name: claim for name, claim in known.items() if claim}, **made}
            statuses = [{"name": n, "resourceClaimName": claim} for n, claim in names.items()]
            patch = {"status": {"resourceClaimStatuses": statuses}}
            self._api.patch(
                self._pods, key[1], key[2], patch, STRATEGIC_PATCH, subresource="status"
            )
        if pod["spec"].get("nodeName"):
            self._reserve(pod)

    def _has_claim(self, pod: JsonObject, name: str | None) -> bool:
        return (
            bool(name)
            and self._api.store.get(CLAIMS, pod["metadata"]["namespace"], str(name)) is not None
        )

    def _make_claim(self, key: Key, pod: JsonObject, entry: str, template: str) -> str | None:
        """Return the name of the claim for an entry, a new one unless the pod has it already."""
        namespace = pod["metadata"]["namespace"]
        made = self._made.get((pod["metadata"]["uid"], entry))
        if made is not None:
            return made
        found = self._api.store.get(TEMPLATES, namespace, template)
        if found is None:
            self._waiting.setdefault((TEMPLATES, namespace, template), {})[key] = None
            return None
        body = generated_claim(pod, entry, found.obj)
        return self._api.create(self._claims, namespace, body).name

    def _reserve(self, pod: JsonObject) -> None:
        """Reserve allocated claims for a pod that another scheduler has bound without doing so."""
        meta = pod["metadata"]
        consumer = {"resource": "pods", "name": meta["name"], "uid": meta["uid"]}
        for table, namespace, name in self._claims_of(pod):
            found = self._api.store.get(table, namespace, name)
            if found is None or not dig(found.obj, "status", "allocation"):
                continue
            reserved = dig(found.obj, "status", "reservedFor") or []
            if all(each.get("uid") != meta["uid"] for each in reserved):
                status = {**found.obj["status"], "reservedFor": [*reserved, consumer]}
                self._write_status(found, status)

    # -- claims ----------------------------------------------------------------------------------

    def _sync_claim(self, key: Key) -> None:
        found = self._api.store.get(*key)
        if found is None:
            return
        claim, status = found.obj, found.obj.get("status") or {}
        reserved = status.get("reservedFor") or []
        left = [each for each in reserved if self._uses(key[1], each)]
        deleted = claim["metadata"].get("deletionTimestamp")
        if len(left) < len(reserved) or (deleted and not left):
            status = {**status, "reservedFor": left}
            if not left:
                status = {k: v for k, v in status.items() if k not in ("allocation", "devices")}
                status.pop("reservedFor")
            if status != (claim.get("status") or {}):
                found = self._write_status(found, status)
            finalizers = found.obj["metadata"].get("finalizers") or []
            if not left and FINALIZER in finalizers:
                body = copy_tree(found.obj)
                kept = [each for each in finalizers if each != FINALIZER]
                body["metadata"]["finalizers"] = kept
                self._api.update(self._claims, key[1], key[2], body)
        self._collect(key)

    def _collect(self, key: Key) -> None:
        """Delete a claim that was made for a pod which has ended."""
        found = self._api.store.get(*key)
        if found is None or found.obj["metadata"].get("deletionTimestamp"):
            return
        owner = owning_pod(found.obj)
        if owner is not None and not self._uses(key[1], owner):
            self._api.delete(self._claims, key[1], key[2])

    def _uses(self, namespace: str, consumer: JsonObject) -> bool:
        """Whether the pod of a reference exists and has not ended."""
        pod = self._api.store.get("pods", namespace, consumer.get("name", ""))
        if pod is None or pod.obj["metadata"]["uid"] != consumer.get("uid"):
            return False
        return not is_finished(pod.obj)

    def _write_status(self, found: Version, status: JsonObject) -> Version:
        body = {**copy_tree(found.obj), "status": copy_tree(status)}
        return self._api.update(
            self._claims, found.namespace, found.name, body, subresource="status"
        )

    # -- nodes -----------------------------------------------------------------------------------

    def _sync_node(self, key: Key) -> None:
        """Publish the devices that a node asks for, and withdraw others that were published."""
        node = self._api.store.get(*key)
        try:
            wanted = [] if node is None else slices_of(node.obj)
        except DevicesError:
            return
        names = {each["metadata"]["name"]: each for each in wanted}
        for version in self._api.store.items(SLICES):
            if not _published_by(version.obj, key[2]):
                continue
            new = names.pop(version.name, None)
            if new is None:
                self._api.delete(self._slices, "", version.name)
            elif _devices(new) != _devices(version.obj):
                pool = {**new["spec"]["pool"], "generation": _generation(version.obj) + 1}
                spec = {**new["spec"], "pool": pool}
                self._api.update(self._slices, "", version.name, {**version.obj, "spec": spec})
        for each in names.values():
            self._api.create(self._slices, "", each)


def _published_by(published: JsonObject, node: str) -> bool:
    owners = published["metadata"].get("ownerReferences") or []
    return any(each.get("kind") == "Node" and each.get("name") == node for each in owners)


def _asked(node: JsonObject) -> str:
    return str((node["metadata"].get("annotations") or {}).get(DEVICES) or "")


def _devices(published: JsonObject) -> tuple[object, object]:
    spec = published["spec"]
    return spec.get("devices"), spec["pool"]["resourceSliceCount"]


def _generation(published: JsonObject) -> int:
    return int(published["spec"]["pool"]["generation"])

"""Setting up a world on the API server, reading it back as stored, and clearing it away."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks.fuzz.proxy import WriteProxy

Object = dict[str, Any]

NAMESPACES: Final = ("default", "prod", "dev", "staging")

PATHS: Final[Mapping[str, tuple[str, bool]]] = {
    "nodes": ("/api/v1/nodes", False),
    "storageClasses": ("/apis/storage.k8s.io/v1/storageclasses", False),
    "csiDrivers": ("/apis/storage.k8s.io/v1/csidrivers", False),
    "csiNodes": ("/apis/storage.k8s.io/v1/csinodes", False),
    "csiStorageCapacities": ("/apis/storage.k8s.io/v1/csistoragecapacities", True),
    "volumeAttachments": ("/apis/storage.k8s.io/v1/volumeattachments", False),
    "persistentVolumeClaims": ("/api/v1/persistentvolumeclaims", True),
    "persistentVolumes": ("/api/v1/persistentvolumes", False),
    "services": ("/api/v1/services", True),
    "replicationControllers": ("/api/v1/replicationcontrollers", True),
    "replicaSets": ("/apis/apps/v1/replicasets", True),
    "statefulSets": ("/apis/apps/v1/statefulsets", True),
    "podDisruptionBudgets": ("/apis/policy/v1/poddisruptionbudgets", True),
    "pods": ("/api/v1/pods", True),
}
"""Kind to (collection, namespaced), in the order of creation."""

_AT_ONCE: Final = 16
_STATUS: Final = frozenset(
    ("nodes", "pods", "persistentVolumes", "persistentVolumeClaims", "podDisruptionBudgets")
)


class Setup:
    """The API server's objects except pods that are to be scheduled."""

    def __init__(self, proxy: WriteProxy) -> None:
        self._call = proxy.call
        #: Why the API server rejected objects, one text for each.
        self.refused: list[str] = []

    async def prepare(self) -> None:
        """Create the namespaces; once per control plane."""
        for name in NAMESPACES[1:]:
            await self._call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    async def set_up(self, objects: Mapping[str, Sequence[Object]]) -> dict[str, list[Object]]:
        """Create all objects and return them as stored."""
        self.refused.clear()
        await self._label_namespaces(objects.get("namespaces", ()))
        claims = dict[tuple[str, str], tuple[str, str]]()
        for kind in PATHS:
            listed = [_fresh(each) for each in objects.get(kind, ())]
            if kind == "persistentVolumes":
                for volume in listed:
                    _follow(volume, claims)
            # The first node that reports an image decides its size, so their order counts.
            step = 1 if kind == "nodes" else _AT_ONCE
            for start in range(0, len(listed), step):
                batch = listed[start : start + step]
                stored = await asyncio.gather(*(self._create(kind, each) for each in batch))
                if kind == "persistentVolumeClaims":
                    given = objects[kind][start : start + step]
                    for before, after in zip(given, stored, strict=True):
                        if after:
                            meta = after["metadata"]
                            uid = before["metadata"].get("uid", "")
                            claims[meta["namespace"], meta["name"]] = uid, meta["uid"]
        return await self.stored()

    async def stored(self) -> dict[str, list[Object]]:
        """Return every object of these kinds."""
        kinds = [*PATHS, "namespaces"]
        paths = [path for path, _ in PATHS.values()] + ["/api/v1/namespaces"]
        responses = await asyncio.gather(*(self._call("GET", path) for path in paths))
        return {
            kind: [each for each in response["items"] if each["metadata"]["name"] != "kubernetes"]
            for kind, response in zip(kinds, responses, strict=True)
        }

    async def apply(
        self, verb: str, kind: str, target: Object, body: Object
    ) -> dict[str, list[Object]]:
        """Apply one change (`worlds.change`) and return every object as stored afterwards."""
        if verb == "POST":
            await self._create(kind, body)
        elif verb:
            path, namespaced = PATHS.get(kind, ("/api/v1/namespaces", False))
            metadata = target["metadata"]
            if namespaced:
                head, _, plural = path.rpartition("/")
                path = f"{head}/namespaces/{metadata['namespace']}/{plural}"
            own = f"{path}/{metadata['name']}" + ("/status" if "status" in body else "")
            try:
                await self._call(verb, own, body)
            except RuntimeError as error:
                self.refused.append(str(error))
        return await self.stored()

    async def nominate(self, space: str, name: str, node: str) -> None:
        """Write, or take away, a pod's nomination, which kube-scheduler was kept from doing."""
        path = f"/api/v1/namespaces/{space}/pods/{name}/status"
        await self._call("PATCH", path, {"status": {"nominatedNodeName": node or None}})

    async def clear(self) -> None:
        """Delete everything but the namespaces."""
        options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        for kind in reversed(list(PATHS)):
            path, namespaced = PATHS[kind]
            places = [path]
            if namespaced:
                head, _, plural = path.rpartition("/")
                places = [f"{head}/namespaces/{space}/{plural}" for space in NAMESPACES]
            await asyncio.gather(*(self._call("DELETE", each, options) for each in places))
            if kind == "persistentVolumeClaims":
                await self._release()

    async def _release(self) -> None:
        """Remove the finalizers of claims that wait for deletion."""
        path, _ = PATHS["persistentVolumeClaims"]
        for each in (await self._call("GET", path))["items"]:
            space, name = each["metadata"]["namespace"], each["metadata"]["name"]
            own = f"/api/v1/namespaces/{space}/persistentvolumeclaims/{name}"
            await self._call("PATCH", own, {"metadata": {"finalizers": None}})

    async def _label_namespaces(self, given: Sequence[Object]) -> None:
        labels = {each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in given}
        for name in NAMESPACES:
            path = f"/api/v1/namespaces/{name}"
            old = (await self._call("GET", path))["metadata"].get("labels", {})
            removed = {key: None for key in old if key != "kubernetes.io/metadata.name"}
            body = {"metadata": {"labels": removed | labels.get(name, {})}}
            await self._call("PATCH", path, body)

    async def _create(self, kind: str, given: Object) -> Object | None:
        path, namespaced = PATHS[kind]
        if namespaced:
            head, _, plural = path.rpartition("/")
            space = given["metadata"].setdefault("namespace", "default")
            path = f"{head}/namespaces/{space}/{plural}"
        deleting = given["metadata"].pop("deletionTimestamp", None)
        given["metadata"].pop("deletionGracePeriodSeconds", None)
        try:
            stored: Object = await self._call("POST", path, given)
            own = f"{path}/{stored['metadata']['name']}"
            if given.get("status") and kind in _STATUS:
                patch = {"status": given["status"]}
                stored = await self._call("PATCH", f"{own}/status", patch)
            if deleting:
                await self._call("DELETE", own, {"gracePeriodSeconds": 3600})
        except RuntimeError as error:
            self.refused.append(str(error))
            return None
        return stored


def _fresh(given: Object) -> Object:
    """A copy without what only the API server may set."""
    metadata = {k: v for k, v in given["metadata"].items() if k not in ("uid", "resourceVersion")}
    return {**given, "metadata": metadata}


def _follow(volume: Object, claims: Mapping[tuple[str, str], tuple[str, str]]) -> None:
    """Give a volume's reference to its claim the UID that the claim has now."""
    reference = volume["spec"].get("claimRef")
    if reference:
        before, now = claims.get((reference.get("namespace"), reference.get("name")), ("", ""))
        if now and reference.get("uid") in (before, "claim"):
            volume["spec"] = {**volume["spec"], "claimRef": {**reference, "uid": now}}

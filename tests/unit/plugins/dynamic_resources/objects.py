"""A cluster with slices, classes and claims, and an API that stores what the plugin writes."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Collection, Coroutine, Mapping
from types import SimpleNamespace
from typing import Any

import msgspec

from plugins import DynamicResources
from plugins.dynamic_resources.arguments import DynamicResourcesArgs
from plugins.dynamic_resources.cluster_devices import ClusterDevices
from plugins.dynamic_resources.permissions import CLAIMS, CLASSES, SLICES
from scheduler.api import Pod
from scheduler.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from scheduler.api.stored.merging import CLAIM_RULES, Merger, merge_patch
from scheduler.framework import CycleState, ObjectKey, QueuedPodInfo, WriteConflictError
from scheduler.framework.status import Status
from tests.unit.plugins.clusters import Cluster, node
from tests.unit.plugins.clusters import pod as plain_pod
from tests.unit.plugins.dynamic_resources.worlds import DRIVER, decoded, request

NOW = 1_750_000_000.0
FINALIZER = "resource.kubernetes.io/delete-protection"


class Api:
    """Stores claims, and shows each change to the watch, at once or with `show`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._version = itertools.count(100)
        self.stored: dict[str, Any] = {}
        #: Writes in order: verb, what, name.
        self.log: list[tuple[str, str, str]] = []
        #: Raised by the next writes, before (False) or after (True) they are stored.
        self.failures: list[tuple[bool, Exception] | None] = []
        #: Called at the beginning of each wait, to change something.
        self.meanwhile: list[Callable[[], None]] = []
        self.lagging = False
        self._unshown: list[tuple[str, Any]] = []
        self.pod_patches: list[Any] = []

    def put(self, claim: dict[str, Any]) -> None:
        """Store a claim as another client would."""
        raw = msgspec.json.decode(msgspec.json.encode(claim))
        raw["metadata"]["resourceVersion"] = str(next(self._version))
        name = raw["metadata"]["name"]
        self.stored[name] = raw
        self._unshown.append((name, raw))
        if not self.lagging:
            self.show()

    def remove(self, name: str) -> None:
        """Remove a claim as another client would."""
        raw = self.stored.pop(name)
        self._unshown.append((name, {**raw, "gone": True}))
        if not self.lagging:
            self.show()

    def show(self, count: int | None = None) -> None:
        """Deliver changes to the watch."""
        for _, raw in self._unshown[:count]:
            claim = decoded(raw, ResourceClaim)
            if "gone" in raw:
                self._cluster.delete_object(CLAIMS, claim)
            else:
                self._cluster.add_object(CLAIMS, claim)
        del self._unshown[:count]

    @property
    def unshown(self) -> int:
        """Changes that the watch has not delivered."""
        return len(self._unshown)

    async def get(self, plural: str, name: str, namespace: str) -> Any | None:
        raw = self.stored.get(name)
        return None if raw is None else decoded(raw, ResourceClaim)

    async def create(self, plural: str, namespace: str, body: Mapping[str, Any]) -> Any:
        name = f"{body['metadata']['generateName']}1"
        self.log.append(("create", "claim", name))
        spec = {"devices": {"requests": body["spec"]["devices"]["requests"] or []}}
        metadata = {**body["metadata"], "name": name, "uid": f"uid-{name}"}
        self.put({"metadata": metadata, "spec": spec})
        return await self.get(plural, name, namespace)

    async def patch(
        self,
        plural: str,
        name: str,
        namespace: str,
        body: Mapping[str, Any],
        subresource: str = "",
        *,
        strategic: bool = False,
    ) -> Any:
        self.log.append(("patch", f"{plural}/{subresource}" if subresource else plural, name))
        if plural == "pods":
            self.pod_patches.append(body)
            return None
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None and not failure[0]:
            raise failure[1]
        raw = self.stored.get(name)
        if raw is None:
            raise WriteConflictError("not found", 404)
        raw = msgspec.json.decode(msgspec.json.encode(raw))
        metadata = body.get("metadata", {})
        for key in ("uid", "resourceVersion"):
            if key in metadata and raw["metadata"][key] != metadata[key]:
                raise WriteConflictError("the object has been modified", 409)
        raw = (Merger(CLAIM_RULES).merge if strategic else merge_patch)(raw, dict(body))
        status = raw.get("status", {})
        if status.get("reservedFor") and not status.get("allocation"):
            raise ValueError("reservedFor may not be specified when `allocated` is not set")
        self.put(raw)
        if failure is not None:
            raise failure[1]
        return decoded(self.stored[name], ResourceClaim)

    async def delete(self, plural: str, name: str, namespace: str, uid: str = "") -> None:
        self.log.append(("delete", plural, name))
        self.remove(name)

    async def wait_for(self, look: Callable[[], Collection[ObjectKey]], seconds: float) -> bool:
        while True:
            self.show()
            if not look():
                return True
            if not self.meanwhile:
                return False
            self.meanwhile.pop(0)()


class DeviceCluster:
    """Nodes with devices, a plugin on them, and its API."""

    def __init__(self, *nodes: str, **gates: bool) -> None:
        self.cluster = Cluster(node(each) for each in nodes or ("n1", "n2"))
        self.api = Api(self.cluster)
        self.events: list[str] = []
        self.counted: list[tuple[str, ...]] = []
        self.woken: list[str] = []
        self.background: list[Coroutine[Any, Any, None]] = []
        self.now = NOW
        self.monotonic = 0.0
        shared: dict[str, Any] = {}

        def of_name(name: str, make: Callable[[], Any]) -> Any:
            if name not in shared:
                shared[name] = make()
            return shared[name]

        handle: Any = self.cluster.handle(self.api, **gates)
        self.handle: Any = handle
        handle.shared = of_name
        handle.profile_name = "kubestow"
        handle.clock = SimpleNamespace(now=lambda: self.now, monotonic=self._monotonic)
        handle.random = random.Random(1)
        handle.events = SimpleNamespace(record=self._record)
        handle.metrics = SimpleNamespace(
            count=lambda *labels: self.counted.append(labels),
            observe=lambda *labels, value: self.counted.append(labels),
        )
        handle.run_in_background = lambda work, _name: self.background.append(work)
        handle.wake = lambda uids, _plugin: self.woken.extend(uids)
        self.plugin = DynamicResources(DynamicResourcesArgs(), self.handle)

    def _record(self, _pod: Pod, _type: str, reason: str, _action: str, note: str) -> None:
        self.events.append(f"{reason}: {note}")

    def _monotonic(self) -> float:
        return self.monotonic

    @property
    def devices(self) -> ClusterDevices:
        """The devices that the plugins share."""
        found: ClusterDevices = self.handle.shared("DynamicResources", None)
        return found

    def add_class(self, name: str = "gpu", *expressions: str, **spec: Any) -> None:
        """Add a class, by default one that every device matches."""
        selectors = [{"cel": {"expression": each}} for each in expressions]
        raw = {"metadata": {"name": name}, "spec": {"selectors": selectors, **spec}}
        self.cluster.add_object(CLASSES, decoded(raw, DeviceClass))

    def add_slice(
        self, node_name: str, *devices: dict[str, Any], name: str = "", **spec: Any
    ) -> None:
        """Add a slice, by default the only one, of a pool named like its node."""
        raw = {
            "driver": DRIVER,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
            "nodeName": node_name,
            "devices": devices,
            **spec,
        }
        metadata = {"name": name or f"slice-{node_name}"}
        made = decoded({"metadata": metadata, "spec": raw}, ResourceSlice)
        self.cluster.add_object(SLICES, made)

    def add_claim(self, name: str = "c", *requests: dict[str, Any], **parts: Any) -> None:
        """Store a claim for one device, or for those of `requests`."""
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        metadata |= parts.pop("metadata", {})
        devices = {"requests": requests or (request(),)}
        self.api.put({"metadata": metadata, "spec": {"devices": devices}, **parts})

    def pod(self, *claims: str, name: str = "p", **spec: Any) -> Pod:
        """Return a pod that uses claims of these names."""
        entries = [{"name": each, "resourceClaimName": each} for each in claims]
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        return plain_pod({"resourceClaims": entries, **spec}, metadata=metadata)

    def state(self, pod: Pod) -> CycleState:
        """Return the state of a real attempt."""
        return CycleState(now=self.now, info=QueuedPodInfo(pod, 0.0))

    def filtered(self, pod: Pod) -> tuple[CycleState, dict[str, str]]:
        """Run PreFilter and Filter, in both forms; return the text by rejected node."""
        state, table = self.state(pod), self.cluster.table
        status = self.plugin.pre_filter(state, pod, table)
        if status is not None:
            return state, {"*": status.message or status.code.label}
        codes = self.plugin.filter_rows(state, pod, table, table.rows).tolist()
        found = {}
        for row, code in zip(table.rows.tolist(), codes, strict=True):
            scalar = self.plugin.filter(state, pod, table.node_info(row))
            columnar = self.plugin.filter_status(state, pod, code) if code else None
            assert scalar == columnar
            if scalar is not None:
                found[table.names[row]] = scalar.message
        return state, found

    def reserved(self, pod: Pod, node_name: str = "n1") -> CycleState:
        """Run a pod's attempt up to Reserve."""
        state, rejected = self.filtered(pod)
        assert node_name not in rejected
        assert "*" not in rejected
        assert self.plugin.reserve(state, pod, node_name) is None
        return state

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str = "n1") -> Status | None:
        """Run PreBind."""
        return asyncio.run(self.plugin.pre_bind(state, pod, node_name))

    def finish(self) -> None:
        """Run the work in the background."""
        while self.background:
            asyncio.run(self.background.pop(0))

    def status_of(self, name: str) -> Any:
        """Return the stored status of a claim."""
        return self.api.stored[name].get("status", {})

    def taken(self) -> set[str]:
        """Return the devices that are taken: pool and name."""
        return {f"{each.pool}/{each.device}" for each in self.devices.allocated.state().exclusive}


def device(name: str, **parts: Any) -> dict[str, Any]:
    """Return a device."""
    return {"name": name, **parts}

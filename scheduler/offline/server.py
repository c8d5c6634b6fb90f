"""The API server of a world, as the scheduler's writes see it: no HTTP, no latency, no failures.

It takes Bindings, creations, patches and deletions, and plays the parts of the cluster that answer
to them: a kubelet that ends a deleted pod after its grace period, and the controllers of volumes
(`volumes`) and of device claims (`device_claims`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from scheduler.api.meta import Condition, ObjectMeta, second_time
from scheduler.api.pod import Pod, PodStatus
from scheduler.api.signal import Signal
from scheduler.api.stored.merging import CLAIM_RULES, Merger, merge_patch
from scheduler.cache.cache import with_node
from scheduler.client.custom_resources import resource_of
from scheduler.client.errors import ApiError, StatusBody
from scheduler.client.request_sender import STRATEGIC_MERGE_PATCH
from scheduler.client.resources import PODS, Resource
from scheduler.client.status_patch import PodStatusPatch
from scheduler.offline.device_claims import CLAIMS, ResourceClaimController
from scheduler.offline.tables import Tables, bound
from scheduler.offline.virtual_time import VirtualClock, VirtualLoop
from scheduler.offline.volumes import VolumeControllers

GRACE_PERIOD: Final = 30.0
"""Seconds that a pod runs on after its deletion unless it says otherwise, as in a cluster."""


class _StatusChange(msgspec.Struct, rename="camel"):
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str | msgspec.UnsetType | None = msgspec.UNSET
    extended_resource_claim_status: Any = msgspec.UNSET


class _StatusPatch(msgspec.Struct):
    status: _StatusChange


class _Response(msgspec.Struct):
    body: bytes


_POD_STATUS: Final = re.compile("/api/v1/namespaces/([^/]+)/pods/([^/]+)/status").fullmatch
_patch_decoder = msgspec.json.Decoder(_StatusPatch)


class OfflineServer:
    """Stands in for the service's `ApiClient`; of that it has what the service's writers call."""

    timeout = 30.0

    def __init__(self, tables: Tables, loop: VirtualLoop, clock: VirtualClock) -> None:
        self.clock = clock
        self._tables = tables
        self._loop = loop
        self._volumes = VolumeControllers(tables)
        self._claims = ResourceClaimController(tables)
        #: Pods that were deleted and still run, by UID.
        self.terminating: set[str] = set()
        #: Called with each pod that was bound, and with each that a write deleted.
        self.on_bound = Signal[[Pod]]()
        self.on_evicted = Signal[[Pod]]()

    # -- what the service's writers call ---------------------------------------------------------

    async def bind(
        self,
        pod: Pod,
        node_name: str,
        annotations: Mapping[str, str] | None = None,
        precondition: Callable[[], str] | None = None,
    ) -> None:
        """Create a Binding."""
        if precondition is not None and (reason := precondition()):
            raise _refused("POST", pod.key, 412, "PreconditionFailed", reason)
        stored = self._pod(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)
        if bound(stored):
            text = f"pod {pod.key} is already assigned to node {stored.spec.node_name}"
            raise _refused("POST", pod.key, 409, "Conflict", text)
        changed = with_node(stored, node_name)
        if annotations:
            changed.metadata = msgspec.structs.replace(
                changed.metadata, annotations={**changed.metadata.annotations, **annotations}
            )
        self._tables.put("pods", changed)
        self.on_bound(changed)

    def write_status(self, patch: PodStatusPatch) -> str:
        """Patch the status of a pod; return its resourceVersion. Raises ApiError."""
        change = _StatusChange(patch.conditions)
        if patch.nominated_node_name is not None:
            change.nominated_node_name = patch.nominated_node_name
        pod = self._pod(patch.namespace, patch.name)
        return self._change_status(pod, change).metadata.resource_version

    async def request(self, method: str, path: str, *, body: Any = None, **_: Any) -> Any:
        """Patch the status of a pod; the service sends no other request of this form."""
        matched = _POD_STATUS(path)
        if matched is None:
            raise _refused(method, path, 404, "NotFound", "a world has no such path")
        namespace, name = map(unquote, matched.groups())
        pod = self._pod(namespace, name)
        change = _patch_decoder.decode(body).status
        changed = self._change_status(pod, change)
        return _Response(
            msgspec.json.encode(
                {"metadata": {"resourceVersion": changed.metadata.resource_version}}
            )
        )

    async def patch(
        self,
        resource: Resource[Any],
        name: str,
        namespace: str = "",
        *,
        body: Any,
        patch_type: str = "",
        subresource: str = "",
    ) -> Any:
        """Apply a JSON merge patch, or of a claim a strategic one."""
        plural = resource.plural
        if resource is PODS:
            pod = self._pod(namespace, name, (body.get("metadata") or {}).get("uid", ""))
            if subresource == "status":
                return self._change_status(pod, msgspec.convert(body, _StatusPatch).status)
            return self._change_metadata(pod, body.get("metadata") or {})
        item = self._tables.get(plural, name, namespace)
        if item is None:
            raise _not_found("PATCH", resource, name, namespace)
        expected = (body.get("metadata") or {}).get("resourceVersion")
        if expected not in (None, item.metadata.resource_version):
            text = f"{plural} {name}: the object has been modified"
            raise _refused("PATCH", name, 409, "Conflict", text)
        if (uid := (body.get("metadata") or {}).get("uid")) not in (None, item.metadata.uid):
            text = f"{plural} {name}: the UID in the precondition ({uid}) is another one"
            raise _refused("PATCH", name, 409, "Conflict", text)
        # Through JSON, since parameters of drivers are kept as such.
        known = msgspec.json.decode(msgspec.json.encode(item))
        # A plugin may have declared a type, which its name does not say.
        typed = resource_of(plural, type(item))
        strategic = plural == CLAIMS and patch_type == STRATEGIC_MERGE_PATCH
        merge = Merger(CLAIM_RULES).merge if strategic else merge_patch
        changed = typed.decode(msgspec.json.encode(merge(known, body)))
        self._tables.put(plural, changed)
        self._volumes.written(plural, changed)
        return changed

    def catch_up(self) -> None:
        """Let the volume controllers do what nobody wrote to them about."""
        self._volumes.catch_up()

    def catch_up_claims(self) -> None:
        """Let the claim controller make and release claims."""
        self._claims.catch_up()

    async def create(self, resource: Resource[Any], body: Any, namespace: str = "") -> Any:
        """Create an object, whose name may be left to the server."""
        item = resource.decode(msgspec.json.encode(body))
        metadata, uid = item.metadata, self._tables.new_uid()
        metadata.name = metadata.name or f"{metadata.generate_name}{uid[-5:]}"
        metadata.namespace, metadata.uid = namespace, uid
        if self._tables.get(resource.plural, metadata.name, namespace) is not None:
            text = f"{resource.plural} {metadata.name} already exists"
            raise _refused("POST", metadata.name, 409, "AlreadyExists", text)
        self._tables.put(resource.plural, item)
        return item

    async def get(self, resource: Resource[Any], name: str, namespace: str = "", **_: Any) -> Any:
        """Read one object."""
        found = self._tables.get(resource.plural, name, namespace)
        if found is None:
            raise _not_found("GET", resource, name, namespace)
        return found

    async def list(self, *_: Any, **__: Any) -> list[Any]:
        """Return nothing: the scheduler lists finished pods only, which a world does not have."""
        return []

    async def delete(
        self, resource: Resource[Any], name: str, namespace: str = "", *, uid: str = "", **_: Any
    ) -> None:
        """Delete an object; a bound pod ends after its grace period."""
        if resource is PODS:
            pod = self._pod(namespace, name, uid)
            if pod.metadata.uid not in self.terminating:
                self.on_evicted(pod)
                self.terminate(pod)
            return
        item = self._tables.get(resource.plural, name, namespace)
        if item is None:
            raise _not_found("DELETE", resource, name, namespace)
        self._tables.remove(resource.plural, item)

    def derive(self, *_: Any, **__: Any) -> OfflineServer:
        """Return the same server: nothing has a rate limit."""
        return self

    # -- the kubelet -----------------------------------------------------------------------------

    def terminate(self, pod: Pod) -> None:
        """Delete a pod as a user would: what runs has its grace period."""
        own = pod.spec.termination_grace_period_seconds
        seconds = GRACE_PERIOD if own is None else float(own)
        if not bound(pod) or seconds <= 0:
            self._tables.remove("pods", pod)
            return
        metadata = msgspec.structs.replace(
            pod.metadata,
            deletion_timestamp=second_time(self.clock.now() + seconds),
            deletion_grace_period_seconds=int(seconds),
        )
        self.terminating.add(pod.metadata.uid)
        self._tables.put("pods", msgspec.structs.replace(pod, metadata=metadata))
        self._loop.call_later(seconds, self.end, pod.metadata.namespace, pod.metadata.name,
                              pod.metadata.uid)  # fmt: skip

    def end(self, namespace: str, name: str, uid: str) -> bool:
        """Let a pod end: it disappears, as finished pods leave the scheduler's watch.

        Returns whether it still existed.
        """
        self.terminating.discard(uid)
        pod = self._tables.pods.get(name, namespace)
        if pod is None or pod.metadata.uid != uid:
            return False
        self._tables.remove("pods", pod)
        return True

    def _change_status(self, pod: Pod, change: _StatusChange) -> Pod:
        status = pod.status
        if change.conditions:
            types = {each.type for each in change.conditions}
            kept = tuple(each for each in status.conditions if each.type not in types)
            status = msgspec.structs.replace(status, conditions=kept + change.conditions)
        if change.nominated_node_name is not msgspec.UNSET:
            status = msgspec.structs.replace(
                status, nominated_node_name=change.nominated_node_name or ""
            )
        if change.extended_resource_claim_status is not msgspec.UNSET:
            given = {"extendedResourceClaimStatus": change.extended_resource_claim_status}
            extended = msgspec.convert(given, PodStatus).extended_resource_claim_status
            status = msgspec.structs.replace(status, extended_resource_claim_status=extended)
        changed = msgspec.structs.replace(pod, status=status)
        self._tables.put("pods", changed)
        return changed

    def _change_metadata(self, pod: Pod, patch: Mapping[str, Any]) -> Pod:
        own = {key: value for key, value in patch.items() if key != "uid"}
        metadata = merge_patch(msgspec.to_builtins(pod.metadata), own)
        changed = msgspec.structs.replace(pod, metadata=msgspec.convert(metadata, ObjectMeta))
        self._tables.put("pods", changed)
        return changed

    def _pod(self, namespace: str, name: str, uid: str = "") -> Pod:
        pod = self._tables.pods.get(name, namespace)
        if pod is None:
            raise _not_found("GET", PODS, name, namespace)
        if uid and pod.metadata.uid != uid:
            text = f"the UID in the precondition ({uid}) does not match {pod.metadata.uid}"
            raise _refused("PATCH", pod.key, 409, "Conflict", text)
        return pod


def _not_found(method: str, resource: Resource[Any], name: str, namespace: str) -> ApiError:
    where = f"{namespace}/{name}" if namespace else name
    return _refused(method, where, 404, "NotFound", f"{resource.plural} {where} not found")


def _refused(method: str, path: str, status: int, reason: str, message: str) -> ApiError:
    body = StatusBody(status="Failure", message=message, reason=reason, code=status)
    return ApiError(method, path, status=status, body=body)

"""Writes of PreBind: the allocation and the reservation of each claim of a pod.

Upstream: `dynamicresources.go: bindClaim`. Every write names uid and resourceVersion, so that it is
refused if anybody changed the claim since. A write without response is looked up before anything
else; as long as nobody knows whether it was stored, its devices stay taken.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from plugins.dynamic_resources.attempt import Attempt
from plugins.dynamic_resources.claim_cache import is_at_least
from plugins.dynamic_resources.claims import claim_key, is_reserved_for
from plugins.dynamic_resources.cluster_devices import ClusterDevices
from plugins.dynamic_resources.extended_resources import UNNAMED, RequestMapping
from plugins.dynamic_resources.permissions import CLAIMS
from scheduler.api.devices import (
    AllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.framework import (
    ApiWriter,
    Handle,
    ObjectKey,
    OutcomeUnknownError,
    WriteConflictError,
)

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
STATUS: Final = "status"

TRIES: Final = 5
"""Of one claim, each after the first with the claim as the API server has it."""
SEEN_SECONDS: Final = 120.0
"""Wait for the watch to show a claim that was created."""
LATE: Final = (
    "claim {claim}: a device was allocated to another claim at the same time, by another scheduler"
)


class PreBindError(Exception):
    """The claims cannot be prepared; the pod is scheduled again."""


class ClaimWriter:
    """Writes the claims of one pod, one after the other."""

    def __init__(
        self, handle: Handle, devices: ClusterDevices, attempt: Attempt, pod: Pod, node: Node
    ) -> None:
        self._handle = handle
        self._api: ApiWriter = handle.api
        self._devices = devices
        self._attempt = attempt
        self._pod = pod
        self._node = node

    async def write(self) -> None:
        """Write all claims; raises `PreBindError`."""
        claims = self._attempt.claims
        for claim in claims.named:
            if not is_reserved_for(claim, self._pod):
                await self._write(claim, claims.reserved.get(claim.metadata.uid))
        extra, mappings = self._attempt.extra_claim(self._attempt.served(self._node))
        if extra is not None:
            await self._write_extra(extra, mappings)

    # -- one claim -------------------------------------------------------------------------------

    async def _write(
        self,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
        *,
        is_new: bool = False,
    ) -> ResourceClaim:
        """Store the allocation, if there is one to store, and the reservation.

        The watch may not show a claim yet that `is_new`.
        """
        uid, key = claim.metadata.uid, claim_key(claim)
        problem: Exception | None = None
        for number in range(TRIES):
            if number:
                claim = await self._read_again(claim, problem)
            if self._is_done(claim, allocation):
                break
            written = await self._try(claim, allocation)
            if isinstance(written, ResourceClaim):
                claim = written
                break
            problem = written
        else:
            assert problem is not None
            if isinstance(problem, OutcomeUnknownError):
                self._settle_later(claim)
            raise self._failed(key, allocation, problem) from problem
        self._attempt.claims.written[uid] = claim
        if self._devices.claims.assume(claim) or not is_new:
            self._devices.end(uid)
        if allocation is not None:
            await self._check_rivals(claim, is_new=is_new)
        return claim

    def _is_done(self, claim: ResourceClaim, allocation: AllocationResult | None) -> bool:
        """Whether an earlier write was stored whose response was lost; raises `PreBindError`."""
        stored, key = claim.status.allocation, claim_key(claim)
        if allocation is not None and stored is not None and _same(stored, allocation):
            return is_reserved_for(claim, self._pod)
        if claim.metadata.deletion_timestamp is not None:
            raise PreBindError(f"claim {key} got deleted in the meantime")
        if allocation is not None and stored is not None:
            raise PreBindError(f"claim {key} got allocated elsewhere in the meantime")
        return False

    async def _try(
        self, claim: ResourceClaim, allocation: AllocationResult | None
    ) -> ResourceClaim | Exception:
        """Return the written claim, or the failure after which another try makes sense."""
        try:
            return await self._write_once(claim, allocation)
        except OutcomeUnknownError as error:
            return error
        except WriteConflictError as error:
            if error.status != _NOT_FOUND:
                return error
            raise self._failed(claim_key(claim), allocation, error) from error
        except PreBindError:
            raise
        except Exception as error:
            raise self._failed(claim_key(claim), allocation, error) from error

    async def _write_once(
        self, claim: ResourceClaim, allocation: AllocationResult | None
    ) -> ResourceClaim:
        finalizers = claim.metadata.finalizers
        if allocation is not None and FINALIZER not in finalizers:
            body = _head(claim, finalizers=[*finalizers, FINALIZER])
            try:
                claim = await self._patch(claim, body)
            except (WriteConflictError, OutcomeUnknownError):
                raise
            except Exception as error:
                raise PreBindError(f"add finalizer to claim {claim_key(claim)}: {error}") from error
        stored = allocation or claim.status.allocation
        if stored is None:
            raise PreBindError(
                f"claim {claim_key(claim)} got deallocated elsewhere in the meantime"
            )
        changes: dict[str, Any] = {}
        if allocation is not None:
            changes = plain(allocation)
        if self._devices.features.binding_conditions and stored.allocation_timestamp is None:
            changes["allocationTimestamp"] = timestamp(self._handle.clock.now())
        consumers = [plain(each) for each in claim.status.reserved_for]
        if not is_reserved_for(claim, self._pod):
            metadata = self._pod.metadata
            consumers.append({"resource": "pods", "name": metadata.name, "uid": metadata.uid})
        status: dict[str, Any] = {"reservedFor": consumers}
        if changes:
            status["allocation"] = changes
        return await self._patch(claim, {**_head(claim), STATUS: status}, STATUS)

    async def _read_again(self, claim: ResourceClaim, problem: Exception | None) -> ResourceClaim:
        """Return the claim as the API server has it."""
        uid, key = claim.metadata.uid, claim_key(claim)
        try:
            found = await self._api.get(CLAIMS, claim.metadata.name, claim.metadata.namespace)
        except Exception as error:
            if isinstance(problem, OutcomeUnknownError):
                self._settle_later(claim)
            raise PreBindError(f"get updated claim {key} after conflict: {error}") from error
        if found is None or found.metadata.uid != uid:
            raise PreBindError(
                f"get updated claim {key} after conflict: "
                f'resourceclaims.resource.k8s.io "{claim.metadata.name}" not found'
            )
        newest: ResourceClaim = found
        return newest

    def _failed(
        self, key: str, allocation: AllocationResult | None, error: Exception
    ) -> PreBindError:
        what = "reservation" if allocation is None else "allocation and reservation"
        return PreBindError(f"add {what} to claim {key}: {error}")

    async def _patch(
        self, claim: ResourceClaim, body: Mapping[str, Any], subresource: str = ""
    ) -> ResourceClaim:
        metadata = claim.metadata
        written: ResourceClaim = await self._api.patch(
            CLAIMS, metadata.name, metadata.namespace, body, subresource
        )
        return written

    def _settle_later(self, claim: ResourceClaim) -> None:
        """Keep the devices of a claim taken until somebody knows whether they were stored."""
        uid = claim.metadata.uid
        self._devices.unsettled.add(uid)
        self._handle.run_in_background(
            settle(self._api, self._devices, claim), f"settle claim {claim_key(claim)}"
        )

    async def _check_rivals(self, claim: ResourceClaim, *, is_new: bool) -> None:
        """Give the devices back if another scheduler was faster with one of them."""
        metadata = claim.metadata
        await self._seen(claim, is_new=is_new)
        if not self._devices.was_late(claim):
            return
        body = {**_head(claim), STATUS: {"allocation": None, "reservedFor": None, "devices": None}}
        try:
            self._attempt.claims.written[metadata.uid] = written = await self._patch(
                claim, body, STATUS
            )
            self._devices.claims.assume(written)
        except Exception as error:
            raise PreBindError(f"{LATE.format(claim=claim_key(claim))}: {error}") from error
        raise PreBindError(LATE.format(claim=claim_key(claim)))

    async def _seen(self, claim: ResourceClaim, *, is_new: bool) -> bool:
        """Wait until the watch shows a version of a claim, or its deletion."""
        metadata = claim.metadata
        key = ObjectKey(CLAIMS, metadata.namespace, metadata.name)
        lister = self._handle.listers[CLAIMS]

        def look() -> tuple[ObjectKey, ...]:
            seen: ResourceClaim | None = lister.get(metadata.name, metadata.namespace)
            if seen is None or seen.metadata.uid != metadata.uid:
                return (key,) if is_new else ()
            return () if is_at_least(seen, metadata.resource_version) else (key,)

        return await self._api.wait_for(look, SEEN_SECONDS)

    # -- the claim for extended resources --------------------------------------------------------

    async def _write_extra(
        self, extra: ResourceClaim, mappings: tuple[RequestMapping, ...]
    ) -> None:
        claims, pod = self._attempt.claims, self._pod
        temporary = extra.metadata.uid
        allocation = claims.reserved.get(temporary)
        is_new = extra.metadata.name == UNNAMED
        if is_new:
            extra = claims.created = await self._create(extra)
            if allocation is not None:
                # Under the UID by which the watch will show it.
                self._devices.begin(extra.metadata.uid, allocation)
                self._devices.end(temporary)
        written = claims.created = await self._write(extra, allocation, is_new=is_new)
        if await self._seen(written, is_new=is_new):
            self._devices.end(written.metadata.uid)
        else:
            self._settle_later(written)
        where = f"pod {pod.metadata.namespace}/{pod.metadata.name} ExtendedResourceClaimStatus"
        if not mappings:
            raise PreBindError(f"nil or empty request mappings, no update of {where}")
        status = {
            "resourceClaimName": written.metadata.name,
            "requestMappings": [plain(each) for each in mappings],
        }
        body = {STATUS: {"extendedResourceClaimStatus": status}}
        try:
            await self._api.patch("pods", pod.metadata.name, pod.metadata.namespace, body, STATUS)
        except Exception as error:
            raise PreBindError(f"update {where}: {error}") from error

    async def _create(self, extra: ResourceClaim) -> ResourceClaim:
        metadata = extra.metadata
        requests = [plain(each) for each in extra.spec.devices.requests]
        body = {
            "metadata": {
                "generateName": metadata.generate_name,
                "namespace": metadata.namespace,
                "annotations": metadata.annotations,
                "ownerReferences": [plain(each) for each in metadata.owner_references],
            },
            "spec": {"devices": {"requests": requests or None}},
        }
        try:
            created: ResourceClaim = await self._api.create(CLAIMS, metadata.namespace, body)
        except Exception as error:
            self._handle.metrics.count(CREATES, "failure")
            raise PreBindError(
                f"create claim for extended resources {metadata.namespace}/: {error}"
            ) from error
        self._handle.metrics.count(CREATES, "success")
        return created


CREATES: Final = "scheduler_resourceclaim_creates_total"
_NOT_FOUND: Final = 404


async def settle(api: ApiWriter, devices: ClusterDevices, claim: ResourceClaim) -> None:
    """Find out whether an allocation was stored, however long that takes; then forget it.

    If it was stored, the watch shows it, and its devices stay taken by the claim.
    """
    metadata = claim.metadata
    key = ObjectKey(CLAIMS, metadata.namespace, metadata.name)
    while True:
        # Nothing satisfies this wait: it is the pause between two tries.
        await api.wait_for(lambda: (key,), 5.0)
        try:
            found = await api.get(CLAIMS, metadata.name, metadata.namespace)
        except Exception:  # noqa: BLE001, S112 - boundary: no answer is what is waited out
            continue
        if found is not None and found.metadata.uid == metadata.uid:
            devices.claims.assume(found)
        devices.unsettled.discard(metadata.uid)
        devices.end(metadata.uid)
        return


async def unreserve(api: ApiWriter, pod: Pod, claim: ResourceClaim) -> None:
    """Remove the reservation of a pod; the allocation stays, as upstream."""
    metadata = claim.metadata
    body = {
        "metadata": {"uid": metadata.uid},
        STATUS: {"reservedFor": [{"$patch": "delete", "uid": pod.metadata.uid}]},
    }
    await api.patch(CLAIMS, metadata.name, metadata.namespace, body, STATUS, strategic=True)


async def deallocate(api: ApiWriter, claim: ResourceClaim) -> None:
    """Give the devices of a claim back; refused if the claim has changed since."""
    metadata = claim.metadata
    body = {**_head(claim), STATUS: {"allocation": None, "reservedFor": None, "devices": None}}
    await api.patch(CLAIMS, metadata.name, metadata.namespace, body, STATUS)


async def delete_extra(api: ApiWriter, claim: ResourceClaim) -> None:
    """Delete a claim that was made for extended resources."""
    metadata = claim.metadata
    left = [each for each in metadata.finalizers if each != FINALIZER]
    body = {"metadata": {"uid": metadata.uid, "finalizers": left}}
    await api.patch(CLAIMS, metadata.name, metadata.namespace, body)
    await api.delete(CLAIMS, metadata.name, metadata.namespace, metadata.uid)


def plain(item: Any) -> Any:
    """Return a record as the JSON that it stands for."""
    return msgspec.json.decode(msgspec.json.encode(item))


def timestamp(now: float) -> str:
    """Return a time as the API server writes it.

    >>> timestamp(0.5)
    '1970-01-01T00:00:00Z'
    """
    return dt.datetime.fromtimestamp(now, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _head(claim: ResourceClaim, **fields: Any) -> dict[str, Any]:
    metadata = claim.metadata
    names = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
    return {"metadata": {**names, **fields}}


def _same(stored: AllocationResult, allocation: AllocationResult) -> bool:
    return [_identity(each) for each in stored.devices.results] == [
        _identity(each) for each in allocation.devices.results
    ]


def _identity(result: DeviceRequestAllocationResult) -> tuple[str | None, ...]:
    return result.request, result.driver, result.pool, result.device, result.share_id

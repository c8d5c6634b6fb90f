"""Writes of PreBind: the allocation and the reservation of each claim of a pod.

Upstream: `dynamicresources.go: bindClaim`. The patch of an allocation has the uid and the
resourceVersion, so that the API server refuses it if the claim has changed. The reservation of an
allocated claim has the uid only, since many pods may reserve a claim at the same time. After a
write without a response the claim is read first; until it is known whether the write was stored,
its devices stay allocated.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from plugins.dynamic_resources.attempt import DeviceAttempt
from plugins.dynamic_resources.claim_cache import is_at_least
from plugins.dynamic_resources.claims import claim_key, is_reserved_for, only_used_by
from plugins.dynamic_resources.cluster_devices import ClusterDevices
from plugins.dynamic_resources.extended_resources import UNNAMED, RequestMapping
from plugins.dynamic_resources.giving_back import (
    DEALLOCATED,
    FINALIZER,
    STATUS,
    consumer,
    head,
    settle,
    unreserve,
)
from plugins.dynamic_resources.group_claims import GroupClaim
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
    Metric,
    ObjectKey,
    OutcomeUnknownError,
    WriteConflictError,
)

TRIES: Final = 5
"""Maximum number of writes of one claim; each after the first uses the newest version of it."""
GIVEN_UP_SECONDS: Final = 1.0
"""Interval at which a member of a group checks whether the writer of their claim was undone."""
SEEN_SECONDS: Final = 120.0
"""Maximum seconds until the watch shows a claim that was created."""
LATE: Final = (
    "claim {claim}: another scheduler allocated the same devices or capacity at the same time"
)
NOT_SHARED: Final = "claim {claim}: another member of the group has not stored its allocation"
NOT_SEEN: Final = "claim {claim}: the watch has not shown its allocation for {seconds:g}s"


class PreBindError(Exception):
    """The claims cannot be prepared; the pod is retried."""


class UncertainWriteError(PreBindError):
    """An allocation may or may not have been stored, since there was no response."""


class ClaimWriter:
    """Writes the claims of one pod, one after the other."""

    def __init__(
        self, handle: Handle, devices: ClusterDevices, attempt: DeviceAttempt, pod: Pod, node: Node
    ) -> None:
        self._handle = handle
        self._api: ApiWriter = handle.api
        self._devices = devices
        self._attempt = attempt
        self._pod = pod
        self._node = node
        #: The resourceVersion in the last write.
        self._version = ""

    async def write(self) -> None:
        """Write all claims; raises `PreBindError`."""
        claims = self._attempt.claims
        for claim in claims.named:
            written = claim
            used = claims.joined.get(claim.metadata.uid)
            if used is not None and used.writer != self._pod.metadata.uid:
                written = await self._written_by_another(claim, used)
            elif not is_reserved_for(claim, self._pod):
                written = await self._write_for_all(claim, used)
            # Even for a claim that was already allocated: a killed process may have done that.
            await self._check_precedence(written)
        extra, mappings = self._attempt.extra_claim(self._attempt.served(self._node))
        if extra is not None:
            await self._write_extra(extra, mappings)

    # -- claims of a group -----------------------------------------------------------------------

    async def _write_for_all(self, claim: ResourceClaim, used: GroupClaim | None) -> ResourceClaim:
        """Write a claim; if members of a group share it, with the reservations of all of them."""
        uid = claim.metadata.uid
        allocation = self._attempt.claims.reserved.get(uid)
        if used is None:
            return await self._write(claim, allocation)
        self._devices.group_claims.begin_write(uid)
        if allocation is not None:
            self._devices.sharers.hold(uid, self._pod.metadata.uid)
        used.written = written = await self._write(claim, allocation)
        for each in written.status.reserved_for:
            pod = used.left.get(each.uid)
            if pod is not None:
                self._handle.run_in_background(
                    unreserve(self._api, pod, written), f"unreserve {claim_key(written)}"
                )
        return written

    async def _written_by_another(self, claim: ResourceClaim, used: GroupClaim) -> ResourceClaim:
        """Wait until the first member of the group has stored the reservation of this pod."""
        metadata, claims = claim.metadata, self._devices.claims
        key = ObjectKey(CLAIMS, metadata.namespace, metadata.name)
        found: ResourceClaim | None = None

        def look() -> tuple[ObjectKey, ...]:
            nonlocal found
            known = claims.get(metadata.name, metadata.namespace)
            if known is not None and known.metadata.uid == metadata.uid:
                found = known if is_reserved_for(known, self._pod) else None
            return () if found is not None or used.given_up else (key,)

        # No event shows that the writer gave up, so check that between the waits.
        waits = int(SEEN_SECONDS / GIVEN_UP_SECONDS)
        while waits and not await self._api.wait_for(look, GIVEN_UP_SECONDS):
            waits -= 1
        if found is None:
            raise PreBindError(NOT_SHARED.format(claim=claim_key(claim)))
        self._attempt.claims.written[metadata.uid] = found
        return found

    # -- one claim -------------------------------------------------------------------------------

    async def _write(
        self,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
        *,
        is_new: bool = False,
    ) -> ResourceClaim:
        """Write the allocation, if there is one to store, and the reservation.

        With `is_new` the watch may not show the claim yet.
        """
        uid = claim.metadata.uid
        if allocation is None and self._has_whole_allocation(claim):
            return await self._reserve(claim)
        is_certain = False
        try:
            written = await self._stored(claim, allocation)
            is_certain = True
        except PreBindError as error:
            is_certain = not isinstance(error, UncertainWriteError)
            raise
        finally:
            # This includes a cancellation: preemption may end PreBind during a request.
            if not is_certain:
                self._settle_later(claim)
        self._attempt.claims.written[uid] = written
        if self._devices.claims.assume(written) or not is_new:
            self._devices.end(uid)
        if allocation is not None and not await self._seen(written, is_new=is_new):
            if is_new:
                self._settle_later(written)
            raise PreBindError(NOT_SEEN.format(claim=claim_key(written), seconds=SEEN_SECONDS))
        if is_new:
            self._devices.end(uid)
        return written

    def _has_whole_allocation(self, claim: ResourceClaim) -> bool:
        """Whether a claim has an allocation, to which this write need not add anything."""
        stored = claim.status.allocation
        if stored is None:
            return False
        timed = stored.allocation_timestamp is not None
        return timed or not self._devices.features.binding_conditions

    async def _reserve(self, claim: ResourceClaim) -> ResourceClaim:
        """Reserve an allocated claim, and check that it still has the same allocation."""
        metadata, key = claim.metadata, claim_key(claim)
        users = [consumer(pod) for pod in self._users(claim)]
        body = {"metadata": {"uid": metadata.uid}, STATUS: {"reservedFor": users}}
        for tries_left in reversed(range(TRIES)):
            try:
                written: ResourceClaim = await self._api.patch(
                    CLAIMS, metadata.name, metadata.namespace, body, STATUS, strategic=True
                )
                break
            except Exception as error:
                self._count_conflict(error)
                if not (tries_left and _is_worth_another_try(error)):
                    raise self._failed(key, None, error) from error
        # From here on Unreserve removes the reservation.
        self._attempt.claims.written[metadata.uid] = written
        self._devices.claims.assume(written)
        if written.metadata.deletion_timestamp is not None:
            raise PreBindError(f"claim {key} got deleted in the meantime")
        old, new = claim.status.allocation, written.status.allocation
        if old is None or new is None or not _same(old, new):
            raise PreBindError(f"claim {key} got allocated elsewhere in the meantime")
        return written

    def _count_conflict(self, error: Exception) -> None:
        if isinstance(error, WriteConflictError) and error.status != _NOT_FOUND:
            self._handle.metrics.count(CONFLICTS)

    async def _stored(
        self, claim: ResourceClaim, allocation: AllocationResult | None
    ) -> ResourceClaim:
        """Write until it succeeds; return the stored claim, even of a write without a response."""
        problem: Exception | None = None
        # The version in a write without a response; once the claim has another, it cannot succeed.
        pending = ""
        for number in range(TRIES):
            if number:
                claim = await self._read_again(claim, problem, is_pending=bool(pending))
            if claim.metadata.resource_version != pending:
                pending = ""
            if self._is_done(claim, allocation):
                return claim
            # Our allocation may have been stored by now, without the reservation.
            missing = allocation if claim.status.allocation is None else None
            written = await self._try(claim, missing)
            if isinstance(written, ResourceClaim):
                return written
            problem = written
            if isinstance(problem, OutcomeUnknownError):
                pending = self._version
        assert problem is not None
        failed = self._failed(claim_key(claim), allocation, problem)
        raise (UncertainWriteError(str(failed)) if pending else failed) from problem

    def _is_done(self, claim: ResourceClaim, allocation: AllocationResult | None) -> bool:
        """Whether an earlier write without a response was stored; raises `PreBindError`."""
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
        """Write once; return the stored claim, or an error after which a retry makes sense."""
        try:
            return await self._write_once(claim, allocation)
        except PreBindError:
            raise
        except Exception as error:
            self._count_conflict(error)
            if _is_worth_another_try(error):
                return error
            raise self._failed(claim_key(claim), allocation, error) from error

    async def _write_once(
        self, claim: ResourceClaim, allocation: AllocationResult | None
    ) -> ResourceClaim:
        finalizers = claim.metadata.finalizers
        if allocation is not None and FINALIZER not in finalizers:
            body = head(claim, finalizers=[*finalizers, FINALIZER])
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
        users = self._users(claim)
        consumers += [consumer(pod) for pod in users if not is_reserved_for(claim, pod)]
        status: dict[str, Any] = {"reservedFor": consumers}
        if changes:
            status["allocation"] = changes
        return await self._patch(claim, {**head(claim), STATUS: status}, STATUS)

    def _users(self, claim: ResourceClaim) -> tuple[Pod, ...]:
        """Return the pods whose reservations this writer stores."""
        used = self._attempt.claims.joined.get(claim.metadata.uid)
        if used is None or used.writer != self._pod.metadata.uid:
            return (self._pod,)
        return (self._pod, *(pod for pod in used.users.values() if pod is not self._pod))

    async def _read_again(
        self, claim: ResourceClaim, problem: Exception | None, *, is_pending: bool
    ) -> ResourceClaim:
        """Read the newest version of the claim from the API server."""
        uid, key = claim.metadata.uid, claim_key(claim)
        try:
            found = await self._api.get(CLAIMS, claim.metadata.name, claim.metadata.namespace)
        except Exception as error:
            kind = UncertainWriteError if is_pending else PreBindError
            raise kind(f"get updated claim {key} after conflict: {error}") from error
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
        self._version = metadata.resource_version
        written: ResourceClaim = await self._api.patch(
            CLAIMS, metadata.name, metadata.namespace, body, subresource
        )
        return written

    def _settle_later(self, claim: ResourceClaim) -> None:
        """Hold the devices of a claim until it is known whether the allocation was stored."""
        uid = claim.metadata.uid
        self._devices.unsettled.add(uid)
        self._handle.run_in_background(
            settle(self._api, self._devices, claim), f"settle claim {claim_key(claim)}"
        )

    # -- other schedulers ------------------------------------------------------------------------

    async def _check_precedence(self, claim: ResourceClaim) -> None:
        """Deallocate the claim if earlier allocations of others conflict with it."""
        uid = claim.metadata.uid
        if not self._devices.precedence.is_late(uid) or self._is_in_use(claim):
            return
        text = LATE.format(claim=claim_key(claim))
        newest = self._devices.claims.get(claim.metadata.name, claim.metadata.namespace)
        try:
            await self._give_back(claim if newest is None else newest)
        except Exception as error:
            # The next attempt finds the claim in its current state, and tries again.
            raise PreBindError(f"{text}: {error}") from error
        raise PreBindError(text)

    def _is_in_use(self, claim: ResourceClaim) -> bool:
        """Whether a bound pod uses a claim, so that it is too late to deallocate it."""
        pods = self._handle.listers["pods"]
        for each in claim.status.reserved_for:
            pod: Pod | None = pods.get(each.name, claim.metadata.namespace)
            if pod is not None and pod.metadata.uid == each.uid and pod.spec.node_name:
                return True
        return False

    async def _give_back(self, claim: ResourceClaim) -> None:
        """Deallocate a claim, unless other pods are about to use it; raises errors of writes."""
        uid = claim.metadata.uid
        for tries_left in reversed(range(TRIES)):
            self._attempt.claims.written[uid] = claim
            if claim.status.allocation is None or not only_used_by(claim, *self._users(claim)):
                return
            try:
                written = await self._patch(claim, {**head(claim), STATUS: DEALLOCATED}, STATUS)
            except (WriteConflictError, OutcomeUnknownError) as error:
                self._count_conflict(error)
                if not tries_left:
                    raise
                claim = await self._read_again(claim, error, is_pending=False)
            else:
                self._attempt.claims.written[uid] = written
                self._devices.claims.assume(written)
                return

    async def _seen(self, claim: ResourceClaim, *, is_new: bool) -> bool:
        """Wait until the watch shows this or a newer version of a claim, or its deletion."""
        metadata = claim.metadata
        key = ObjectKey(CLAIMS, metadata.namespace, metadata.name)
        listers = self._handle.listers

        def look() -> tuple[ObjectKey, ...]:
            seen: ResourceClaim | None = listers[CLAIMS].get(metadata.name, metadata.namespace)
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
                # Under the real UID, with which the watch will show the claim.
                self._devices.begin(extra.metadata.uid, allocation)
                self._devices.allocated.end(temporary)
        written = claims.created = await self._write(extra, allocation, is_new=is_new)
        await self._check_precedence(written)
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
            self._handle.metrics.count(CREATES, "failure", *_CREATED_FOR)
            raise PreBindError(
                f"create claim for extended resources {metadata.namespace}/: {error}"
            ) from error
        self._handle.metrics.count(CREATES, "success", *_CREATED_FOR)
        return created


CREATES: Final = "dynamic_resource_allocation_resourceclaim_creates_total"
_LABELS: Final = ("status", "admin_access", "owner_api_group", "owner_api_kind")
_CREATED_FOR: Final = ("false", "", "Pod")
CONFLICTS: Final = "kubestow_resourceclaim_conflicts_total"
METRICS: Final = (
    Metric(CREATES, "counter", "Number of ResourceClaims that were created.", _LABELS),
)
_NOT_FOUND: Final = 404


def _is_worth_another_try(error: Exception) -> bool:
    """Whether the claim has changed since it was read, or the outcome of a write is unknown."""
    if isinstance(error, WriteConflictError):
        return error.status != _NOT_FOUND
    return isinstance(error, OutcomeUnknownError)


def plain(item: Any) -> Any:
    """Convert a record to JSON values."""
    return msgspec.json.decode(msgspec.json.encode(item))


def timestamp(now: float) -> str:
    """Return a time in the format of the API server.

    >>> timestamp(0.5)
    '1970-01-01T00:00:00Z'
    """
    return dt.datetime.fromtimestamp(now, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _same(stored: AllocationResult, allocation: AllocationResult) -> bool:
    return [_identity(each) for each in stored.devices.results] == [
        _identity(each) for each in allocation.devices.results
    ]


def _identity(result: DeviceRequestAllocationResult) -> tuple[str | None, ...]:
    return result.request, result.driver, result.pool, result.device, result.share_id

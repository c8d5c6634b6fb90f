"""The resource claim controller of a world: claims of templates, and their release.

It acts whenever the scheduler has nothing left to do, and no time passes meanwhile. Only pods that
end in the world release claims: in a dump the pods of a reservation may be missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from scheduler.api.devices import (
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
)
from scheduler.api.meta import ObjectMeta, OwnerReference
from scheduler.api.pod import Pod, PodResourceClaimStatus
from scheduler.offline.tables import Tables

CLAIMS: Final = "resourceclaims"
TEMPLATES: Final = "resourceclaimtemplates"

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"


class ResourceClaimController:
    """Follows the pods of `tables.claimants`."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        #: Pods that wait for a template.
        self._waiting: dict[str, Pod] = {}

    def catch_up(self) -> None:
        """Make the claims that are missing, and release those of pods that have ended."""
        changed = self._tables.claimants
        if not changed and not self._waiting:
            return
        self._tables.claimants = {}
        looked_at, self._waiting = {**self._waiting, **changed}, {}
        for uid, pod in looked_at.items():
            stored: Pod | None = self._tables.get("pods", pod.metadata.name, pod.metadata.namespace)
            if stored is None or stored.metadata.uid != uid:
                self._release(pod)
            else:
                self._make_claims(stored)

    def _make_claims(self, pod: Pod) -> None:
        known = {each.name for each in pod.status.resource_claim_statuses}
        made = []
        for entry in pod.spec.resource_claims:
            name = entry.resource_claim_template_name
            if name is None or entry.name in known:
                continue
            template: ResourceClaimTemplate | None = self._tables.get(
                TEMPLATES, name, pod.metadata.namespace
            )
            if template is None:
                self._waiting[pod.metadata.uid] = pod
                continue
            claim = self._generated(pod, entry.name, template)
            self._tables.put(CLAIMS, claim)
            made.append(
                PodResourceClaimStatus(name=entry.name, resource_claim_name=claim.metadata.name)
            )
        if made:
            statuses = (*pod.status.resource_claim_statuses, *made)
            status = msgspec.structs.replace(pod.status, resource_claim_statuses=statuses)
            self._tables.put("pods", msgspec.structs.replace(pod, status=status))

    def _generated(self, pod: Pod, entry: str, template: ResourceClaimTemplate) -> ResourceClaim:
        given, uid = template.spec.metadata, self._tables.new_uid()
        owner = OwnerReference(
            api_version="v1",
            kind="Pod",
            name=pod.metadata.name,
            uid=pod.metadata.uid,
            controller=True,
        )
        metadata = ObjectMeta(
            name=f"{pod.metadata.name}-{entry}-{uid[-5:]}",
            namespace=pod.metadata.namespace,
            uid=uid,
            labels=given.labels,
            annotations={**given.annotations, POD_CLAIM_NAME: entry},
            owner_references=(owner,),
        )
        return ResourceClaim(metadata=metadata, spec=template.spec.spec)

    def _release(self, pod: Pod) -> None:
        for name in _claim_names(pod):
            claim: ResourceClaim | None = self._tables.get(CLAIMS, name, pod.metadata.namespace)
            if claim is None:
                continue
            left = tuple(each for each in claim.status.reserved_for if each.uid != pod.metadata.uid)
            if len(left) < len(claim.status.reserved_for):
                # Before a deletion as well: it is this change that wakes pods which wait.
                claim = _without_consumer(claim, left)
                self._tables.put(CLAIMS, claim)
            if any(each.uid == pod.metadata.uid for each in claim.metadata.owner_references):
                self._tables.remove(CLAIMS, claim)


def _without_consumer(claim: ResourceClaim, left: tuple[Any, ...]) -> ResourceClaim:
    if left:
        status = msgspec.structs.replace(claim.status, reserved_for=left)
        return msgspec.structs.replace(claim, status=status)
    finalizers = tuple(each for each in claim.metadata.finalizers if each != FINALIZER)
    metadata = msgspec.structs.replace(claim.metadata, finalizers=finalizers)
    return msgspec.structs.replace(claim, metadata=metadata, status=ResourceClaimStatus())


def _claim_names(pod: Pod) -> Iterator[str]:
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name is not None:
            yield entry.resource_claim_name
    for status in pod.status.resource_claim_statuses:
        if status.resource_claim_name is not None:
            yield status.resource_claim_name
    extended = msgspec.to_builtins(pod.status.extended_resource_claim_status) or {}
    if extended.get("resourceClaimName"):
        yield extended["resourceClaimName"]

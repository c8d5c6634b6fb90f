"""The queued pods that share a claim while its allocation is under way.

A claim in flight cannot be used by another pod until its allocation is stored. To avoid one useless
attempt per pod, which PreFilter would reject, PreEnqueue gates these pods meanwhile.

Invariant: a claim has entries only while it has no allocation, and at most `MAX_SHARERS` of them.
"""

from __future__ import annotations

from typing import Final

from scheduler.api.devices import ResourceClaim
from scheduler.framework import Handle

MAX_SHARERS: Final = 256
"""Maximum number of pods for which one claim can be reserved (`resource.k8s.io/v1`,
`ResourceClaimReservedForMaxSize`); PreFilter rejects further pods."""


class Sharers:
    """UIDs of pods that passed or failed PreEnqueue with a claim that is not allocated."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        #: By UID of the claim, oldest first.
        self._pods: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        """Return the number of claims."""
        return len(self._pods)

    def add(self, claim: ResourceClaim, pod_uid: str) -> None:
        """Record a queued pod that uses a claim without an allocation."""
        pods = self._pods.setdefault(claim.metadata.uid, {})
        pods[pod_uid] = None
        if len(pods) > MAX_SHARERS:
            del pods[next(iter(pods))]

    def hold(self, claim_uid: str, pod_uid: str) -> None:
        """Gate the other pods of a claim in PreEnqueue, since it is in flight for this pod."""
        pods = self._pods.get(claim_uid)
        if pods is None:
            return
        pods.pop(pod_uid, None)
        if pods:
            self._handle.recheck(tuple(pods))

    def release(self, claim_uid: str) -> None:
        """Admit the pods again after the allocation was stored or given up."""
        pods = self._pods.pop(claim_uid, None)
        if pods:
            self._handle.recheck(tuple(pods))

    def forget(self, claim_uid: str) -> None:
        """Forget a claim that was allocated or deleted; its event wakes the pods."""
        self._pods.pop(claim_uid, None)

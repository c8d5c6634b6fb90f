"""Rejection of pods with claims while claims, volumes or classes may not be read.

An empty list instead would show a claim as absent, or a static volume as one to be provisioned.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from scheduler.framework import Handle, Status, unresolvable

CLAIMS: Final = "persistentvolumeclaims"
CLAIM_RESOURCES: Final = (CLAIMS, "persistentvolumes", "storageclasses")

CLAIMS_WAIT: Final = "pods with PersistentVolumeClaims wait"
NOT_READABLE: Final = "the scheduler may not list {}, so pods with PersistentVolumeClaims wait"


def unreadable(handle: Handle, plurals: Collection[str] = CLAIM_RESOURCES) -> Status | None:
    """Return the rejection of pods with claims if one of the resources cannot be read, or None."""
    for plural in plurals:
        if not handle.may("list", plural):
            return unresolvable(NOT_READABLE.format(plural))
    return None

"""The manager of a pod's condition NodeProvisioningInProgress, from `managedFields`.

Pure. An autoscaler that sets the condition itself is better informed than the bridge, which then
leaves it alone. Where the server keeps no managedFields, the condition's reason decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from scheduler.api.decoding import decode_json
from scheduler.api.meta import Condition, Object
from scheduler.controllers.node_provisioning.signals import Reason

CONDITION: Final = "NodeProvisioningInProgress"

FIELD_MANAGER: Final = "kubestow-node-provisioning-bridge"

_KEY: Final = f'k:{{"type":"{CONDITION}"}}'


class ManagedFields(Object):
    """One entry of `metadata.managedFields`."""

    manager: str = ""
    fields_v1: dict[str, Any] = msgspec.field(default_factory=dict, name="fieldsV1")


class OwnedMeta(Object):
    """`metadata`, with what the scheduler's own `ObjectMeta` leaves out."""

    uid: str = ""
    managed_fields: tuple[ManagedFields, ...] = ()


class OwnedStatus(Object):
    """`status`, conditions only."""

    conditions: tuple[Condition, ...] = ()


class OwnedPod(Object):
    """The fields of a pod that tell which manager wrote the condition."""

    metadata: OwnedMeta = msgspec.field(default_factory=OwnedMeta)
    status: OwnedStatus = msgspec.field(default_factory=OwnedStatus)


_decoder = msgspec.json.Decoder(OwnedPod)


def read_owned_pod(data: bytes) -> OwnedPod:
    """Decode a pod. Raises ValueError."""
    return decode_json(_decoder, data)


def other_writer(pod: OwnedPod, *, seen_without: bool = False) -> str | None:
    """Return the manager other than us that writes the condition; None if there is none.

    Where the server records no manager: a condition that appeared while we watched the pod
    (`seen_without`) is not ours; one that was there before is ours if its reason is one of ours.
    """
    condition = find(pod.status.conditions)
    if condition is None:
        return None
    writers = [each.manager for each in pod.metadata.managed_fields if _writes(each.fields_v1)]
    if not writers:
        return None if condition.reason in tuple(Reason) and not seen_without else "unknown"
    return next((each for each in writers if each != FIELD_MANAGER), None)


def find(conditions: Sequence[Condition]) -> Condition | None:
    """Return the condition NodeProvisioningInProgress, or None."""
    return next((each for each in conditions if each.type == CONDITION), None)


def _writes(fields: dict[str, Any]) -> bool:
    below: Any = fields
    for key in ("f:status", "f:conditions", _KEY):
        below = below.get(key) if isinstance(below, dict) else None
    # A manager whose values another one replaced keeps an empty entry, or one with the key only.
    return isinstance(below, dict) and bool(below.keys() - {".", "f:type"})

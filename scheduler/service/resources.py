"""Which resources are watched: what the scheduler needs, and what some plugin asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from scheduler.framework import ActionType, EventResource

PODS_SELECTOR: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""A pod that finishes leaves the watch, so that it counts no more (queue-and-events.md 7.1)."""

ALWAYS: Final = ("pods", "nodes")

EVENT_RESOURCES: Final[Mapping[str, str]] = {
    "persistentvolumes": EventResource.PERSISTENT_VOLUME,
    "persistentvolumeclaims": EventResource.PERSISTENT_VOLUME_CLAIM,
    "storageclasses": EventResource.STORAGE_CLASS,
    "csinodes": EventResource.CSI_NODE,
    "csidrivers": EventResource.CSI_DRIVER,
    "csistoragecapacities": EventResource.CSI_STORAGE_CAPACITY,
    "volumeattachments": EventResource.VOLUME_ATTACHMENT,
}
"""Plural to the name events have, for resources that only plugins care about."""


def watched_plurals(
    registered: Mapping[str, ActionType], plugins: Iterable[Any], subscribed: Iterable[str]
) -> tuple[str, ...]:
    """Plurals to watch besides `ALWAYS`: registered for events, read by plugins, or subscribed to.

    A plugin names what it reads in `required_resources`.
    """
    wanted: dict[str, None] = {}
    for plural, resource in EVENT_RESOURCES.items():
        if registered.get(resource):
            wanted[plural] = None
    for plugin in plugins:
        wanted.update(dict.fromkeys(getattr(plugin, "required_resources", ())))
    wanted.update(dict.fromkeys(subscribed))
    return tuple(plural for plural in wanted if plural not in ALWAYS)

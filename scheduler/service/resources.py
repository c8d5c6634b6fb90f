"""The watched resources: those the scheduler needs, and those that plugins require."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from scheduler.framework import ActionType, EventResource

PODS_SELECTOR: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""A pod that finishes leaves the watch and counts no more (`scheduler.go: newPodInformer`)."""

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
"""Plural to the name in cluster events, for resources that only plugins use."""


def watched_plurals(
    registered: Mapping[str, ActionType], plugins: Iterable[Any], subscribed: Iterable[str]
) -> tuple[str, ...]:
    """Return the plurals to watch besides `ALWAYS`: of registered events, plugins, subscriptions.

    A plugin lists the plurals that it reads in `required_resources`.
    """
    wanted: dict[str, None] = {}
    for plural, resource in EVENT_RESOURCES.items():
        if registered.get(resource):
            wanted[plural] = None
    for plugin in plugins:
        wanted.update(dict.fromkeys(getattr(plugin, "required_resources", ())))
    wanted.update(dict.fromkeys(subscribed))
    return tuple(plural for plural in wanted if plural not in ALWAYS)

"""The watched resources: those the scheduler needs, and those that plugins require."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from scheduler.client.custom_resources import (
    event_resource,
    is_reference,
    reference_of,
    resource_of,
)
from scheduler.client.resources import Resource
from scheduler.framework import ActionType, ConfigurationError, EventResource

PODS_SELECTOR: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Excludes finished pods, which hold no resources (`scheduler.go: newPodInformer`)."""

ALWAYS: Final = ("pods", "nodes")

EVENT_RESOURCES: Final[Mapping[str, str]] = {
    "persistentvolumes": EventResource.PERSISTENT_VOLUME,
    "persistentvolumeclaims": EventResource.PERSISTENT_VOLUME_CLAIM,
    "storageclasses": EventResource.STORAGE_CLASS,
    "csinodes": EventResource.CSI_NODE,
    "csidrivers": EventResource.CSI_DRIVER,
    "csistoragecapacities": EventResource.CSI_STORAGE_CAPACITY,
    "volumeattachments": EventResource.VOLUME_ATTACHMENT,
    "resourceclaims": EventResource.RESOURCE_CLAIM,
    "resourceslices": EventResource.RESOURCE_SLICE,
    "deviceclasses": EventResource.DEVICE_CLASS,
    "namespaces": EventResource.NAMESPACE,
}
"""Plural to the name in cluster events, for resources that only plugins use."""


def watched_plurals(
    registered: Mapping[str, ActionType], plugins: Iterable[Any], subscribed: Iterable[str]
) -> tuple[str, ...]:
    """Return plurals to watch besides `ALWAYS`, for registered events, plugins and subscriptions.

    A plugin lists the plurals that it reads in `required_resources`. Raises ConfigurationError for
    one that is neither built in nor a reference.
    """
    wanted: dict[str, None] = {}
    for plural, resource in EVENT_RESOURCES.items():
        if registered.get(resource):
            wanted[plural] = None
    wanted.update({ref: None for name in registered if (ref := reference_of(name))})
    for plugin in plugins:
        wanted.update(dict.fromkeys(map(partial(_known, plugin), _required(plugin))))
    wanted.update(dict.fromkeys(map(partial(_known, None), subscribed)))
    return tuple(plural for plural in wanted if plural not in ALWAYS)


def event_name(plural: str) -> str:
    """Return the name of a resource in cluster events; empty if no plugin can register it."""
    return event_resource(plural) if is_reference(plural) else EVENT_RESOURCES.get(plural, "")


def watched_resource(plural: str, plugins: Iterable[Any]) -> Resource[Any]:
    """Return the resource, with the type of its objects that plugins declare in `resource_types`.

    Raises:
        ConfigurationError: plugins declare different types.
    """
    types = {
        each.name: each.resource_types[plural]
        for each in plugins
        if plural in getattr(each, "resource_types", {})
    }
    if len(set(types.values())) > 1:
        msg = f"{', '.join(types)} declare different types for {plural} in resource_types"
        raise ConfigurationError(f"plugins {msg}: import one type in all of them")
    return resource_of(plural, *dict.fromkeys(types.values()))


def same_fields(one: type[Any], other: type[Any]) -> bool:
    """Return whether two types have the same fields, so that a plugin can read objects of either.

    Reloading a module creates a new type, even if nothing in it has changed.
    """
    if one is other:
        return True
    try:
        return _fields(one) == _fields(other)
    except TypeError:
        # A type of a field that JSON does not have.
        return False


def _fields(kind: type[Any]) -> object:
    schemas, _ = msgspec.json.schema_components([kind], ref_template="{name}")
    names = [
        (each.name, each.encode_name, repr(each.default)) for each in msgspec.structs.fields(kind)
    ]
    return names, schemas, msgspec.json.schema(kind)


def _known(plugin: Any | None, plural: str) -> str:
    try:
        resource_of(plural)
    except ValueError as error:
        where = "a plugin" if plugin is None else f"plugin {plugin.name}: required_resources"
        hint = " (`on_object`, or `describes` of a metric)" if plugin is None else ""
        raise ConfigurationError(f"{where}: {error}{hint}") from error
    return plural


def _required(plugin: Any) -> Iterable[str]:
    found: Iterable[str] = getattr(plugin, "required_resources", ())
    return found

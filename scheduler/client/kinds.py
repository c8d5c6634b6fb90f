"""Kinds: the resource of an object, by the apiVersion and kind of its manifest.

Plugins name custom resources by their plurals, and manifests have kinds. The definition that joins
the two is not read, so a kind belongs to a custom resource if its regular plural does, as client-go
guesses it, or if the type that the plugin declares has its name: objects of the metrics API have
the kind NodeMetrics and the plural nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from scheduler.client.custom_resources import CustomResource
from scheduler.client.resources import RESOURCES, Resource

BUILT_IN: Final[dict[tuple[str, str], Resource[Any]]] = {
    (resource.group, resource.kind): resource
    for resource in RESOURCES.values()
    if resource.plural not in ("leases", "events")
}
"""The built-in kinds that scheduling reads, by API group and kind."""


class Kinds:
    """The kinds that scheduling reads: the built-in ones, and those of custom resources."""

    def __init__(self, resources: Iterable[Resource[Any]] = ()) -> None:
        """`resources` are those that plugins read; of these the custom ones are added."""
        self._custom = tuple(each for each in resources if isinstance(each, CustomResource))

    def of(self, api_version: str, kind: str) -> Resource[Any] | None:
        """Return the resource of a manifest with this apiVersion and kind; None: not read."""
        found = BUILT_IN.get((api_version.rpartition("/")[0], kind))
        if found is not None:
            return found
        same = (each for each in self._custom if each.api_version == api_version)
        return next((each for each in same if each.has_kind(kind)), None)

    def named(self, name: str) -> Resource[Any] | None:
        """Return the resource of a kind without its apiVersion; None for none, or for several.

        Custom kinds may be written `Rack.example.com` or `Rack.v1.example.com` to tell them apart.
        """
        for resource in BUILT_IN.values():
            if resource.kind == name:
                return resource
        kind, _, group = name.partition(".")
        found = [
            each
            for each in self._custom
            if each.kind == name
            or (group in ("", each.group, f"{each.version}.{each.group}") and each.has_kind(kind))
        ]
        return found[0] if len(found) == 1 else None

    def names(self) -> list[str]:
        """Return all names, in order."""
        return sorted(each.kind for each in (*BUILT_IN.values(), *self._custom))

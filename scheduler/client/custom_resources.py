"""Resources that no table lists: custom resources, and those of aggregated APIs.

A plugin names one as `group/version/plural`. This reference takes the place of the plural
everywhere (listers, metrics, cluster events), because different groups have equal plurals, such as
`nodes` of `metrics.k8s.io`. Whether objects have a namespace shows in the objects.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote

from scheduler.api.custom import CustomObject
from scheduler.client.resources import RESOURCES, Resource

_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_REFERENCE: Final = re.compile(
    rf"(?P<group>{_LABEL}(?:\.{_LABEL})+)/(?P<version>v[a-z0-9]{{1,30}})/(?P<plural>{_LABEL})"
)


class CustomResource(Resource[Any]):
    """A resource by its reference, which is its `plural`; `kind` is its name in cluster events."""

    def __init__(self, reference: str, type: type[Any] = CustomObject) -> None:  # noqa: A002
        """Take `group/version/plural`; objects decode to `type`.

        Raises:
            ValueError: it is no such reference.
        """
        match = _REFERENCE.fullmatch(reference)
        if match is None:
            msg = f'"{reference}" is not of the form group/version/plural, example.com/v1/racks'
            raise ValueError(msg)
        # Whether objects have a namespace shows in them, so nobody may add one.
        super().__init__(
            match["group"],
            match["version"],
            match["plural"],
            type,
            kind=event_resource(reference),
            namespaced=False,
        )
        self.plural = reference
        # Aggregated APIs need not have one.
        self.versioned = False

    def has_kind(self, kind: str) -> bool:
        """Whether a manifest of this kind is one: by its plural, or by the name of its type."""
        if kind == self.kind or (self.type is not CustomObject and kind == self.type.__name__):
            return True
        lower = kind.lower()
        ies = f"{lower[:-1]}ies" if lower.endswith("y") else ""
        return self.api_plural in (lower, f"{lower}s", f"{lower}es", ies)

    def collection_path(self, namespace: str = "") -> str:
        """Return the path of all objects, or of those in one namespace."""
        middle = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        return f"{self._prefix}{middle}/{self.api_plural}"

    def path(self, name: str, namespace: str = "", subresource: str = "") -> str:
        """Return the path of one object; ValueError without a name."""
        if not name:
            raise ValueError(f"{self.plural} {namespace!r}: the name is missing")
        path = f"{self.collection_path(namespace)}/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path

    def key_of(self, namespace: str, name: str) -> str:
        """Return `namespace/name`, or the name of an object without namespace."""
        return f"{namespace}/{name}" if namespace else name


def is_reference(plural: str) -> bool:
    """Whether this is `group/version/plural`, and no plural or subresource.

    >>> is_reference("example.com/v1/racks"), is_reference("pods"), is_reference("pods/status")
    (True, False, False)
    """
    return plural.count("/") == 2


def resource_of(plural: str, type: type[Any] = CustomObject) -> Resource[Any]:  # noqa: A002
    """Return the resource of a plural or of a reference; `type` is for references.

    Raises:
        ValueError: it is neither.
    """
    if is_reference(plural):
        return CustomResource(plural, type)
    try:
        return RESOURCES[plural]
    except KeyError:
        msg = f'"{plural}" is no built-in resource; write a custom one as group/version/plural'
        raise ValueError(msg) from None


def event_resource(reference: str) -> str:
    """Return the name of a custom resource in cluster events: `plural.version.group`.

    >>> event_resource("example.com/v1/racks")
    'racks.v1.example.com'
    """
    group, version, plural = reference.split("/")
    return f"{plural}.{version}.{group}"


def reference_of(name: str) -> str | None:
    """Return the reference of a name in cluster events; None for names of other forms.

    >>> reference_of("racks.v1.example.com"), reference_of("Node")
    ('example.com/v1/racks', None)
    """
    plural, _, rest = name.partition(".")
    version, _, group = rest.partition(".")
    reference = f"{group}/{version}/{plural}"
    return reference if _REFERENCE.fullmatch(reference) else None

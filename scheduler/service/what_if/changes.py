"""Changes to try: of one object each, in the form in which requests and remedies carry them.

A change names its object as `kubectl` does, and the field with a JSON pointer (RFC 6901), so that
the same record can be tried in a trial, applied to a dump, or turned into a patch.
"""

from __future__ import annotations

import copy
from typing import Any, Final

import msgspec

from scheduler.api.pod import Pod, PodSpec
from scheduler.client.resources import PODS, RESOURCES, Resource
from scheduler.pages import Change

JsonObject = dict[str, Any]

KINDS: Final[dict[str, Resource[Any]]] = {
    resource.kind: resource
    for resource in RESOURCES.values()
    if resource.plural not in ("leases", "events")
}
"""The kinds that scheduling reads."""


class ChangeError(ValueError):
    """A change that cannot be made; the text says which, and why."""


def resource_of(kind: str) -> Resource[Any]:
    """Return the resource of a kind. Raises ChangeError."""
    resource = KINDS.get(kind)
    if resource is None:
        known = ", ".join(sorted(KINDS))
        raise ChangeError(f"scheduling reads no {kind[:60]!r}; it reads {known}")
    return resource


def as_json(item: Any) -> JsonObject:
    """Return a typed object as it stands in a manifest, with the fields that scheduling reads."""
    if isinstance(item, Pod):
        spec = PodSpec(**{name: getattr(item.spec, name) for name in PodSpec.__struct_fields__})
        item = msgspec.structs.replace(item, interned=None, pin="", spec=spec)
        resource: Resource[Any] = PODS
    else:
        resource = next(each for each in KINDS.values() if each.type is type(item))
    found: JsonObject = msgspec.json.decode(resource.encode(item))
    for name in [name for name in found if name.startswith("kubestow.io:")]:
        del found[name]
    return found


def applied(change: Change, obj: JsonObject) -> JsonObject:
    """Return a copy of an object with a field set. Raises ChangeError for a path that is none."""
    made = copy.deepcopy(obj)
    keys = [each.replace("~1", "/").replace("~0", "~") for each in change.path.split("/")[1:]]
    if not change.path.startswith("/") or not keys:
        raise ChangeError(
            f"{change.path[:80]!r}: write a JSON pointer, such as /spec/unschedulable"
        )
    at: Any = made
    for key in keys[:-1]:
        at = _enter(at, key, change.path)
    _set(at, keys[-1], change)
    return made


def pointer(*keys: str | int) -> str:
    """Return the JSON pointer of these keys.

    >>> pointer("metadata", "labels", "topology.kubernetes.io/zone")
    '/metadata/labels/topology.kubernetes.io~1zone'
    """
    return "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in keys)


def _enter(at: Any, key: str, path: str) -> Any:
    if isinstance(at, dict):
        found = at.get(key)
        if found is None:
            found = at[key] = {}
        return found
    return _list(at, path)[_index(at, key, path)]


def _set(at: Any, key: str, change: Change) -> None:
    if isinstance(at, dict):
        if change.value is None:
            at.pop(key, None)
        else:
            at[key] = change.value
        return
    items = _list(at, change.path)
    if key == "-":
        items.append(change.value)
        return
    index = _index(items, key, change.path)
    if change.value is None:
        del items[index]
    else:
        items[index] = change.value


def _list(at: Any, path: str) -> list[Any]:
    if not isinstance(at, list):
        raise ChangeError(f"{path[:80]!r}: leads through a value that has no fields")
    return at


def _index(items: list[Any], key: str, path: str) -> int:
    if not (key.isascii() and key.isdecimal() and len(key) < 6 and int(key) < len(items)):
        raise ChangeError(f"{path[:80]!r}: the list has no element {key[:20]!r}")
    return int(key)

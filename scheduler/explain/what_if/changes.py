"""Changes to try: of one object each, in the form in which requests and remedies carry them.

A change names its object as `kubectl` does, and the field with a JSON pointer (RFC 6901), so that
the same record can be tried in a trial, applied to a dump, or turned into a patch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from scheduler.api.meta import ObjectMeta
from scheduler.api.pod import Pod
from scheduler.api.signatures.encodable import encodable
from scheduler.client.kinds import BUILT_IN, Kinds
from scheduler.client.resources import NODES, PODS, Resource
from scheduler.explain.records import Change
from scheduler.explain.what_if.read_fields import fault_of_field
from scheduler.service.manifests import Manifests

JsonObject = dict[str, Any]

_BUILT_IN: Final = Kinds()

MAX_OBJECT_BYTES: Final = 256 * 1024
"""JSON of an object to edit, without the fields that scheduling does not read."""


class ChangeError(ValueError):
    """A change that cannot be made; the text says which, and why."""


def resource_of(kind: str, kinds: Kinds = _BUILT_IN) -> Resource[Any]:
    """Return the resource of a kind. Raises ChangeError."""
    resource = kinds.named(kind)
    if resource is None:
        known = ", ".join(kinds.names())
        raise ChangeError(f"scheduling reads no {kind[:60]!r}; it reads {known}")
    return resource


def as_json(item: Any, resource: Resource[Any] | None = None) -> JsonObject:
    """Return a typed object as it stands in a manifest, with the fields that scheduling reads.

    `resource` is needed for custom ones. Raises ChangeError for an object so large that it would
    take long.
    """
    if isinstance(item, Pod):
        item, resource = encodable(item), PODS
    if resource is None:
        resource = next(each for each in BUILT_IN.values() if each.type is type(item))
    encoded = resource.encode(item)
    if len(encoded) > MAX_OBJECT_BYTES:
        raise ChangeError(
            f"{resource.kind} {resource.key(item)} has {len(encoded)} bytes; one with more than "
            f"{MAX_OBJECT_BYTES} cannot be changed here"
        )
    found: JsonObject = msgspec.json.decode(encoded)
    for name in [name for name in found if name.startswith("kubestow.io:")]:
        del found[name]
    return found


def edited(
    change: Change,
    kinds: Kinds,
    find: Callable[[Resource[Any], str], Any | None],
    manifests: Manifests,
) -> tuple[Resource[Any], Any | None, Any | None]:
    """Return the resource of a change, the object before it and after it; None for none.

    `find(resource, key)` returns the present object. What is added has no UID, and is completed by
    `manifests`. Raises ChangeError for a change that cannot be made.
    """
    resource = _resource_of(change, kinds)
    where = f"{change.kind} {change.name}"[:200]
    try:
        if change.action == "add":
            return _added(resource, change.value, find, where, manifests)
        known = find(resource, change.name)
        if known is None:
            raise ChangeError(f"there is no {where}")
        if change.action == "remove":
            return resource, known, None
        check_field(change, resource)
        made = applied(change, as_json(known, resource))
        item = decoded(resource, made, where, resource.decode)
    except RecursionError:
        raise ChangeError(f"{where}: nests too deeply") from None
    check_identity(known.metadata, item.metadata, f"{where}: {change.path[:80]}")
    return resource, known, item


def _resource_of(change: Change, kinds: Kinds) -> Resource[Any]:
    """Return the resource of a change: of an object to add by its manifest, if that says it."""
    if change.action == "add" and isinstance(change.value, dict):
        version = change.value.get("apiVersion")
        found = kinds.of(version, change.kind) if isinstance(version, str) else None
        if found is not None:
            return found
    return resource_of(change.kind, kinds)


def _added(
    resource: Resource[Any],
    value: Any,
    find: Callable[[Resource[Any], str], Any | None],
    where: str,
    manifests: Manifests,
) -> tuple[Resource[Any], Any | None, Any]:
    if not isinstance(value, dict):
        raise ChangeError(f"{where}: give the object to add")
    check_manifest(value, resource, where)
    item = decoded(resource, value, where, partial(manifests.decode, resource))
    known = find(resource, resource.key(item))
    if known is not None and resource in (PODS, NODES):
        raise ChangeError(f"{where}: it exists already; give another name")
    # A pod with the UID of another would take its place: a trial gives it a new one.
    item.metadata.uid = ""
    return resource, known, item


def decoded(
    resource: Resource[Any], obj: Mapping[str, Any], where: str, decode: Callable[[bytes], Any]
) -> Any:
    """Decode an object of JSON with `decode`. Raises ChangeError, RecursionError."""
    try:
        item = decode(msgspec.json.encode(obj))
    except (TypeError, ValueError) as error:
        raise ChangeError(f"{where}: {error}") from error
    if not item.metadata.name:
        raise ChangeError(f"{resource.kind}: metadata.name is missing")
    if resource.namespaced and not item.metadata.namespace:
        item.metadata.namespace = "default"
    return item


def check_identity(old: ObjectMeta, new: ObjectMeta, where: str) -> None:
    """Raise ChangeError if a field was set by which objects are told apart."""
    for name in ("name", "namespace", "uid"):
        before, after = getattr(old, name), getattr(new, name)
        # Who sets all metadata may leave the UID out.
        if before != after and (name != "uid" or after):
            raise ChangeError(
                f"{where} would change metadata.{name}, which no object can; "
                "add an object in its place"
            )


def check_field(change: Change, resource: Resource[Any]) -> None:
    """Raise ChangeError if scheduling does not read the field, or one of its value."""
    if fault := fault_of_field(resource.type, _keys(change.path), change.value):
        raise ChangeError(f"{change.kind} {change.name[:200]}: {fault}")


def check_manifest(obj: JsonObject, resource: Resource[Any], where: str) -> None:
    """Raise ChangeError for a field that the API does not know, so far as its fields are known.

    Raises RecursionError for one that nests deeply.
    """
    if fault := fault_of_field(resource.type, [], obj):
        raise ChangeError(f"{where}: {fault}")


def applied(change: Change, obj: JsonObject) -> JsonObject:
    """Return a copy of an object with a field set. Raises ChangeError for a path that is none."""
    # Through JSON, which is many times faster than `copy.deepcopy`.
    made: JsonObject = msgspec.json.decode(msgspec.json.encode(obj))
    set_field(made, change)
    return made


def set_field(made: JsonObject, change: Change) -> None:
    """Set a field of an object. Raises ChangeError for a path that is none."""
    keys = _keys(change.path)
    at: Any = made
    for key in keys[:-1]:
        at = _enter(at, key, change.path)
    _set(at, keys[-1], change)


def _keys(path: str) -> list[str]:
    """Return the keys of a JSON pointer. Raises ChangeError."""
    if not path.startswith("/"):
        raise ChangeError(f"{path[:80]!r}: write a JSON pointer, such as /spec/unschedulable")
    return [each.replace("~1", "/").replace("~0", "~") for each in path.split("/")[1:]]


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

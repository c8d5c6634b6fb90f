"""The request: its path, query and Accept header, as one record.

Pure; knows the resource table and nothing of HTTP libraries.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from simulator import errors
from simulator.admission import WriteOptions
from simulator.resources import Resource, ResourceTable

Query = dict[str, str]

_NAMED_VERBS: Final = {
    "GET": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
    "POST": "create",
}
_COLLECTION_VERBS: Final = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_TRUE: Final = ("true", "1", "True", "")


class Target(NamedTuple):
    """A request for a resource. `verb` is the RBAC verb; the name is empty for a collection."""

    verb: str
    resource: Resource
    namespace: str
    name: str
    subresource: str

    @property
    def label(self) -> str:
        """`pods` or `pods/binding`, as fault rules and RBAC name it."""
        return (
            f"{self.resource.plural}/{self.subresource}"
            if self.subresource
            else self.resource.plural
        )


def split_path(raw_path: str) -> tuple[list[str], Query]:
    """Return the decoded segments of a path, and its query (the last value of a repeated key)."""
    path, _, query = raw_path.partition("?")
    segments = [step for step in path.split("/") if step]
    if "%" in path:
        segments = [unquote(step) for step in segments]
    return segments, dict(parse_qsl(query, keep_blank_values=True)) if query else {}


def is_true(query: Query, key: str) -> bool:
    """Whether a boolean parameter is set, as Go's query decoding reads it."""
    return key in query and query[key] in _TRUE


def resolve(
    method: str, segments: list[str], query: Query, resources: ResourceTable
) -> Target | None:
    """Parse /api/v1/… or /apis/GROUP/VERSION/…; None for a path that is no resource's.

    Raises 404 for a resource the table does not have, 405 for a verb its row does not have.
    """
    group, version, rest = _group_version(segments)
    if not rest:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    row = resources.find(group, version, rest[0])
    if row is None or len(rest) > 3:
        raise errors.no_such_resource()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if subresource and subresource not in row.subresources:
        raise errors.no_such_resource()
    if row.namespaced and not namespace and (name or method == "POST"):
        raise errors.method_not_allowed()
    if not row.namespaced and namespace:
        raise errors.no_such_resource()
    verb = (_NAMED_VERBS if name else _COLLECTION_VERBS).get(method, "")
    if verb == "list" and is_true(query, "watch"):
        verb = "watch"
    if not verb or (verb == "create" and name and not subresource):
        raise errors.method_not_allowed()
    if not subresource and verb not in row.verbs:
        raise errors.method_not_allowed()
    return Target(verb, row, namespace, name, subresource)


def _group_version(segments: list[str]) -> tuple[str, str, list[str]]:
    if segments[:2] == ["api", "v1"]:
        return "", "v1", segments[2:]
    if segments[:1] == ["apis"] and len(segments) > 2:
        return segments[1], segments[2], segments[3:]
    return "", "", []


def write_options(query: Query) -> WriteOptions:
    """Read the parameters of a write. Raises 422 for an invalid value."""
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        cause = errors.unsupported_value("dryRun", dry_run, ["All"])
        raise errors.invalid("CreateOptions", "meta.k8s.io", "", [cause])
    validation = query.get("fieldValidation") or "Warn"
    options = WriteOptions(dry_run=dry_run == "All", field_manager=query.get("fieldManager", ""))
    match validation:
        case "Strict" | "Warn" | "Ignore":
            options.field_validation = validation
        case _:
            cause = errors.unsupported_value(
                "fieldValidation", validation, ["Ignore", "Strict", "Warn"]
            )
            raise errors.invalid("CreateOptions", "meta.k8s.io", "", [cause])
    options.force = is_true(query, "force")
    return options


def wants_table(accept: str) -> bool:
    """Whether an Accept header prefers a Table."""
    return "as=Table" in accept and "v=v1" in accept


def reads_json(accept: str) -> bool:
    """Whether the client takes JSON at all; protobuf-only clients do not."""
    return (
        not accept
        or "json" in accept
        or "*/*" in accept
        or "application/*" in accept
        or "text/plain" in accept
    )


def resource_version(query: Query) -> int | None:
    """`resourceVersion` of a list or watch; None where unset. Raises 400 for no number."""
    text = query.get("resourceVersion", "")
    if not text:
        return None
    if not text.isdigit():
        raise errors.bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": '
            f'strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text)

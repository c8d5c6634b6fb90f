"""Reviews of permissions (authorization.k8s.io/v1), and the resources that the API server has.

All of them are requests that change nothing. Use a client without fence: a replica that does not
lead asks as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from scheduler.api.decoding import decode_json
from scheduler.api.meta import Object
from scheduler.client.errors import ApiError, MalformedResponse
from scheduler.client.rest import ApiClient

_API_VERSION: Final = "authorization.k8s.io/v1"
_NOT_FOUND: Final = 404

MAX_VERSIONS: Final = 16
"""Versions of a group that are looked at; real ones have three at most."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One verb on a resource, as a review has it. `resource` may name a subresource: `pods/status`.

    An empty namespace means all namespaces, an empty name all objects.
    """

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def attributes(self) -> dict[str, str]:
        """Return `resourceAttributes` of a review."""
        plural, _, subresource = self.resource.partition("/")
        return {
            "verb": self.verb,
            "group": self.group,
            "resource": plural,
            "subresource": subresource,
            "namespace": self.namespace,
            "name": self.name,
        }


class ResourceRule(Object):
    """One rule of a SelfSubjectRulesReview; `*` means all."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class RulesStatus(Object):
    """The rules of our own user in one namespace, without those of authorizers that list none."""

    resource_rules: tuple[ResourceRule, ...] = ()


class _RulesReview(Object):
    status: RulesStatus = msgspec.field(default_factory=RulesStatus)


class _AccessStatus(Object):
    allowed: bool = False


class _AccessReview(Object):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class _Version(Object):
    version: str = ""


class _Group(Object):
    versions: tuple[_Version, ...] = ()


class _ServedResource(Object):
    name: str = ""


class _ServedResources(Object):
    resources: tuple[_ServedResource, ...] = ()


_rules_review = msgspec.json.Decoder(_RulesReview)
_access_review = msgspec.json.Decoder(_AccessReview)
_group = msgspec.json.Decoder(_Group)
_served_resources = msgspec.json.Decoder(_ServedResources)


def grants(rules: Iterable[ResourceRule], access: Access) -> bool:
    """Whether one of the rules allows an access (`pkg/registry/rbac/validation: RuleAllows`).

    >>> read = ResourceRule(verbs=("get",), api_groups=("",), resources=("*/status",))
    >>> grants([read], Access(verb="get", resource="pods/status"))
    True
    >>> grants([read], Access(verb="get", resource="pods"))
    False
    """
    return any(_allows(rule, access) for rule in rules)


def _allows(rule: ResourceRule, access: Access) -> bool:
    _, slash, subresource = access.resource.partition("/")
    wanted = {"*", access.resource}
    if slash:
        wanted.add(f"*/{subresource}")
    return (
        not {"*", access.verb}.isdisjoint(rule.verbs)
        and not {"*", access.group}.isdisjoint(rule.api_groups)
        and not wanted.isdisjoint(rule.resources)
        and (not rule.resource_names or access.name in rule.resource_names)
    )


async def review_own_rules(client: ApiClient, namespace: str) -> RulesStatus:
    """Return what our own user may do in a namespace, what it may do everywhere included."""
    spec = {"namespace": namespace}
    return (await _review(client, "SelfSubjectRulesReview", spec, _rules_review)).status


async def review_own_access(client: ApiClient, access: Access) -> bool:
    """Whether our own user may do it."""
    spec = {"resourceAttributes": access.attributes()}
    return (await _review(client, "SelfSubjectAccessReview", spec, _access_review)).status.allowed


async def review_access_of(
    client: ApiClient, access: Access, *, user: str, groups: Collection[str]
) -> bool:
    """Whether another user may do it."""
    spec = {"user": user, "groups": [*groups], "resourceAttributes": access.attributes()}
    return (await _review(client, "SubjectAccessReview", spec, _access_review)).status.allowed


async def served_resources(client: ApiClient, group: str) -> frozenset[str]:
    """Return plurals and subresources that the API server has in any version of a group."""
    known = await _discovered(client, f"/apis/{group}", _group, "APIGroup")
    found: set[str] = set()
    for each in known.versions[:MAX_VERSIONS] if known is not None else ():
        path = f"/apis/{group}/{each.version}"
        listed = await _discovered(client, path, _served_resources, "APIResourceList")
        found.update(one.name for one in (listed.resources if listed is not None else ()))
    return frozenset(found)


async def _discovered(
    client: ApiClient, path: str, decoder: msgspec.json.Decoder[R], kind: str
) -> R | None:
    """Return a document of discovery; None if the API server lacks what it is about."""
    try:
        response = await client.request("GET", path)
    except ApiError as error:
        if error.status != _NOT_FOUND:
            raise
        return None
    return _decoded(decoder, "GET", path, kind, response.body)


async def _review(
    client: ApiClient, kind: str, spec: Mapping[str, Any], decoder: msgspec.json.Decoder[R]
) -> R:
    path = f"/apis/{_API_VERSION}/{kind.lower()}s"
    body = {"apiVersion": _API_VERSION, "kind": kind, "spec": spec}
    response = await client.request("POST", path, body=body)
    return _decoded(decoder, "POST", path, kind, response.body)


def _decoded(decoder: msgspec.json.Decoder[R], method: str, path: str, kind: str, body: bytes) -> R:
    try:
        return decode_json(decoder, body)
    except ValueError as error:
        raise MalformedResponse(method, path, f"not a {kind}: {error}") from error

"""Lists: selectors, resourceVersion semantics, pages that stay consistent.

A page after the first is cut from the state at the first page's resourceVersion, rebuilt from
history; when history no longer reaches back, the answer is 410. Objects are written from their
encoded bytes.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections import OrderedDict
from typing import Final, NamedTuple

import msgspec

from simulator import errors
from simulator.objects import JsonObject, encode_json
from simulator.resources import Resource
from simulator.routing import Query, Target, resource_version
from simulator.selectors import Predicate, compile_selectors
from simulator.store import CompactedError, Store, Version

_SNAPSHOTS: Final = 8
"""Kept states of tables for paging; more pages in flight rebuild theirs from history."""


class ListPage(NamedTuple):
    """One page of a list."""

    versions: list[Version]
    rv: int
    token: str
    remaining: int

    def metadata(self) -> JsonObject:
        """`metadata` of the list."""
        meta: JsonObject = {"resourceVersion": str(self.rv)}
        if self.token:
            meta["continue"] = self.token
            if self.remaining >= 0:
                meta["remainingItemCount"] = self.remaining
        return meta


class _Token(msgspec.Struct):
    rv: int
    namespace: str
    name: str


def _encode_token(rv: int, last: Version) -> str:
    token = msgspec.json.encode(_Token(rv, last.namespace, last.name))
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def _decode_token(text: str) -> _Token:
    try:
        padded = text + "=" * (-len(text) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Token)
    except (binascii.Error, msgspec.MsgspecError, ValueError) as error:
        raise errors.bad_request(f"invalid continue token: {error}") from error


def predicate_of(target: Target, query: Query) -> Predicate | None:
    """Return the predicate of a request's selectors."""
    return compile_selectors(
        query.get("labelSelector", ""), query.get("fieldSelector", ""), target.resource.selectable
    )


class Lister:
    """Answers lists from a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._snapshots: OrderedDict[tuple[str, int], list[Version]] = OrderedDict()

    def page(self, target: Target, query: Query) -> ListPage:
        """Read one page. Raises 400, 410, 422 or 504 as kube-apiserver does."""
        predicate = predicate_of(target, query)
        limit = _limit(query)
        after: tuple[str, str] | None = None
        if query.get("continue"):
            token = _decode_token(query["continue"])
            after, rv = (token.namespace, token.name), token.rv
            versions = self._at(target.resource, rv)
        else:
            rv = self._version_asked(query)
            versions = (
                self._store.items(target.resource.table, target.namespace)
                if rv == self._store.rv
                else self._at(target.resource, rv)
            )
        if after is not None:
            versions = versions[
                bisect_right(versions, after, key=lambda v: (v.namespace, v.name)) :
            ]
        if target.namespace and (after is not None or rv != self._store.rv):
            versions = [one for one in versions if one.namespace == target.namespace]
        if predicate is not None:
            versions = [one for one in versions if predicate(one.obj)]
        if not limit or len(versions) <= limit:
            return ListPage(versions, rv, "", -1)
        page = versions[:limit]
        # As upstream: with selectors the server does not know how many remain.
        remaining = -1 if predicate is not None else len(versions) - limit
        return ListPage(page, rv, _encode_token(rv, page[-1]), remaining)

    def _version_asked(self, query: Query) -> int:
        requested, match = resource_version(query), query.get("resourceVersionMatch", "")
        if match and requested is None:
            why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            raise _invalid_list("resourceVersionMatch", why)
        if match not in ("", "Exact", "NotOlderThan"):
            cause = errors.unsupported_value(
                "resourceVersionMatch", match, ["Exact", "NotOlderThan", ""]
            )
            raise errors.invalid("ListOptions", "meta.k8s.io", "", [cause])
        if requested is not None and requested > self._store.rv:
            raise errors.too_large_resource_version(requested, self._store.rv)
        if match == "Exact" and requested == 0:
            why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            raise _invalid_list("resourceVersionMatch", why)
        return requested if match == "Exact" and requested is not None else self._store.rv

    def _at(self, resource: Resource, rv: int) -> list[Version]:
        key = (resource.table, rv)
        found = self._snapshots.get(key)
        if found is None:
            try:
                found = self._store.items_at(resource.table, rv)
            except CompactedError as error:
                raise errors.expired(
                    f"The provided continue parameter or resourceVersion is too old: {error}; "
                    "start the list again without it"
                ) from error
            self._snapshots[key] = found
            if len(self._snapshots) > _SNAPSHOTS:
                self._snapshots.popitem(last=False)
        else:
            self._snapshots.move_to_end(key)
        return found

    def forget(self) -> None:
        """Drop kept states, so that compaction shows in pages that are in flight."""
        self._snapshots.clear()


def _limit(query: Query) -> int:
    text = query.get("limit", "") or "0"
    if not text.isdigit():
        raise errors.bad_request(f'limit: Invalid value: "{text}": must be a number of at least 0')
    return int(text)


def _invalid_list(field: str, why: str) -> errors.ApiError:
    return errors.invalid("ListOptions", "meta.k8s.io", "", [errors.forbidden_field(field, why)])


def encoded(resource: Resource, version: Version) -> bytes:
    """Return the JSON of a version in the API version of `resource`."""
    if resource.view is None:
        return version.encoded()
    return version.encoded_as(resource.group_version, resource.view.show)


def shown(resource: Resource, version: Version) -> JsonObject:
    """Return the tree of a version in the API version of `resource`."""
    return version.obj if resource.view is None else resource.view.show(version.obj)


def encode_page(resource: Resource, page: ListPage) -> bytes:
    """Return the JSON of a list."""
    head = encode_json(
        {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.group_version,
            "metadata": page.metadata(),
            "items": [],
        }
    )
    body = b",".join([encoded(resource, version) for version in page.versions])
    return head[:-2] + body + b"]}"


def initial_list_error(query: Query) -> None:
    """Refuse a watch whose sendInitialEvents does not fit. Raises 422."""
    if "sendInitialEvents" not in query:
        return
    if query.get("resourceVersionMatch") != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise _invalid_list("resourceVersionMatch", why)

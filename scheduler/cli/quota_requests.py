"""Requests of `kubestow quota`, on quotas as plain JSON: all fields of others must be kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import click

from scheduler.cli.cluster import JsonObject
from scheduler.cli.quota_limits import LABEL, QuotaLimits, change, has_deferred, manifest
from scheduler.client.errors import ApiError
from scheduler.client.request_sender import MERGE_PATCH
from scheduler.client.resources import NAMESPACES, Resource
from scheduler.client.rest import ApiClient

ENFORCED: Final = "enforced"


def _plain(plural: str, kind: str) -> Resource[Any]:
    return Resource("", "v1", plural, cast("Any", JsonObject), kind=kind)


_QUOTAS: Final = _plain("resourcequotas", "ResourceQuota")
_PODS: Final = _plain("pods", "Pod")


async def get(client: ApiClient, namespace: str, name: str) -> JsonObject | None:
    """Read one quota; None where there is none."""
    try:
        quota: JsonObject = await client.get(_QUOTAS, name, namespace)
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    return quota


async def read_deferred(
    client: ApiClient, namespace: str
) -> tuple[list[JsonObject], dict[str, list[JsonObject]]]:
    """Return quotas with deferred keys, and all pods of each namespace that has such quotas.

    An empty `namespace` stands for all.
    """
    quotas = [each for each in await client.list(_QUOTAS, namespace) if has_deferred(each)]
    namespaces = sorted({str(quota["metadata"]["namespace"]) for quota in quotas})
    return quotas, {name: await client.list(_PODS, name) for name in namespaces}


async def write(
    client: ApiClient, namespace: str, name: str, limits: QuotaLimits, scopes: Sequence[str]
) -> tuple[JsonObject, bool]:
    """Create a quota or change its limits. Return it as stored, and whether it is new."""
    current = await get(client, namespace, name)
    if current is None:
        made = manifest(namespace, name, limits, scopes)
        return await client.create(_QUOTAS, made, namespace), True
    if scopes and sorted(scopes) != sorted(current["spec"].get("scopes") or ()):
        raise click.UsageError(f"scopes of {name} cannot be changed: delete it, or give --name")
    body = change(current, limits)
    return await client.patch(_QUOTAS, name, namespace, body=body, patch_type=MERGE_PATCH), False


async def guard(client: ApiClient, namespace: str) -> None:
    """Label the namespace for the guard policies."""
    labels = {"metadata": {"labels": {LABEL: ENFORCED}}}
    await client.patch(NAMESPACES, namespace, body=labels, patch_type=MERGE_PATCH)


async def replace(client: ApiClient, namespace: str, old: JsonObject, new: JsonObject) -> None:
    """Create the new quota, then delete the old one: two limits are safer than none.

    Only the version of the old quota that was read is deleted.
    """
    await client.create(_QUOTAS, new, namespace)
    meta = old["metadata"]
    await client.delete(
        _QUOTAS,
        meta["name"],
        namespace,
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
    )

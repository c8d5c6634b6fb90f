"""Base of the writers of plugins: reads by request, and waiting for objects."""

from __future__ import annotations

from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Any

from scheduler.client.custom_resources import resource_of
from scheduler.client.errors import ApiError
from scheduler.client.rest import ApiClient
from scheduler.framework import ObjectKey
from scheduler.service.object_waits import ObjectWaits


class ApiReads:
    """The part of `framework.ApiWriter` that writes nothing."""

    def __init__(self, client: ApiClient, waits: ObjectWaits) -> None:
        self._client = client
        self._waits = waits

    async def get(self, plural: str, name: str, namespace: str) -> Any | None:
        """Read an object from the API server; None: not found."""
        try:
            return await self._client.get(resource_of(plural), name, namespace)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    async def list(self, plural: str, namespace: str, *, field_selector: str, limit: int) -> Any:
        """Return at most `limit` objects of a namespace that the field selector matches."""
        resource = resource_of(plural)
        return await self._client.list(
            resource, namespace, field_selector=field_selector, limit=limit
        )

    async def wait_for(self, look: Callable[[], Collection[ObjectKey]], seconds: float) -> bool:
        """Wait until `look` returns no objects to wait for; False after `seconds`."""
        return await self._waits.until(look, seconds)

"""The authorities of client certificates, as the API server publishes them.

A kube-apiserver writes its `--client-ca-file` into a ConfigMap, so that other servers of the
cluster can know the same users (`dynamiccertificates: ConfigMapCAController`). What it publishes
beside them about proxies in front of it is not read.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.api.decoding import decode_json
from scheduler.api.meta import Object
from scheduler.client.errors import ApiError, MalformedResponse
from scheduler.client.rest import ApiClient

NAMESPACE: Final = "kube-system"
NAME: Final = "extension-apiserver-authentication"
KEY: Final = "client-ca-file"
PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}"

_NOT_FOUND: Final = 404


class _ConfigMap(Object):
    data: dict[str, str] = {}


_decoder = msgspec.json.Decoder(_ConfigMap)


async def published_authorities(client: ApiClient) -> str | None:
    """Return the authorities (PEM), empty if the API server has none; None without a ConfigMap.

    Raises:
        RequestError: the ConfigMap could not be read.
    """
    try:
        response = await client.request("GET", PATH)
    except ApiError as error:
        if error.status != _NOT_FOUND:
            raise
        return None
    try:
        return decode_json(_decoder, response.body).data.get(KEY, "").strip()
    except ValueError as error:
        raise MalformedResponse("GET", PATH, f"this is no ConfigMap: {error}") from error

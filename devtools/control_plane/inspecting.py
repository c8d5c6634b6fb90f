"""Reads the endpoints of a running kubestow as the administrator: metrics and the queue."""

from __future__ import annotations

import http
import http.client
import json
from typing import Any, Final

from devtools.control_plane.admin import unverified
from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.ports import LOOPBACK

REQUEST_TIMEOUT_SECONDS: Final = 60
"""A loaded machine needs seconds for what otherwise takes milliseconds."""


def get_endpoint(port: int, path: str, token: str = "") -> tuple[int, str]:
    """GET an endpoint of kubestow; return status and body. Its certificate is not verified."""
    connection = http.client.HTTPSConnection(
        LOOPBACK, port, context=unverified(), timeout=REQUEST_TIMEOUT_SECONDS
    )
    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


class Inspector:
    """One scheduler's endpoints; its certificate is generated at start, so it is not verified."""

    def __init__(self, process: ManagedProcess, control_plane: ControlPlane) -> None:
        self._process = process
        self._token = control_plane.admin_token

    def get(self, path: str) -> str:
        """Return the body of a page. Raises AssertionError for any status except 200."""
        status, body = get_endpoint(self._process.port, path, self._token)
        assert status == http.HTTPStatus.OK, f"{path}: {status} {body}"
        return body

    def queue(self, namespace: str) -> dict[str, dict[str, Any]]:
        """The records of a namespace's pending pods, by name."""
        page = json.loads(self.get(f"/debug/queue?namespace={namespace}"))
        return {each["name"]: each for each in page["pods"]}

    def sample(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples with these labels; 0 where there are none."""
        total = 0.0
        for line in self.get("/metrics").splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(
                f'{key}="{text}"' in series for key, text in labels.items()
            ):
                total += float(value)
        return total

"""Delivery time of a pod by a plain watch: the API server's part of a scheduling delay."""

from __future__ import annotations

import math
import re
import socket
import ssl
import threading
import time
from typing import Final, Self

from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.ports import LOOPBACK

_ADDED: Final = re.compile(rb'\{"type":"ADDED",.{0,60}?"metadata":\{"name":"([^"]{1,253})"')
POLL_SECONDS: Final = 0.02


class DeliveryWatch:
    """Watches all pods, as a scheduler does, and notes when each was delivered first.

    It decodes nothing, so that it is never the one that others wait for.
    """

    def __init__(self, control_plane: ControlPlane) -> None:
        self._delivered: dict[str, float] = {}
        context = ssl.create_default_context(cafile=str(control_plane.files.authority))
        self._connection = context.wrap_socket(
            socket.create_connection((LOOPBACK, control_plane.port)), server_hostname=LOOPBACK
        )
        # HTTP/1.0, because its bodies have no chunks: every event is one line.
        self._connection.sendall(
            b"GET /api/v1/pods?watch=1&resourceVersion=0 HTTP/1.0\r\nAccept: application/json\r\n"
            b"Authorization: Bearer %b\r\n\r\n" % control_plane.admin_token.encode()
        )
        threading.Thread(target=self._read, name="delivery watch", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def delivered(self, name: str, timeout: float) -> float:
        """Return the monotonic time of a pod's delivery, or NaN if it was not in time."""
        end = time.monotonic() + timeout
        while name not in self._delivered and time.monotonic() < end:
            time.sleep(POLL_SECONDS)
        return self._delivered.get(name, math.nan)

    def _read(self) -> None:
        try:
            for line in self._connection.makefile("rb"):
                if found := _ADDED.match(line):
                    self._delivered.setdefault(found[1].decode(), time.monotonic())
        except OSError:
            # Closed on this side.
            return

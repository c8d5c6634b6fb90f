"""Requests to the control plane as its administrator, synchronous and without dependencies.

For setting up and looking at the API server under test; the project's own client is among the
things that are tested, so it is not used here.
"""

from __future__ import annotations

import http.client
import json
import select
import ssl
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast

from devtools.control_plane.ports import LOOPBACK

REQUEST_TIMEOUT_SECONDS: Final = 120.0
PROBE_TIMEOUT_SECONDS: Final = 5.0
CONTENT_TYPES: Final = {"PATCH": "application/merge-patch+json"}
IDLE_SECONDS: Final = 30.0
"""How long an unused connection is kept. The API server closes those that are idle for 90 s, and a
request must not meet such an end."""

JsonObject = dict[str, object]


class ApiError(RuntimeError):
    """The API server answered with an error status."""

    def __init__(self, method: str, path: str, status: int, text: str) -> None:
        super().__init__(f"{method} {path}: HTTP {status}: {text}")
        self.status = status


class AdminClient:
    """Sends requests one after the other over a connection that stays open.

    Tests poll: a TLS handshake costs both sides more than most requests. A connection that a
    stopped or killed server has closed is not used again. Threads may share the client; each
    request in flight has a connection of its own.
    """

    def __init__(self, port: int, token: str, authority: Path) -> None:
        self._port = port
        self._token = token
        self._authority = authority
        self._context: ssl.SSLContext | None = None
        self._idle: deque[tuple[http.client.HTTPSConnection, float]] = deque()
        """Connections, with the time of their last use."""

    def close(self) -> None:
        """Close the connections; a later request opens a new one."""
        while self._idle:
            self._idle.pop()[0].close()

    def request(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> JsonObject:
        """Send a request and return the JSON object of the response. A PATCH body is a merge patch.

        Raises:
            ApiError: the status of the response is 400 or above.
            OSError: there is no server, or the connection broke.
        """
        status, text = self._exchange(method, path, body, REQUEST_TIMEOUT_SECONDS)
        if status >= http.HTTPStatus.BAD_REQUEST:
            raise ApiError(method, path, status, text)
        return cast("JsonObject", json.loads(text))

    def ensure(self, collection: str, manifest: Mapping[str, object]) -> None:
        """Create an object under the path `collection`; it is fine if it exists."""
        try:
            self.request("POST", collection, manifest)
        except ApiError as error:
            if error.status != http.HTTPStatus.CONFLICT:
                raise

    def answers_ok(self, path: str) -> bool:
        """Return whether a GET of `path` succeeds now; a failure to connect counts as no."""
        try:
            status, _ = self._exchange("GET", path, None, PROBE_TIMEOUT_SECONDS)
        except (OSError, http.client.HTTPException):
            return False
        return status == http.HTTPStatus.OK

    def exchange(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        content_type: str = "",
        *,
        timeout: float = REQUEST_TIMEOUT_SECONDS,
    ) -> tuple[int, str]:
        """Send a request and return status and text of the response, whatever they are."""
        return self._exchange(method, path, body, timeout, content_type)

    def lines(self, path: str) -> Iterator[str]:
        """Send a GET and yield the lines of the response as they arrive, as for a watch.

        Raises:
            ApiError: the status of the response is 400 or above.
            OSError: there is no server, or the connection broke.
        """
        connection, _ = self._new_connection(REQUEST_TIMEOUT_SECONDS)
        try:
            headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
            connection.request("GET", path, None, headers)
            response = connection.getresponse()
            if response.status >= http.HTTPStatus.BAD_REQUEST:
                raise ApiError("GET", path, response.status, response.read().decode())
            for line in response:
                yield line.decode()
        finally:
            connection.close()

    def warnings(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> list[str]:
        """Send a request that must succeed and return the texts of its Warning headers."""
        status, text, headers = self._request(method, path, body, REQUEST_TIMEOUT_SECONDS)
        if status >= http.HTTPStatus.BAD_REQUEST:
            raise ApiError(method, path, status, text)
        return [text.split('"')[1] for text in headers.get_all("Warning") or ()]

    def _exchange(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        timeout: float,
        content_type: str = "",
    ) -> tuple[int, str]:
        status, text, _ = self._request(method, path, body, timeout, content_type)
        return status, text

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        timeout: float,
        content_type: str = "",
    ) -> tuple[int, str, http.client.HTTPMessage]:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        if body is not None:
            default = CONTENT_TYPES.get(method, "application/json")
            headers["Content-Type"] = content_type or default
        connection, context = self._idle_connection(timeout) or self._new_connection(timeout)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            status, text, fields = response.status, response.read().decode(), response.headers
        except BaseException:
            connection.close()
            raise
        # Only now: it may have been read while the API server wrote the file.
        self._context = context
        if response.will_close:
            connection.close()
        else:
            self._idle.append((connection, time.monotonic()))
        return status, text, fields

    def _idle_connection(
        self, timeout: float
    ) -> tuple[http.client.HTTPSConnection, ssl.SSLContext | None] | None:
        """Return a connection that is open and was in use lately, if there is one."""
        while True:
            try:
                connection, used = self._idle.pop()
            except IndexError:
                return None
            socket = connection.sock
            # Nothing is outstanding, so what can be read is the end of the connection.
            if time.monotonic() - used < IDLE_SECONDS and not select.select([socket], [], [], 0)[0]:
                socket.settimeout(timeout)
                return connection, self._context
            connection.close()

    def _new_connection(self, timeout: float) -> tuple[http.client.HTTPSConnection, ssl.SSLContext]:
        context = self._context or ssl.create_default_context(cafile=str(self._authority))
        connection = http.client.HTTPSConnection(
            LOOPBACK, self._port, context=context, timeout=timeout
        )
        return connection, context


def serves_ok(port: int, path: str) -> bool:
    """Return whether a component serves `path` with 200 over HTTPS, whatever its certificate.

    The components other than the API server sign their own certificate in memory, so there is
    nothing to verify it against.
    """
    connection = http.client.HTTPSConnection(
        LOOPBACK, port, context=unverified(), timeout=PROBE_TIMEOUT_SECONDS
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def unverified() -> ssl.SSLContext:
    """Return a context that verifies nothing.

    The default context reads all authorities of the system: 45 ms of CPU time, at each poll.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context

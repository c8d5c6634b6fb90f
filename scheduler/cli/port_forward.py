"""A port of a pod as a stream: port-forwarding through the API server, in a WebSocket.

The subprotocol is `v4.channel.k8s.io`. The API server passes it on as it is, and each kubelet
serves it (upstream: cri-streaming, portforward/websocket.go), of old and new releases; the one that
kubectl prefers wraps SPDY, which needs a second protocol for nothing. A message begins with the
number of its channel: 0 has the bytes, 1 the text of an error. The first message of each is the
port, in two bytes.

WebSockets: RFC 6455. Only what a client needs: no extensions, no fragments of ours.
"""

from __future__ import annotations

import base64
import os
import struct
from collections.abc import Sequence
from contextlib import ExitStack
from hashlib import sha1
from http.client import HTTPResponse
from io import BufferedIOBase
from typing import Final

from scheduler.cli.streams import Stream, exchange

PROTOCOL: Final = "v4.channel.k8s.io"
DATA, ERROR = 0, 1

MAX_SENT_BYTES: Final = 16 * 1024
MAX_RECEIVED_BYTES: Final = 1024 * 1024
"""In one frame; kubelet sends what it reads at a time, 32 KiB."""

MAX_TEXT_BYTES: Final = 4096
"""Of an error, or of the body of a refusal."""

_ACCEPT_SUFFIX: Final = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUED, _BINARY, _CLOSE, _PING, _PONG = 0, 2, 8, 9, 10


class UpgradeRefusedError(Exception):
    """The server answered the request for a WebSocket with something else."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.body = body


class ForwardingError(OSError):
    """The node could not forward the port; the message is its own."""


class PortForward:
    """A stream to a port of a pod, on a stream to the API server, which it owns from then on."""

    def __init__(
        self,
        stream: Stream,
        host: str,
        *,
        pod: str,
        port: int,
        authorization: str,
        prefix: str = "",
        repeated: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Open the WebSocket.

        Args:
            stream: to the API server.
            host: the API server's name, for the request.
            pod: `namespace/name`.
            port: a port of the pod.
            authorization: the header, empty for none.
            prefix: comes before the path, where the API server has one.
            repeated: further headers.

        Raises:
            UpgradeRefusedError: by the API server, or by whatever stands before it.
        """
        namespace, _, name = pod.partition("/")
        target = f"{prefix}/api/v1/namespaces/{namespace}/pods/{name}/portforward?ports={port}"
        key = base64.b64encode(os.urandom(16)).decode()
        headers = {
            "User-Agent": "kubestow/cli",
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": key,
            "Sec-WebSocket-Protocol": PROTOCOL,
        }
        if authorization:
            headers["Authorization"] = authorization
        self._stream = stream
        self._kept = ExitStack()
        response = self._kept.enter_context(
            exchange(stream, host, "GET", target, headers, repeated=repeated)
        )
        self._file = _upgraded(response, key)
        #: The channel of the message that is being received.
        self._channel = DATA
        self._port_seen = [False, False]

    def send(self, data: bytes) -> None:
        """See `Stream`."""
        for start in range(0, len(data), MAX_SENT_BYTES):
            self._send(_BINARY, bytes((DATA,)) + data[start : start + MAX_SENT_BYTES])

    def receive(self) -> bytes:
        """See `Stream`.

        Raises:
            ForwardingError: nothing listens at the port, or the container is gone.
        """
        while True:
            opcode, payload = self._frame()
            if opcode == _CLOSE:
                return b""
            if opcode == _PING:
                self._send(_PONG, payload)
            elif opcode in (_BINARY, _CONTINUED) and (data := self._content(opcode, payload)):
                return data

    def close(self) -> None:
        """See `Stream`."""
        self._kept.close()
        self._stream.close()

    def _content(self, opcode: int, payload: bytes) -> bytes:
        """Return the bytes of a frame; none of one with the port only."""
        if opcode == _BINARY:
            if not payload or payload[0] not in (DATA, ERROR):
                raise OSError("the WebSocket has a message of an unknown channel")
            self._channel, payload = payload[0], payload[1:]
        if not self._port_seen[self._channel]:
            self._port_seen[self._channel] = True
            payload = payload[2:]
        if self._channel == ERROR and payload:
            raise ForwardingError(payload[:MAX_TEXT_BYTES].decode("utf-8", "replace"))
        return payload

    def _frame(self) -> tuple[int, bytes]:
        head = self._file.read(2)
        if len(head) < 2:
            return _CLOSE, b""
        size = head[1]
        if size == 126:
            size = struct.unpack("!H", self._exactly(2))[0]
        elif size == 127:
            size = struct.unpack("!Q", self._exactly(8))[0]
        # The highest bit of the second byte, which no server sets, means a masked payload.
        if head[1] & 0x80 or size > MAX_RECEIVED_BYTES:
            raise OSError("the WebSocket has a frame that no kubelet sends")
        return head[0] & 0x0F, self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) < size:
            raise OSError("the WebSocket ended within a frame")
        return data

    def _send(self, opcode: int, payload: bytes) -> None:
        size = len(payload)
        # Final frame; masked, as all of a client's.
        head = struct.pack("!BB", 0x80 | opcode, 0x80 | min(size, 126))
        if size > 125:
            head += struct.pack("!H", size)
        mask = os.urandom(4)
        repeated = (mask * (size // 4 + 1))[:size]
        masked = int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")
        self._stream.send(head + mask + masked.to_bytes(size, "big"))


def _upgraded(response: HTTPResponse, key: str) -> BufferedIOBase:
    """Return what follows the head of the response."""
    accept = base64.b64encode(
        sha1((key + _ACCEPT_SUFFIX).encode(), usedforsecurity=False).digest()
    ).decode()
    if response.status != 101:
        raise UpgradeRefusedError(response.status, response.read(MAX_TEXT_BYTES))
    if response.headers.get("Sec-WebSocket-Accept", "").strip() != accept:
        raise UpgradeRefusedError(101, b"the answer is not that of a WebSocket server")
    if response.headers.get("Sec-WebSocket-Protocol", "").strip() != PROTOCOL:
        raise UpgradeRefusedError(101, f"the server does not speak {PROTOCOL}".encode())
    return response.fp

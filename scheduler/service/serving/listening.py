"""Listening sockets, and an acceptor that survives errors."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Final

from scheduler.service.options import ServingOptions

BACKLOG: Final = 1024
"""Connections the kernel keeps for us while a scheduling slice runs."""

BATCH: Final = 32
"""Connections accepted at once; then everything else has its turn, such as the first bytes of those
that were accepted before. Far less than one client may have."""

RETRY_SECONDS: Final = 0.5
"""Pause when the process or the machine is out of descriptors or memory."""

_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def listen(options: ServingOptions) -> list[socket.socket]:
    """Return listening sockets for the address; of both families if it is unspecified.

    Raises:
        OSError: the address cannot be listened on.
    """
    address, port = options.bind_address, options.secure_port
    share = options.permit_port_sharing
    if address not in ("", "0.0.0.0", "::"):  # noqa: S104  (a comparison)
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
        return [_listen(found[0][0], (address, port), share=share)]
    if socket.has_dualstack_ipv6():
        try:
            return [_listen(socket.AF_INET6, ("", port), share=share, both=True)]
        except OSError as error:
            # IPv6 is built in and switched off.
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                raise
    return [_listen(socket.AF_INET, ("", port), share=share)]


def _listen(
    family: int, address: tuple[str, int], *, share: bool, both: bool = False
) -> socket.socket:
    listener = socket.create_server(
        address, family=family, backlog=BACKLOG, reuse_port=share, dualstack_ipv6=both
    )
    listener.setblocking(False)
    return listener


class Acceptor:
    """Acceptor of connections, in batches; pauses when there are no descriptors."""

    def __init__(
        self,
        listener: socket.socket,
        accepted: Callable[[socket.socket, str], None],
        exhausted: Callable[[OSError], None],
    ) -> None:
        """Prepare; `accepted` gets socket and host, `exhausted` is called before each pause."""
        self._listener = listener
        self._accepted = accepted
        self._exhausted = exhausted
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start accepting."""
        self._pause = None
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Stop, and close the listening socket."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listener.fileno())
        self._listener.close()

    def _accept(self) -> None:
        for _ in range(BATCH):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    # The client disconnected, or a network error of this one connection.
                    continue
                # The listener stays readable: without a pause the loop would do nothing else.
                self._loop.remove_reader(self._listener.fileno())
                self._pause = self._loop.call_later(RETRY_SECONDS, self.start)
                self._exhausted(error)
                return
            connection.setblocking(False)
            self._accepted(connection, address[0])

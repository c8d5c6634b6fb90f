"""Accepted connections by client and stage, and the choice of those to close at the limit.

Pure bookkeeping. Invariant: when whatever `add` returns is removed, neither the total nor the
connections of one client exceed their limit. The newest connection is never refused: an older one
is closed, silent ones first, so that a client that only opens connections displaces no request.
"""

from __future__ import annotations

import socket
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Generic, TypeVar

Connection = TypeVar("Connection", bound=Hashable)


class ConnectionStage(IntEnum):
    """Progress of a connection; the lowest stage is closed first."""

    #: Accepted, nothing received.
    SILENT = 0
    #: TLS handshake and request head.
    STARTING = 1
    #: The handler is at work on the request.
    SERVING = 2


@dataclass(slots=True)
class _Group(Generic[Connection]):
    """Connections by stage, each stage in order of arrival."""

    stages: tuple[dict[Connection, None], dict[Connection, None], dict[Connection, None]] = field(
        default_factory=lambda: ({}, {}, {})
    )

    def __len__(self) -> int:
        return sum(map(len, self.stages))

    def first(self) -> Connection:
        """Return the oldest connection of the lowest stage."""
        return next(connection for stage in self.stages for connection in stage)


class ConnectionTable(Generic[Connection]):
    """All open connections. Every operation takes constant time."""

    def __init__(self, *, limit: int, limit_per_client: int) -> None:
        self._limit = limit
        self._limit_per_client = limit_per_client
        self._all: _Group[Connection] = _Group()
        self._clients: dict[Hashable, _Group[Connection]] = {}
        self._places: dict[Connection, tuple[Hashable, ConnectionStage]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def connections(self) -> list[Connection]:
        """Return all connections, in no particular order."""
        return list(self._places)

    def add(self, connection: Connection, client: Hashable) -> Connection | None:
        """Add a silent connection; return the one to close instead, if any."""
        group = self._clients.setdefault(client, _Group())
        victim = None
        if len(group) >= self._limit_per_client:
            victim = group.first()
        elif len(self._places) >= self._limit:
            victim = self._all.first()
        self._enter(connection, client, ConnectionStage.SILENT)
        return victim

    def advance(self, connection: Connection, stage: ConnectionStage) -> None:
        """Move a connection to another stage, unless it was removed."""
        place = self._places.get(connection)
        if place is not None:
            self._leave(connection, *place)
            self._enter(connection, place[0], stage)

    def remove(self, connection: Connection) -> None:
        """Remove a connection; it may have been removed before."""
        place = self._places.pop(connection, None)
        if place is None:
            return
        self._leave(connection, *place)
        if not self._clients[place[0]]:
            del self._clients[place[0]]

    def oldest(self) -> Connection | None:
        """Return the connection to close when descriptors run out."""
        return self._all.first() if self._places else None

    def _enter(self, connection: Connection, client: Hashable, stage: ConnectionStage) -> None:
        self._places[connection] = (client, stage)
        self._all.stages[stage][connection] = None
        self._clients[client].stages[stage][connection] = None

    def _leave(self, connection: Connection, client: Hashable, stage: ConnectionStage) -> None:
        del self._all.stages[stage][connection]
        del self._clients[client].stages[stage][connection]


_MAPPED: Final = "::ffff:"


def client_of(host: str) -> str:
    """Return the key under which a peer's address is counted: IPv4 unchanged, IPv6 by its /64.

    A client with one IPv6 address usually has a whole /64.

    >>> client_of("::ffff:10.0.0.1"), client_of("2001:db8:1:2:3::1"), client_of("fe80::1%eth0")
    ('10.0.0.1', '2001:db8:1:2::/64', 'fe80::/64')
    """
    plain = host.removeprefix(_MAPPED).partition("%")[0]
    try:
        prefix = socket.inet_pton(socket.AF_INET6, plain)[:8]
    except OSError:
        return plain
    return f"{socket.inet_ntop(socket.AF_INET6, prefix + bytes(8))}/64"

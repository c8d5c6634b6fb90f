"""Free loopback ports that stay free while a server is being restarted.

Ports are taken from below the range the kernel uses for outgoing connections (32768 and up on
Linux). Inside it, a client that keeps dialling a stopped server's port is sooner or later given
that very port as its own source, connects to itself, and the server can no longer bind.
"""

from __future__ import annotations

import os
import random
import socket
from typing import Final

LOOPBACK: Final = "127.0.0.1"
LOWEST_PORT: Final = 20_000
HIGHEST_PORT: Final = 32_000
ATTEMPTS: Final = 200

_handed_out: set[int] = set()
"""Every port this process gave away: two servers prepared together never get the same."""


def free_port() -> int:
    """Return a loopback TCP port on which nothing listens and which was not returned before."""
    # Not a test's randomness: it only keeps processes that run at the same time apart.
    source = random.SystemRandom()
    for _ in range(ATTEMPTS):
        port = source.choice(_own_range())
        if port not in _handed_out and _can_bind(port):
            _handed_out.add(port)
            return port
    span = f"between {LOWEST_PORT} and {HIGHEST_PORT}"
    msg = f"no free port on {LOOPBACK} {span} in {ATTEMPTS} attempts: stop what listens there"
    raise OSError(msg)


def _own_range() -> range:
    """Return the ports of this process: its own share if it is one of several of pytest-xdist.

    They run at the same time, and a server is started a moment after it was given its port.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return range(LOWEST_PORT, HIGHEST_PORT + 1)[number::processes]


def _can_bind(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Go's listeners do: connections in TIME_WAIT are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True

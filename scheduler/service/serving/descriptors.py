"""Limits of file descriptors: of the process, and of connections to the endpoints.

The rest remains for the API server, extenders and files, so that clients of the endpoints cannot
keep a leader from renewing its Lease.
"""

from __future__ import annotations

import resource
from typing import Final

MAX_CONNECTIONS: Final = 512
"""Connections to the endpoints at once: a handful of probes and scrapes, and room for strangers."""

MIN_CONNECTIONS: Final = 16
"""Served however few descriptors there are."""

RESERVED_DESCRIPTORS: Final = 768
"""Two pools of at most 256 connections to the API server (`client.transport.CONNECTION_LIMIT`):
requests and leader election; the rest for extenders, files, and what is being closed."""


def raise_soft_limit() -> tuple[int, int]:
    """Raise the soft limit of open files to the hard one; return both.

    As Go programs do: the low soft limit protects users of select(2), which nothing here is.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            # macOS refuses the hard limit "unlimited"; the soft limit stays.
            return soft, hard
    return hard, hard


def connection_limit(soft: int | None = None) -> int:
    """Return the limit of connections for a soft limit of `soft` (default: the one in force).

    >>> connection_limit(20_000), connection_limit(1024), connection_limit(256)
    (512, 256, 16)
    """
    if soft is None:
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(MIN_CONNECTIONS, min(MAX_CONNECTIONS, soft - RESERVED_DESCRIPTORS))

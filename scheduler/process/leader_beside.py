"""Warns at the start of a run without leader election if another process leads with its Lease.

With the same schedulerName, which a Lease does not tell, both would schedule the same pods, each
without knowing what the other one is about to bind. It is one look in the background; a Lease that
cannot be read is not mentioned.
"""

from __future__ import annotations

from typing import Final

import structlog

from scheduler.client.errors import RequestError
from scheduler.client.resources import LEASES
from scheduler.client.rest import ApiClient
from scheduler.explain.records.wording import shortened

_log = structlog.get_logger(__name__)

MAX_HOLDER: Final = 253
TIMEOUT_SECONDS: Final = 10.0

WARNING: Final = (
    "another process leads with this Lease, and this one schedules without leader election: if "
    "both serve the same schedulerName, they schedule the same pods, and may fill nodes twice; "
    "then stop one of them, or leave --leader-elect=false out"
)


async def warn_of_leader(client: ApiClient, namespace: str, name: str) -> None:
    """Log who holds the Lease, if it was renewed within its duration. Raises nothing."""
    try:
        lease = await client.get(LEASES, name, namespace, timeout=TIMEOUT_SECONDS)
    except (RequestError, ValueError):
        return
    spec = lease.spec
    age = spec.age(client.clock.now())
    if age is not None and age <= (spec.lease_duration_seconds or 0):
        holder = shortened(spec.holder_identity or "", MAX_HOLDER)
        _log.warning(WARNING, lease=f"{namespace}/{name}", holder=holder)

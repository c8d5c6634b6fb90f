"""Health checks by endpoint, with the exact response texts of kube-scheduler.

A check is a callable: None means healthy, a text is the reason why not. Reasons are for the log and
for clients allowed to read a single check; the three endpoints themselves are open to everyone and
withhold them, except those of checks that are `disclosed`, which quote our own RBAC rules only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from scheduler.sanitizing.redaction import redact_text
from scheduler.service.serving.slis import HealthSlis

_log = structlog.get_logger(__name__)

Check = Callable[[], str | None]
"""None when healthy, else the reason. Runs on the event loop and must be quick."""

HEALTHZ: Final = "healthz"
LIVEZ: Final = "livez"
READYZ: Final = "readyz"
PERMISSIONS: Final = "permissions"
"""The check of ours that kube-scheduler does not have."""

ENDPOINTS: Final = (HEALTHZ, LIVEZ, READYZ)


@dataclass(frozen=True, slots=True)
class HealthResponse:
    """The response of an endpoint: 200 or 500."""

    healthy: bool
    body: str


class HealthChecks:
    """The checks of the three endpoints."""

    def __init__(
        self,
        checks: Mapping[str, Mapping[str, Check]],
        advisory: Collection[str],
        disclosed: Collection[str] = (),
    ) -> None:
        """Prepare; `checks` are by endpoint and name, and run in this order.

        The checks named in `advisory` are shown but do not affect the status of an endpoint. The
        reasons of those in `disclosed` are part of the response.
        """
        self._checks = checks
        self._advisory = advisory
        self._disclosed = disclosed
        #: The reason of the last run by endpoint and check, so that the log gets changes only.
        self._reasons: dict[tuple[str, str], str | None] = {}
        #: The results as metrics.
        self.slis = HealthSlis()

    def run(
        self, endpoint: str, *, verbose: bool = False, excluded: Iterable[str] = ()
    ) -> HealthResponse:
        """Run all checks of an endpoint. Failures are always verbose."""
        unknown = set(excluded)
        lines: list[str] = []
        healthy = True
        for name in self._checks[endpoint]:
            if name in unknown:
                unknown.discard(name)
                lines.append(f"[+]{name} excluded: ok")
            elif (reason := self._reason(endpoint, name)) is None:
                lines.append(f"[+]{name} ok")
            elif name in self._advisory:
                lines.append(f"[!]{name} degraded: ask for this check alone for the reason")
            else:
                healthy = False
                told = redact_text(reason) if name in self._disclosed else "reason withheld"
                lines.append(f"[-]{name} failed: {told}")
        if unknown:
            quoted = ", ".join(f'"{name}"' for name in sorted(unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        if healthy and not verbose:
            return HealthResponse(healthy=True, body="ok")
        lines.append(f"{endpoint} check {'passed' if healthy else 'failed'}")
        return HealthResponse(healthy, "\n".join(lines) + "\n")

    def run_one(self, endpoint: str, name: str) -> HealthResponse | None:
        """Run one check; None if the endpoint has none of that name."""
        if name not in self._checks[endpoint]:
            return None
        reason = self._reason(endpoint, name)
        if reason is None:
            return HealthResponse(healthy=True, body="ok")
        return HealthResponse(healthy=False, body=f"internal server error: {redact_text(reason)}\n")

    def _reason(self, endpoint: str, name: str) -> str | None:
        """Run one check; return why it fails, or None. A check that raises fails."""
        try:
            reason = self._checks[endpoint][name]()
        except Exception as error:  # noqa: BLE001 - check boundary: a check that raises has failed
            reason = str(error) or type(error).__name__
        key = (endpoint, name)
        if self._reasons.get(key) != reason:
            self._reasons[key] = reason
            if reason is None:
                _log.info("health check passes again", endpoint=endpoint, check=name)
            else:
                _log.warning("health check fails", endpoint=endpoint, check=name, reason=reason)
        self.slis.record(name, endpoint, healthy=reason is None)
        return reason


def scheduler_checks(
    *,
    shutdown: Check,
    handler_sync: Check,
    leader_election: Check | None = None,
    permissions: Check | None = None,
    permissions_alive: Check | None = None,
    advisory: Mapping[str, Check] | None = None,
) -> HealthChecks:
    """Return the checks of kube-scheduler under its names.

    Args:
        shutdown: fails as soon as the process is ending.
        handler_sync: fails until every handler has seen its initial list.
        leader_election: fails when we lead and have not renewed for too long; None: no election.
        permissions: fails while a required permission is missing; None: no such check.
        permissions_alive: fails when that has lasted too long; None: no such check. Not part of
            /healthz, which is upstream's.
        advisory: shown by /readyz?verbose and served alone; they do not affect readiness.
    """
    advisory = advisory or {}
    ping: dict[str, Check] = {"ping": lambda: None}
    lease = {} if leader_election is None else {"leaderElection": leader_election}
    alive = {} if permissions_alive is None else {PERMISSIONS: permissions_alive}
    ready: dict[str, Check] = {
        **lease, "shutdown": shutdown, "sched-handler-sync": handler_sync
    }  # fmt: skip
    if permissions is not None:
        ready[PERMISSIONS] = permissions
    return HealthChecks(
        {
            HEALTHZ: lease or ping,
            LIVEZ: {**ping, **alive},
            READYZ: {**ready, **advisory},
        },
        tuple(advisory),
        disclosed=(PERMISSIONS,),
    )

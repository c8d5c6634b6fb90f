"""Health checks by endpoint, with the exact response texts of kube-scheduler.

A check is a callable: None means healthy, a text is the reason why not. Reasons are for the log and
for clients allowed to read a single check; the three endpoints themselves are open to everyone and
withhold them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from scheduler.api.redaction import redact_text

_log = structlog.get_logger(__name__)

Check = Callable[[], str | None]
"""None when healthy, else the reason. Runs on the event loop and must be quick."""

HEALTHZ: Final = "healthz"
LIVEZ: Final = "livez"
READYZ: Final = "readyz"
ENDPOINTS: Final = (HEALTHZ, LIVEZ, READYZ)

Observer = Callable[[str, str, bool], None]
"""Told `(check, endpoint, healthy)` of every result."""


@dataclass(frozen=True, slots=True)
class HealthResponse:
    """The response of an endpoint: 200 or 500."""

    healthy: bool
    body: str


class HealthChecks:
    """The checks of the three endpoints, in the order they were added."""

    def __init__(self, observer: Observer | None = None) -> None:
        self._checks: dict[str, dict[str, Check]] = {endpoint: {} for endpoint in ENDPOINTS}
        self._advisory: set[tuple[str, str]] = set()
        #: The reason of the last run by endpoint and check, so that the log gets changes only.
        self._reasons: dict[tuple[str, str], str | None] = {}
        self.observer = observer

    def add(
        self,
        name: str,
        check: Check,
        endpoints: Collection[str] = ENDPOINTS,
        *,
        advisory: bool = False,
    ) -> None:
        """Add a check to some endpoints; an advisory one is shown but does not affect their status.

        Raises:
            ValueError: an endpoint has a check of this name already, or does not exist.
        """
        for endpoint in endpoints:
            if endpoint not in self._checks:
                msg = f"no health endpoint {endpoint!r}; there are {', '.join(ENDPOINTS)}"
                raise ValueError(msg)
            if name in self._checks[endpoint]:
                msg = f"/{endpoint} has a check named {name!r} already"
                raise ValueError(msg)
            self._checks[endpoint][name] = check
            if advisory:
                self._advisory.add((endpoint, name))

    def names(self, endpoint: str) -> tuple[str, ...]:
        """Return the names of an endpoint's checks."""
        return tuple(self._checks[endpoint])

    def answer(
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
            elif self.reason(endpoint, name) is None:
                lines.append(f"[+]{name} ok")
            elif (endpoint, name) in self._advisory:
                lines.append(f"[!]{name} degraded: ask for this check alone for the reason")
            else:
                healthy = False
                lines.append(f"[-]{name} failed: reason withheld")
        if unknown:
            quoted = ", ".join(f'"{name}"' for name in sorted(unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        if healthy and not verbose:
            return HealthResponse(healthy=True, body="ok")
        lines.append(f"{endpoint} check {'passed' if healthy else 'failed'}")
        return HealthResponse(healthy, "\n".join(lines) + "\n")

    def answer_one(self, endpoint: str, name: str) -> HealthResponse | None:
        """Run one check; None if the endpoint has none of that name."""
        if name not in self._checks[endpoint]:
            return None
        reason = self.reason(endpoint, name)
        if reason is None:
            return HealthResponse(healthy=True, body="ok")
        return HealthResponse(healthy=False, body=f"internal server error: {redact_text(reason)}\n")

    def reason(self, endpoint: str, name: str) -> str | None:
        """Run one check; return why it fails, or None. A check that raises fails."""
        try:
            reason = self._checks[endpoint][name]()
        except Exception as error:  # noqa: BLE001 - check boundary: it is not healthy, that is all
            reason = str(error) or type(error).__name__
        key = (endpoint, name)
        if self._reasons.get(key) != reason:
            self._reasons[key] = reason
            if reason is None:
                _log.info("health check passes again", endpoint=endpoint, check=name)
            else:
                _log.warning("health check fails", endpoint=endpoint, check=name, reason=reason)
        if self.observer is not None:
            self.observer(name, endpoint, reason is None)
        return reason


def healthy() -> str | None:
    """Return None: the check `ping` always passes."""
    return None


def scheduler_checks(
    *,
    shutdown: Check,
    handler_sync: Check,
    leader_election: Check | None = None,
    advisory: Mapping[str, Check] | None = None,
    observer: Observer | None = None,
) -> HealthChecks:
    """Return the checks of kube-scheduler under its names.

    Args:
        shutdown: fails as soon as the process is ending.
        handler_sync: fails until every handler has seen its initial list.
        leader_election: fails when we lead and have not renewed for too long; None: no election.
        advisory: shown by /readyz?verbose and served alone; they do not affect readiness.
        observer: called with every result.
    """
    checks = HealthChecks(observer)
    if leader_election is None:
        checks.add("ping", healthy, (HEALTHZ, LIVEZ))
    else:
        checks.add("leaderElection", leader_election, (HEALTHZ, READYZ))
        checks.add("ping", healthy, (LIVEZ,))
    checks.add("shutdown", shutdown, (READYZ,))
    checks.add("sched-handler-sync", handler_sync, (READYZ,))
    for name, check in (advisory or {}).items():
        checks.add(name, check, (READYZ,), advisory=True)
    return checks

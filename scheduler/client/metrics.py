"""The client's reports about itself: a Protocol that the service maps to its metrics."""

from __future__ import annotations

from typing import Protocol


class ClientMetrics(Protocol):
    """Receives reports on the event loop, often: implementations must be cheap and not raise.

    A subclass ignores what it does not implement.
    """

    def request(self, verb: str, code: str, seconds: float) -> None:
        """Record the end of a request: `code` is the status, `<error>` (none) or `<timeout>`."""
        return

    def throttled(self, verb: str, seconds: float) -> None:
        """Record the delay of a request by the client's own rate limit."""
        return

    def listed(self, plural: str, items: int, seconds: float) -> None:
        """Record a list that a reflector finished."""
        return

    def watch_events(self, plural: str, count: int) -> None:
        """Count the events of a batch that a reflector received."""
        return

    def watch_ended(self, plural: str, cause: str) -> None:
        """Count the end of a watch or list; `cause` is one of `watch_end.EndCause`."""
        return

    def malformed(self, plural: str) -> None:
        """Count an object that was skipped because it could not be decoded."""
        return

    def kube_event(self, outcome: str) -> None:
        """Count a Kubernetes Event that was `sent`, `aggregated`, `dropped` or `failed`."""
        return

    def leader(self, name: str, leading: bool) -> None:
        """Record that this process began or stopped leading under Lease `name`."""
        return


class NullMetrics(ClientMetrics):
    """Ignores all reports."""

    __slots__ = ()

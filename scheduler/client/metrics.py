"""The client's reports about itself: a Protocol that the service maps to its metrics."""

from __future__ import annotations

from typing import Protocol


class ClientMetrics(Protocol):
    """Receives reports on the event loop, often: implementations must be cheap and not raise.

    A subclass ignores what it does not implement.
    """

    def request(self, verb: str, code: str, seconds: float) -> None:
        """A request ended: `code` is the HTTP status, `<error>` (no response) or `<timeout>`."""
        return

    def throttled(self, verb: str, seconds: float) -> None:
        """The client's own rate limit delayed a request."""
        return

    def listed(self, plural: str, items: int, seconds: float) -> None:
        """A reflector finished a list."""
        return

    def watch_events(self, plural: str, count: int) -> None:
        """A reflector received a batch."""
        return

    def watch_ended(self, plural: str, cause: str) -> None:
        """A watch or list ended; `cause` is one of `watch_end.EndCause`."""
        return

    def malformed(self, plural: str) -> None:
        """An object could not be decoded and was skipped."""
        return

    def kube_event(self, outcome: str) -> None:
        """A Kubernetes Event was `sent`, `aggregated`, `dropped` or `failed`."""
        return

    def leader(self, name: str, leading: bool) -> None:
        """This process began or stopped leading under Lease `name`."""
        return


class NullMetrics(ClientMetrics):
    """Ignores all reports."""

    __slots__ = ()

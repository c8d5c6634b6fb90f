"""The client's reports about itself: a Protocol that the service maps to its metrics."""

from __future__ import annotations

from typing import Protocol


class ClientMetrics(Protocol):
    """Receives reports on the event loop, often: implementations must be cheap and not raise."""

    def request(self, verb: str, code: str, seconds: float) -> None:
        """A request ended: `code` is the HTTP status, `<error>` (no response) or `<timeout>`."""
        ...

    def throttled(self, verb: str, seconds: float) -> None:
        """The client's own rate limit delayed a request."""
        ...

    def listed(self, plural: str, items: int, seconds: float) -> None:
        """A reflector finished a list."""
        ...

    def watch_events(self, plural: str, count: int) -> None:
        """A reflector received a batch."""
        ...

    def watch_ended(self, plural: str, cause: str) -> None:
        """A watch or list ended; `cause` is one of `watch_end.EndCause`."""
        ...

    def malformed(self, plural: str) -> None:
        """An object could not be decoded and was skipped."""
        ...

    def kube_event(self, outcome: str) -> None:
        """A Kubernetes Event was `sent`, `aggregated`, `dropped` or `failed`."""
        ...

    def leader(self, name: str, leading: bool) -> None:
        """This process began or stopped leading under Lease `name`."""
        ...


class NullMetrics:
    """Ignores all reports."""

    __slots__ = ()

    def request(self, verb: str, code: str, seconds: float) -> None:
        """Ignored."""

    def throttled(self, verb: str, seconds: float) -> None:
        """Ignored."""

    def listed(self, plural: str, items: int, seconds: float) -> None:
        """Ignored."""

    def watch_events(self, plural: str, count: int) -> None:
        """Ignored."""

    def watch_ended(self, plural: str, cause: str) -> None:
        """Ignored."""

    def malformed(self, plural: str) -> None:
        """Ignored."""

    def kube_event(self, outcome: str) -> None:
        """Ignored."""

    def leader(self, name: str, leading: bool) -> None:
        """Ignored."""

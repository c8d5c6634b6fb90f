"""What the client reports about itself: a Protocol that the service maps to its metrics."""

from __future__ import annotations

from typing import Protocol


class ClientMetrics(Protocol):
    """Called on the loop, often; implementations must be cheap and must not raise."""

    def request(self, verb: str, code: str, seconds: float) -> None:
        """A request ended: `code` is the HTTP status, `<error>` (none came) or `<timeout>`."""
        ...

    def throttled(self, verb: str, seconds: float) -> None:
        """The client's own rate limit held a request back."""
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
        """An object could not be read and was skipped."""
        ...

    def kube_event(self, outcome: str) -> None:
        """A Kubernetes Event was `sent`, `aggregated`, `dropped` or `failed`."""
        ...

    def leader(self, name: str, leading: bool) -> None:
        """This process began or stopped leading under Lease `name`."""
        ...


class NullMetrics:
    """Reports to nobody."""

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

"""Exceptions that end a scheduling attempt with an Error status."""

from __future__ import annotations

from scheduler.framework import Status, error


class AttemptError(Exception):
    """Ends an attempt with an Error status; the pod is retried with backoff."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status
        #: Plugin and extension point whose exception is the cause; empty if none raised.
        self.origin: tuple[str, str] = ("", "")


class CycleBudgetError(AttemptError):
    """Raised when a cycle has exceeded its budget; the pod is then set aside for a while."""

    def __init__(self, used: float, limit: float) -> None:
        super().__init__(error(f"the scheduling cycle used {used:.3f}s of {limit:.3f}s"))
        self.used = used
        self.limit = limit


def failed(text: str, cause: BaseException | None = None, plugin: str = "") -> AttemptError:
    """Build an AttemptError with the message `text`, chained to `cause`, attributed to `plugin`."""
    raised = AttemptError(error(text).by(plugin))
    raised.__cause__ = cause
    return raised

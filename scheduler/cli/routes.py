"""The interface of the two ways to a scheduler, `direct` and `leader`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from scheduler.cli.exit_codes import UNREACHABLE, CommandError
from scheduler.cli.streams import Stream


@dataclass(frozen=True, slots=True)
class VerifiedConnection:
    """A verified connection to a scheduler, and the credentials that may be sent on it."""

    stream: Stream
    #: The `Host` header.
    host: str
    #: How messages call the scheduler.
    name: str
    #: The `Authorization` header; empty for a request without one.
    authorization: str = field(repr=False)
    #: The origin of the credentials, for error messages.
    credentials: str
    #: Comes before the path.
    prefix: str = ""
    #: `holderIdentity` of the Lease that led here; empty if none did.
    holder: str = ""
    #: Whether it is a process of this user that leads without a Lease.
    own: bool = False


class NotConnectedError(CommandError):
    """There is no connection to the scheduler, or it broke during the question."""

    def __init__(self, message: str, holder: str = "", exit_code: int = UNREACHABLE) -> None:
        super().__init__(message, exit_code)
        self.holder = holder


class Route(Protocol):
    """A way to a scheduler."""

    def connect(self, timeout: float) -> VerifiedConnection:
        """Connect; every wait takes at most `timeout` seconds.

        Raises:
            NotConnectedError: no connection, or no certificate that is trusted.
            CommandError: another error, with its exit code.
        """
        ...

    def broken(self, connection: VerifiedConnection, error: Exception) -> NotConnectedError:
        """Return the error for a connection that broke."""
        ...

    def moved(self, holder: str) -> bool:
        """Whether another replica than `holder` leads now."""
        ...

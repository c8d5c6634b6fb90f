"""Sources of the page: a running scheduler, or a finished run.

A source answers the paths under `/debug/` with the scheduler's JSON, whatever stands behind it, so
that the page has one way to show things. `ask` blocks, and is called in threads, of which a few run
at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Final, Protocol

from scheduler.cli.endpoint import Endpoint
from scheduler.cli.exit_codes import BAD_INPUT, NO_SUCH_POD, NOT_PERMITTED, CommandError
from scheduler.cli.page.questions import QuestionError

MAX_ANSWER_BYTES: Final = 32 << 20
"""Far more than any answer has; a browser would choke on more."""

_STATUS: Final = {BAD_INPUT: 400, NO_SUCH_POD: 404, NOT_PERMITTED: 403}
"""HTTP status by exit code of the commands; any other failure is 502."""


@dataclass(frozen=True, slots=True)
class Description:
    """Kind, title and span of a source."""

    kind: str
    """`live` or `recorded`."""
    title: str
    begin: float = 0.0
    """Wall clock seconds of the first and last moment of a recorded run; 0 for a live one."""
    end: float = 0.0

    def json(self) -> dict[str, object]:
        """Return the JSON of `source`."""
        return asdict(self)


class Source(Protocol):
    """Answers questions. Thread-safe."""

    def describe(self) -> Description:
        """Return what this is."""
        ...

    def ask(self, path: str, query: Mapping[str, str], at: float | None) -> bytes:
        """Return the JSON of a path as it was at a moment; None means the last one, or now.

        Raises:
            QuestionError: there is no answer.
        """
        ...


class LiveSource:
    """A running scheduler, queried as `kubestow explain` queries it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def describe(self) -> Description:
        """Return the address."""
        endpoint = self._endpoint
        return Description("live", endpoint.server or f"the leader of {endpoint.lease}")

    def ask(self, path: str, query: Mapping[str, str], at: float | None) -> bytes:
        """Ask the scheduler; only its present can be asked for."""
        if at is not None:
            raise QuestionError(400, "at: only a recorded run has a past")
        try:
            return _joined(self._endpoint.stream(path, query))
        except CommandError as error:
            raise QuestionError(_STATUS.get(error.exit_code, 502), error.message) from error


def _joined(pieces: Iterator[bytes]) -> bytes:
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise QuestionError(502, f"the answer has more than {MAX_ANSWER_BYTES >> 20} MiB")
    return bytes(body)

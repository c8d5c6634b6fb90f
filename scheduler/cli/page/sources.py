"""Sources of the page: a running scheduler, or a finished run.

A source answers the paths under `/debug/` with the scheduler's JSON, whatever stands behind it, so
that the page has one way to show things. `ask` blocks, and is called in threads, of which a few run
at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Final, Protocol
from urllib.parse import urlsplit

from scheduler.cli.endpoint import Endpoint
from scheduler.cli.exit_codes import BAD_INPUT, NO_SUCH_POD, NOT_PERMITTED, CommandError
from scheduler.cli.leader import DEFAULT_LEASE
from scheduler.cli.page.questions import QuestionError
from scheduler.client.configuration import selected_namespace

MAX_ANSWER_BYTES: Final = 32 << 20
"""Far more than any answer has; a browser would choke on more."""

SHADOW_SECONDS: Final = 30.0
"""For an answer of a shadow."""

_STATUS: Final = {BAD_INPUT: 400, NO_SUCH_POD: 404, NOT_PERMITTED: 403}
"""HTTP status by exit code of the commands; any other failure is 502."""


@dataclass(frozen=True, slots=True)
class Description:
    """Kind, title and span of a source."""

    kind: str
    """`live`, `recorded` or `shadow`."""
    title: str
    begin: float = 0.0
    """Wall clock seconds of the first and last moment of a recorded run; 0 for a live one."""
    end: float = 0.0
    namespace: str = ""
    """That of the kubeconfig's context, for users who may not see all."""

    def json(self) -> dict[str, object]:
        """Return the JSON of `source`."""
        return asdict(self)


class PageSource(Protocol):
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
        leader = f"the leader of {endpoint.lease or DEFAULT_LEASE}"
        namespace = selected_namespace(endpoint.kubeconfig, endpoint.context)
        return Description("live", endpoint.server or leader, namespace=namespace)

    def ask(self, path: str, query: Mapping[str, str], at: float | None) -> bytes:
        """Ask the scheduler; only its present can be asked for."""
        if at is not None:
            raise QuestionError(400, "at: only a recorded run has a past")
        try:
            return _joined(self._endpoint.stream(path, query))
        except CommandError as error:
            raise QuestionError(_STATUS.get(error.exit_code, 502), error.message) from error


class ShadowSource:
    """A shadow that serves its page on this machine: `kubestow shadow --listen`."""

    PATH: Final = "/debug/shadow"

    def __init__(self, url: str) -> None:
        """`url`: its address, such as `http://127.0.0.1:10259`. Raises ValueError."""
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/"):
            raise ValueError(f"{url!r}: write http://127.0.0.1:PORT")
        self._host, self._port = parts.hostname, parts.port or 80
        self._url = url

    def describe(self) -> Description:
        """Return the address."""
        return Description("shadow", f"the shadow at {self._url}")

    def ask(self, path: str, query: Mapping[str, str], at: float | None) -> bytes:
        """Ask the shadow, which has one page."""
        if path != self.PATH or at is not None:
            raise QuestionError(404, "a shadow answers only what it has compared")
        connection = HTTPConnection(self._host, self._port, timeout=SHADOW_SECONDS)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read(MAX_ANSWER_BYTES)
        except (OSError, HTTPException) as error:
            raise QuestionError(502, f"no answer of {self._url}: {error}") from error
        finally:
            connection.close()
        if response.status != HTTPStatus.OK:
            raise QuestionError(502, f"{self._url} answers with status {response.status}")
        return body


def _joined(pieces: Iterator[bytes]) -> bytes:
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise QuestionError(502, f"the answer has more than {MAX_ANSWER_BYTES >> 20} MiB")
    return bytes(body)

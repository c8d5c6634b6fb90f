"""Answers of the endpoints, and their bytes. What is refused reads as Go's server prints it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from scheduler.service.serving import debug_pages

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

_ALWAYS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-cache, private"),
    # One request for each connection, see `server`.
    ("Connection", "close"),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, body and what is special about the headers."""

    body: bytes
    content_type: str = TEXT
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def encode(self, now: float, *, with_body: bool = True) -> bytes:
        """The bytes to send at wall time `now`; a HEAD gets no body, but hears its length."""
        fields = [
            ("Content-Type", self.content_type),
            ("Content-Length", str(len(self.body))),
            ("Date", formatdate(now, usegmt=True)),
            *_ALWAYS,
            *self.headers.items(),
        ]
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in fields]
        head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
        return head + self.body if with_body else head


def text(body: str, status: int = 200) -> Answer:
    """Plain text."""
    return Answer(body.encode(), status=status)


def error(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Answer:
    """A line that says what is wrong."""
    return Answer(reason.rstrip("\n").encode() + b"\n", status=status, headers=headers or {})


def bad_request(status: int, reason: str) -> Answer:
    """What was sent is no request."""
    return error(status, f"{status} {HTTPStatus(status).phrase}: {reason}")


def not_found() -> Answer:
    """What Go's HTTP server says."""
    return error(404, "404 page not found")


def json(data: object) -> Answer:
    """A JSON document."""
    return Answer(debug_pages.encode(data), JSON)


def refusal(code: int, reason: str, message: str, *, details: bool = False) -> Answer:
    """A metav1.Status as Go prints it, field order and final line end included."""
    status: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
    }
    if details:
        status["details"] = {}
    status["code"] = code
    return Answer(debug_pages.compact(status) + b"\n", JSON, code)

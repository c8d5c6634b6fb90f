"""The questions that the page may ask, and the bounds of each parameter.

Nothing else reaches the scheduler: a question that is not here, a parameter that it does not have
or a value out of bounds is refused by the local server. All questions read only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

Check = Callable[[str, str], str]
"""Return the value of a parameter, given its name and text, or raise QuestionError."""

MAX_TEXT: Final = 600
"""Longer than `namespace/name` can be, and than the name of a node."""


class QuestionError(Exception):
    """No answer; `status` is the HTTP status, the text tells people why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def _number(low: int, high: int) -> Check:
    def check(name: str, text: str) -> str:
        plain = text.isascii() and text.isdecimal() and len(text) < 16
        if not (plain and low <= int(text) <= high):
            raise QuestionError(400, f"{name}: give a number from {low} to {high}")
        return text

    return check


def _text(name: str, text: str) -> str:
    if not text or len(text) > MAX_TEXT or not text.isprintable():
        raise QuestionError(400, f"{name}: give 1 to {MAX_TEXT} printable characters")
    return text


QUESTIONS: Final[Mapping[str, Mapping[str, Check]]] = {
    "summary": {"rows": _number(0, 100)},
    "queue": {"namespace": _text, "limit": _number(1, 1000)},
    "waiting": {
        "namespace": _text,
        "owner": _text,
        "cause": _text,
        "words": _text,
        "groups": _number(0, 200),
        "limit": _number(0, 500),
    },
    "gangs": {"namespace": _text, "limit": _number(1, 1000)},
    "explain": {
        "pod": _text,
        "nodes": _number(0, 1000),
        "examples": _number(0, 1000),
        "remedies": _text,
        "limit": _number(1, 20),
    },
    "decisions": {"pod": _text, "limit": _number(1, 500), "since": _number(0, 999_999_999)},
    "nodes": {"limit": _number(1, 500), "from": _number(0, 10**8)},
    "shadow": {},
    "node": {"name": _text, "pods": _number(0, 1000)},
}
"""The parameters of each page under `/debug/`, with their checks."""


def checked(name: str, pairs: Sequence[tuple[str, str]]) -> tuple[str, dict[str, str]]:
    """Return path and query of a question.

    Raises:
        QuestionError: the question does not exist, or does not have such parameters.

    >>> checked("queue", [("limit", "10")])
    ('/debug/queue', {'limit': '10'})
    """
    parameters = QUESTIONS.get(name)
    if parameters is None:
        raise QuestionError(404, "there is no such question")
    query: dict[str, str] = {}
    for key, text in pairs:
        check = parameters.get(key)
        if check is None or key in query:
            known = ", ".join(parameters)
            raise QuestionError(400, f"{name} takes each of these parameters once: {known}")
        query[key] = check(key, text)
    return f"/debug/{name}", query

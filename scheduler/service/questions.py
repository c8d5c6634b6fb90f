"""The user of a question about the live state, and the reasons to refuse one."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

asking_user: Final[ContextVar[str]] = ContextVar("asking_user", default="")
"""The authenticated user whose request is being answered; empty outside of requests.

A client's address would not do: all clients of a port-forward or of the service proxy share one.
"""


class TooManyQuestionsError(Exception):
    """The maximum number of questions is being answered already."""


class NotSyncedError(Exception):
    """The first lists of objects are incomplete, so any answer could be wrong."""


class QuestionFailedError(Exception):
    """A plugin raised while the question was answered; the text names it."""

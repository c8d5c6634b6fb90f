"""The user of a question about the live state, and the reasons to refuse one."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

asking_user: Final[ContextVar[str]] = ContextVar("asking_user", default="")
"""The authenticated user of the request that is being answered; empty where nobody asked for it.

Not the address: all who come through a port-forward or the service proxy share one.
"""


class TooManyQuestionsError(Exception):
    """So many questions are being answered that no other is taken."""


class NotSyncedError(Exception):
    """The first lists of objects are not complete, so every answer could be wrong."""


class QuestionFailedError(Exception):
    """A plugin raised while the question was answered; the text names it."""

"""The refusal of questions that would be too many at once."""

from __future__ import annotations


class TooManyQuestionsError(Exception):
    """So many questions are being answered that no other is taken."""

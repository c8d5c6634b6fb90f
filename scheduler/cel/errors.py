"""Errors of CEL expressions. Their texts are those of cel-go where users will have seen them."""

from __future__ import annotations

NO_SUCH_OVERLOAD = "no such overload"


class CompileError(ValueError):
    """An expression that cannot be compiled; `offset` is that of the character at fault, or -1."""

    def __init__(self, message: str, offset: int = -1) -> None:
        super().__init__(message)
        self.offset = offset


class EvaluationError(Exception):
    """A failure while an expression is evaluated; `&&`, `||` and some macros can absorb it."""


class EvaluationCancelledError(Exception):
    """The end of an evaluation that exceeded the cost limit, or was interrupted.

    Nothing in the expression absorbs it.
    """


COST_LIMIT_EXCEEDED = "operation cancelled: actual cost limit exceeded"
WORK_LIMIT_EXCEEDED = "operation cancelled: the expression takes more work than kubestow allows"
MEMORY_LIMIT_EXCEEDED = "operation cancelled: the expression takes more memory than kubestow allows"
RECURSION_LIMIT_EXCEEDED = "operation cancelled: a value is nested too deeply"
MAX_QUOTED = 2000
"""Characters of a value that an error quotes."""


def no_such_overload() -> EvaluationError:
    """Return the error of an operation on values of the wrong types."""
    return EvaluationError(NO_SUCH_OVERLOAD)


def no_such_key(key: object) -> EvaluationError:
    """Return the error of a map without the key."""
    return EvaluationError(f"no such key: {str(key)[:MAX_QUOTED]}")

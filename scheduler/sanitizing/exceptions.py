"""Texts of exceptions that the code of others raised: bounded, readable, and without credentials.

`__str__` and `__repr__` of an exception are code of its author, which may raise, or return
megabytes. Pure.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Collection
from typing import Final

from scheduler.sanitizing.redaction import redact_message

MAX_TEXT: Final = 10_000
"""Characters of the text of an exception."""
MAX_FRAMES: Final = 10
"""Frames of a traceback, the innermost ones."""


def error_text(error: object) -> str:
    """Return `str(error)`, cut; the name of its class if that raises or is no text.

    >>> error_text(ValueError("no such zone"))
    'no such zone'
    """
    return _bounded(str, error)


def typed_text(error: BaseException) -> str:
    """Return the name of the class and `error_text`, as the last line of a traceback.

    >>> typed_text(KeyError("zone")), typed_text(LookupError())
    ("KeyError: 'zone'", 'LookupError')
    """
    text = error_text(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def error_repr(error: object) -> str:
    """Return `repr(error)`, cut; the name of its class if that raises or is no text.

    >>> error_repr(ValueError("no such zone"))
    "ValueError('no such zone')"
    """
    return _bounded(repr, error)


def frames(error: BaseException, left_out: Collection[str] = ()) -> list[str]:
    """Return `file:line in function` of the innermost frames, the innermost last.

    Frames of files below one of the folders `left_out` are left out. No source line is read, and
    no local variable is looked at.
    """
    below = tuple(left_out)
    last: deque[str] = deque(maxlen=MAX_FRAMES)
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if not below or not code.co_filename.startswith(below):
            last.append(f"{code.co_filename}:{line} in {code.co_name}")
    return list(last)


def _bounded(write: Callable[[object], str], error: object) -> str:
    try:
        text = write(error)
    except Exception:  # noqa: BLE001 - boundary: code of the exception's author
        return f"{type(error).__name__}, whose text cannot be read"
    return redact_message(text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}...")

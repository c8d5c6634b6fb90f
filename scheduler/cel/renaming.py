"""Replaces the names and texts of a selector of devices, and keeps what it computes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final

from scheduler.cel import literals
from scheduler.cel.devices import FIELDS, environment
from scheduler.cel.errors import CompileError
from scheduler.cel.macros import MACROS

if TYPE_CHECKING:
    import lark

_BEFORE_FIELD_OF_DEVICE: Final = frozenset({"NAME", "RPAR"})
"""Types of the token before the dot of `device.driver`: attributes follow a bracket."""


def rename(expression: str, renamed: Callable[[str], str]) -> str:
    """Return the expression with its variables, attributes and texts replaced.

    Functions, types and the fields of `device` keep their names; comments are dropped.

    Args:
        expression: a selector of devices.
        renamed: returns the replacement of a name, itself a name, or of a text.

    Raises:
        CompileError: the expression is too long, or no sequence of CEL's tokens.

    >>> rename('device.attributes["acme.com"].model == "A100"', str.upper)
    'device.attributes["ACME.COM"].MODEL == "A100"'
    """
    from scheduler.cel.parser import MAX_LENGTH, tokens  # noqa: PLC0415 - see ParsedExpression

    if len(expression.encode(errors="surrogatepass")) > MAX_LENGTH:
        raise CompileError(f"the expression has more than {MAX_LENGTH} bytes")
    found = tokens(expression)
    parts: list[str] = []
    end: int | None = None
    for number, token in enumerate(found):
        if parts and token.start_pos != end:
            # White space or a comment.
            parts.append(" ")
        parts.append(_replaced(found, number, renamed))
        end = token.end_pos
    return "".join(parts)


def _replaced(found: list[lark.Token], number: int, renamed: Callable[[str], str]) -> str:
    token = found[number]
    if token.type == "NAME":
        return str(token) if _is_kept(found, number) else renamed(str(token))
    if token.type not in ("TEXT", "BYTES"):
        return str(token)
    value = literals.read(token.type, str(token), token.start_pos or 0).value
    if isinstance(value, bytes):
        return f"b{json.dumps(renamed(value.decode(errors='replace')))}"
    after = [each.value for each in found[number + 1 : number + 3]]
    if after == [".", "format"]:
        # The clauses must still fit the arguments.
        pieces = enumerate(_CLAUSE.split(str(value)))
        return json.dumps("".join(_piece(text, at, renamed) for at, text in pieces))
    # Every escape of JSON is one of CEL.
    return json.dumps(renamed(str(value)))


_CLAUSE: Final = re.compile(r"(%%|%(?:\.[0-9]+)?[a-zA-Z])")


def _piece(text: str, position: int, renamed: Callable[[str], str]) -> str:
    # Every other piece is a clause.
    return renamed(text) if text and position % 2 == 0 else text


def _is_kept(found: list[lark.Token], number: int) -> bool:
    """Whether a name belongs to the language or to the type of `device`."""
    name = str(found[number])
    if found[number + 1 : number + 2] and found[number + 1].type == "LPAR":
        return name in _functions()
    before = number - 1
    if before >= 0 and found[before].type == "QMARK":
        before -= 1
    if before >= 0 and found[before].type == "DOT":
        return name in FIELDS and before > 0 and found[before - 1].type in _BEFORE_FIELD_OF_DEVICE
    return name in _variables()


@cache
def _functions() -> frozenset[str]:
    """Return the names of functions and macros, those of `optional.of` as `of`."""
    return frozenset(each.rpartition(".")[2] for each in environment().functions) | MACROS


@cache
def _variables() -> frozenset[str]:
    """Return the names of variables and types, and the first parts of those of functions."""
    known = environment()
    spaces = {each.partition(".")[0] for each in known.functions if "." in each}
    return frozenset((*known.variables, *known.types, *spaces, "cel"))

"""The values that literals of the CEL syntax stand for."""

from __future__ import annotations

import re
from typing import Final

from scheduler.cel.errors import CompileError
from scheduler.cel.syntax import Literal
from scheduler.cel.values import MAX_INT, MAX_UINT, MIN_INT, Uint

_SIMPLE_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "?": "?", '"': '"', "'": "'", "`": "`",
}  # fmt: skip
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})"
    r"|([0-3][0-7]{2})|(.|$))",
    re.DOTALL,
)
_WORDS: Final = {"TRUE": True, "FALSE": False, "NULL": None}


def read(kind: str, text: str, offset: int) -> Literal:
    """Return the literal that a token is; `kind` is the name of the token in the grammar."""
    if kind in _WORDS:
        return Literal(_WORDS[kind], offset=offset)
    if kind == "INTEGER":
        # One more than the largest may follow a minus sign; see `negated`.
        number = _integer(text)
        if number > MAX_INT + 1:
            raise CompileError("invalid int literal", offset)
        return Literal(number, offset=offset)
    if kind == "UNSIGNED":
        number = _integer(text[:-1])
        if number > MAX_UINT:
            raise CompileError("invalid uint literal", offset)
        return Literal(Uint(number), offset=offset)
    if kind == "FLOAT":
        return Literal(float(text), offset=offset)
    return Literal(_quoted(text, offset, is_bytes=kind == "BYTES"), offset=offset)


def negated(literal: Literal) -> Literal | None:
    """Return the negative number that a literal after a minus sign is, None for other types."""
    value = literal.value
    if type(value) is int and -value >= MIN_INT:
        return Literal(-value, offset=literal.offset)
    if type(value) is float:
        return Literal(-value, offset=literal.offset)
    return None


def _integer(text: str) -> int:
    if text.startswith("0x"):
        return int(text, 16)
    digits = text.lstrip("0") or "0"
    # Python converts at most 4,300 digits; 20 are already too many for 64 bits.
    return int(digits) if len(digits) <= 20 else MAX_UINT + 1


def _quoted(text: str, offset: int, *, is_bytes: bool) -> str | bytes:
    start = min(text.index(quote) for quote in "\"'" if quote in text)
    prefix, body = text[:start].lower(), text[start:]
    width = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
    body = body[width:-width].replace("\r\n", "\n").replace("\r", "\n")
    if "r" in prefix or "\\" not in body:
        return body.encode() if is_bytes else body
    if is_bytes:
        return _unescaped_bytes(body, offset)
    return _ESCAPE.sub(lambda found: _character(found, offset), body)


def _character(found: re.Match[str], offset: int) -> str:
    simple, two, four, eight, octal, _ = found.groups()
    if simple:
        return _SIMPLE_ESCAPES[simple]
    digits = two or four or eight
    code = int(digits, 16) if digits else int(octal, 8) if octal else -1
    if code < 0 or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise CompileError(f"invalid escape sequence {found[0]!r}", offset)
    return chr(code)


def _unescaped_bytes(body: str, offset: int) -> bytes:
    parts, end = [], 0
    for found in _ESCAPE.finditer(body):
        parts.append(body[end : found.start()].encode())
        end = found.end()
        simple, two, four, eight, octal, _ = found.groups()
        if four or eight:
            raise CompileError("unicode escapes are not allowed in bytes", offset)
        if simple:
            parts.append(_SIMPLE_ESCAPES[simple].encode())
        elif two or octal:
            parts.append(bytes([int(two, 16) if two else int(octal, 8)]))
        else:
            raise CompileError(f"invalid escape sequence {found[0]!r}", offset)
    parts.append(body[end:].encode())
    return b"".join(parts)

"""Texts that are too long, cut so that each word that is left is whole."""

from __future__ import annotations

from typing import Final

_BACK: Final = 80
"""Characters before the limit in which an end of a word is looked for: a longer word is cut."""


def cut(text: str, limit: int, end: str = "...") -> str:
    """Return a text of at most `limit` characters: all of it, or whole words of it and `end`.

    Of a word that is longer than a line only a part is left.

    >>> cut("claim gpu is unusable", 18), cut('device.model=="x"', 12), cut("short", 9)
    ('claim gpu is...', 'device...', 'short')
    """
    if len(text) <= limit:
        return text
    room = limit - len(end)
    least = max(0, room - _BACK)
    space = text.rfind(" ", least, room + 1)
    if space > least:
        return text[:space].rstrip() + end
    # An expression without blanks: between its names.
    for at in range(room, least, -1):
        if not (_in_word(text[at - 1]) and _in_word(text[at])):
            return text[:at].rstrip(".") + end
    return text[:room] + end


def _in_word(character: str) -> bool:
    return character.isalnum() or character in "_-"

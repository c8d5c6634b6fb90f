"""Escaping of characters that control a terminal."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from scheduler.sanitizing.escaping import escaped, escaped_json

ANY_TEXT = st.text(st.characters(codec=None))


def is_plain(text: str) -> bool:
    return all(each == "\n" or unicodedata.category(each)[0] not in "CZ" or each == " "
               for each in text)  # fmt: skip


@given(ANY_TEXT)
def test_nothing_but_printable_characters_and_line_ends_remain(text: str) -> None:
    assert is_plain(escaped(text))


@given(st.text())
def test_json_keeps_its_value(text: str) -> None:
    encoded = json.dumps({text: [text]}, ensure_ascii=False).encode()
    shown = escaped_json(encoded)
    assert json.loads(shown) == {text: [text]}
    assert is_plain(shown.decode())


@given(st.binary())
def test_what_is_no_json_at_all_is_plain_as_well(body: bytes) -> None:
    assert is_plain(escaped_json(body).decode())

"""Texts that are too long keep whole words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.sanitizing.cutting import cut

EXPRESSION = 'device.attributes["dra.example.com"].model == "xxxxxxxxx" && aaaaaaaaaaaaaaaaaaaa'


@pytest.mark.parametrize("limit", range(24, 80))
@pytest.mark.parametrize(
    "text",
    [EXPRESSION, "resource claim default/gpu: no device of the class has capacity memory of 40Gi"],
)
def test_no_word_is_cut(text: str, limit: int) -> None:
    found = cut(text, limit)
    assert len(found) <= limit
    if found != text:
        words = re.findall(r"[\w-]+", found.removesuffix("..."))
        assert found.endswith("...")
        assert set(words) <= set(re.findall(r"[\w-]+", text))


@given(st.text(max_size=300), st.integers(4, 200))
def test_the_beginning_of_the_text_is_kept(text: str, limit: int) -> None:
    found = cut(text, limit)
    assert len(found) <= limit
    assert text.startswith(found.removesuffix("...")) or found == text


def test_a_word_without_end_is_cut() -> None:
    assert cut("a" * 300, 100) == "a" * 97 + "..."

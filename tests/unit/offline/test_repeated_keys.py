"""The quick look for repeated keys never overlooks one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.offline import json_values

TEXTS = st.text('":\\ \n\tab', max_size=4)
WRITTEN = st.tuples(TEXTS, st.sampled_from(("plain", "numbers")), st.sampled_from(("", " ", "\n")))
"""A string, how its characters are written, and what follows it if it is a key."""


def written(text: tuple[str, str, str]) -> str:
    inner, how, _ = text
    if how == "plain":
        return json.dumps(inner)
    return '"' + "".join(f"\\u{ord(each):04x}" for each in inner) + '"'


def pairs(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Objects as lists of pairs, so that keys may be repeated, and lists."""
    member = st.tuples(WRITTEN, inner).map(lambda each: f"{written(each[0])}{each[0][2]}:{each[1]}")
    return st.lists(member, max_size=4).map(lambda each: "{" + ",".join(each) + "}") | st.lists(
        inner, max_size=3
    ).map(lambda each: "[" + ",".join(each) + "]")


VALUES = st.recursive(WRITTEN.map(written) | st.sampled_from(("1", "null", "2e5")), pairs)


def has_repeated(value: str) -> bool:
    found = False

    def look(members: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or len({key for key, _ in members}) < len(members)

    json.loads(value, object_pairs_hook=look)
    return found


@given(VALUES)
def test_a_repeated_key_is_never_overlooked(value: str) -> None:
    data = value.encode()
    assert (json_values._repeated(data) is not None) == has_repeated(value)
    if has_repeated(value):
        assert not json_values._keeps_keys(data)


@pytest.mark.parametrize(
    "value",
    ['{"a":1,"b":{"a" :2}}', '{"a":"\\":", "b": ["x\\" :"]}', '[{"a":1},{"a":1}]', '"x"', "{}"],
)
def test_usual_json_needs_only_the_quick_look(value: str) -> None:
    assert json_values._keeps_keys(value.encode())

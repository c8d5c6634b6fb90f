"""JSON nested too deep for a decoder: cut to what records read, or taken apart."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.decoding import decode_json, prune
from scheduler.api.meta import Named, Object
from scheduler.api.nesting import MAX_DEPTH, Nesting

# What a naive reader of brackets and quotes stumbles over.
TEXTS = st.text(alphabet='"\\[]{}:,\nüa', max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)
BYTES = st.builds(
    lambda value, indent, ascii_only: json.dumps(
        value, indent=indent, ensure_ascii=ascii_only
    ).encode(),
    VALUES,
    st.sampled_from([None, 0, 2]),
    st.booleans(),
)


def emptied(value: Any, levels: int) -> Any:
    """The definition of `pruned`, by recursion."""
    if isinstance(value, dict):
        return {key: emptied(item, levels - 1) for key, item in value.items()} if levels else {}
    if isinstance(value, list):
        return [emptied(item, levels - 1) for item in value] if levels else []
    return value


@given(BYTES, st.integers(0, 4))
def test_what_is_too_deep_is_emptied_and_nothing_else(data: bytes, levels: int) -> None:
    assert json.loads(Nesting(data).pruned(levels)) == emptied(json.loads(data), levels)


@given(BYTES)
def test_what_is_not_too_deep_stays_byte_for_byte(data: bytes) -> None:
    assert prune(data) == data


@given(st.dictionaries(TEXTS, VALUES, max_size=4), VALUES)
def test_members_are_found_as_they_stand(value: dict[str, Any], wanted: Any) -> None:
    data = json.dumps({**value, "wanted": wanted}, indent=1).encode()
    if isinstance(wanted, (dict, list)):
        found = Nesting(data).member("wanted")
        assert found in data
        assert json.loads(found) == wanted
    else:
        with pytest.raises(ValueError, match="no object or array 'wanted'"):
            Nesting(data).member("wanted")


@given(st.lists(VALUES, max_size=4), VALUES)
def test_elements_are_those_of_one_array(value: list[Any], other: Any) -> None:
    data = json.dumps({"before": [other], "wanted": value, "after": {"x": other}}).encode()
    containers = [each for each in value if isinstance(each, (dict, list))]
    assert [json.loads(each) for each in Nesting(data).elements("wanted")] == containers


@pytest.mark.parametrize("data", [b"[[1]]", b'{"a":{},"a":[]}', b'{"a":[1', b'{"a"', b"{}}", b'{"'])
def test_a_text_that_is_no_object_has_no_members(data: bytes) -> None:
    with pytest.raises(ValueError):
        Nesting(data).member("b")


class Wrapped(Object):
    a: int = 0
    b: list[int] = []


def deep(levels: int, opening: bytes = b'{"f:a":', closing: bytes = b"}") -> bytes:
    return opening * levels + b"{}" + closing * levels


@pytest.mark.parametrize("levels", [500, 1_000, 9_000, 100_000])
@pytest.mark.parametrize("ends", [(b'{"f:a":', b"}"), (b"[", b"]"), (b'[{"]\\"}":', b"}]")])
def test_unread_fields_may_nest_as_deep_as_they_like(
    levels: int, ends: tuple[bytes, bytes]
) -> None:
    data = b'{"a":3,"unread":' + deep(levels, *ends) + b',"b":[1,2]}'
    assert decode_json(msgspec.json.Decoder(Wrapped), data) == Wrapped(a=3, b=[1, 2])


def test_malformed_text_stays_malformed() -> None:
    decoder = msgspec.json.Decoder(Wrapped)
    for tail in (b',"a":"text"}', b',"a":}', b"", b'"', b"}}"):
        with pytest.raises(ValueError):
            decode_json(decoder, b'{"unread":' + deep(5_000) + tail)


def test_text_that_decodes_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Nesting, "__init__", None)
    decode_json(msgspec.json.Decoder(Wrapped), b'{"a":3,"unread":' + deep(MAX_DEPTH * 2) + b"}")


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [b'{"metadata":', b'{"a":', b"[", b"{", b"}", b"]", b'"', b"\\", b",", b":", b"1"]
            ),
            st.sampled_from([b'{"a":', b"[", b"}", b"]"]).map(lambda piece: piece * 1_500),
            st.binary(max_size=3),
        ),
        max_size=12,
    ).map(b"".join)
)
def test_only_value_errors_are_raised(data: bytes) -> None:
    decoders: tuple[msgspec.json.Decoder[Any], ...] = (
        msgspec.json.Decoder(Named),
        msgspec.json.Decoder(dict[str, msgspec.Raw]),
    )
    for decoder in decoders:
        with contextlib.suppress(ValueError):
            decode_json(decoder, data)

"""The annotation's grammar: everything it may say, and everything that makes it invalid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.pod_topology_spread.fallback_annotation import (
    CRITERIA,
    FallbackAnnotationError,
    criteria_by_key,
    parse_fallback_annotation,
)
from tests.unit.plugins.spread_fallback.bench import HOST, NPF, PF, ZONE

KEYS = (ZONE, HOST)


@pytest.mark.parametrize(
    ("value", "means"),
    [
        (f"zone={NPF}", {ZONE: (NPF,)}),
        (f"zone={NPF}+{PF};host={PF}", {ZONE: (NPF, PF), HOST: (PF,)}),
        (f"*={NPF}", {ZONE: (NPF,), HOST: (NPF,)}),
        (f"*={NPF};host={PF}", {ZONE: (NPF,), HOST: (PF,)}),
        (f"  zone = {NPF} + {PF} ; host= {PF}", {ZONE: (NPF, PF), HOST: (PF,)}),
    ],
)
def test_a_valid_annotation_is_parsed(value: str, means: dict[str, tuple[str, ...]]) -> None:
    assert criteria_by_key(parse_fallback_annotation(value, KEYS), KEYS) == means


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("", "empty"),
        ("  ", "empty"),
        (";", "want <topologyKey"),
        (f"zone={NPF};", "want <topologyKey"),
        ("zone", "want <topologyKey"),
        (f"={NPF}", "want <topologyKey"),
        ("zone=", 'unknown criterion ""'),
        ("zone=Nope", 'unknown criterion "Nope"'),
        ("zone=nodeprovisioningfailed", "unknown criterion"),
        (f"zone={NPF}+", 'unknown criterion ""'),
        (f"zone={NPF}={PF}", "unknown criterion"),
        (f"zone={NPF}+{NPF}", "named twice"),
        (f"zone={NPF};zone={PF}", "named twice"),
        (f"*={NPF};*={PF}", "named twice"),
        (f"rack={NPF}", 'it has "zone", "host"'),
    ],
)
def test_an_invalid_annotation_names_the_mistake(value: str, complaint: str) -> None:
    with pytest.raises(FallbackAnnotationError, match=complaint.replace("+", r"\+")):
        parse_fallback_annotation(value, KEYS)


def test_without_hard_constraints_no_key_is_valid() -> None:
    for value in (f"*={NPF}", f"zone={NPF}"):
        with pytest.raises(FallbackAnnotationError, match="it has none"):
            parse_fallback_annotation(value, ())


@given(
    st.lists(st.sampled_from(KEYS), unique=True, min_size=1).flatmap(
        lambda keys: st.fixed_dictionaries(
            {
                key: st.lists(st.sampled_from(CRITERIA), unique=True, min_size=1).map(tuple)
                for key in keys
            }
        )
    )
)
def test_formatting_and_parsing_are_inverse(entries: dict[str, tuple[str, ...]]) -> None:
    value = ";".join(f"{key}={'+'.join(criteria)}" for key, criteria in entries.items())
    assert parse_fallback_annotation(value, KEYS) == entries


@given(st.text(alphabet="zone*=;+ NP" + NPF, max_size=60))
def test_any_text_is_parsed_or_rejected(value: str) -> None:
    try:
        found = parse_fallback_annotation(value, KEYS)
    except FallbackAnnotationError:
        return
    assert found
    assert all(set(criteria) <= set(CRITERIA) for criteria in found.values())

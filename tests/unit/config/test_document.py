"""Reading text into a tree: places, repeated keys, aliases, and text that cannot be read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.document import MAX_CHARACTERS, parse, plain
from scheduler.framework.status import ConfigurationError


def read(text: str) -> object:
    document = parse(text)
    assert not document.errors, document.errors.lines()
    return plain(document.root)


def refusal(text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: yes", True),
        ("a: off", False),
        ("a: 017", 15),
        ("a: 0x1f", 31),
        ("a: 1e3", 1000.0),
        ("a: 1.5", 1.5),
        ("a: ~", None),
        ("a:", None),
        ("a: 2024-01-01", "2024-01-01"),
        ("a: 15s", "15s"),
        ("a: 1:30", "1:30"),
        ("a: -12:30:00.5", "-12:30:00.5"),
        ("a: 1:60", "1:60"),
        ("a: '5'", "5"),
        ("a: [1, two]", [1, "two"]),
    ],
)
def test_scalars_follow_yaml_1_1_without_times(text: str, value: object) -> None:
    assert read(text) == {"a": value}


def test_places_are_the_lines_of_keys_and_list_entries() -> None:
    places = parse("a:\n  b: 1\n  c:\n  - 2\n  - d.e/f: 3\n").places
    assert places == {
        "a": "line 1",
        "a.b": "line 2",
        "a.c": "line 3",
        "a.c[0]": "line 4",
        "a.c[1]": "line 5",
        'a.c[1]["d.e/f"]': "line 5",
    }


def test_every_repeated_key_is_reported_and_the_first_value_stands() -> None:
    document = parse("a: 1\na: 2\nb:\n  c: 1\n  c: 2\n  c: 3\n")
    assert plain(document.root) == {"a": 1, "b": {"c": 1}}
    assert document.errors.lines() == [
        'a: key "a" already set, and again at line 2 (line 1)',
        'b.c: key "c" already set, and again at line 5 (line 4)',
        'b.c: key "c" already set, and again at line 6 (line 4)',
    ]


def test_aliases_and_merge_keys_are_expanded() -> None:
    text = "base: &base {x: 1, y: 2}\nuse:\n  <<: *base\n  y: 3\nagain: *base\n"
    assert read(text) == {
        "base": {"x": 1, "y": 2},
        "use": {"y": 3, "x": 1},
        "again": {"x": 1, "y": 2},
    }


def test_an_alias_inside_itself_is_a_problem_not_a_loop() -> None:
    assert parse("a: &a [*a]").errors.lines() == ["a[0]: an alias may not contain itself (line 1)"]
    assert parse("a: &a\n  <<: *a\n  b: 1\n").errors.lines() == [
        'a["<<"]: "<<" must name a mapping (line 2)'
    ]


def test_aliases_cannot_blow_up() -> None:
    levels = "\n".join(
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 8)
    )
    assert "more than 100000 values" in refusal(f"a0: &a0 x\n{levels}\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("# nothing\n", "is empty"),
        ("- a\n", "must be a mapping"),
        ("text\n", "must be a mapping"),
        ("a: [1\n", "not valid YAML"),
        ("a: 1\n b: 2\n", "line 2, column"),
        ("a: 1\n---\nb: 1\n", "a second YAML document begins at line 2, column 1: give each"),
        ("{{- if .Values.enabled }}\na: 1\n{{- end }}\n", "render it first, with helm template"),
        ("a: \x00\n", "not valid YAML"),
        ("a: *nowhere\n", "undefined alias"),
        ("[" * 1500, "nested too deeply"),
        ("#" * (MAX_CHARACTERS + 1), "longer than"),
    ],
)
def test_errors_of_unreadable_text_name_the_place(text: str, message: str) -> None:
    assert message in refusal(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !secret x", 'a: YAML tag "!secret" is not supported here (line 1)'),
        ("a: !!int x", 'a: "x" is not what its YAML tag says'),
        ("a: .nan", "a: .nan is not a finite number (line 1)"),
        ("? [1]\n: 2", "a key must be text (line 1)"),
    ],
)
def test_odd_values_are_problems_of_their_path(text: str, message: str) -> None:
    (line,) = parse(text).errors.lines()
    assert line.startswith(message)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet=st.characters(codec="ascii")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc./-1", min_size=1), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.text("abc", min_size=1), JSON), st.sampled_from([None, "\t", 2]))
def test_json_reads_as_itself(data: dict[str, object], indent: str | int | None) -> None:
    assert read(json.dumps(data, indent=indent)) == data


@given(st.text(alphabet="ab:-{}[]\n\t \"'&*!#|>0.", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        document = parse(text)
    except ConfigurationError:
        return
    assert json.dumps(plain(document.root))

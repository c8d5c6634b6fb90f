"""Label selectors: meaning, canonical form, errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.meta import LabelSelector, LabelSelectorRequirement
from scheduler.api.selectors import (
    EVERYTHING,
    NOTHING,
    CompiledLabelSelector,
    Requirement,
    SelectorError,
    compile_label_selector,
    compile_map_selector,
    parse_label_integer,
)

KEYS = st.sampled_from(["app", "tier", "example.com/zone"])
VALUES = st.sampled_from(["", "a", "b", "c"])
LABELS = st.dictionaries(KEYS, VALUES)


@st.composite
def expressions(draw: st.DrawFn) -> LabelSelectorRequirement:
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]))
    counted = operator in {"In", "NotIn"}
    values = draw(st.lists(VALUES, min_size=1, max_size=4)) if counted else []
    return LabelSelectorRequirement(key=draw(KEYS), operator=operator, values=tuple(values))


SELECTORS = st.builds(
    LabelSelector,
    match_labels=LABELS,
    match_expressions=st.lists(expressions(), max_size=4).map(tuple),
)


def holds(requirement: LabelSelectorRequirement, labels: dict[str, str]) -> bool:
    """The four operators of a label selector."""
    present = requirement.key in labels
    member = present and labels[requirement.key] in requirement.values
    return {"In": member, "NotIn": not member, "Exists": present, "DoesNotExist": not present}[
        requirement.operator
    ]


@given(SELECTORS, LABELS)
def test_a_selector_matches_when_all_its_requirements_hold(
    selector: LabelSelector, labels: dict[str, str]
) -> None:
    expected = all(labels.get(k) == v for k, v in selector.match_labels.items()) and all(
        holds(each, labels) for each in selector.match_expressions
    )
    assert compile_label_selector(selector).matches(labels) is expected


@given(SELECTORS, st.randoms(use_true_random=False))
def test_order_and_repetition_do_not_change_the_compiled_selector(
    selector: LabelSelector, random: object
) -> None:
    shuffled = []
    for each in selector.match_expressions:
        values = [*each.values, *each.values[:1]]
        random.shuffle(values)  # type: ignore[attr-defined]
        shuffled.append(
            LabelSelectorRequirement(key=each.key, operator=each.operator, values=tuple(values))
        )
    shuffled += [
        LabelSelectorRequirement(key=key, operator="In", values=(value,))
        for key, value in selector.match_labels.items()
    ]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    other = LabelSelector(match_expressions=tuple(shuffled + shuffled[:1]))
    first, second = compile_label_selector(selector), compile_label_selector(other)
    assert first == second
    assert hash(first) == hash(second)
    assert first.requirements == second.requirements


@given(SELECTORS, SELECTORS)
def test_selectors_that_disagree_on_some_labels_are_not_equal(
    left: LabelSelector, right: LabelSelector
) -> None:
    a, b = compile_label_selector(left), compile_label_selector(right)
    probes = [{"app": x, "tier": y} for x in ("", "a", "b") for y in ("a", "c")]
    if any(a.matches(each) != b.matches(each) for each in [{}, *probes]):
        assert a != b


def test_absent_and_empty_selectors_mean_opposite_things() -> None:
    absent, empty = compile_label_selector(None), compile_label_selector(LabelSelector())
    assert (absent, empty) == (NOTHING, EVERYTHING)
    assert (absent.nothing, absent.empty, absent.matches({"a": "b"})) == (True, False, False)
    assert (empty.nothing, empty.empty, empty.matches({})) == (False, True, True)
    assert absent != empty


@pytest.mark.parametrize(
    ("requirement", "path"),
    [
        (("bad key", "Exists", ()), "matchExpressions[0].key"),
        (("a/b/c", "Exists", ()), "matchExpressions[0].key"),
        (("UPPER.example/x", "Exists", ()), "matchExpressions[0].key"),
        (("x" * 64, "Exists", ()), "matchExpressions[0].key"),
        (("app", "Equals", ("a",)), "matchExpressions[0].operator"),
        (("app", "Gt", ("1",)), "matchExpressions[0].operator"),
        (("app", "In", ()), "matchExpressions[0].values"),
        (("app", "NotIn", ()), "matchExpressions[0].values"),
        (("app", "Exists", ("a",)), "matchExpressions[0].values"),
        (("app", "DoesNotExist", ("a",)), "matchExpressions[0].values"),
        (("app", "In", ("a", "-b")), "matchExpressions[0].values[1][app]"),
    ],
)
def test_an_invalid_requirement_is_rejected_with_its_path(
    requirement: tuple[str, str, tuple[str, ...]], path: str
) -> None:
    key, operator, values = requirement
    expression = LabelSelectorRequirement(key=key, operator=operator, values=values)
    with pytest.raises(SelectorError) as caught:
        compile_label_selector(LabelSelector(match_expressions=(expression,)))
    assert caught.value.path == path
    assert str(caught.value).startswith(f"{path}: Invalid value: ")


def test_match_labels_are_validated_but_plain_maps_are_not() -> None:
    bad = {"bad key": "-x-"}
    with pytest.raises(SelectorError, match="bad key"):
        compile_label_selector(LabelSelector(match_labels=bad))
    assert compile_map_selector(bad).matches({"bad key": "-x-"})


def test_an_absent_map_requires_nothing() -> None:
    assert compile_map_selector(None) == compile_map_selector({}) == EVERYTHING


def test_further_requirements_narrow_a_selector_and_nothing_stays_nothing() -> None:
    extra = Requirement("app", "In", ("a",))
    narrowed = compile_map_selector({"tier": "x"}).also([extra])
    assert narrowed == compile_map_selector({"app": "a", "tier": "x"})
    assert NOTHING.also([extra]).nothing


def test_requirements_show_what_a_columnar_evaluator_needs() -> None:
    greater = Requirement.checked("gen", "Gt", ("007",), "x", node=True)
    assert (greater.key, greater.operator, greater.values, greater.number) == (
        "gen",
        "Gt",
        ("007",),
        7,
    )
    assert Requirement("a", "In", ("y", "x", "y")).values == ("x", "y")
    assert Requirement("a", "In", ("7",)).number is None


def test_compiled_selectors_print_readably() -> None:
    selector = compile_map_selector({"b": "2", "a": "1"})
    assert repr(selector) == "a In [1] and b In [2]"
    assert repr(NOTHING) == "<nothing>"
    assert repr(EVERYTHING) == "<everything>"


def test_other_types_are_never_equal() -> None:
    assert CompiledLabelSelector() != ()
    assert Requirement("a", "Exists") != ("a", "Exists")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5),
        ("+5", 5),
        ("-5", -5),
        ("0206", 206),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), None),
        (str(-(2**63)), -(2**63)),
        ("1.5", None),
        ("", None),
        ("1_0", None),
        (" 1", None),
        ("٣", None),
        ("9" * 5000, None),
    ],
)
def test_labels_hold_integers_only_in_plain_base_ten(text: str, number: int | None) -> None:
    assert parse_label_integer(text) == number


@given(SELECTORS, LABELS)
def test_whatever_matches_has_one_of_the_labels_needed(
    selector: LabelSelector, labels: dict[str, str]
) -> None:
    compiled = compile_label_selector(selector)
    needed = compiled.needed_labels
    assert needed is None or not compiled.matches(labels) or not needed.isdisjoint(labels.items())


def test_the_labels_needed_are_the_fewest() -> None:
    selector = CompiledLabelSelector(
        [
            Requirement("app", "In", ("a", "b")),
            Requirement("tier", "In", ("c",)),
            Requirement("x", "Exists"),
        ]
    )
    assert selector.needed_labels == frozenset([("tier", "c")])
    assert CompiledLabelSelector([Requirement("x", "Exists")]).needed_labels is None
    assert NOTHING.needed_labels == frozenset()


def test_a_selector_of_thousands_of_values_is_not_indexed_but_matches() -> None:
    values = tuple(f"v{number}" for number in range(5_000))
    requirement = LabelSelectorRequirement(key="a", operator="In", values=values)
    compiled = compile_label_selector(LabelSelector(match_expressions=(requirement,)))
    assert compiled.needed_labels is None
    assert compiled.matches({"a": "v4999"})
    assert not compiled.matches({"a": "v5000"})
    spoilt = LabelSelectorRequirement(key="a", operator="In", values=(*values, "v\nw"))
    with pytest.raises(SelectorError, match=r"values\[5000\]"):
        compile_label_selector(LabelSelector(match_expressions=(spoilt,)))

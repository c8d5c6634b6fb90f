"""Node selectors: required terms, preferred terms, nodeSelector."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.api.node_selectors import (
    CompiledNodeSelector,
    PreferredTerms,
    compile_node_selector,
    compile_preferred_terms,
    compile_required_node_affinity,
)
from scheduler.api.pod import NodeSelector, PreferredSchedulingTerm
from scheduler.api.selectors import SelectorError


def selector(*terms: dict[str, Any]) -> CompiledNodeSelector:
    return compile_node_selector(msgspec.convert({"nodeSelectorTerms": terms}, NodeSelector))


def labels(*rules: tuple[str, str, list[str]]) -> dict[str, Any]:
    return {
        "matchExpressions": [{"key": k, "operator": o, "values": v} for k, o, v in rules],
    }


def fields(*rules: tuple[str, str, list[str]]) -> dict[str, Any]:
    return {"matchFields": labels(*rules)["matchExpressions"]}


def preferred(*terms: tuple[int, dict[str, Any]]) -> PreferredTerms:
    raw = [{"weight": weight, "preference": term} for weight, term in terms]
    return compile_preferred_terms(msgspec.convert(raw, tuple[PreferredSchedulingTerm, ...]))


NAME = "metadata.name"
GPU = {"GPU": "NVIDIA", "kernel": "0206", "foo": "bar"}


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([], False),
        ([{}], False),
        ([labels(("foo", "In", ["bar", "x"]))], True),
        ([labels(("kernel", "Gt", ["0204"]))], True),
        ([labels(("kernel", "Gt", ["206"]))], False),
        ([labels(("kernel", "Lt", ["207"]))], True),
        ([labels(("foo", "Lt", ["207"]))], False),
        ([labels(("absent", "Lt", ["207"]))], False),
        ([labels(("kernel", "Gt", ["-5"]))], False),
        ([labels(("absent", "NotIn", ["x"]))], True),
        ([labels(("absent", "DoesNotExist", []))], True),
        ([labels(("GPU", "Exists", []), ("GPU", "NotIn", ["AMD"]))], True),
        ([labels(("GPU", "Exists", []), ("GPU", "In", ["AMD"]))], False),
        ([labels(("GPU", "In", ["AMD"])), labels(("foo", "Exists", []))], True),
        ([labels(("foo", "NotIn", ["{{.bad.}}"]))], False),
        ([labels(("foo", "NotIn", ["{{.bad.}}"])), labels(("foo", "Exists", []))], True),
        ([fields((NAME, "In", ["n1"]))], True),
        ([fields((NAME, "In", ["n2"]))], False),
        ([fields((NAME, "NotIn", ["n1"]))], False),
        ([fields((NAME, "NotIn", ["n2"]))], True),
        ([fields((NAME, "In", ["n1", "n2"]))], False),
        ([fields((NAME, "Exists", []))], False),
        ([fields(("spec.other", "In", [""]))], True),
        ([fields(("spec.other", "In", ["n1"]))], False),
        ([{**fields((NAME, "In", ["n2"])), **labels(("foo", "Exists", []))}], False),
        ([fields((NAME, "In", ["n2"])), labels(("foo", "Exists", []))], True),
    ],
)
def test_required_terms(terms: list[dict[str, Any]], *, expected: bool) -> None:
    assert selector(*terms).matches(GPU, "n1") is expected


def test_fields_of_a_node_without_a_name_are_not_looked_at() -> None:
    assert selector(fields((NAME, "In", ["n2"]))).matches({}, "")


def test_a_bad_term_keeps_its_error_and_its_place() -> None:
    compiled = selector({}, labels(("foo", "Exists", [])), labels(("a b", "Exists", [])))
    assert [each.error is None for each in compiled.terms] == [True, False]
    (error,) = compiled.errors
    assert str(error).startswith(
        'nodeSelectorTerms[2].matchExpressions[0].key: Invalid value: "a b": '
    )


def test_equal_terms_are_equal_whatever_the_order_of_their_requirements() -> None:
    a: tuple[str, str, list[str]] = ("a", "In", ["1", "2"])
    b: tuple[str, str, list[str]] = ("b", "Exists", [])
    first, second = selector(labels(a, b)), selector(labels(b, ("a", "In", ["2", "1"])))
    assert first == second
    assert hash(first) == hash(second)
    assert first != selector(labels(a))
    assert selector(labels(("a b", "Exists", []))) == selector(labels(("a b", "Exists", [])))


@pytest.mark.parametrize(
    ("node_selector", "required", "expected"),
    [
        (None, None, True),
        ({}, None, True),
        ({"foo": "bar"}, None, True),
        ({"foo": "bar", "x": "y"}, None, False),
        ({"foo": "bar"}, [labels(("GPU", "Exists", []))], True),
        ({"foo": "bar"}, [labels(("GPU", "DoesNotExist", []))], False),
        ({"foo": "x"}, [labels(("GPU", "Exists", []))], False),
        (None, [], False),
    ],
)
def test_node_selector_and_required_affinity_must_both_hold(
    node_selector: dict[str, str] | None,
    required: list[dict[str, Any]] | None,
    *,
    expected: bool,
) -> None:
    terms = (
        None if required is None else msgspec.convert({"nodeSelectorTerms": required}, NodeSelector)
    )
    compiled = compile_required_node_affinity(node_selector, terms)
    assert compiled.matches(GPU, "n1") is expected
    again = compile_required_node_affinity(node_selector, terms)
    assert (compiled, hash(compiled)) == (again, hash(again))


def test_preferred_weights_of_matching_terms_add_up() -> None:
    yes, no = labels(("foo", "Exists", [])), labels(("foo", "DoesNotExist", []))
    assert preferred((5, yes), (7, no), (11, yes)).score(GPU, "n1") == 16


def test_preferred_terms_of_weight_zero_or_without_content_are_not_even_parsed() -> None:
    terms = preferred(
        (0, labels(("a b", "Exists", []))), (3, {}), (4, fields((NAME, "In", ["n1"])))
    )
    assert terms.error is None
    assert [weight for weight, _ in terms.terms] == [4]
    assert terms.score({}, "n1") == 4


def test_one_bad_preferred_term_spoils_the_whole_list_each_time() -> None:
    terms = preferred((1, labels(("foo", "Exists", []))), (2, labels(("a b", "Exists", []))))
    assert str(terms.error).startswith("[1].matchExpressions[0].key: ")
    for _ in range(2):
        with pytest.raises(SelectorError, match="a b") as caught:
            terms.score(GPU, "n1")
        assert caught.value is not terms.error


def test_all_faults_of_all_preferred_terms_are_named_in_the_words_of_the_api_server() -> None:
    long = "x" * 64
    terms = preferred(
        (1, labels(("gen", "Gt", [long]))), (2, labels(("a", "Exists", []), ("b", "In", ["-2"])))
    )
    assert str(terms.error) == (
        f'[[0].matchExpressions[0].values[0]: Invalid value: "{long}": '
        "for 'Gt', 'Lt' operators, the value must be an integer, "
        f'[0].matchExpressions[0].values[0][gen]: Invalid value: "{long}": '
        "must be no more than 63 bytes, "
        '[1].matchExpressions[1].values[0][b]: Invalid value: "-2": '
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
        "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
        "'my_value',  or '12345', regex used for validation is "
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')]"
    )
    with pytest.raises(SelectorError) as caught:
        terms.score(GPU, "n1")
    assert str(caught.value) == str(terms.error)

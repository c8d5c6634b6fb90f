"""Remedies are listed by what they take, each once, and without superfluous steps."""

from __future__ import annotations

from typing import Any

from scheduler.explain.records import Change, Code, Step
from scheduler.explain.what_if.remedies.ranking import best, remedy, without_one


def step(text: str, path: str = "", value: Any = "x", cost: float = 1.0) -> Step:
    change = Change("set", "Pod", "default/p", path or f"/spec/{text}", value)
    return Step(Code.LOWER_REQUEST, text, (change,), cost)


A, B, C = step("a"), step("b", cost=2.0), step("c", cost=3.0)


def test_the_least_comes_first_and_the_same_steps_in_another_order_are_left_out() -> None:
    found = [remedy(each, "n") for each in ((C, B), (B, C), (A,), (B, A))]
    assert [each.text for each in best(found, 9)] == ["a", "b, and c"]
    assert [each.text for each in best(found, 1)] == ["a"]


def test_of_remedies_that_set_the_same_field_the_one_that_takes_least_is_listed() -> None:
    most = step("at most 15 cpu", "/spec/containers/0/cpu", "15", cost=6.4)
    less = step("at most 12 cpu", "/spec/containers/0/cpu", "12", cost=6.5)
    found = [remedy(each, "n") for each in ((less,), (A, less), (most,))]
    assert [each.text for each in best(found, 9)] == ["at most 15 cpu", "a, and at most 12 cpu"]


def test_a_remedy_that_sets_further_fields_than_a_cheaper_one_is_left_out() -> None:
    memory, cpu = "/spec/containers/0/memory", "/spec/containers/0/cpu"
    one = step("at most 16Gi", memory, "16Gi", cost=3.5)
    both = Step(
        Code.LOWER_REQUEST,
        "at most 0.25 cpu and 15Gi",
        (*step("", memory, "15Gi").changes, *step("", cpu, "250m").changes),
        6.5,
    )
    other = step("at most 1 cpu", cpu, "1", cost=5.0)
    found = [remedy((each,), "n") for each in (both, other, one)]
    assert [each.text for each in best(found, 9)] == ["at most 16Gi", "at most 1 cpu"]


def test_every_step_but_the_last_may_be_superfluous() -> None:
    assert list(without_one((A, B, C))) == [(B, C), (A, C)]
    assert list(without_one((A,))) == []


def test_a_step_whose_field_a_later_one_sets_again_is_kept_unless_the_field_goes() -> None:
    some, more = step("some", "/spec/containers"), step("more", "/spec/containers")
    assert list(without_one((some, more))) == []
    gone = step("gone", "/spec/containers", None)
    assert list(without_one((some, gone))) == [(gone,)]
